/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithm of coll/node runs a call.  A call of node_flat starts at once.  Any other call
 * first needs facts that a rank may have to wait for: whether ranks outnumber cores, whether there
 * is memory for blocks, whether all ranks can read the others' memory.  Then the rules of node.def
 * choose.
 *
 * Scans: among many ranks, in a long scan, each rank reduces a slice for all (block.c): p - 1
 * reductions of the vector in all instead of p (p - 1) / 2, at the price of a further
 * synchronisation and copy.  8 ranks on 2 cores (Zen 5), scan and exscan, time over that without
 * slices: 512 KiB 0.69 and 0.91, 1 MiB 0.65 and 0.85 (quiet); 64 to 256 KiB 0.7 to 1.3 and 1.3 to
 * 1.6 (beside load).  With more ranks or slower reductions shorter scans would gain, too. */
#include "coll/node/choose.h"

/* ---- the tables ---- */

#define OP COLL_NEED_BUILTIN_OP
#define CELL COLL_NEED_CELL
#define BLOCK COLL_NEED_BLOCK
#define TWO COLL_NODE_IF_TWO
#define MANY COLL_NODE_IF_MANY
#define CROWDED COLL_NODE_IF_CROWDED
#define ROOMY COLL_NODE_IF_ROOMY
#define BLIND COLL_NODE_IF_BLIND
#define WIDE COLL_NODE_IF_WIDE
#define NARROW COLL_NODE_IF_NARROW
#define FITS COLL_NODE_IF_FITS
#define NEAR COLL_NODE_IF_NEAR

static const struct {
    int (*step)(struct coll_task *k);
    const char *file;
} algs[COLL_NODE_ALGS] = {
    { coll_node_flat_step, "flat" },     { coll_node_grid_step, "grid" },
    { coll_node_tree_step, "grid" },     { coll_node_ring_step, "ring" },
    { coll_node_slice_step, "block" },   { coll_node_direct_step, "direct" },
    { coll_node_own_step, "direct" },    { coll_node_cut_step, "cut" },
    { coll_node_linear_step, "linear" }, { coll_node_move_step, "move" },
};

#define HELP_FLAT "one pass over cache lines in shared memory"
#define HELP_GRID "two rounds over cache lines in shared memory"
#define HELP_TREE HELP_GRID
#define HELP_RING "pieces through rings in shared memory"
#define HELP_SLICE "every rank reduces a slice in shared memory"
#define HELP_DIRECT "every rank reduces a slice out of the ranks' own buffers"
#define HELP_OWN HELP_DIRECT
#define HELP_CUT "every rank reduces its own block in shared memory"
#define HELP_LINEAR "the root and each other rank pass one block in shared memory"
#define HELP_MOVE "pieces through shared memory"
#define START(alg) (COLL_NODE_ALG_##alg == COLL_NODE_ALG_FLAT ? coll_node_flat_start : start)
static int start(struct coll_team *t, const struct coll_args *a, struct coll_task *k);

#define LIMIT(name, unit, value, what, measured)
#define RULE(from, kinds, facts, bytes, to, why)
#define ALG(kind, name, alg, needs) \
    { name, HELP_##alg, COLL_##kind, COLL_NEED_ONE_NODE | (needs), START(alg) },
const struct coll_alg coll_node_algs[] = {
#include "coll/node/node.def"
    { 0 }
};
#undef ALG
#define ALG(kind, name, alg, needs) COLL_NODE_ALG_##alg,
static const uint8_t asked_by[] = {
#include "coll/node/node.def"
};
#undef ALG
#undef RULE

#define CELL_MOST COLL_NODE_CELL
#define IS_ANY(kind) true
#define IS_REDUCE(kind) ((kind) == COLL_REDUCE)
#define IS_ALLREDUCE(kind) ((kind) == COLL_ALLREDUCE)
#define IS_SCAN(kind) ((kind) == COLL_SCAN)
#define IS_EXSCAN(kind) ((kind) == COLL_EXSCAN)
#define ALG(kind, name, alg, needs)
#define RULE(from, kinds, if_facts, if_bytes, to, reason) \
    if (alg == COLL_NODE_ALG_##from && (facts & (if_facts)) == (if_facts) && IS_##kinds(kind) && \
        ((if_bytes) == 0 || bytes >= (if_bytes))) { \
        alg = COLL_NODE_ALG_##to; \
        if (why) \
            *why = reason; \
    }

/* Code instead of a table: fewer instructions.  *why: set if a rule decides; NULL: not wanted. */
static inline enum coll_node_alg apply(enum coll_node_alg alg, enum coll_kind kind, unsigned facts,
                                       int64_t bytes, const char **why)
{
#include "coll/node/node.def"
    return alg;
}
#undef ALG
#undef RULE

enum coll_node_alg coll_node_choose(enum coll_node_alg asked, enum coll_kind kind, unsigned facts,
                                    int64_t bytes)
{
    return apply(asked, kind, facts, bytes, NULL);
}
#undef LIMIT
#define ALG(kind, name, alg, needs)
#define RULE(from, kinds, facts, bytes, to, why)
#define LIMIT(name, unit, value, what, measured) { #name, what, measured, value, UNIT_##unit },
#define UNIT_BYTES true
#define UNIT_NUMBER false
const struct coll_node_limit_row coll_node_limit_rows[] = {
#include "coll/node/node.def"
    { 0 }
};

/* ---- a call ---- */

/* Those that do not change from call to call. */
static unsigned team_facts(int size, bool crowded)
{
    return (size < 2 ? 0u : size == 2 ? TWO : MANY) | (crowded ? CROWDED : ROOMY);
}

/* All but BLIND and NEAR. */
static inline unsigned add_facts(unsigned facts, const struct coll_team *t,
                                 const struct coll_args *a, int64_t bytes, enum coll_node_alg asked)
{
    facts |= a->op && rt_reduce_is_wide(a->op->code, (enum rt_elem)a->rtype->elem) ? WIDE : NARROW;
    if (!(facts & CROWDED) && asked != COLL_NODE_ALG_TREE)
        return facts;
    return coll_node_cell_fits(t, a, bytes) ? facts | FITS : facts;
}

/* COLL_NODE_READS_...; ALL also where the algorithm needs no copies between processes. */
static int reads_of(struct coll_node *n, const struct coll_task *k, enum coll_node_alg asked)
{
    const unsigned need = 1u << COLL_NODE_ALG_DIRECT | 1u << COLL_NODE_ALG_OWN |
                          1u << COLL_NODE_ALG_LINEAR;
    if (!(need >> asked & 1) || n->facts != (MANY | ROOMY))
        return COLL_NODE_READS_ALL; /* or another one runs the call anyway */
    if (asked == COLL_NODE_ALG_LINEAR && coll_node_linear_is_short(n, k))
        return COLL_NODE_READS_ALL;
    return coll_node_reads(n);
}

/* Algorithms whose lines take two rounds; or flat.c instead. */
static bool takes_two(uint8_t alg)
{
    return alg == COLL_NODE_ALG_GRID || alg == COLL_NODE_ALG_LINEAR;
}

/* Until the facts are known. */
static int first_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    const struct coll_args *a = &k->args;
    if (!coll_node_my_turn(n, k))
        return 0;
    const enum coll_node_alg asked = (enum coll_node_alg)asked_by[k->alg - coll_node_algs];
    n->two_numbers = takes_two(asked);
    if (rt_unlikely(!n->facts)) {
        if (!coll_node_crowded_known(n))
            return 0;
        n->facts = team_facts(n->team->size, n->crowded);
    }
    int reads = reads_of(n, k, asked);
    if (reads == COLL_NODE_READS_UNKNOWN)
        return 0;
    unsigned facts = add_facts(n->facts, k->team, a, k->bytes, asked);
    if (reads == COLL_NODE_READS_NONE)
        facts |= BLIND;
    if (!n->levels)
        facts |= NEAR;
    const enum coll_node_alg alg = coll_node_choose(asked, a->kind, facts, k->bytes);
    if (rt_unlikely(!n->blocks) && alg > COLL_NODE_ALG_TREE) {
        int rc = coll_node_blocks(n);
        if (rc <= 0)
            return rc < 0 ? coll_node_give_up(n, k) : 0;
    }
    k->step = algs[alg].step;
    return k->step(k);
}

static int start(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    const uint8_t asked = asked_by[k->alg - coll_node_algs];
    coll_node_flat_start(t, a, k);
    t->node->started += takes_two(asked);
    k->step = first_step;
    return 0;
}

/* ---- for people ---- */

const char *coll_node_runs(const struct coll_alg *alg, const struct coll_team *t,
                           const struct coll_args *a, bool crowded, bool levels, const char **why)
{
    const int64_t bytes = coll_args_bytes(t, a);
    int i = 0;
    while (alg != &coll_node_algs[i])
        if (!coll_node_algs[i++].name)
            return NULL;
    const enum coll_node_alg asked = (enum coll_node_alg)asked_by[i];
    unsigned facts = add_facts(team_facts(t->size, crowded), t, a, bytes, asked) |
                     (levels ? 0 : NEAR);
    enum coll_node_alg run = apply(asked, a->kind, facts, bytes, why);
    return algs[run].file;
}
