/* SPDX-License-Identifier: BSD-3-Clause */
/* The tuning table: the rows of tune.def, preceded by those of the file that the setting tune_file
 * names and weft-tune has written.  Such a file has the syntax of tune.def, so its rows can be
 * moved there.  The rows of a kind are consecutive; a row of another kind follows.  MPI_Init and
 * tools call coll_tune_load() when no thread reads the table; all other functions only read. */

#include "coll/tune.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "coll/names.h"
#include "coll/select.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#define MEM_ANY COLL_MEM_ANY
#define MEM_HOST RT_MEM_HOST
#define MEM_CUDA RT_MEM_CUDA
#define MEM_CUDA_DIRECT COLL_MEM_CUDA_DIRECT
#define MEM_CUDA_SWITCH COLL_MEM_CUDA_SWITCH
static const struct coll_tune tune[] = {
#define TUNE(kind, mem, ranks, bytes, name, measured) \
    { COLL_##kind, MEM_##mem, ranks, bytes, name, measured },
#include "coll/tune.def"
#undef TUNE
};
#define NTUNE ((int)(sizeof tune / sizeof tune[0]))

#define LINE_MAX_BYTES 512
#define ROWS_MAX 10000 /* more rows in a file mean that it is not a tuning table */
#define WHERE_BYTES 300
#define RANKS_MAX (1 << 24)

static struct coll_row built_in[NTUNE + 1];
static struct {
    const struct coll_row *rows; /* built_in or `own`; the kind of the last row is COLL_KINDS */
    int n, first[COLL_KINDS];
    struct coll_row *own;
    char *text[ROWS_MAX]; /* strings that the rows of the file point to */
    int ntext;
    bool ready;
} table;

static void use(const struct coll_row *rows, int n)
{
    table.rows = rows;
    table.n = n;
    for (int i = n - 1; i >= 0; i--)
        table.first[rows[i].tune.kind] = i;
}

/* Done once; harmless if two threads do it at the same time. */
static void prepare(void)
{
    if (rt_likely(rt_load_acquire(&table.ready)))
        return;
    for (int i = 0; i < NTUNE; i++)
        built_in[i] = (struct coll_row){ tune[i], coll_alg_find(tune[i].kind, tune[i].name) };
    built_in[NTUNE].tune.kind = COLL_KINDS;
    use(built_in, NTUNE);
    rt_store_release(&table.ready, true);
}

const struct coll_row *coll_tune_rows(enum coll_kind kind)
{
    prepare();
    return &table.rows[table.first[kind]];
}

const struct coll_tune *coll_tune_at(int i)
{
    prepare();
    return i < table.n ? &table.rows[i].tune : NULL;
}

/* ---- the file ---- */

/* The next field of a row, without blanks and quotes; *at: after the comma.  NULL: no field. */
static char *field(char **at, char end)
{
    char *s = *at + strspn(*at, " \t"), *stop;
    if (*s == '"') {
        stop = strchr(++s, '"');
        if (!stop)
            return NULL;
        *stop++ = '\0';
        stop += strspn(stop, " \t");
        if (*stop != end)
            return NULL;
    } else {
        stop = strchr(s, end);
        if (!stop)
            return NULL;
        for (char *blank = stop; blank > s && isspace((unsigned char)blank[-1]);)
            *--blank = '\0';
    }
    *stop = '\0';
    *at = stop + 1;
    return s;
}

static int bad_line(const char *where)
{
    log_error(COLL,
              "%s: expected TUNE( COLLECTIVE, HOST or CUDA or CUDA_DIRECT or CUDA_SWITCH or ANY, "
              "ranks, bytes, \"algorithm\", \"measured on\" )",
              where);
    return -RT_EINVAL;
}

static int mem_named(const char *name)
{
    static const struct {
        const char *name;
        int mem;
    } all[] = { { "HOST", MEM_HOST },
                { "CUDA", MEM_CUDA },
                { "CUDA_DIRECT", MEM_CUDA_DIRECT },
                { "CUDA_SWITCH", MEM_CUDA_SWITCH },
                { "ANY", MEM_ANY } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name))
            return all[i].mem;
    return RT_MEM_KINDS;
}

static bool is_cuda(int mem)
{
    return mem == MEM_CUDA || mem == MEM_CUDA_DIRECT || mem == MEM_CUDA_SWITCH;
}

/* The row's memory must match the algorithm: device plans do not take host memory. */
static int check_memory(const char *where, const struct coll_row *row)
{
    bool device = row->alg->need & COLL_NEED_CUDA_BUFFERS;
    if (device == is_cuda(row->tune.mem))
        return 0;
    log_error(COLL, "%s: %s of %s is for %s", where, row->alg->name,
              coll_kind_names[row->alg->kind], device ? "CUDA memory" : "HOST memory, or ANY");
    return -RT_EINVAL;
}

/* Parses the text between the parentheses; modifies `s`. */
static int parse_row(const char *where, char *s, struct coll_row *out)
{
    char *f[6], *end;
    for (int i = 0; i < 6; i++) {
        f[i] = field(&s, i < 5 ? ',' : ')');
        if (!f[i] || !*f[i])
            return bad_line(where);
    }
    for (char *c = f[0]; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    int kind = coll_kind_find(where, f[0]);
    if (kind < 0)
        return kind;
    out->tune.kind = (enum coll_kind)kind;
    out->tune.mem = mem_named(f[1]);
    long ranks = strtol(f[2], &end, 10);
    if (out->tune.mem == RT_MEM_KINDS || *end || ranks < 0 || ranks > RANKS_MAX)
        return bad_line(where);
    out->tune.min_ranks = (int)ranks;
    if (coll_bytes_parse(where, f[3], &out->tune.min_bytes) < 0)
        return -RT_EINVAL;
    out->alg = coll_alg_wanted(where, out->tune.kind, f[4]);
    if (!out->alg)
        return -RT_EINVAL;
    out->tune.name = out->alg->name;
    out->tune.measured = table.text[table.ntext] = strdup(f[5]);
    if (!out->tune.measured)
        return -RT_ENOMEM;
    table.ntext++;
    return check_memory(where, out);
}

/* 1: a row; 0: an empty line or a comment; -RT_E... */
static int parse_line(const char *where, char *line, bool *comment, struct coll_row *out)
{
    char *s = line + strspn(line, " \t\r\n");
    if (*comment || !strncmp(s, "/*", 2)) {
        *comment = !strstr(s, "*/");
        return 0;
    }
    if (!*s || *s == '#' || !strncmp(s, "//", 2))
        return 0;
    if (strncmp(s, "TUNE(", 5))
        return bad_line(where);
    s += 5;
    int err = parse_row(where, s, out);
    return err ? err : 1;
}

/* Reads the rows of the file in order; `out` has room for ROWS_MAX. */
static int read_rows(const char *path, FILE *f, struct coll_row *out, int *n_p)
{
    char line[LINE_MAX_BYTES], where[WHERE_BYTES];
    bool comment = false;
    int n = 0, got = 0;
    for (int number = 1; got >= 0 && fgets(line, sizeof line, f); number++) {
        snprintf(where, sizeof where, "%s:%d", path, number);
        if (n == ROWS_MAX || (!strchr(line, '\n') && !feof(f)))
            return bad_line(where);
        got = parse_line(where, line, &comment, &out[n]);
        n += got > 0;
    }
    if (got >= 0 && ferror(f)) {
        log_error(COLL, "could not read the table of algorithms %s: %m", path);
        return -RT_ESYS;
    }
    *n_p = n;
    return got < 0 ? got : 0;
}

/* For each kind: first the rows of the file, then the built-in rows. */
static int merge(const struct coll_row *rows, int n)
{
    struct coll_row *all = calloc((size_t)(n + NTUNE + 1), sizeof *all);
    int at = 0;
    if (!all)
        return -RT_ENOMEM;
    for (int k = 0; k < COLL_KINDS; k++) {
        for (int i = 0; i < n; i++)
            if ((int)rows[i].tune.kind == k)
                all[at++] = rows[i];
        for (int i = 0; i < NTUNE; i++)
            if ((int)built_in[i].tune.kind == k)
                all[at++] = built_in[i];
    }
    all[at].tune.kind = COLL_KINDS;
    table.own = all;
    use(all, at);
    return 0;
}

static void drop(void)
{
    use(built_in, NTUNE);
    free(table.own);
    table.own = NULL;
    while (table.ntext)
        free(table.text[--table.ntext]);
}

int coll_tune_load(const char *path)
{
    struct coll_row *rows = NULL;
    int err = 0, n = 0;
    FILE *f;
    prepare();
    drop();
    if (!path || !*path)
        return 0;
    f = fopen(path, "re");
    if (!f) {
        log_error(COLL, "could not open the table of algorithms %s: %m", path);
        return -RT_EINVAL;
    }
    rows = calloc(ROWS_MAX, sizeof *rows);
    err = rows ? read_rows(path, f, rows, &n) : -RT_ENOMEM;
    if (!err)
        err = merge(rows, n);
    if (err)
        drop();
    else
        log_debug(COLL, "%d rows from the table of algorithms %s", n, path);
    free(rows);
    fclose(f);
    return err;
}
