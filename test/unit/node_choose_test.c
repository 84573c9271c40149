/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of coll/node/node.def: which algorithm runs a call. */
#include <string.h>
#include "coll/node/choose.h"
#include "coll/select.h"
#include "coll/tune.h"
#include "test/check.h"

#define TWO COLL_NODE_IF_TWO
#define MANY COLL_NODE_IF_MANY
#define CROWDED COLL_NODE_IF_CROWDED
#define ROOMY COLL_NODE_IF_ROOMY
#define BLIND COLL_NODE_IF_BLIND
#define WIDE COLL_NODE_IF_WIDE
#define NARROW COLL_NODE_IF_NARROW
#define FITS COLL_NODE_IF_FITS
#define NEAR COLL_NODE_IF_NEAR
#define LONG (16 << 20)

/* The algorithms of direct.c have two values, of which one serves reduce_scatters. */
static bool serves(enum coll_node_alg alg, enum coll_kind kind)
{
    bool cuts = coll_shape(kind, COLL_SEND) == COLL_SIDE_CUT,
         blocks = !coll_is(kind, COLL_IS_REDUCTION);
    switch (alg) {
    case COLL_NODE_ALG_GRID:
        return kind == COLL_BARRIER || kind == COLL_ALLREDUCE;
    case COLL_NODE_ALG_TREE:
        return kind == COLL_BCAST || kind == COLL_REDUCE;
    case COLL_NODE_ALG_RING:
        return kind == COLL_BCAST || kind == COLL_REDUCE || kind == COLL_ALLREDUCE;
    case COLL_NODE_ALG_SLICE:
        return !blocks && !cuts;
    case COLL_NODE_ALG_DIRECT:
        return kind == COLL_REDUCE || kind == COLL_ALLREDUCE;
    case COLL_NODE_ALG_OWN:
    case COLL_NODE_ALG_CUT:
        return cuts;
    case COLL_NODE_ALG_LINEAR:
        return coll_is(kind, COLL_IS_ROOTED) && blocks && kind != COLL_BCAST;
    case COLL_NODE_ALG_MOVE:
        return kind != COLL_BARRIER && kind != COLL_ALLREDUCE;
    default:
        return true;
    }
}

/* What an algorithm needs. */
static bool can_run(enum coll_node_alg alg, enum coll_kind kind, unsigned facts, int64_t bytes)
{
    switch (alg) {
    case COLL_NODE_ALG_GRID:
        return facts & ROOMY && facts & NARROW;
    case COLL_NODE_ALG_TREE:
        return facts & ROOMY && facts & NARROW && !(facts & NEAR) && bytes <= COLL_NODE_CELL;
    case COLL_NODE_ALG_RING:
        return facts & ROOMY && (facts & (TWO | NARROW)) && (kind != COLL_ALLREDUCE || facts & TWO);
    case COLL_NODE_ALG_DIRECT:
    case COLL_NODE_ALG_OWN:
    case COLL_NODE_ALG_LINEAR:
        return facts & ROOMY && facts & MANY && !(facts & BLIND);
    case COLL_NODE_ALG_CUT:
        return facts & ROOMY && facts & MANY;
    default:
        return true;
    }
}

/* In every combination of facts, from every algorithm that serves the kind. */
static void each_choice_can_run(void)
{
    int nchoices = 0;
    for (unsigned facts = 0; facts < 512; facts++) {
        bool two = facts & TWO, crowded = facts & CROWDED, wide = facts & WIDE;
        if (two == !!(facts & MANY) || crowded == !!(facts & ROOMY) || wide == !!(facts & NARROW))
            continue;
        for (int i = 0; i < COLL_NODE_ALGS * COLL_NEIGHBOR_ALLGATHER * 2; i++) {
            enum coll_node_alg asked = i / 2 % COLL_NODE_ALGS;
            enum coll_kind kind = i / 2 / COLL_NODE_ALGS;
            int64_t bytes = i % 2 ? LONG : 8;
            if (!serves(asked, kind) ||
                (asked == COLL_NODE_ALG_RING && kind == COLL_ALLREDUCE && !two))
                continue; /* nothing asks for it */
            enum coll_node_alg got = coll_node_choose(asked, kind, facts, bytes);
            CHECK_MSG(serves(got, kind) && can_run(got, kind, facts, bytes) &&
                          coll_node_choose(got, kind, facts, bytes) == got,
                      "%s, asked for %d, facts %#x: %d", coll_kind_names[kind], asked, facts, got);
            nchoices++;
        }
    }
    CHECK(nchoices > 3000);
}

static bool apart; /* the ranks run on several L3 caches */

static const char *runs(enum coll_kind kind, const char *name, int size, bool crowded,
                        int64_t bytes)
{
    static const struct rt_layout byte = {
        .size = 1, .extent = 1, .true_extent = 1, .contig = true
    };
    static const struct rt_op sum = { .code = RT_OP_SUM, .commutes = true };
    const struct coll_team t = { .size = size };
    const struct coll_args a = {
        .kind = kind, .scount = bytes, .rcount = bytes, .stype = &byte, .rtype = &byte, .op = &sum
    };
    const char *why = "";
    const char *file = coll_node_runs(coll_alg_find(kind, name), &t, &a, crowded, apart, &why);
    CHECK(why);
    return file ? file : "none";
}

#define CHECK_RUNS(file, ...) CHECK_MSG(!strcmp(runs(__VA_ARGS__), file), "%s", runs(__VA_ARGS__))

static void as_measured(void)
{
    CHECK_RUNS("none", COLL_BCAST, "binomial", 2, false, 8);
    CHECK_RUNS("flat", COLL_ALLREDUCE, "node_flat", 2, false, 8);
    CHECK_RUNS("grid", COLL_ALLREDUCE, "node_grid", 17, false, 8);
    CHECK_RUNS("flat", COLL_ALLREDUCE, "node_grid", 17, true, 8);
    CHECK_RUNS("ring", COLL_ALLREDUCE, "node_block", 2, false, 8192);
    CHECK_RUNS("block", COLL_ALLREDUCE, "node_block", 2, true, 8192);
    CHECK_RUNS("flat", COLL_ALLREDUCE, "node_block", 2, true, 4096);
    CHECK_RUNS("block", COLL_ALLREDUCE, "node_block", 3, false, 8192);
    CHECK_RUNS("flat", COLL_ALLREDUCE, "node_block", 17, true, 1024);
    CHECK_RUNS("block", COLL_REDUCE, "node_block", 3, false, 8192);
    CHECK_RUNS("move", COLL_REDUCE, "node_block", 3, true, 8192);
    CHECK_RUNS("ring", COLL_REDUCE, "node_root", 5, false, 8192);
    CHECK_RUNS("move", COLL_REDUCE, "node_root", 5, true, 65536);
    CHECK_RUNS("flat", COLL_REDUCE, "node_root", 5, true, 1024);
    CHECK_RUNS("direct", COLL_ALLREDUCE, "node_direct", 3, false, LONG);
    CHECK_RUNS("block", COLL_ALLREDUCE, "node_direct", 3, true, LONG);
    CHECK_RUNS("move", COLL_REDUCE, "node_direct", 3, true, LONG);
    CHECK_RUNS("ring", COLL_REDUCE, "node_direct", 2, false, LONG);
    CHECK_RUNS("cut", COLL_REDUCE_SCATTER, "node_cut", 3, false, 8192);
    CHECK_RUNS("move", COLL_REDUCE_SCATTER, "node_cut", 2, false, 8192);
    CHECK_RUNS("move", COLL_REDUCE_SCATTER_BLOCK, "node_direct", 2, false, LONG);
    CHECK_RUNS("linear", COLL_GATHERV, "node_linear", 3, false, 8);
    CHECK_RUNS("move", COLL_GATHERV, "node_linear", 3, true, 8);
    CHECK_RUNS("move", COLL_SCATTER, "node_linear", 2, false, 8192);
    CHECK_RUNS("ring", COLL_BCAST, "node_block", 17, false, 8192);
    CHECK_RUNS("move", COLL_BCAST, "node_block", 17, true, 8192);
    CHECK_RUNS("block", COLL_SCAN, "node_block", 3, false, 512 << 10);
    CHECK_RUNS("move", COLL_SCAN, "node_block", 3, true, (512 << 10) - 1);
    CHECK_RUNS("move", COLL_EXSCAN, "node_block", 2, false, LONG);
    CHECK_RUNS("move", COLL_SCAN, "node_block", 1, false, LONG);
    CHECK_RUNS("move", COLL_ALLTOALLW, "node_block", 8, false, LONG);
}

static void on_caches(void)
{
    for (int i = 0; i < 2; i++) {
        apart = i;
        CHECK_RUNS(i ? "grid" : "flat", COLL_BCAST, "node_tree", 48, false, 8);
        CHECK_RUNS(i ? "grid" : "flat", COLL_REDUCE, "node_tree", 48, false, 64);
        CHECK_RUNS(i ? "grid" : "ring", COLL_REDUCE, "node_tree", 48, false, 4096);
        CHECK_RUNS("ring", COLL_REDUCE, "node_tree", 48, false, 4097);
        CHECK_RUNS("flat", COLL_REDUCE, "node_tree", 48, true, 8);
        CHECK_RUNS("move", COLL_REDUCE, "node_tree", 48, true, 4096);
        CHECK_RUNS("grid", COLL_BARRIER, "node_grid", 48, false, 0);
    }
    apart = false;
}

int main(void)
{
    RUN(on_caches);
    RUN(each_choice_can_run);
    RUN(as_measured);
    return check_end();
}
