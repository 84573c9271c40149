/* SPDX-License-Identifier: BSD-3-Clause */
/* Time of one-sided synchronisation in which all ranks take part.  `weft_bench_rma MS`: for MS
 * milliseconds, every rank puts 8 bytes to the next rank in each epoch.  Prints `key value` lines
 * for test/bench/compare: microseconds of an epoch, from the slowest rank.
 *
 * lock: MPI_Win_lock (shared), put, MPI_Win_unlock.  exclusive: the same with the exclusive lock of
 * rank 0 for all ranks.  lock_all: MPI_Win_lock_all, put, MPI_Win_unlock_all.  flush: put and
 * MPI_Win_flush in one epoch of MPI_Win_lock_all.  pscw: post, start, put, complete, wait.  fence:
 * put, MPI_Win_fence. */
#include "test/bench/bench.h"
#include <stdio.h>
#include <stdlib.h>

struct ring {
    MPI_Win win;
    MPI_Group before, after; /* rank - 1, which puts to this rank, and rank + 1 */
    int rank, to;
    long long value;
};

static void put(struct ring *x, int to)
{
    MPI_Put(&x->value, 1, MPI_LONG_LONG, to, x->rank, 1, MPI_LONG_LONG, x->win);
}

static void lock(struct ring *x)
{
    MPI_Win_lock(MPI_LOCK_SHARED, x->to, 0, x->win);
    put(x, x->to);
    MPI_Win_unlock(x->to, x->win);
}

static void exclusive(struct ring *x)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, x->win);
    put(x, 0);
    MPI_Win_unlock(0, x->win);
}

static void lock_all(struct ring *x)
{
    MPI_Win_lock_all(0, x->win);
    put(x, x->to);
    MPI_Win_unlock_all(x->win);
}

static void flush(struct ring *x)
{
    put(x, x->to);
    MPI_Win_flush(x->to, x->win);
}

static void pscw(struct ring *x)
{
    MPI_Win_post(x->before, 0, x->win);
    MPI_Win_start(x->after, 0, x->win);
    put(x, x->to);
    MPI_Win_complete(x->win);
    MPI_Win_wait(x->win);
}

static void fence(struct ring *x)
{
    put(x, x->to);
    MPI_Win_fence(0, x->win);
}

static const struct kind {
    const char *name;
    void (*epoch)(struct ring *x);
} kinds[] = {
    { "lock", lock },   { "exclusive", exclusive }, { "lock_all", lock_all },
    { "flush", flush }, { "pscw", pscw },           { "fence", fence },
};

static void run(struct ring *x, const struct kind *k, int n)
{
    if (k->epoch == flush)
        MPI_Win_lock_all(0, x->win);
    if (k->epoch == fence)
        MPI_Win_fence(0, x->win);
    for (int i = 0; i < n; i++)
        k->epoch(x);
    if (k->epoch == flush)
        MPI_Win_unlock_all(x->win);
    if (k->epoch == fence)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, x->win);
}

static double slowest(struct ring *x, const struct kind *k, int n)
{
    double took, most;

    MPI_Barrier(MPI_COMM_WORLD);
    took = -bench_now();
    run(x, k, n);
    took += bench_now();
    MPI_Allreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* An epoch takes nanoseconds in one library and tens of milliseconds in another: the number of
 * epochs grows until they take long enough. */
static void measure(struct ring *x, const struct kind *k, double seconds)
{
    int n = 1;
    double took = slowest(x, k, n);

    while (took < seconds && n < 1 << 28) {
        n *= took > seconds / 4 ? 2 : 4;
        took = slowest(x, k, n);
    }
    if (!x->rank)
        printf("%s %.4f\n", k->name, took / n * 1e6);
}

static MPI_Group only(int rank)
{
    MPI_Group world, group;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &rank, &group);
    MPI_Group_free(&world);
    return group;
}

int main(int argc, char **argv)
{
    struct ring x = { .value = 1 };
    int ms = argc == 2 ? atoi(argv[1]) : 0, size;
    void *memory;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &x.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    x.to = (x.rank + 1) % size;
    x.before = only((x.rank + size - 1) % size);
    x.after = only(x.to);
    MPI_Win_allocate((MPI_Aint)sizeof(long long) * size, sizeof(long long), MPI_INFO_NULL,
                     MPI_COMM_WORLD, &memory, &x.win);
    if (ms <= 0 && !x.rank)
        fprintf(stderr, "usage: weft_bench_rma MS\n");
    for (size_t i = 0; ms > 0 && i < sizeof kinds / sizeof *kinds; i++)
        measure(&x, &kinds[i], ms * 1e-3);
    MPI_Win_free(&x.win);
    MPI_Group_free(&x.before);
    MPI_Group_free(&x.after);
    MPI_Finalize();
    return ms <= 0;
}
