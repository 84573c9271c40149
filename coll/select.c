/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the algorithm of a call: first what WEFT_COLL forces, then the rows of tune.def.
 * coll_configure() is called once by MPI_Init; everything else only reads, so any thread may call
 * it.  Every rank must come to the same choice, so only facts that all ranks share may take part.
 */
#include "coll/coll.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "coll/algo/algo.h"
#include "coll/node/node.h"
#include "coll/start.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

const char *const coll_kind_names[COLL_KINDS] = {
    [COLL_BARRIER] = "barrier",
    [COLL_BCAST] = "bcast",
    [COLL_REDUCE] = "reduce",
    [COLL_ALLREDUCE] = "allreduce",
    [COLL_GATHER] = "gather",
    [COLL_GATHERV] = "gatherv",
    [COLL_SCATTER] = "scatter",
    [COLL_SCATTERV] = "scatterv",
    [COLL_ALLGATHER] = "allgather",
    [COLL_ALLGATHERV] = "allgatherv",
    [COLL_ALLTOALL] = "alltoall",
    [COLL_ALLTOALLV] = "alltoallv",
    [COLL_ALLTOALLW] = "alltoallw",
    [COLL_REDUCE_SCATTER] = "reduce_scatter",
    [COLL_REDUCE_SCATTER_BLOCK] = "reduce_scatter_block",
    [COLL_SCAN] = "scan",
    [COLL_EXSCAN] = "exscan",
    [COLL_NEIGHBOR_ALLGATHER] = "neighbor_allgather",
    [COLL_NEIGHBOR_ALLGATHERV] = "neighbor_allgatherv",
    [COLL_NEIGHBOR_ALLTOALL] = "neighbor_alltoall",
    [COLL_NEIGHBOR_ALLTOALLV] = "neighbor_alltoallv",
    [COLL_NEIGHBOR_ALLTOALLW] = "neighbor_alltoallw",
};

static const struct coll_alg *const tables[] = {
    coll_barrier_algs,        coll_bcast_algs,   coll_reduce_algs,    coll_allreduce_algs,
    coll_gather_algs,         coll_scatter_algs, coll_allgather_algs, coll_alltoall_algs,
    coll_reduce_scatter_algs, coll_scan_algs,    coll_node_flat_algs, coll_node_block_algs,
    coll_node_move_algs,
    coll_neighbor_algs,
};
#define NTABLES ((int)(sizeof tables / sizeof tables[0]))

#define MEM_ANY COLL_MEM_ANY
#define MEM_HOST RT_MEM_HOST
static const struct coll_tune tune[] = {
#define TUNE(kind, mem, ranks, bytes, name, measured) \
    { COLL_##kind, MEM_##mem, ranks, bytes, name, measured },
#include "coll/tune.def"
#undef TUNE
};
#define NTUNE ((int)(sizeof tune / sizeof tune[0]))

/* What WEFT_COLL forces; at most one entry for each algorithm makes sense, and there are fewer than
 * this. */
#define FORCED_MAX 64
static struct {
    const struct coll_alg *alg;
    int64_t min_bytes, max_bytes;
} forced[FORCED_MAX];
static int nforced;

const struct coll_alg *coll_alg_at(int i)
{
    for (int t = 0; t < NTABLES; t++)
        for (const struct coll_alg *a = tables[t]; a->name; a++)
            if (i-- == 0)
                return a;
    return NULL;
}

const struct coll_alg *coll_alg_find(enum coll_kind kind, const char *name)
{
    const struct coll_alg *a;
    for (int i = 0; (a = coll_alg_at(i)); i++)
        if (a->kind == kind && !strcmp(a->name, name))
            return a;
    return NULL;
}

const struct coll_tune *coll_tune_at(int i) { return i < NTUNE ? &tune[i] : NULL; }

int64_t coll_args_bytes(const struct coll_team *t, const struct coll_args *a)
{
    int64_t n = 0;
    switch (a->kind) {
    case COLL_BCAST:
    case COLL_REDUCE:
    case COLL_ALLREDUCE:
    case COLL_SCAN:
    case COLL_EXSCAN:
        return a->rcount * a->rtype->size;
    case COLL_REDUCE_SCATTER_BLOCK:
        return t->size * a->rcount * a->rtype->size;
    case COLL_REDUCE_SCATTER:
        for (int i = 0; i < t->size; i++)
            n += a->rcounts[i];
        return n * a->rtype->size;
    case COLL_ALLGATHERV: /* on average */
        for (int i = 0; i < t->size && !t->remote_size; i++)
            n += a->rcounts[i];
        return n * a->rtype->size / t->size;
    case COLL_SCATTER:
        return a->rbuf == COLL_IN_PLACE ? a->scount * a->stype->size : a->rcount * a->rtype->size;
    case COLL_GATHER:
    case COLL_ALLGATHER:
    case COLL_ALLTOALL:
        return a->sbuf == COLL_IN_PLACE ? a->rcount * a->rtype->size : a->scount * a->stype->size;
    default:
        return 0;
    }
}

/* Needs of the algorithm that are not met here. */
static uint32_t unmet(const struct coll_alg *alg, const struct coll_team *t,
                      const struct coll_args *a, int64_t bytes, bool has_node)
{
    uint32_t no = 0;
    if (a->op && !a->op->commutes)
        no |= COLL_NEED_COMMUTES;
    if (t->size & (t->size - 1))
        no |= COLL_NEED_POW2;
    if (!has_node)
        no |= COLL_NEED_ONE_NODE | COLL_NEED_CELL | COLL_NEED_BLOCK;
    if (alg->need & COLL_NEED_CELL && !(no & COLL_NEED_CELL) && !coll_node_cell_fits(t, a, bytes))
        no |= COLL_NEED_CELL;
    if (alg->need & COLL_NEED_BLOCK && has_node && !coll_node_block_fits(t, a))
        no |= COLL_NEED_BLOCK;
    if (alg->need & COLL_NEED_BUILTIN_OP && a->op &&
        (!rt_elem_packs(a->rtype->elem) || !rt_reduce_find(a->op->code, a->rtype->elem)))
        no |= COLL_NEED_BUILTIN_OP;
    if ((a->stype && !a->stype->contig) || (a->rtype && !a->rtype->contig))
        no |= COLL_NEED_CONTIG;
    no |= COLL_NEED_PEER_MAP | COLL_NEED_CUDA_BUFFERS;
    return alg->need & no;
}

/* Rows with their algorithms looked up once; benign when two threads do it at the same time. */
static const struct coll_alg *row_alg[NTUNE];
static int first_row[COLL_KINDS];
static bool resolved;

static void resolve(void)
{
    for (int i = NTUNE - 1; i >= 0; i--) {
        row_alg[i] = coll_alg_find(tune[i].kind, tune[i].name);
        first_row[tune[i].kind] = i;
    }
    rt_store_release(&resolved, true);
}

const struct coll_alg *coll_choose(const struct coll_team *t, const struct coll_args *a,
                                   bool has_node, const char **why)
{
    if (rt_unlikely(t->local != NULL)) {
        *why = "an intercommunicator";
        return coll_inter_alg(a->kind);
    }
    if (rt_unlikely(!rt_load_acquire(&resolved)))
        resolve();
    int64_t bytes = coll_args_bytes(t, a);
    for (int i = 0; i < nforced; i++) {
        const struct coll_alg *alg = forced[i].alg;
        if (alg->kind != a->kind || bytes < forced[i].min_bytes || bytes > forced[i].max_bytes)
            continue;
        if (!unmet(alg, t, a, bytes, has_node)) {
            *why = "forced by WEFT_COLL";
            return alg;
        }
        log_debug(
            COLL,
            "%s:%s is forced by WEFT_COLL but cannot serve this call; using the table instead",
            coll_kind_names[a->kind], alg->name);
    }
    for (int i = first_row[a->kind]; i < NTUNE && tune[i].kind == a->kind; i++) {
        const struct coll_tune *r = &tune[i];
        if ((r->mem != COLL_MEM_ANY && r->mem != (int)a->mem) || t->size < r->min_ranks ||
            bytes < r->min_bytes)
            continue;
        const struct coll_alg *alg = row_alg[i];
        if (alg && !unmet(alg, t, a, bytes, has_node)) {
            *why = r->measured;
            return alg;
        }
    }
    RT_BUG("no algorithm for %s: coll/tune.def lacks a last row", coll_kind_names[a->kind]);
}

const struct coll_alg *coll_select(const struct coll_team *t, const struct coll_args *a,
                                   const char **why)
{
    return coll_choose(t, a, t->node != NULL, why);
}

/* Edit distance of two short names, for "did you mean". */
static int distance(const char *a, const char *b)
{
    int row[64], la = (int)strlen(a), lb = (int)strlen(b);
    if (lb > 62)
        lb = 62;
    for (int j = 0; j <= lb; j++)
        row[j] = j;
    for (int i = 1; i <= la; i++) {
        int diag = row[0];
        row[0] = i;
        for (int j = 1; j <= lb; j++) {
            int change = diag + (a[i - 1] != b[j - 1]), drop = row[j] + 1, add = row[j - 1] + 1;
            diag = row[j];
            row[j] = change < drop ? (change < add ? change : add) : (drop < add ? drop : add);
        }
    }
    return row[lb];
}

static int find_kind(const char *name)
{
    int best = 0;
    for (int k = 0; k < COLL_KINDS; k++) {
        if (!strcmp(coll_kind_names[k], name))
            return k;
        if (distance(name, coll_kind_names[k]) < distance(name, coll_kind_names[best]))
            best = k;
    }
    log_error(COLL,
              "WEFT_COLL names the collective \"%s\", which does not exist; the nearest is \"%s\"",
              name, coll_kind_names[best]);
    return -RT_EINVAL;
}

static const struct coll_alg *find_alg(int kind, const char *name)
{
    const struct coll_alg *best = NULL, *a;
    for (int i = 0; (a = coll_alg_at(i)); i++) {
        if ((int)a->kind != kind)
            continue;
        if (!strcmp(a->name, name))
            return a;
        if (!best || distance(name, a->name) < distance(name, best->name))
            best = a;
    }
    log_error(COLL,
              "WEFT_COLL asks for the algorithm \"%s\" of %s, which does not exist; "
              "the nearest is \"%s\"",
              name, coll_kind_names[kind], best->name);
    return NULL;
}

/* "64K" and the like; an empty text gives `otherwise`. */
static int parse_bytes(const char *text, int64_t otherwise, int64_t *out)
{
    char *end;
    if (!*text) {
        *out = otherwise;
        return 0;
    }
    errno = 0;
    long long v = strtoll(text, &end, 10);
    int shift = *end == 'K' || *end == 'k'   ? 10
                : *end == 'M' || *end == 'm' ? 20
                : *end == 'G' || *end == 'g' ? 30
                                             : 0;
    if (end == text || errno || v < 0 || v > INT64_MAX >> shift || end[shift > 0]) {
        log_error(
            COLL,
            "WEFT_COLL has the size \"%s\"; expected bytes with an optional K, M or G, such as 64K",
            text);
        return -RT_EINVAL;
    }
    *out = (int64_t)v << shift;
    return 0;
}

/* One entry kind:algorithm[:min-max]; `text` is modified. */
static int parse_entry(char *text)
{
    char *name = strchr(text, ':'), *range = name ? strchr(name + 1, ':') : NULL,
         *dash = range ? strchr(range, '-') : NULL;
    if (!name || (range && !dash)) {
        log_error(COLL,
                  "WEFT_COLL has the entry \"%s\"; expected collective:algorithm or "
                  "collective:algorithm:min-max, such as allreduce:ring:64K-",
                  text);
        return -RT_EINVAL;
    }
    *name++ = '\0';
    if (range) {
        *range++ = '\0';
        *dash++ = '\0';
    }
    int kind = find_kind(text);
    const struct coll_alg *alg = kind < 0 ? NULL : find_alg(kind, name);
    if (!alg || parse_bytes(range ? range : "", 0, &forced[nforced].min_bytes) < 0 ||
        parse_bytes(dash ? dash : "", INT64_MAX, &forced[nforced].max_bytes) < 0)
        return -RT_EINVAL;
    forced[nforced++].alg = alg;
    return 0;
}

int coll_configure(const char *spec)
{
    nforced = 0;
    char *copy = strdup(spec ? spec : ""), *save = NULL;
    int err = copy ? 0 : -RT_ENOMEM;
    for (char *e = copy ? strtok_r(copy, ",", &save) : NULL; e && !err;
         e = strtok_r(NULL, ",", &save)) {
        if (nforced == FORCED_MAX) {
            log_error(COLL, "WEFT_COLL has more than %d entries", FORCED_MAX);
            err = -RT_EINVAL;
        } else {
            err = parse_entry(e);
        }
    }
    if (err)
        nforced = 0;
    free(copy);
    return err;
}
