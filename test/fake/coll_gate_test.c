/* SPDX-License-Identifier: BSD-3-Clause */
/* Votes on device collectives: programs of many calls, several in progress at once, in which each
 * rank passes host or device memory at random, ranks drift apart, ranges cannot be described or
 * mapped, and devices work at any time and in any order that the plan permits.  Device memory is
 * plain memory here; the test checks the order of reads and writes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "coll/gpu/gate.h"
#include "coll/select.h"
#include "coll/start/start.h"
#include "runtime/base/err.h"
#include "runtime/base/reserve.h"
#include "test/check.h"
#include "test/fake/coll_case.h"
#include "test/fake/coll_devices.h"
#include "test/mpi/nomem_alloc.h"

#define NCALLS 60
#define SHM_ROOM (16u << 20)

static const int64_t counts[] = { 0, 1, 6, 7, 90, 512, 3000, 40000 };

static int ndevice; /* device calls, summed over ranks */

/* ---- programs ---- */

static struct coll_case random_case(struct fake *f, int size, int kind)
{
    struct coll_case c = { .kind = kind < 0 ? (enum coll_kind)fake_random(f, COLL_KINDS)
                                            : (enum coll_kind)kind,
                           .size = size,
                           .root = (int)fake_random(f, (unsigned)size),
                           .salt = fake_random(f, 1000),
                           .in_place = fake_random(f, 2),
                           .gaps = fake_random(f, 16) == 0,
                           .user_op = fake_random(f, 16) == 0 };
    c.count = counts[fake_random(f, size > 4 ? 6 : 8)];
    return c;
}

/* In half of the calls all ranks pass device memory. */
static void choose_memory(struct fake *f, int size, struct coll_args *args)
{
    bool all = fake_random(f, 2);
    for (int r = 0; r < size; r++) {
        args[r].mem = all || fake_random(f, 64) >= dev.odds.host ? RT_MEM_CUDA : RT_MEM_HOST;
        if (args[r].kind == COLL_BARRIER || coll_gpu_has_nothing(fake_team(f, r), &args[r]))
            args[r].mem = RT_MEM_HOST; /* it has no buffer to classify */
    }
}

/* persistent: rounds of starts; 0: ordinary calls. */
static void run_program(int size, int kind, int persistent, unsigned seed)
{
    struct coll_case cases[NCALLS];
    struct coll_buffers *b[NCALLS];
    struct coll_args *args = calloc((size_t)size * NCALLS, sizeof *args);
    struct fake *f = dev.now = fake_create(size, seed, true, SHM_ROOM);
    int window = 1 + (int)fake_random(f, 2 * COLL_BOARD_NCALLS);
    coll_gpu_way = (enum coll_gpu_way)(seed % COLL_GPU_WAYS);
    if (dev.odds.no_memory) {
        fake_repeat(f);
        window = 1;
    }
    for (int i = 0; i < NCALLS; i++) {
        cases[i] = random_case(f, size, kind);
        cases[i].in_place &= persistent < 2; /* in place changes the input */
        b[i] = coll_case_make(&cases[i], &args[i * size]);
        choose_memory(f, size, &args[i * size]);
        for (int r = 0; r < size; r++)
            ndevice += args[i * size + r].mem != RT_MEM_HOST;
    }
    int err = persistent ? fake_run_fixed(f, args, NCALLS, window, persistent)
                         : fake_run(f, args, NCALLS, window);
    CHECK_MSG(!err, "program of %d ranks, kind %d, window %d, seed %u: error %d", size, kind,
              window, seed, err);
    for (int i = 0; i < NCALLS; i++) {
        if (!err && !check_failed_case) {
            int bad = coll_case_check(&cases[i], &args[i * size], b[i]);
            CHECK_MSG(!bad, "call %d, %s of %lld elements, root %d: %d ranks, window %d, seed %u",
                      i, coll_kind_names[cases[i].kind], (long long)cases[i].count, cases[i].root,
                      size, window, seed);
        }
        coll_case_free(&cases[i], b[i]);
    }
    CHECK_EQ(fake_destroy(f), 0);
    CHECK_EQ(dev.njobs, 0);
    CHECK_EQ(dev.nregs, 0);
    CHECK_EQ(dev.nmaps, 0);
    free(args);
}

static void programs(int kind, struct fake_odds o)
{
    dev.odds = o;
    for (unsigned seed = 1; seed <= 24 && !check_failed_case; seed++) {
        run_program(2 + (int)(seed % 5), kind, 0, seed);
        run_program(2 + (int)(seed % 5), kind, 1 + (int)(seed % 3), seed);
    }
    run_program(9, kind, 0, 99);
    run_program(9, kind, 2, 99);
}

static void all_on_devices(void)
{
    ndevice = dev.nstaged = dev.nnear = 0;
    programs(COLL_ALLREDUCE, (struct fake_odds){ 0 });
    CHECK(dev.nnear > 0);
    CHECK_MSG(dev.nstaged < ndevice / 3, "%d of %d calls went through host memory", dev.nstaged,
              ndevice);
    programs(-1, (struct fake_odds){ 0 });
}

/* All ranks have direct links, or only some of them. */
static void direct_links(void)
{
    programs(COLL_ALLREDUCE, (struct fake_odds){ .direct = 64 });
    programs(-1, (struct fake_odds){ .direct = 64 });
    programs(-1, (struct fake_odds){ .direct = 3 });
}

static void hosts_and_devices(void)
{
    programs(COLL_ALLREDUCE, (struct fake_odds){ .host = 12 });
    programs(-1, (struct fake_odds){ .host = 20 });
}

static void what_cannot_be_mapped(void)
{
    programs(COLL_ALLREDUCE,
             (struct fake_odds){ .host = 4, .no_describe = 4, .no_attach = 4, .freed = 2 });
    programs(-1, (struct fake_odds){ .host = 8, .no_describe = 4, .no_attach = 4, .freed = 2 });
}

/* Memory that one call cannot reach may be reachable for another. */
static void what_cannot_be_reached(void)
{
    ndevice = dev.nstaged = 0;
    dev.odds = (struct fake_odds){ 0 };
    for (unsigned seed = 1; seed <= 5; seed++) {
        dev.unreachable = 2;
        run_program(3, COLL_ALLREDUCE, 0, seed);
        CHECK_EQ(dev.unreachable, 0);
    }
    CHECK_MSG(dev.nstaged < ndevice / 2, "%d of %d calls went through host memory", dev.nstaged,
              ndevice);
}

/* Ranks that could not start a call, even after they have voted, repeat it. */
static void repeated(void)
{
    dev.odds = (struct fake_odds){ .host = 8, .no_describe = 4, .no_attach = 8, .no_memory = 20 };
    for (unsigned seed = 1; seed <= 24 && !check_failed_case; seed++)
        run_program(2 + (int)(seed % 5), -1, 0, seed);
}

/* The owner of the flag lines, even without devices, knows when the others have voted. */
static void owner_without_devices(void)
{
    struct coll_team t[2] = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 } };
    struct coll_args a = { .kind = COLL_ALLREDUCE, .mem = RT_MEM_HOST };
    void *shared = aligned_alloc(RT_CACHE_LINE, coll_board_nbytes(2));
    memset(shared, 0, coll_board_nbytes(2));
    for (int r = 0; r < 2; r++) {
        t[r].ops = &fake_more->ops;
        rt_gpu_watch = r == 1;
        CHECK_EQ(coll_gpu_create(&t[r], &t[r], NULL), 0);
        coll_gpu_attach(&t[r], &t[r], shared);
    }
    CHECK(coll_gpu_pass(&t[1], &a));
    t[1].rank = 2; /* it releases nothing */
    coll_gpu_fini(&t[1]);
    free(shared);
}

/* Persistent calls in which a rank has no data go from device to device. */
static void nothing_persistent(void)
{
    enum { SIZE = 3, LEN = 5 };
    static const struct rt_layout u32 = {
        .size = 4, .extent = 4, .true_extent = 4, .elem = RT_ELEM_U32, .contig = true
    };
    static uint32_t in[SIZE][LEN], out[SIZE * LEN];
    int64_t counts_of[SIZE] = { LEN, 0, LEN }, displs[SIZE] = { 0, LEN, LEN };
    struct coll_args args[SIZE];
    dev.odds = (struct fake_odds){ 0 };
    struct fake *f = dev.now = fake_create(SIZE, 1, true, SHM_ROOM);
    for (int r = 0; r < SIZE; r++) {
        args[r] = (struct coll_args){ .kind = COLL_GATHERV, .sbuf = in[r], .rbuf = out };
        args[r].scount = counts_of[r];
        args[r].rcounts = counts_of;
        args[r].rdispls = displs;
        args[r].stype = args[r].rtype = &u32;
        args[r].mem = counts_of[r] ? RT_MEM_CUDA : RT_MEM_HOST;
        for (int i = 0; i < LEN; i++)
            in[r][i] = (uint32_t)(100 * r + i);
    }
    CHECK_EQ(fake_run(f, args, 1, 1), 0); /* shows that there are devices */
    memset(out, 0, sizeof out);
    dev.nstaged = 0;
    CHECK_EQ(fake_run_fixed(f, args, 1, 1, 2), 0);
    CHECK_EQ(dev.nstaged, 0);
    for (int i = 0; i < 2 * LEN; i++)
        CHECK_EQ(out[i], (uint32_t)(200 * (i / LEN) + i % LEN));
    CHECK_EQ(fake_destroy(f), 0);
    CHECK_EQ(dev.nregs + dev.nmaps + dev.njobs, 0);
}

/* Only the rooted calls that let ranks run ahead. */
static void rooted(void)
{
    programs(COLL_BCAST, (struct fake_odds){ .host = 24 });
    programs(COLL_GATHER, (struct fake_odds){ .host = 24, .no_attach = 2 });
    programs(COLL_REDUCE, (struct fake_odds){ .host = 24 });
}

/* Devices fail: all ranks report it for the same calls, and continue. */
static void failures(void)
{
    struct coll_case cases[NCALLS];
    struct coll_buffers *b[NCALLS];
    dev.odds = (struct fake_odds){ .host = 4, .no_attach = 1, .fail = 8 };
    for (unsigned seed = 1; seed <= 24 && !check_failed_case; seed++) {
        int size = 2 + (int)(seed % 5), fixed = (int)(seed / 5 % 3), err;
        struct coll_args *args = calloc((size_t)size * NCALLS, sizeof *args);
        struct fake *f = dev.now = fake_create(size, seed, true, SHM_ROOM);
        fake_tolerate(f);
        for (int i = 0; i < NCALLS; i++) {
            cases[i] = random_case(f, size, -1);
            b[i] = coll_case_make(&cases[i], &args[i * size]);
            choose_memory(f, size, &args[i * size]);
        }
        err = fixed ? fake_run_fixed(f, args, NCALLS, 7, fixed) : fake_run(f, args, NCALLS, 7);
        CHECK_MSG(!err, "%d ranks, seed %u: error %d", size, seed, err);
        CHECK_MSG(fake_errors(f, 0) > 0, "%d ranks, seed %u: no errors", size, seed);
        for (int r = 1; r < size; r++)
            CHECK_EQ(fake_errors(f, r), fake_errors(f, 0));
        for (int i = 0; i < NCALLS; i++)
            coll_case_free(&cases[i], b[i]);
        CHECK_EQ(fake_destroy(f), 0);
        CHECK_EQ(dev.njobs, 0);
        CHECK_EQ(dev.nregs, 0);
        CHECK_EQ(dev.nmaps, 0);
        free(args);
    }
}

/* A rank that has no memory for its vote ends the job: the others would wait for it. */
static void no_memory_to_vote(void)
{
    struct coll_case c = { .kind = COLL_ALLREDUCE, .size = 2, .count = 7 };
    struct coll_args args[2];
    struct coll_task task = { 0 };
    struct coll_buffers *b = coll_case_make(&c, args);
    struct fake *f = dev.now = fake_create(2, 1, true, SHM_ROOM);
    int status = 0;
    args[0].mem = RT_MEM_CUDA;
    pid_t pid = nomem_works() ? fork() : -1;
    if (pid == 0) {
        while (rt_reserve_take(1))
            continue;
        nomem_arm(1);
        _exit(coll_start(fake_team(f, 0), &args[0], &task) < 0 ? 2 : 3);
    }
    if (pid > 0) {
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status 0x%x", (unsigned)status);
    }
    CHECK_EQ(fake_destroy(f), 0);
    coll_case_free(&c, b);
}

int main(void)
{
    CHECK_EQ(coll_configure(""), 0);
    fake_devices_use();
    RUN(all_on_devices);
    RUN(direct_links);
    RUN(hosts_and_devices);
    RUN(what_cannot_be_mapped);
    RUN(what_cannot_be_reached);
    RUN(repeated);
    RUN(owner_without_devices);
    RUN(nothing_persistent);
    RUN(rooted);
    RUN(failures);
    RUN(no_memory_to_vote);
    return check_end();
}
