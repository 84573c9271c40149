/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows as the path by RDMA finds them: it reaches some, and not others, and the data are right
 * in all.  `rma_far [0] [1]`: the ranks that may lock little memory, so that long windows and long
 * buffers cannot be registered. */
#include <sys/mman.h>
#include "test/mpi/locked.h"
#include "test/mpi/mpitest.h"

#define LIMIT (8u << 20) /* the transport's own buffers take 1 to 2 MiB */
#define LONG (3 << 20)   /* ints */

static int next(int by) { return (mt_rank + by) % mt_size; }

static void fill(int *p, int n, int seed)
{
    for (int i = 0; i < n; i++)
        p[i] = seed + i;
}

static bool holds(const int *p, int n, int seed)
{
    for (int i = 0; i < n; i++)
        if (p[i] != seed + i)
            return false;
    return true;
}

/* Puts of all lengths, and a get of the whole. */
static void long_windows(void)
{
    MPI_Win win;
    int *base = malloc(LONG * sizeof *base), *buf = malloc(LONG * sizeof *buf);
    fill(base, LONG, -1);
    OK(MPI_Win_create(base, LONG * sizeof *base, sizeof *base, MPI_INFO_NULL, mt_comm, &win));
    fill(buf, LONG, mt_rank);
    for (int round = 0; round < 3; round++) { /* by messages first, while the key is not known */
        OK(MPI_Win_fence(0, win));
        for (int at = 0, n = 1; at < LONG; at += n, n = 3 * n < LONG - at ? 3 * n : LONG - at)
            OK(MPI_Put(buf + at, n, MPI_INT, next(1), at, n, MPI_INT, win));
        OK(MPI_Win_fence(0, win));
        CHECK(holds(base, LONG, next(mt_size - 1)));
    }
    OK(MPI_Win_lock(MPI_LOCK_SHARED, next(2), 0, win));
    OK(MPI_Get(buf, LONG, MPI_INT, next(2), 0, LONG, MPI_INT, win));
    OK(MPI_Win_unlock(next(2), win));
    CHECK(holds(buf, LONG, next(1)));
    OK(MPI_Win_free(&win));
    free(base);
    free(buf);
}

/* Memory that may only be read can be the target of gets. */
static void read_only(void)
{
    enum { N = 1024 };
    MPI_Win win;
    int got[N];
    int *base = mmap(NULL, N * sizeof *base, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
    fill(base, N, mt_rank);
    CHECK(mprotect(base, N * sizeof *base, PROT_READ) == 0);
    OK(MPI_Win_create(base, N * sizeof *base, sizeof *base, MPI_INFO_NULL, mt_comm, &win));
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 5; i++) {
        memset(got, 0, sizeof got);
        OK(MPI_Get(got, N, MPI_INT, next(1), 0, N, MPI_INT, win));
        OK(MPI_Win_flush(next(1), win));
        CHECK(holds(got, N, next(1)));
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    munmap(base, N * sizeof *base);
}

/* Sizes and units that differ by rank: the last rank has no memory. */
static void unequal(void)
{
    MPI_Win win;
    int unit = 4 << mt_rank % 2, to = next(1), n = 100 + to, value = 5;
    bool none = to == mt_size - 1;
    int *base = calloc(100 + (size_t)mt_rank, 8);
    MPI_Aint nbytes = mt_rank == mt_size - 1 ? 0 : (100 + mt_rank) * unit;
    OK(MPI_Win_create(base, nbytes, unit, MPI_INFO_NULL, mt_comm, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < n && !none; i++) {
        OK(MPI_Put(&i, 1, MPI_INT, to, i, 1, MPI_INT, win));
        OK(MPI_Win_flush(to, win));
    }
    for (int disp = none ? 0 : n; disp < n + 2; disp++) { /* found in the call, or later */
        int err = MPI_Put(&value, 1, MPI_INT, to, disp, 1, MPI_INT, win);
        FAILS(err ? err : MPI_Win_flush(to, win), MPI_ERR_RMA_RANGE);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(mt_comm));
    for (int i = 0; mt_rank != mt_size - 1 && i < 100 + mt_rank; i++)
        CHECK_EQ(base[i * unit / 4], i);
    OK(MPI_Win_free(&win));
    free(base);
}

/* More operations than a transport takes at once; gets and puts at both ends of the window. */
static void many(void)
{
    enum { N = 3000 };
    static int out[N], in[N];
    MPI_Win win;
    MPI_Request last;
    int *base;
    OK(MPI_Win_allocate(2 * N * sizeof *base, sizeof *base, MPI_INFO_NULL, mt_comm, &base, &win));
    fill(base, 2 * N, mt_rank);
    fill(out, N, 7 * mt_rank);
    OK(MPI_Barrier(mt_comm));
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < N; i++) {
        OK(MPI_Put(&out[i], 1, MPI_INT, next(1), N + i, 1, MPI_INT, win));
        if (i == N - 1)
            OK(MPI_Rget(&in[i], 1, MPI_INT, next(1), i, 1, MPI_INT, win, &last));
        else
            OK(MPI_Get(&in[i], 1, MPI_INT, next(1), i, 1, MPI_INT, win));
    }
    OK(MPI_Wait(&last, MPI_STATUS_IGNORE));
    OK(MPI_Win_flush_all(win));
    CHECK(holds(in, N, next(1)));
    OK(MPI_Barrier(mt_comm));
    CHECK(holds(base + N, N, 7 * next(mt_size - 1)));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

/* An accumulate goes by a message; a flush orders it and a put in both directions. */
static void with_accumulates(void)
{
    MPI_Win win;
    int *base, one = 1, value, got;
    OK(MPI_Win_allocate(sizeof *base, sizeof *base, MPI_INFO_NULL, mt_comm, &base, &win));
    *base = 0;
    OK(MPI_Barrier(mt_comm));
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 50; i++) {
        value = 10 * i;
        OK(MPI_Put(&value, 1, MPI_INT, next(1), 0, 1, MPI_INT, win));
        OK(MPI_Win_flush(next(1), win));
        OK(MPI_Accumulate(&one, 1, MPI_INT, next(1), 0, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_flush(next(1), win));
        OK(MPI_Get(&got, 1, MPI_INT, next(1), 0, 1, MPI_INT, win));
        OK(MPI_Win_flush(next(1), win));
        CHECK_EQ(got, 10 * i + 1);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    limit_locked_of(argc, argv, LIMIT);
    mt_init(argc, argv);
    MT_RUN(long_windows);
    MT_RUN(read_only);
    MT_RUN(unequal);
    MT_RUN(many);
    MT_RUN(with_accumulates);
    return mt_end();
}
