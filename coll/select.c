/* SPDX-License-Identifier: BSD-3-Clause */
/* Selects the algorithm of a call: first what WEFT_COLL forces, then the rows of the tuning table
 * (tune.c).  MPI_Init calls coll_configure() once; all other functions only read, so any thread may
 * call them.  All ranks must select the same algorithm, so the selection uses only facts that all
 * ranks share. */

#include "coll/select.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "coll/names.h"
#include "coll/tune.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

/* The entries of WEFT_COLL. */
static struct forced {
    const struct coll_alg *alg;
    int64_t min_bytes, max_bytes;
} * forced;
static int nforced;

const struct coll_alg *coll_alg_at(int i)
{
    for (int t = 0; coll_alg_tables[t]; t++)
        for (const struct coll_alg *a = coll_alg_tables[t]; a->name; a++)
            if (i-- == 0)
                return a;
    return NULL;
}

int coll_alg_index(const struct coll_alg *alg)
{
    const struct coll_alg *a;
    for (int i = 0; alg && (a = coll_alg_at(i)); i++)
        if (a == alg)
            return i;
    return -1;
}

const struct coll_alg *coll_alg_find(enum coll_kind kind, const char *name)
{
    const struct coll_alg *a;
    for (int i = 0; (a = coll_alg_at(i)); i++)
        if (a->kind == kind && !strcmp(a->name, name))
            return a;
    return NULL;
}

/* Needs that this team and call do not meet.  serves() tests COLL_NEED_CELL, COLL_NEED_BLOCK and
 * COLL_NEED_BUILTIN_OP. */
static inline uint32_t unmet(const struct coll_team *t, const struct coll_args *a, bool has_node)
{
    uint32_t no = COLL_NEED_PEER_MAP | COLL_NEED_CUDA_BUFFERS;
    if (a->op && !a->op->commutes)
        no |= COLL_NEED_COMMUTES;
    if (t->size & (t->size - 1))
        no |= COLL_NEED_POW2;
    if (!has_node)
        no |= COLL_NEED_ONE_NODE | COLL_NEED_CELL | COLL_NEED_BLOCK;
    if ((a->stype && !a->stype->contig) || (a->rtype && !a->rtype->contig))
        no |= COLL_NEED_CONTIG;
    if (t->hosts == COLL_HOSTS_NONE)
        no |= COLL_NEED_NODES;
    else if (t->hosts == COLL_HOSTS_MIXED && a->op &&
             (!a->op->commutes || coll_is(a->kind, COLL_IS_PREFIX)))
        no |= COLL_NEED_NODE_ORDER;
    return no;
}

/* Whether the algorithm can serve the call; no: unmet(). */
static inline bool serves(const struct coll_alg *alg, const struct coll_team *t,
                          const struct coll_args *a, int64_t bytes, uint32_t no)
{
    if (alg->need & no)
        return false;
    if (alg->need & COLL_NEED_CELL && !t->limits->cell(t, a, bytes))
        return false;
    if (alg->need & COLL_NEED_BLOCK && !t->limits->block(t, a, bytes))
        return false;
    return !(alg->need & COLL_NEED_BUILTIN_OP) || !a->op ||
           (rt_elem_packs(a->rtype->elem) && rt_reduce_find(a->op->code, a->rtype->elem));
}

/* Whether entry i of WEFT_COLL applies; `device`: to device plans. */
static bool is_forced(int i, enum coll_kind kind, int64_t bytes, bool device)
{
    const struct coll_alg *alg = forced[i].alg;
    return alg->kind == kind && bytes >= forced[i].min_bytes && bytes <= forced[i].max_bytes &&
           device == !!(alg->need & COLL_NEED_CUDA_BUFFERS);
}

const struct coll_alg *coll_choose_gpu(enum coll_kind kind, int nranks, int64_t bytes, bool direct,
                                       const char **why)
{
    int mem = direct ? COLL_MEM_CUDA_DIRECT : COLL_MEM_CUDA_SWITCH;
    for (int i = 0; i < nforced; i++) {
        if (is_forced(i, kind, bytes, true)) {
            *why = "forced by WEFT_COLL";
            return forced[i].alg;
        }
    }
    for (const struct coll_row *r = coll_tune_rows(kind); r->tune.kind == kind; r++) {
        if ((r->tune.mem == RT_MEM_CUDA || r->tune.mem == mem) && nranks >= r->tune.min_ranks &&
            bytes >= r->tune.min_bytes) {
            *why = r->tune.measured;
            return r->alg;
        }
    }
    return NULL;
}

/* The algorithm that WEFT_COLL forces for a call without a device plan; NULL: none, or the
 * algorithm cannot serve the call. */
static __attribute__((cold, noinline)) const struct coll_alg *
forced_alg(const struct coll_team *t, const struct coll_args *a, int64_t bytes, bool has_node)
{
    uint32_t no = unmet(t, a, has_node);
    for (int i = 0; i < nforced; i++) {
        const struct coll_alg *alg = forced[i].alg;
        if (!is_forced(i, a->kind, bytes, false))
            continue;
        if (serves(alg, t, a, bytes, no))
            return alg;
        log_debug(
            COLL,
            "%s:%s is forced by WEFT_COLL but cannot serve this call; using the table instead",
            coll_kind_names[a->kind], alg->name);
    }
    return NULL;
}

/* Out of line: without WEFT_COLL a call makes one test only. */
static __attribute__((cold, noinline)) bool forces_messages(const struct coll_team *t,
                                                            const struct coll_args *a)
{
    const struct coll_alg *alg = forced_alg(t, a, coll_args_bytes(t, a), t->node != NULL);
    return alg && !(alg->need & (COLL_NEED_ONE_NODE | COLL_NEED_NODES));
}

bool coll_forces_messages(const struct coll_team *t, const struct coll_args *a)
{
    return rt_unlikely(nforced) && forces_messages(t, a);
}

bool coll_is_forced(const struct coll_team *t, const struct coll_args *a, bool has_node)
{
    if (rt_likely(!nforced) || t->local)
        return false;
    int64_t bytes = coll_args_bytes(t, a);
    uint32_t no = unmet(t, a, has_node);
    for (int i = 0; i < nforced; i++)
        if (is_forced(i, a->kind, bytes, false) && serves(forced[i].alg, t, a, bytes, no))
            return true;
    return false;
}

static const struct coll_alg *inter_alg(enum coll_kind kind)
{
    for (const struct coll_alg *a = coll_alg_inter; a->name; a++)
        if (a->kind == kind)
            return a;
    RT_BUG("%s is not defined on intercommunicators", coll_kind_names[kind]);
}

void coll_select_prepare(struct coll_team *t)
{
    for (int kind = 0; kind < COLL_KINDS; kind++) {
        const struct coll_row *all = coll_tune_rows((enum coll_kind)kind);
        uint8_t *first = &t->first_row[kind];
        *first = 0;
        while (*first < UINT8_MAX && all[*first].tune.min_ranks > t->size)
            ++*first; /* the last row is for any number */
    }
}

const struct coll_alg *coll_choose_for(const struct coll_team *t, const struct coll_args *a,
                                       int64_t bytes, bool has_node, const char **why)
{
    if (rt_unlikely(t->local != NULL)) {
        *why = "an intercommunicator";
        return inter_alg(a->kind);
    }
    const struct coll_alg *alg = nforced ? forced_alg(t, a, bytes, has_node) : NULL;
    if (alg) {
        *why = "forced by WEFT_COLL";
        return alg;
    }
    uint32_t no = unmet(t, a, has_node);
    const struct coll_row *r = coll_tune_rows(a->kind) + t->first_row[a->kind];
    for (; r->tune.kind == a->kind; r++) {
        if ((r->tune.mem != COLL_MEM_ANY && r->tune.mem != (int)a->mem) ||
            t->size < r->tune.min_ranks || bytes < r->tune.min_bytes)
            continue;
        if (r->alg && serves(r->alg, t, a, bytes, no)) {
            *why = r->tune.measured;
            return r->alg;
        }
    }
    RT_BUG("no algorithm for %s: coll/tune.def lacks a last row", coll_kind_names[a->kind]);
}

const struct coll_alg *coll_choose(const struct coll_team *t, const struct coll_args *a,
                                   bool has_node, const char **why)
{
    return coll_choose_for(t, a, t->local ? 0 : coll_args_bytes(t, a), has_node, why);
}

const struct coll_alg *coll_select(const struct coll_team *t, const struct coll_args *a,
                                   const char **why)
{
    return coll_choose(t, a, t->node != NULL, why);
}

/* Parses one entry kind:algorithm[:min-max]; modifies `text`. */
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
    int kind = coll_kind_find("WEFT_COLL", text);
    const struct coll_alg *alg = kind < 0
                                     ? NULL
                                     : coll_alg_wanted("WEFT_COLL", (enum coll_kind)kind, name);
    forced[nforced].min_bytes = 0;
    forced[nforced].max_bytes = INT64_MAX;
    if (!alg ||
        (range && *range && coll_bytes_parse("WEFT_COLL", range, &forced[nforced].min_bytes) < 0) ||
        (dash && *dash && coll_bytes_parse("WEFT_COLL", dash, &forced[nforced].max_bytes) < 0))
        return -RT_EINVAL;
    forced[nforced++].alg = alg;
    return 0;
}

/* Room for the entries of `text`. */
static int reserve(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == ',';
    struct forced *more = realloc(forced, n * sizeof *more);
    forced = more ? more : forced;
    return more ? 0 : -RT_ENOMEM;
}

int coll_configure(const char *spec)
{
    nforced = 0;
    char *copy = strdup(spec ? spec : ""), *save = NULL;
    int err = copy ? reserve(copy) : -RT_ENOMEM;
    for (char *e = err ? NULL : strtok_r(copy, ",", &save); e && !err;
         e = strtok_r(NULL, ",", &save))
        err = parse_entry(e);
    if (err)
        nforced = 0;
    free(copy);
    return err;
}
