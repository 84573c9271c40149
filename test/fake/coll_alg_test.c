/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm at many rank counts, counts, layouts and operations, in and out of place, against
 * a naive reference.  The argument `all`, which takes longer, adds rank counts and runs every
 * variant at the large ones too. */
#include <stdio.h>
#include <stdlib.h>
#include "coll/algo/algo.h"
#include "coll/algo/bcast.h"
#include "coll/node/node.h"
#include "coll/node/choose.h"
#include "coll/sched.h"
#include "coll/select.h"
#include "runtime/base/idle.h"
#include "runtime/base/log.h"
#include "test/check.h"
#include "test/fake/coll_case.h"
#include "test/fake/coll_fake.h"

#define SHM_ROOM (16u << 20)

/* Without `all`, from this many ranks or elements on only every third variant, which still covers
 * each property. */
#define FEW_RANKS 16
#define FEW_ELEMENTS 10000
#define LARGE_COUNT 10000

static const int some_sizes[] = { 1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 0 };
static const int all_sizes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32, 33, 0 };
static bool all;

/* A first large call on the node, in which the ranks find out that they can read each other's
 * memory. */
static void warm_up(struct fake *f, int size)
{
    static char buf[64][LARGE_COUNT * 8];
    struct coll_args args[64];
    for (int r = 0; r < size; r++)
        args[r] = (struct coll_args){ .kind = COLL_BCAST,
                                      .rbuf = buf[r],
                                      .rcount = sizeof buf[r],
                                      .stype = &coll_bytes,
                                      .rtype = &coll_bytes };
    CHECK_EQ(fake_run(f, args, 1, 1), 0);
}

static void run_case(const struct coll_case *c, const char *alg, unsigned seed)
{
    struct coll_args *args = calloc((size_t)c->size, sizeof *args);
    struct coll_buffers *b = coll_case_make(c, args);
    struct fake *f = fake_create(c->size, seed, !strncmp(alg, "node", 4), SHM_ROOM);
    if (c->count >= LARGE_COUNT || fake_override.node_way)
        warm_up(f, c->size);
    int err = fake_run(f, args, 1, 1), bad = coll_case_check(c, args, b), left = fake_destroy(f);
    CHECK_MSG(!err && !bad && !left,
              "%s:%s ranks %d root %d count %lld%s%s%s seed %u: error %d, %d messages left",
              coll_kind_names[c->kind], alg, c->size, c->root, (long long)c->count,
              c->in_place ? " in place" : "", c->gaps ? " gaps" : "", c->user_op ? " user op" : "",
              seed, err, left);
    coll_case_free(c, b);
    free(args);
}

/* All variants of one algorithm at one rank count and element count. */
static void run_variants(const struct coll_alg *alg, int size, int64_t count)
{
    unsigned step = all || (size < FEW_RANKS && count < FEW_ELEMENTS) ? 1 : 3;

    for (unsigned v = 0; v < 8 && !check_failed_case; v += step) {
        struct coll_case c = { .kind = alg->kind,
                               .size = size,
                               .root = (int)(v * 5 + 2) % size,
                               .count = count,
                               .in_place = v & 1,
                               .gaps = v & 2,
                               .user_op = v & 4,
                               .salt = v };
        run_case(&c, alg->name, v * 100 + (unsigned)size);
    }
}

static void force(const struct coll_alg *alg)
{
    char spec[128];
    snprintf(spec, sizeof spec, "%s:%s", coll_kind_names[alg->kind], alg->name);
    CHECK_EQ(coll_configure(spec), 0);
}

static void small_counts(void)
{
    static const int64_t counts[] = { 0, 1, 7, 100 };
    const struct coll_alg *alg;
    for (int i = 0; (alg = coll_alg_at(i)); i++) {
        force(alg);
        for (const int *size = all ? all_sizes : some_sizes; *size; size++)
            for (int n = 0; n < 4; n++)
                run_variants(alg, *size, counts[n]);
    }
}

/* Enough for several pieces of every pipeline. */
/* 0: a tree is not slower */
static void lengths_of_pieces(void)
{
    const struct coll_team t = { .size = 0 };
    int64_t most = (int64_t)1 << 50;
    CHECK_EQ(coll_chain_piece(&t, 0, 5), 0);
    CHECK_EQ(coll_chain_piece(&t, 8 << 20, 1), 0);
    CHECK_EQ(coll_chain_piece(&t, 8 << 20, 2), 0);
    CHECK_EQ(coll_chain_piece(&t, 256 << 10, 16), 0);
    CHECK_EQ(coll_chain_piece(&t, 8 << 20, 4), 2 << 20);
    CHECK_EQ(coll_chain_piece(&t, 64 << 20, 16), 2 << 20);
    CHECK(coll_chain_piece(&t, most, 3) < most && coll_chain_piece(&t, most, 3) > 1 << 30);
}

static void large_counts(void)
{
    fake_override.chain_trip = 4096; /* many pieces */
    const struct coll_alg *alg;
    for (int i = 0; (alg = coll_alg_at(i)); i++) {
        force(alg);
        run_variants(alg, 2, 70001);
        run_variants(alg, 5, 30000);
    }
    fake_override.chain_trip = 0;
}

/* Calls through rings, calls that copy directly, and calls where ranks outnumber cores: lengths
 * around those at which pieces, paths and rings change (coll/node/ring.c). */
static void ways_of_calls(void)
{
    static const int64_t counts[] = { 513,  1023, 1024, 1025,  2049,  4095,  4096,
                                      4097, 8191, 8193, 32769, 65537, 140000 };
    static const int sizes[] = { 2, 3, 5, 8 };
    const struct coll_alg *algs[] = { coll_alg_find(COLL_BCAST, "node_block"),
                                      coll_alg_find(COLL_REDUCE, "node_root"),
                                      coll_alg_find(COLL_ALLREDUCE, "node_block") };
    for (int way = 0; way < 3; way++) {
        fake_override.node_way = way < 2 ? 1 + way : 0;
        rt_idle_configure(1 + way / 2, 1);
        for (int s = 0; s < 4; s++)
            for (int n = 0; n < (s ? 10 : 13); n++)
                for (int i = 0; i < (s ? 2 : 3); i++) {
                    force(algs[i]);
                    run_variants(algs[i], sizes[s], counts[n]);
                }
    }
    rt_idle_configure(1, 1);
    fake_override.node_way = 0;
}

/* Scans in which each rank reduces a slice for all (coll/node/block.c), in one piece and in
 * several, with a core each and without. */
static void scans_by_slices(void)
{
    static const enum coll_kind kinds[] = { COLL_SCAN, COLL_EXSCAN };
    for (int i = 0; i < 4; i++) {
        const struct coll_alg *alg = coll_alg_find(kinds[i % 2], "node_block");
        rt_idle_configure(1 + i / 2, 1);
        force(alg);
        run_variants(alg, 3, 70001);
        run_variants(alg, 5, 140000);
    }
    rt_idle_configure(1, 1);
}

/* Long reductions out of the ranks' own buffers, in one piece and in several, with a core each and
 * without. */
static void slices_of_buffers(void)
{
    static const enum coll_kind kinds[] = { COLL_ALLREDUCE, COLL_REDUCE, COLL_REDUCE_SCATTER,
                                            COLL_REDUCE_SCATTER_BLOCK };
    for (int i = 0; i < 8; i++) {
        const struct coll_alg *alg = coll_alg_find(kinds[i % 4], "node_direct");
        rt_idle_configure(1 + i / 4, 1);
        force(alg);
        run_variants(alg, 3, 1);
        run_variants(alg, 3, 600001);
        run_variants(alg, 5, 140000);
    }
    rt_idle_configure(1, 1);
}

/* Short broadcasts and reduces in two rounds (coll/node/grid.c): ranks on caches of several sizes;
 * by lines, by cells, and longer than a cell; where ranks outnumber cores, and where all share one
 * cache, there is one round. */
static void in_two_rounds(void)
{
    static const int caches[] = { 1, 4, 64 };
    static const int sizes[] = { 2, 3, 5, 8, 17, 33 };
    const struct coll_alg *algs[] = { coll_alg_find(COLL_BCAST, "node_tree"),
                                      coll_alg_find(COLL_REDUCE, "node_tree") };
    for (int c = 0; c < 4; c++) {
        fake_override.l3_ranks = caches[c % 3];
        rt_idle_configure(1 + c / 3, 1);
        for (int s = 0; s < 6; s++)
            for (int i = 0; i < 2; i++) {
                force(algs[i]);
                run_variants(algs[i], sizes[s], 1);
                run_variants(algs[i], sizes[s], 100);
                run_variants(algs[i], sizes[s], 700);
            }
    }
    rt_idle_configure(1, 1);
    fake_override.l3_ranks = 0;
}

static void refused_memory_falls_back(void)
{
    static const enum coll_kind kinds[] = { COLL_BCAST, COLL_ALLREDUCE, COLL_ALLGATHER };
    CHECK_EQ(rt_log_configure("error"), 0); /* the warning of the refusal is expected */
    CHECK_EQ(coll_configure(""), 0);
    for (int i = 0; i < 3; i++)
        for (int64_t count = 100; count <= 10000; count *= 100) {
            struct coll_case c = { .kind = kinds[i], .size = 5, .root = 1, .count = count };
            struct coll_args args[5];
            struct coll_buffers *b = coll_case_make(&c, args);
            struct fake *f = fake_create(5, 7, true, 0);
            CHECK_EQ(fake_run(f, args, 1, 1), 0);
            CHECK_EQ(coll_case_check(&c, args, b), 0);
            CHECK_EQ(fake_destroy(f), 0);
            coll_case_free(&c, b);
        }
}

int main(int argc, char **argv)
{
    all = argc > 1 && !strcmp(argv[1], "all");
    RUN(small_counts);
    RUN(lengths_of_pieces);
    RUN(large_counts);
    RUN(ways_of_calls);
    RUN(scans_by_slices);
    RUN(slices_of_buffers);
    RUN(in_two_rounds);
    RUN(refused_memory_falls_back);
    return check_end();
}
