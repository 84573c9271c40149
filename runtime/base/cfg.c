/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration table at run time: parsing, printing, lookup.  Settings change while the
 * library is single-threaded (MPI_Init, start of the launcher, tests); afterwards only
 * MPI_T_cvar_write changes a few of them (mpi/tool/cvar.c), one thread at a time.  Strings given by
 * the user are copied and owned here. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/near.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME_BYTES 64   /* longest name that is compared; longer names are unknown anyway */
#define TEXT_BYTES 4096 /* of a value in a listing; the rest is not printed */

struct rt_cfg cfg;

enum type { STR, LIST, SIZE, INT, ENUM, BOOL };

static const struct rt_cfg_row rows[] = {
#define CFG(field, type, def, valid, help) { #field, NULL, #type, def, valid, help },
#include "runtime/base/cfg.def"
#undef CFG
};
#define NROWS ((int)(sizeof rows / sizeof rows[0]))

static const struct {
    enum type type;
    size_t off;
} slots[] = {
#define CFG(field, type, def, valid, help) { type, offsetof(struct rt_cfg, field) },
#include "runtime/base/cfg.def"
#undef CFG
};

static struct {
    bool ready; /* defaults are in `cfg` */
    bool loaded;
    int load_err; /* result of rt_cfg_load() */
    enum rt_cfg_source source[NROWS];
    char *owned[NROWS];           /* copy of a text that is not the default */
    struct rt_cfg_row row[NROWS]; /* rows with `env` filled in */
    char env[NROWS][NAME_BYTES];
    char warned[1024]; /* unknown names already reported, separated by commas */
} state;

/* ---- values as text ---- */

/* "8K" -> 8192.  A sign, an unknown suffix, trailing text or overflow is an error. */
static int parse_size(const char *s, int64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)*s))
        return -RT_EINVAL;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    int shift = 0;
    switch (toupper((unsigned char)*end)) {
    case 'K':
        shift = 10;
        end++;
        break;
    case 'M':
        shift = 20;
        end++;
        break;
    case 'G':
        shift = 30;
        end++;
        break;
    case 'T':
        shift = 40;
        end++;
        break;
    }
    if (errno || *end || v > INT64_MAX >> shift)
        return -RT_EINVAL;
    *out = (int64_t)v << shift;
    return 0;
}

static int parse_int(const char *s, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (errno || end == s || *end || isspace((unsigned char)*s) || v < INT_MIN || v > INT_MAX)
        return -RT_EINVAL;
    *out = v;
    return 0;
}

static int parse_bool(const char *s, bool *out)
{
    static const char *const words[][2] = {
        { "no", "yes" },
        { "0", "1" },
        { "false", "true" },
        { "off", "on" },
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (int v = 0; v < 2; v++)
            if (!strcasecmp(s, words[i][v])) {
                *out = v;
                return 0;
            }
    return -RT_EINVAL;
}

/* Position of a word in the comma-separated names; -1: it is none of them. */
static int word_index(const char *names, const char *s)
{
    size_t len = strlen(s);
    int i = 0;
    for (const char *p = names; *p; i++) {
        size_t n = strcspn(p, ",");
        if (n == len && !strncmp(p, s, n))
            return i;
        p += n + (p[n] == ',');
    }
    return -1;
}

/* The i-th of comma-separated names. */
static void word_at(const char *names, int i, char *out, int len)
{
    const char *p = names;
    while (i-- > 0)
        p += strcspn(p, ",") + 1;
    snprintf(out, (size_t)len, "%.*s", (int)strcspn(p, ","), p);
}

/* Checks against "min..max", of which either may be missing. */
static int check_range(const char *valid, int64_t v, int (*parse)(const char *, int64_t *))
{
    char low[NAME_BYTES];
    int64_t bound;
    const char *dots = valid ? strstr(valid, "..") : NULL;
    if (!dots)
        return 0;
    snprintf(low, sizeof low, "%.*s", (int)(dots - valid), valid);
    if (*low && !parse(low, &bound) && v < bound)
        return -RT_EINVAL;
    if (dots[2] && !parse(dots + 2, &bound) && v > bound)
        return -RT_EINVAL;
    return 0;
}

static void size_text(int64_t v, char *out, int len)
{
    static const char suffix[] = " KMGT";
    int s = 0;
    while (v && v % 1024 == 0 && s < 4) {
        v /= 1024;
        s++;
    }
    snprintf(out, (size_t)len, s ? "%lld%c" : "%lld", (long long)v, suffix[s]);
}

/* ---- one setting ---- */

static void *slot(int i) { return (char *)&cfg + slots[i].off; }

static int store_text(int i, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return -RT_ENOMEM;
    free(state.owned[i]);
    state.owned[i] = copy;
    *(const char **)slot(i) = copy;
    return 0;
}

/* Parses and stores a value; the old value is kept if the text is invalid. */
static int store(int i, const char *text)
{
    const char *valid = rows[i].valid;
    int64_t v;
    int n;
    switch (slots[i].type) {
    case STR:
    case LIST:
        return store_text(i, text);
    case SIZE:
        if (parse_size(text, &v) || check_range(valid, v, parse_size))
            return -RT_EINVAL;
        *(int64_t *)slot(i) = v;
        return 0;
    case INT:
        if (parse_int(text, &v) || check_range(valid, v, parse_int))
            return -RT_EINVAL;
        *(int *)slot(i) = (int)v;
        return 0;
    case ENUM:
        n = word_index(valid, text);
        if (n < 0)
            return -RT_EINVAL;
        *(int *)slot(i) = n;
        return 0;
    case BOOL:
        return parse_bool(text, slot(i));
    }
    return -RT_EINVAL;
}

static void set_defaults(void)
{
    if (state.ready)
        return;
    state.ready = true;
    for (int i = 0; i < NROWS; i++) {
        snprintf(state.env[i], NAME_BYTES, "WEFT_%s", rows[i].name);
        for (char *p = state.env[i]; *p; p++)
            *p = (char)toupper((unsigned char)*p);
        state.row[i] = rows[i];
        state.row[i].env = state.env[i];
        if (slots[i].type == STR || slots[i].type == LIST)
            *(const char **)slot(i) = rows[i].def;
        else if (store(i, rows[i].def))
            RT_BUG("default '%s' of setting %s is not valid", rows[i].def, rows[i].name);
    }
}

static const char *what_is_valid(int i, char *buf, size_t len)
{
    const char *valid = rows[i].valid;
    const char *suffix = slots[i].type == SIZE ? ", with suffix K, M, G or T" : "";
    switch (slots[i].type) {
    case SIZE:
    case INT:
        snprintf(buf, len, "a number%s%s%s", valid ? " in " : "", valid ? valid : "", suffix);
        break;
    case ENUM:
        snprintf(buf, len, "one of %s", valid);
        break;
    case BOOL:
        return "yes or no";
    default:
        return "text";
    }
    return buf;
}

/* Stores a value; `where` names its source in messages. */
static int set_from(int i, const char *text, enum rt_cfg_source source, const char *where)
{
    char buf[160];
    int err = store(i, text);
    if (err == -RT_ENOMEM)
        log_error(BASE, "out of memory for the value of %s", state.env[i]);
    else if (err)
        log_error(BASE, "%s: value '%s' from %s is not valid; expected %s", state.env[i], text,
                  where, what_is_valid(i, buf, sizeof buf));
    else
        state.source[i] = source;
    return err;
}

/* ---- names ---- */

/* The plain name of a setting, for "shm_eager", "WEFT_SHM_EAGER" or "shm-eager". */
static void plain_name(const char *name, char out[NAME_BYTES])
{
    if (!strncasecmp(name, "WEFT_", 5))
        name += 5;
    snprintf(out, NAME_BYTES, "%s", name);
    for (char *p = out; *p; p++)
        *p = *p == '-' ? '_' : (char)tolower((unsigned char)*p);
}

static int row_of(const char *name)
{
    char plain[NAME_BYTES];
    plain_name(name, plain);
    for (int i = 0; i < NROWS; i++)
        if (!strcmp(rows[i].name, plain))
            return i;
    return -1;
}

const char *rt_cfg_nearest(const char *name)
{
    char plain[NAME_BYTES];
    const char *found = NULL;
    plain_name(name, plain);
    int best = rt_near_limit(plain);
    for (int i = 0; i < NROWS; i++) {
        int d = rt_near(plain, rows[i].name);
        if (d < best) {
            best = d;
            found = rows[i].name;
        }
    }
    return found;
}

/* The end of a message about an unknown name. */
static const char *hint(const char *name, char *buf, size_t len)
{
    const char *near = rt_cfg_nearest(name);
    if (near)
        snprintf(buf, len, "; did you mean %s?", state.env[row_of(near)]);
    else
        snprintf(buf, len, "; 'weft_info --config' lists all settings");
    return buf;
}

/* ---- sources ---- */

bool rt_cfg_speaks(void)
{
    const char *rank = getenv("PMIX_RANK") ? getenv("PMIX_RANK") : getenv("PMI_RANK");
    return !rank || !strcmp(rank, "0");
}

/* Whether to warn of an unknown name.  Each name is reported once for each job: mpirun reports it
 * and stores it in WEFT_LAUNCH_WARNED for the processes that inherit its environment; of ranks
 * started by other launchers only rank 0 reports it. */
static bool to_warn_of(const char *name)
{
    size_t n = strlen(state.warned);
    if (!rt_cfg_speaks() || word_index(state.warned, name) >= 0)
        return false;
    snprintf(state.warned + n, sizeof state.warned - n, "%s%.*s", n ? "," : "", NAME_BYTES - 1,
             name);
    return true;
}

/* One line of the file, "name = value"; '#' begins a comment line.  An unknown name is only a
 * warning, so that one file can serve several versions. */
static int load_line(char *line, const char *path, int number)
{
    char where[PATH_MAX + 32], buf[NAME_BYTES * 2];
    char *name = line + strspn(line, " \t");
    size_t n = strlen(name);
    while (n && isspace((unsigned char)name[n - 1]))
        name[--n] = '\0';
    if (!*name || *name == '#')
        return 0;
    char *eq = strchr(name, '=');
    if (!eq || eq == name) {
        log_error(BASE, "%s line %d: expected 'name = value', found '%s'", path, number, name);
        return -RT_EINVAL;
    }
    char *value = eq + 1 + strspn(eq + 1, " \t");
    while (eq > name && isspace((unsigned char)eq[-1]))
        eq--;
    *eq = '\0';
    int i = row_of(name);
    if (i < 0) {
        if (to_warn_of(name))
            log_warn(BASE, "%s line %d: unknown setting '%s' ignored%s", path, number, name,
                     hint(name, buf, sizeof buf));
        return 0;
    }
    if (state.source[i] > RT_CFG_FILE)
        return 0;
    snprintf(where, sizeof where, "%s line %d", path, number);
    return set_from(i, value, RT_CFG_FILE, where);
}

/* A file that the user named must exist; the one in the home directory need not. */
static int load_file(void)
{
    char path[PATH_MAX], *line = NULL;
    size_t room = 0;
    const char *named = getenv("WEFT_CONFIG_FILE"), *home = getenv("HOME");
    if (!named && !home)
        return 0;
    if (named)
        snprintf(path, sizeof path, "%s", named);
    else
        snprintf(path, sizeof path, "%s/.config/weft.conf", home);
    FILE *f = fopen(path, "re");
    if (!f && !named)
        return 0;
    if (!f) {
        log_error(BASE, "WEFT_CONFIG_FILE: could not open '%s': %m", path);
        return -RT_EINVAL;
    }
    int err = 0;
    for (int number = 1; !err && getline(&line, &room, f) >= 0; number++)
        err = load_line(line, path, number);
    free(line);
    fclose(f);
    return err;
}

/* Whether mpirun --set has put this setting into the environment: WEFT_SET_NAMES then contains its
 * name. */
static bool set_by_mpirun(int i)
{
    char name[NAME_BYTES];
    const char *p = getenv("WEFT_SET_NAMES");
    for (; p && *p; p += strcspn(p, ","), p += *p == ',') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, ","), p);
        if (row_of(name) == i)
            return true;
    }
    return false;
}

static int load_env(void)
{
    for (int i = 0; i < NROWS; i++) {
        const char *text = getenv(state.env[i]);
        if (!text)
            continue;
        enum rt_cfg_source source = set_by_mpirun(i) ? RT_CFG_CMD : RT_CFG_ENV;
        if (state.source[i] > source)
            continue;
        const char *where = source == RT_CFG_CMD ? "mpirun --set" : "the environment";
        int err = set_from(i, text, source, where);
        if (err)
            return err;
    }
    return 0;
}

/* Variables of Weft that are not settings. */
static bool internal_name(const char *name)
{
    static const char *const names[] = { "WEFT_CONFIG_FILE", "WEFT_SET_NAMES",  "WEFT_CC",
                                         "WEFT_CXX",         "WEFT_FC",         "WEFT_MOD_DIR",
                                         "WEFT_MPI1",        "WEFT_PARENT_PORT" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return true;
    return !strncmp(name, "WEFT_NODE_", 10) || !strncmp(name, "WEFT_LAUNCH_", 12);
}

/* Whether no code here reads this WEFT_* name; names of settings must be spelt exactly. */
static bool unknown_name(const char *name)
{
    int i = row_of(name);
    return !strncmp(name, "WEFT_", 5) && !internal_name(name) &&
           (i < 0 || strcmp(name, state.env[i]));
}

static void check_env(void)
{
    extern char **environ;
    char name[NAME_BYTES], buf[NAME_BYTES * 2];
    for (char **e = environ; *e; e++) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
        if (unknown_name(name) && to_warn_of(name))
            log_warn(BASE, "unknown variable %s in the environment ignored%s", name,
                     hint(name, buf, sizeof buf));
    }
    if (*state.warned && !getenv("PMIX_RANK"))
        setenv("WEFT_LAUNCH_WARNED", state.warned, 1);
}

int rt_cfg_load(void)
{
    if (state.loaded)
        return state.load_err;
    state.loaded = true;
    set_defaults();
    const char *warned = getenv("WEFT_LAUNCH_WARNED");
    snprintf(state.warned, sizeof state.warned, "%s", warned ? warned : "");
    int err = load_file();
    if (!err)
        err = load_env();
    if (!err)
        err = rt_log_configure(cfg.log);
    if (!err)
        check_env();
    state.load_err = err;
    return err;
}

int rt_cfg_set(const char *name, const char *text, enum rt_cfg_source source)
{
    char buf[NAME_BYTES * 2];
    static const char *const where[] = {
        "the program", "a file", "the environment", "the command line", "a tool",
    };
    set_defaults();
    int i = row_of(name);
    if (i < 0) {
        log_error(BASE, "unknown setting '%s'%s", name, hint(name, buf, sizeof buf));
        return -RT_ENOENT;
    }
    return set_from(i, text, source, where[source]);
}

int rt_cfg_try(int i, const char *text, enum rt_cfg_source source)
{
    set_defaults();
    int err = store(i, text);
    if (!err)
        state.source[i] = source;
    return err;
}

/* ---- printing ---- */

int rt_cfg_count(void) { return NROWS; }

const struct rt_cfg_row *rt_cfg_row(int i)
{
    set_defaults();
    return &state.row[i];
}

void rt_cfg_value(int i, char *text, int len, enum rt_cfg_source *source)
{
    set_defaults();
    *source = state.source[i];
    switch (slots[i].type) {
    case STR:
    case LIST:
        snprintf(text, (size_t)len, "%s", *(const char **)slot(i));
        break;
    case SIZE:
        size_text(*(int64_t *)slot(i), text, len);
        break;
    case INT:
        snprintf(text, (size_t)len, "%d", *(int *)slot(i));
        break;
    case ENUM:
        word_at(rows[i].valid, *(int *)slot(i), text, len);
        break;
    case BOOL:
        snprintf(text, (size_t)len, "%s", *(bool *)slot(i) ? "yes" : "no");
        break;
    }
}

int64_t rt_cfg_number(int i)
{
    set_defaults();
    switch (slots[i].type) {
    case SIZE:
        return *(int64_t *)slot(i);
    case BOOL:
        return *(bool *)slot(i);
    case INT:
    case ENUM:
        return *(int *)slot(i);
    default:
        return 0;
    }
}

/* Prints with single quotes if a shell would split or change the text. */
static void print_quoted(FILE *f, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_,.:/^%+@-";
    if (s[strspn(s, plain)] == '\0') {
        fputs(s, f);
        return;
    }
    fputc('\'', f);
    for (; *s; s++)
        if (*s == '\'')
            fputs("'\\''", f);
        else
            fputc(*s, f);
    fputc('\'', f);
}

void rt_cfg_print(FILE *f, bool verbose)
{
    static const char *const names[] = { "default", "file", "env", "cmd", "tool" };
    for (int i = 0; i < NROWS; i++) {
        char text[TEXT_BYTES], valid[160];
        enum rt_cfg_source source;
        rt_cfg_value(i, text, sizeof text, &source);
        if (verbose)
            fprintf(f, "# %s\n# Valid: %s.  Default: %s\n", rows[i].help,
                    what_is_valid(i, valid, sizeof valid), *rows[i].def ? rows[i].def : "empty");
        fprintf(f, "%s=", state.env[i]);
        print_quoted(f, text);
        fprintf(f, "  # %s\n%s", names[source], verbose ? "\n" : "");
    }
}
