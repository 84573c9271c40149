/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of many collectives in a row, with several in progress and ranks drifting apart: memory
 * must not be overwritten too early. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "coll/begin.h"
#include "coll/node/node.h"
#include "coll/node/choose.h"
#include "coll/sched.h"
#include "coll/select.h"
#include "coll/start/start.h"
#include "runtime/base/idle.h"
#include "test/check.h"
#include "test/fake/coll_case.h"
#include "test/fake/coll_fake.h"

#define NCALLS 60
#define SHM_ROOM (16u << 20)

static const int64_t counts[] = { 0, 1, 6, 7, 90, 512, 3000, 40000 };

static bool fixed_root;

static struct coll_case random_case(struct fake *f, int size, int kind, unsigned ncounts)
{
    struct coll_case c = { .kind = kind < 0 ? (enum coll_kind)fake_random(f, COLL_KINDS)
                                            : (enum coll_kind)kind,
                           .size = size,
                           .root = (int)fake_random(f, (unsigned)size),
                           .salt = fake_random(f, 1000),
                           .in_place = fake_random(f, 2),
                           .gaps = fake_random(f, 4) == 0,
                           .user_op = fake_random(f, 8) == 0 };
    c.count = counts[fake_random(f, ncounts)];
    if (fixed_root)
        c.root = 0;
    if (size > 8 && c.count > 512)
        c.count = 512;
    return c;
}

static void run_program(int size, bool node, int kind, unsigned ncounts, unsigned seed)
{
    struct coll_case cases[NCALLS];
    struct coll_buffers *b[NCALLS];
    struct coll_args *args = calloc((size_t)size * NCALLS, sizeof *args);
    struct fake *f = fake_create(size, seed, node, SHM_ROOM);
    int window = 1 + (int)fake_random(f, 4);
    for (int i = 0; i < NCALLS; i++) {
        cases[i] = random_case(f, size, kind, ncounts);
        b[i] = coll_case_make(&cases[i], &args[i * size]);
    }
    int err = fake_run(f, args, NCALLS, window);
    CHECK_MSG(!err, "program of %d ranks%s, kind %d, window %d, seed %u: error %d", size,
              node ? " on a node" : "", kind, window, seed, err);
    for (int i = 0; i < NCALLS; i++) {
        if (!err && !check_failed_case) {
            int bad = coll_case_check(&cases[i], &args[i * size], b[i]);
            CHECK_MSG(!bad, "call %d, %s of %lld elements, root %d: %d ranks%s, window %d, seed %u",
                      i, coll_kind_names[cases[i].kind], (long long)cases[i].count, cases[i].root,
                      size, node ? " on a node" : "", window, seed);
        }
        coll_case_free(&cases[i], b[i]);
    }
    CHECK_EQ(fake_destroy(f), 0);
    free(args);
}

static void mixed_over_messages(void)
{
    for (unsigned seed = 1; seed <= 12 && !check_failed_case; seed++)
        run_program(2 + (int)(seed % 6), false, -1, 7, seed);
}

static void mixed_on_a_node(void)
{
    for (unsigned seed = 1; seed <= 40 && !check_failed_case; seed++)
        run_program(2 + (int)(seed % 7), true, -1, 8, seed);
    run_program(16, true, -1, 6, 77);
    run_program(33, true, -1, 6, 78);
}

/* The same root in all calls: only the end of a call wakes a root that has run ahead. */
static void one_root_on_a_node(void)
{
    fixed_root = true;
    for (unsigned seed = 1; seed <= 12 && !check_failed_case; seed++) {
        run_program(2 + (int)(seed % 3), true, COLL_BCAST, 4, seed);
        run_program(2 + (int)(seed % 3), true, COLL_SCATTER, 4, seed + 100);
    }
    fixed_root = false;
}

/* Rooted calls, in which some ranks wait for no other rank and may run ahead. */
static void rooted_on_a_node(void)
{
    static const int kinds[] = { COLL_BCAST, COLL_REDUCE, COLL_GATHER, COLL_SCATTER, COLL_SCAN };
    for (int k = 0; k < 5; k++)
        for (unsigned seed = 1; seed <= 12 && !check_failed_case; seed++) {
            run_program(2 + (int)(seed % 5), true, kinds[k], 4, seed);
            run_program(2 + (int)(seed % 5), true, kinds[k], 8, seed + 100);
        }
}

/* The same with direct copies in every large call, between calls that go through rings. */
static void direct_on_a_node(void)
{
    static const int kinds[] = { COLL_BCAST,          COLL_REDUCE,
                                 COLL_ALLREDUCE,      COLL_GATHER,
                                 COLL_SCATTER,        COLL_ALLGATHER,
                                 COLL_ALLTOALL,       COLL_REDUCE_SCATTER_BLOCK,
                                 COLL_REDUCE_SCATTER, -1 };
    fake_override.node_way = 1 + COLL_NODE_DIRECT;
    for (int k = 0; k < 10; k++)
        for (unsigned seed = 1; seed <= 12 && !check_failed_case; seed++)
            run_program(2 + (int)(seed % 3), true, kinds[k], 8, seed + 200);
    fake_override.node_way = 0;
}

/* Reads of another rank's memory, without the probes. */
static int nreads;

static int counted_read(struct coll_team *t, int rank, void *to, uint64_t from, size_t nbytes)
{
    (void)t;
    (void)rank;
    nreads += nbytes > sizeof coll_node_magic;
    memcpy(to, (const void *)(uintptr_t)from, nbytes);
    return 0;
}

/* The same with reductions out of the ranks' own buffers, at every length. */
static void buffers_on_a_node(void)
{
    CHECK_EQ(coll_configure("allreduce:node_direct,reduce:node_direct,reduce_scatter:node_direct,"
                            "reduce_scatter_block:node_direct"),
             0);
    for (unsigned seed = 1; seed <= 40 && !check_failed_case; seed++)
        run_program(3 + (int)(seed % 6), true,
                    seed % 2   ? -1
                    : seed % 4 ? COLL_ALLREDUCE
                               : COLL_REDUCE_SCATTER,
                    8, seed + 400);
    CHECK_EQ(coll_configure(""), 0);
}

static int refused_read(struct coll_team *t, int rank, void *to, uint64_t from, size_t nbytes)
{
    (void)rank;
    if (t->rank == 2 && nbytes > sizeof coll_node_magic)
        return -RT_EPEER;
    memcpy(to, (const void *)(uintptr_t)from, nbytes);
    return 0;
}

/* A rank that cannot read another rank's buffer has no slice of the sum: no rank takes the call for
 * good. */
static void a_slice_is_missing(void)
{
    static const struct fake_more more = { .ops = { .peer_read = refused_read } };
    struct coll_case c = { .kind = COLL_ALLREDUCE, .size = 5, .count = 100000 };
    struct coll_args args[5];
    fake_more = &more;
    CHECK_EQ(coll_configure("allreduce:node_direct"), 0);
    struct coll_buffers *b = coll_case_make(&c, args);
    struct fake *f = fake_create(5, 1, true, SHM_ROOM);
    fake_tolerate(f);
    CHECK_EQ(fake_run(f, args, 1, 1), 0);
    for (int r = 0; r < 5; r++)
        CHECK_EQ(fake_errors(f, r), 1);
    CHECK_EQ(fake_destroy(f), 0);
    coll_case_free(&c, b);
    CHECK_EQ(coll_configure(""), 0);
    fake_more = NULL;
}

/* If ranks outnumber cores, blocks move through shared memory, except in a long scatter. */
static void crowded_on_a_node(void)
{
    static const int kinds[] = { COLL_ALLTOALL, COLL_ALLGATHER, COLL_BCAST,
                                 COLL_GATHER,   COLL_REDUCE,    COLL_ALLREDUCE,
                                 COLL_SCATTER,  COLL_ALLTOALLV, COLL_ALLTOALLW };
    static const struct fake_more more = { .ops = { .peer_read = counted_read } };
    fake_more = &more;
    fake_override.node_way = 1 + COLL_NODE_DIRECT;
    for (int crowded = 0; crowded < 2; crowded++) {
        rt_idle_configure(crowded ? 64 : 1, 1);
        for (int k = 0; k < 9; k++)
            for (int size = 2; size <= 8 && !check_failed_case; size += 3) {
                nreads = 0;
                run_program(size, true, kinds[k], 8, 300 + (unsigned)size);
                if (!crowded && kinds[k] == COLL_ALLTOALL)
                    CHECK(nreads > 0);
                if (crowded)
                    CHECK_EQ(nreads > 0, kinds[k] == COLL_SCATTER && size > 2);
            }
    }
    fake_more = NULL;
    fake_override.node_way = 0;
    rt_idle_configure(1, 1);
}

static int nwakes;

static void counted_wake(struct coll_team *t, int rank)
{
    nwakes++;
    fake_wake(t->arg, rank);
}

/* There, an exchange of blocks of 1.6 MB by three ranks takes three pieces: the halves, of 2 MiB
 * each, have no unused places. */
static void crowded_pieces_are_long(void)
{
    static const enum coll_kind kinds[] = { COLL_ALLTOALL, COLL_ALLTOALLV, COLL_ALLTOALLW };
    static const struct fake_more more = { .ops = { .shm_wake = counted_wake } };
    fake_more = &more;
    rt_idle_configure(64, 1);
    for (int k = 0; k < 3; k++) {
        struct coll_case c = { .kind = kinds[k], .size = 3, .count = 200000 };
        struct coll_args args[3];
        struct coll_buffers *b = coll_case_make(&c, args);
        struct fake *f = fake_create(3, 1, true, SHM_ROOM);
        nwakes = 0;
        CHECK_EQ(fake_run(f, args, 1, 1), 0);
        CHECK_EQ(coll_case_check(&c, args, b), 0);
        CHECK_MSG(nwakes <= 48, "%s: %d wake-ups", coll_kind_names[c.kind], nwakes);
        CHECK_EQ(fake_destroy(f), 0);
        coll_case_free(&c, b);
    }
    rt_idle_configure(1, 1);
    fake_more = NULL;
}

static int nwrites;

static int counted_write(struct coll_team *t, int rank, uint64_t to, const void *from,
                         size_t nbytes)
{
    (void)t;
    (void)rank;
    nwrites++;
    memcpy((void *)(uintptr_t)to, from, nbytes);
    return 0;
}

/* Starts a rank's call at its first step; 1: it has ended. */
static int step(struct fake *f, int rank, const struct coll_args *a, struct coll_task *k)
{
    if (!k->team)
        CHECK_EQ(coll_start(fake_team(f, rank), a, k), 0);
    return coll_task_advance(k);
}

#define LONG_BLOCK (130 << 10)
#define PAIR_BLOCK (COLL_NODE_PAIR_MIN + 8191)

/* In a gatherv the root copies the long block of the rank after it, and the other rank its own. */
static void gatherv_is_halved(void)
{
    static const struct fake_more more = { .ops = { .peer_read = counted_read,
                                                    .peer_write = counted_write } };
    static const int64_t lens[] = { 3 * LONG_BLOCK, 1, LONG_BLOCK },
                         places[] = { LONG_BLOCK + 1, LONG_BLOCK, 0 };
    static char in[3][3 * LONG_BLOCK], out[4 * LONG_BLOCK + 1];
    fake_more = &more;
    struct fake *f = fake_create(3, 1, true, SHM_ROOM);
    for (int call = 0; call < 3; call++) { /* in the first call the ranks test what they can read */
        struct coll_task tasks[3];
        memset(tasks, 0, sizeof tasks);
        /* in the last call the root expects one byte less than rank 0 sends: erroneous */
        const int64_t expected[] = { lens[0] - (call == 2), lens[1], lens[2] };
        nreads = nwrites = 0;
        for (int r = 0; r < 3; r++)
            memset(in[r], 'a' + 3 * call + r, sizeof in[r]);
        out[sizeof out - 1] = '#';
        for (int ended = 0, turn = 0; ended < 7 && turn < 1000; turn++) {
            int r = turn % 3;
            const struct coll_args a = { .kind = COLL_GATHERV,
                                         .root = 1,
                                         .mem = RT_MEM_HOST,
                                         .sbuf = in[r],
                                         .rbuf = out,
                                         .scount = lens[r],
                                         .stype = &coll_bytes,
                                         .rtype = &coll_bytes,
                                         .rcounts = r == 1 ? expected : NULL,
                                         .rdispls = r == 1 ? places : NULL };
            if (!(ended & 1 << r) && step(f, r, &a, &tasks[r]))
                ended |= 1 << r;
            CHECK_MSG(turn < 999, "call %d does not end", call);
        }
        for (int r = 0; r < 3; r++)
            CHECK(!memcmp(out + places[r], in[r], (size_t)expected[r]));
        if (call == 2)
            CHECK_EQ(out[sizeof out - 1], '#');
    }
    CHECK_EQ(nreads, 1);
    CHECK_EQ(nwrites, 1);
    CHECK_EQ(fake_destroy(f), 0);
    fake_more = NULL;
}

/* The same of a scatterv.  The last calls are erroneous: rank 2 expects a shorter block than the
 * root sends, of the same way, and one that would be staged; then the rank, which has no place for
 * the root, takes its part itself. */
static void scatterv_is_halved(void)
{
    static const struct fake_more more = { .ops = { .peer_read = counted_read,
                                                    .peer_write = counted_write } };
    static const int64_t lens[3][3] = { { LONG_BLOCK, 1, LONG_BLOCK },
                                        { LONG_BLOCK, 1, 20 << 10 },
                                        { LONG_BLOCK, 1, 1000 } },
                         places[] = { 0, LONG_BLOCK, LONG_BLOCK + 1 };
    static char in[2 * LONG_BLOCK + 1], out[3][LONG_BLOCK];
    fake_more = &more;
    struct fake *f = fake_create(3, 1, true, SHM_ROOM);
    for (int call = 0; call < 6; call++) { /* in the first call the ranks test what they can read */
        bool is_short = call == 3;
        const int wrong = call > 3 ? call - 3 : 0;
        const int64_t *sent = lens[is_short];
        struct coll_task tasks[3];
        memset(tasks, 0, sizeof tasks);
        memset(in, 'a' + call, sizeof in);
        memset(out, '#', sizeof out);
        nreads = nwrites = 0;
        for (int ended = 0, turn = 0; ended < 7 && turn < 1000; turn++) {
            int r = turn % 3;
            const struct coll_args a = { .kind = COLL_SCATTERV,
                                         .root = 1,
                                         .mem = RT_MEM_HOST,
                                         .sbuf = in,
                                         .rbuf = out[r],
                                         .rcount = wrong && r == 2 ? lens[wrong][2] : sent[r],
                                         .stype = &coll_bytes,
                                         .rtype = &coll_bytes,
                                         .scounts = r == 1 ? sent : NULL,
                                         .sdispls = r == 1 ? places : NULL };
            if (!(ended & 1 << r) && step(f, r, &a, &tasks[r]))
                ended |= 1 << r;
            CHECK_MSG(turn < 999, "call %d does not end", call);
        }
        for (int r = 0; r < 3; r++) {
            int64_t len = wrong && r == 2 ? lens[wrong][2] : sent[r];
            CHECK(!memcmp(out[r], in + places[r], (size_t)len));
            CHECK(len == LONG_BLOCK || out[r][len] == '#');
        }
        if (call > 0)
            CHECK_EQ(nreads, wrong == 2 ? 2 : 1);
        if (call > 0)
            CHECK_EQ(nwrites, wrong == 2 ? 0 : 1);
    }
    CHECK_EQ(fake_destroy(f), 0);
    fake_more = NULL;
}

/* Two ranks carry out a call, one step at a time. */
static void run_two(struct fake *f, const struct coll_args a[2])
{
    struct coll_task tasks[2];
    memset(tasks, 0, sizeof tasks);
    for (int ended = 0, turn = 0; ended < 3; turn++) {
        int r = turn % 2;
        if (!(ended & 1 << r) && step(f, r, &a[r], &tasks[r]))
            ended |= 1 << r;
        if (turn > 1000) {
            CHECK_MSG(false, "%s does not end", coll_kind_names[a->kind]);
            return;
        }
    }
}

/* An erroneous call: a rank sends one byte more than the other expects.  Nothing behind the other's
 * buffer is written. */
static void room_is_kept(struct fake *f, enum coll_kind kind, int64_t expected)
{
    static const struct rt_op sum = { .code = RT_OP_SUM, .commutes = true };
    static const struct rt_layout numbers = {
        .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_I8
    };
    static char in[2 * PAIR_BLOCK], out[PAIR_BLOCK + 1];
    bool adds = coll_is(kind, COLL_IS_REDUCTION);
    struct coll_args a[2] = { { .kind = kind,
                                .mem = RT_MEM_HOST,
                                .op = &sum,
                                .sbuf = in,
                                .rbuf = kind == COLL_SCATTER ? COLL_IN_PLACE : in + PAIR_BLOCK,
                                .scount = PAIR_BLOCK,
                                .rcount = PAIR_BLOCK,
                                .stype = &numbers,
                                .rtype = &numbers } };
    a[1] = a[0];
    a[!adds].rbuf = out; /* rank 1 is the first to continue an allreduce, and then writes it all */
    a[!adds].rcount = expected;
    memset(in, 1, sizeof in);
    memset(out, '#', sizeof out);
    run_two(f, a);
    CHECK_EQ(out[expected], '#');
    for (int64_t i = 0; i < expected && (!adds || expected == PAIR_BLOCK); i += 1000)
        CHECK_EQ(out[i], 1 + adds);
}

static void writers_stay_within_the_room(void)
{
    static const struct fake_more more = { .ops = { .peer_read = counted_read,
                                                    .peer_write = counted_write } };
    static const enum coll_kind kinds[] = { COLL_SCATTER, COLL_BCAST, COLL_ALLREDUCE };
    fake_more = &more;
    fake_override.node_way = 1 + COLL_NODE_DIRECT;
    for (int k = 0; k < 3; k++) {
        struct fake *f = fake_create(2, 1, true, SHM_ROOM);
        nwrites = 0;
        for (int call = 0; call < 3;
             call++) /* in the first one the ranks test what they can read */
            room_is_kept(f, kinds[k], PAIR_BLOCK - (call == 2));
        CHECK(nwrites >= 2);
        CHECK_EQ(fake_destroy(f), 0);
    }
    fake_override.node_way = 0;
    fake_more = NULL;
}

/* Both ways are tried, and two ranks that have long blocks for each other choose alike. */
static void go_one_way(int64_t block)
{
    static const struct fake_more more = { .ops = { .peer_read = counted_read } };
    static char in[2][2 * LONG_BLOCK], out[2][2 * LONG_BLOCK];
    int ncalls[3] = { 0 };
    fake_more = &more;
    struct fake *f = fake_create(2, 1, true, SHM_ROOM);
    for (int call = 0; call < 64; call++) {
        struct coll_args a[2];
        for (int r = 0; r < 2; r++) {
            memset(in[r], 'a' + (call + r) % 16, sizeof in[r]);
            a[r] = (struct coll_args){ .kind = call % 2 ? COLL_ALLTOALL : COLL_ALLGATHER,
                                       .mem = RT_MEM_HOST,
                                       .sbuf = in[r],
                                       .rbuf = out[r],
                                       .scount = block,
                                       .rcount = block,
                                       .stype = &coll_bytes,
                                       .rtype = &coll_bytes };
        }
        nreads = 0;
        run_two(f, a);
        CHECK_MSG(nreads == 0 || nreads == 2, "call %d: one rank reads and the other streams",
                  call);
        ncalls[nreads < 2 ? nreads : 2]++;
        for (int r = 0; r < 2; r++)
            CHECK(!memcmp(out[r] + (ptrdiff_t)!r * block, in[!r], (size_t)block));
    }
    CHECK(ncalls[0] > 0);
    CHECK(ncalls[2] > 0);
    CHECK_EQ(fake_destroy(f), 0);
    fake_more = NULL;
}

static void two_ranks_go_one_way(void)
{
    go_one_way(COLL_NODE_PACED_MIN_TWO);
    go_one_way(LONG_BLOCK);
}

/* The reader decides about calls with a root, and both ways are tried at each length and root. */
static void the_reader_decides(enum coll_kind kind, int64_t nbytes)
{
    static const struct fake_more more = { .ops = { .peer_read = counted_read } };
    static const struct rt_op sum = { .code = RT_OP_SUM, .commutes = true };
    static const struct rt_layout numbers = {
        .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_I8
    };
    static char in[2][2 * LONG_BLOCK], out[2][2 * LONG_BLOCK];
    bool adds = kind == COLL_EXSCAN;
    int ncalls[2] = { 0 };
    fake_more = &more;
    struct fake *f = fake_create(2, 1, true, SHM_ROOM);
    for (int call = 0; call < 96; call++) {
        struct coll_args a[2];
        int root = call / 48, writer = adds ? 0 : kind == COLL_GATHER ? !root : root;
        for (int r = 0; r < 2; r++) {
            memset(in[r], 'a' + (call + r) % 16, sizeof in[r]);
            memset(out[r], 0, sizeof out[r]);
            a[r] = (struct coll_args){ .kind = kind,
                                       .mem = RT_MEM_HOST,
                                       .sbuf = in[r],
                                       .rbuf = kind == COLL_BCAST && r == root ? in[r] : out[r],
                                       .root = root,
                                       .scount = nbytes,
                                       .rcount = nbytes,
                                       .stype = adds ? &numbers : &coll_bytes,
                                       .rtype = adds ? &numbers : &coll_bytes,
                                       .op = adds ? &sum : NULL };
        }
        nreads = 0;
        run_two(f, a);
        ncalls[nreads > 0]++;
        const char *got = out[!writer] + (kind == COLL_GATHER ? writer * nbytes : 0);
        CHECK_MSG(!memcmp(got, in[writer], (size_t)nbytes), "kind %d, call %d", kind, call);
    }
    CHECK_MSG(ncalls[0] >= 8 && ncalls[1] >= 8,
              "kind %d, %lld bytes: %d calls by streams, %d directly", kind, (long long)nbytes,
              ncalls[0], ncalls[1]);
    CHECK_EQ(fake_destroy(f), 0);
    fake_more = NULL;
}

static void readers_decide(void)
{
    static const enum coll_kind kinds[] = { COLL_BCAST, COLL_GATHER, COLL_SCATTER, COLL_EXSCAN };
    for (int i = 0; i < 4; i++)
        for (int64_t nbytes = 16 << 10; nbytes <= 64 << 10; nbytes *= 2)
            the_reader_decides(kinds[i], nbytes);
}

/* Erroneous calls: one rank takes the block for one that both copy, the other for one that the
 * reader copies alone.  The calls end. */
static void they_expect_different_shares(void)
{
    static char in[2 * LONG_BLOCK], out[LONG_BLOCK];
    fake_override.node_way = 1 + COLL_NODE_DIRECT;
    struct fake *f = fake_create(2, 1, true, SHM_ROOM);
    for (int longer = 0; longer < 2; longer++)
        for (int call = 0; call < 3; call++) {
            struct coll_args a[2];
            for (int r = 0; r < 2; r++)
                a[r] = (struct coll_args){ .kind = COLL_SCATTER,
                                           .mem = RT_MEM_HOST,
                                           .sbuf = in,
                                           .rbuf = out,
                                           .scount = longer == r ? 60 << 10 : 20 << 10,
                                           .rcount = longer == r ? 60 << 10 : 20 << 10,
                                           .stype = &coll_bytes,
                                           .rtype = &coll_bytes };
            run_two(f, a);
        }
    fake_override.node_way = 0;
    CHECK_EQ(fake_destroy(f), 0);
}

/* An erroneous call: rank 0 sends nothing, and rank 1 expects a long block.  The call ends. */
static void a_follower_does_not_wait_in_vain(void)
{
    static char in[LONG_BLOCK], out[2][LONG_BLOCK];
    static const int64_t none[2] = { 0, 0 }, from_0[2] = { LONG_BLOCK, 0 },
                         from_1[2] = { 0, LONG_BLOCK };
    struct fake *f = fake_create(2, 1, true, SHM_ROOM);
    for (int call = 0; call < 3; call++) {
        struct coll_args a[2] = { { .kind = COLL_ALLTOALLV,
                                    .mem = RT_MEM_HOST,
                                    .sbuf = in,
                                    .rbuf = out[0],
                                    .scounts = none,
                                    .rcounts = from_1,
                                    .sdispls = none,
                                    .rdispls = none,
                                    .stype = &coll_bytes,
                                    .rtype = &coll_bytes } };
        a[1] = a[0];
        a[1].rbuf = out[1];
        a[1].scounts = from_0; /* as much for rank 0 */
        a[1].rcounts = from_0;
        run_two(f, a);
    }
    CHECK_EQ(fake_destroy(f), 0);
}

/* One step of a broadcast of `nbytes` bytes from rank 0; 1: it has ended. */
static int broadcast(struct fake *f, int rank, struct coll_task *k, char *buf, int nbytes)
{
    const struct coll_args a = {
        .kind = COLL_BCAST, .rbuf = buf, .rcount = nbytes, .rtype = &coll_bytes
    };
    return step(f, rank, &a, k);
}

/* A root ends `ahead` broadcasts before any other rank begins the first one; for the next one it
 * waits until the last rank has ended the first one. */
static void root_ahead(int nbytes, int ahead)
{
    char data[17][COLL_NODE_CELL], got[COLL_NODE_CELL];
    struct fake *f = fake_create(3, 1, true, SHM_ROOM);
    struct coll_task next = { 0 };
    for (int i = 0; i <= ahead; i++)
        memset(data[i], 'a' + i, sizeof data[i]);
    for (int i = 0; i < ahead; i++)
        CHECK_EQ(broadcast(f, 0, &(struct coll_task){ 0 }, data[i], nbytes), 1);
    CHECK_EQ(broadcast(f, 0, &next, data[ahead], nbytes), 0);
    for (int r = 1; r < 3; r++)
        for (int i = 0; i < ahead; i++) {
            CHECK_EQ(broadcast(f, r, &(struct coll_task){ 0 }, got, nbytes), 1);
            CHECK_MSG(!memcmp(got, data[i], (size_t)nbytes), "%d bytes, call %d, rank %d", nbytes,
                      i, r);
            if (i == 0)
                CHECK_EQ(broadcast(f, 0, &next, data[ahead], nbytes), r > 1);
        }
    CHECK_EQ(fake_destroy(f), 0);
}

static void a_root_runs_ahead(void)
{
    root_ahead(8, 16);
    root_ahead(57, 16);
    root_ahead(512, 16);
    root_ahead(513, 4);
    root_ahead(4096, 4);
}

static int barrier(struct fake *f, int rank, struct coll_task *k)
{
    return step(f, rank, &(struct coll_args){ .kind = COLL_BARRIER }, k);
}

/* A broadcast from rank 1, whole. */
static void bcast_from_1(struct fake *f, int size, char *buf)
{
    const struct coll_args a = {
        .kind = COLL_BCAST, .root = 1, .rbuf = buf, .rcount = 8, .rtype = &coll_bytes
    };
    for (int i = 0; i < size; i++)
        CHECK_EQ(step(f, (1 + i) % size, &a, &(struct coll_task){ 0 }), 1);
}

/* Ranks 0 and 1 enter the barrier first, then the others.  Whether the last leaves before rank 1.
 */
static void barrier_among(struct fake *f, int size, bool last_leaves)
{
    struct coll_task k[9] = { 0 };
    for (int r = 0; r < size; r++)
        CHECK_EQ(barrier(f, r, &k[r]), r == size - 1 && last_leaves);
    CHECK_EQ(barrier(f, 1, &k[1]), 1);
    for (int r = 0; r < size; r++)
        if (r != 1 && (r != size - 1 || !last_leaves))
            CHECK_EQ(barrier(f, r, &k[r]), 1);
}

/* In a row of broadcasts and barriers of 8 ranks and more the root, here rank 1, is the first to
 * leave a barrier. */
static void a_root_leaves_first(void)
{
    char buf[8] = "";
    for (int size = 7; size <= 9; size++) {
        struct fake *f = fake_create(size, 1, true, SHM_ROOM);
        for (int i = 0; i < 40; i++) { /* all slots, several times */
            bcast_from_1(f, size, buf);
            barrier_among(f, size, size < 8 || i == 0 || i % 4 == 3);
            if (i % 4 == 2) /* no such row */
                bcast_from_1(f, size, buf);
        }
        barrier_among(f, size, true);
        CHECK_EQ(fake_destroy(f), 0);
    }
}

int main(void)
{
    CHECK_EQ(coll_configure(""), 0);
    RUN(mixed_over_messages);
    RUN(mixed_on_a_node);
    RUN(rooted_on_a_node);
    RUN(one_root_on_a_node);
    RUN(direct_on_a_node);
    RUN(buffers_on_a_node);
    RUN(a_slice_is_missing);
    RUN(crowded_on_a_node);
    RUN(crowded_pieces_are_long);
    RUN(gatherv_is_halved);
    RUN(scatterv_is_halved);
    RUN(writers_stay_within_the_room);
    RUN(two_ranks_go_one_way);
    RUN(readers_decide);
    RUN(they_expect_different_shares);
    RUN(a_follower_does_not_wait_in_vain);
    RUN(a_root_runs_ahead);
    RUN(a_root_leaves_first);
    return check_end();
}
