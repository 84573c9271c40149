/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of ranks that share one device, whose compute engine works for one process at a time:
 * one process launches the kernels for all.  The fake driver counts kernels and the copies that
 * need the compute engine.
 *     coll_turns [mps | late | pool]
 * mps: processes use the device at the same time, so every rank works.  late: kernels start late,
 * as if other processes computed, so most short calls go through host memory.  pool: memory of a
 * pool, which other processes cannot map. */
#include <dlfcn.h>
#include <string.h>
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { WARM = 3, CALLS = 32 };
#define LONGEST (8u << 20)

static fake_cuda_seen_fn *seen;
static unsigned char *in, *out;
static float *host;
static bool mps, late, pool;

static long counted(const char *what) { return seen ? seen(what) : 0; }

/* ---- calls of n floats, in all or from each rank ---- */

enum kind {
    ALLREDUCE,
    IN_PLACE,
    REDUCE,
    SCAN,
    SHARES,
    BCAST,
    ALLGATHER,
    GATHER,
    SCATTER,
    ALLTOALL,
    KINDS
};
static const char *const names[KINDS] = {
    "allreduce", "allreduce in place", "reduce", "scan",    "reduce_scatter_block",
    "bcast",     "allgather",          "gather", "scatter", "alltoall"
};

static void call(enum kind k, int n)
{
    int last = mt_size - 1, part = n / mt_size;
    void *root = mt_rank == last ? out : NULL, *from = mt_rank == last ? in : NULL;
    switch (k) {
    case ALLREDUCE:
        OK(MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, mt_comm));
        break;
    case IN_PLACE:
        OK(MPI_Allreduce(MPI_IN_PLACE, out, n, MPI_FLOAT, MPI_SUM, mt_comm));
        break;
    case REDUCE:
        OK(MPI_Reduce(in, root, n, MPI_FLOAT, MPI_SUM, last, mt_comm));
        break;
    case SCAN:
        OK(MPI_Scan(in, out, n, MPI_FLOAT, MPI_SUM, mt_comm));
        break;
    case SHARES:
        OK(MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, mt_comm));
        break;
    case BCAST:
        OK(MPI_Bcast(mt_rank == last ? in : out, n, MPI_FLOAT, last, mt_comm));
        break;
    case ALLGATHER:
        OK(MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, mt_comm));
        break;
    case GATHER:
        OK(MPI_Gather(in, part, MPI_FLOAT, root, part, MPI_FLOAT, last, mt_comm));
        break;
    case SCATTER:
        OK(MPI_Scatter(from, part, MPI_FLOAT, out, part, MPI_FLOAT, last, mt_comm));
        break;
    default:
        OK(MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, mt_comm));
    }
}

static float value(int rank, int i) { return (float)((i * 7 + rank * 3) % 1000); }

static float sum(int ranks, int i)
{
    float s = 0;
    for (int r = 0; r < ranks; r++)
        s += value(r, i);
    return s;
}

/* Element i of a rank's result. */
static float wanted(enum kind k, int n, int i)
{
    int part = n / mt_size;
    switch (k) {
    case SCAN:
        return sum(mt_rank + 1, i);
    case SHARES:
        return sum(mt_size, mt_rank * part + i);
    case BCAST:
        return value(mt_size - 1, i);
    case ALLGATHER:
    case GATHER:
        return value(i / part, i % part);
    case SCATTER:
        return value(mt_size - 1, mt_rank * part + i);
    case ALLTOALL:
        return value(i / part, mt_rank * part + i % part);
    default:
        return sum(mt_size, i);
    }
}

static void prepare(enum kind k, int n)
{
    for (int i = 0; i < n; i++)
        host[i] = value(mt_rank, i);
    gt_write(k == IN_PLACE ? out : in, host, (size_t)n * 4);
    if (k != IN_PLACE)
        gt_set(out, GT_POISON, LONGEST);
}

static void check(enum kind k, int n)
{
    bool root = mt_rank == mt_size - 1;
    int len = k == SHARES || k == SCATTER ? n / mt_size : n, bad = 0;
    if ((k == REDUCE || k == GATHER) && !root)
        len = 0;
    if (k == BCAST && root)
        len = 0;
    gt_read(host, out, (size_t)len * 4);
    for (int i = 0; i < len; i++)
        bad += host[i] != wanted(k, n, i);
    CHECK_MSG(!bad, "%s of %d floats: %d elements are wrong", names[k], n, bad);
}

/* Kernels and copies by the compute engine of this call, by rank. */
static void count(enum kind k, int n, long *of)
{
    prepare(k, n);
    mt_sync();
    long before = counted("kernel") + counted("turn");
    call(k, n);
    long used = counted("kernel") + counted("turn") - before;
    check(k, n);
    OK(MPI_Allgather(&used, 1, MPI_LONG, of, 1, MPI_LONG, mt_comm));
}

/* A long call is never sent through host memory, so for a reduction the first rank launches a
 * kernel. */
static void one_works(enum kind k, int n, bool is_long)
{
    long of[64];
    count(k, n, of);
    for (int r = 1; r < mt_size && seen && !mps; r++)
        CHECK_MSG(!of[r], "%s of %d floats: rank %d used the compute engine %ld times", names[k], n,
                  r, of[r]);
    CHECK_MSG(!seen || !is_long || mps || of[0], "%s of %d floats: no kernel", names[k], n);
    CHECK_MSG(!seen || k != SHARES || !is_long || !mps || of[mt_size - 1],
              "%s of %d floats: the last rank had no kernel", names[k], n);
}

static void one_process_works_for_all(void)
{
    static const int n[] = { 240, 2400, 240000 };
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < 3; i++)
            one_works((enum kind)k, n[i] * mt_size, k <= SHARES && n[i] == 240000);
}

/* Long calls: each rank copies its data once into memory that others can map, and once out of it.
 */
static void pools_are_copied_twice(void)
{
    int n = 300000 * mt_size;
    long of[64];
    for (int i = 0; i < 2 * KINDS; i++) {
        enum kind k = (enum kind)(i % KINDS);
        count(k, n, of);
        for (int r = 1; r < mt_size && seen; r++)
            CHECK_MSG(of[r] <= 2, "%s of %d floats: rank %d used the compute engine %ld times",
                      names[k], n, r, of[r]);
    }
}

/* Ranks that are not known to share the device work for themselves, until each has made a context.
 */
static void warm_up(void)
{
    int flag;
    for (int i = 0; i < WARM; i++) {
        call(ALLREDUCE, 240);
        OK(MPI_Iprobe(MPI_ANY_SOURCE, 9, mt_comm, &flag, MPI_STATUS_IGNORE));
        mt_sync();
    }
}

/* In the fake driver a kernel starts up to some milliseconds late. */
static void short_calls_avoid_turns(void)
{
    static const int lens[] = { 2, 8000 };
    long of[64];
    for (int i = 0; i < 2; i++) {
        long used = 0;
        for (int j = 0; j < CALLS; j++) {
            count(j % 2 ? IN_PLACE : ALLREDUCE, lens[i], of);
            used += of[0];
        }
        CHECK_MSG(!seen || used <= CALLS / 2, "%d floats: %ld of %d calls used the compute engine",
                  lens[i], used, CALLS);
    }
}

int main(int argc, char **argv)
{
    gt_need(1);
    mps = argc > 1 && !strcmp(argv[1], "mps");
    late = argc > 1 && !strcmp(argv[1], "late");
    pool = argc > 1 && !strcmp(argv[1], "pool");
    mt_init(argc, argv);
    gt_use(0);
    seen = (fake_cuda_seen_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_seen");
    fake_cuda_fail_fn *fail = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    if (fail)
        fail("turn:0,kernel:0"); /* counts, nothing fails */
    in = gt_alloc(pool ? GT_POOL_OWN : GT_CUDA, 0, LONGEST, 0);
    out = gt_alloc(pool ? GT_POOL_OWN : GT_CUDA, 0, LONGEST, 0);
    host = malloc(LONGEST);
    MT_RUN(warm_up);
    if (late)
        MT_RUN(short_calls_avoid_turns);
    else if (pool)
        MT_RUN(pools_are_copied_twice);
    else
        MT_RUN(one_process_works_for_all);
    free(host);
    gt_free(in);
    gt_free(out);
    return mt_end();
}
