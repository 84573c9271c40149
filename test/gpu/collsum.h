/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of ints in device memory whose results every rank knows; for programs that test other things
 * than the data. */
#ifndef TEST_GPU_COLLSUM_H
#define TEST_GPU_COLLSUM_H

#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { MOST = 2 << 20 };
static int dev, host[MOST];

static inline int given(int rank, int i, int key) { return i * 3 + rank * 7 + key; }

static inline void give(void *p, int n, int key)
{
    for (int i = 0; i < n; i++)
        host[i] = given(mt_rank, i, key);
    gt_write(p, host, (size_t)n * sizeof(int));
}

static inline void is_sum(const void *p, int n, int key)
{
    int at = 0, base = 7 * mt_size * (mt_size - 1) / 2;

    gt_read(host, p, (size_t)n * sizeof(int));
    while (at < n && host[at] == mt_size * (at * 3 + key) + base)
        at++;
    CHECK_MSG(at == n, "rank %d: element %d of %d of a sum is %d", mt_rank, at, n, host[at % MOST]);
}

/* Checks n ints of every rank, one after the other. */
static inline void is_all(const void *p, int n, int key)
{
    int bad = -1;

    gt_read(host, p, (size_t)n * (size_t)mt_size * sizeof(int));
    for (int r = 0; r < mt_size; r++)
        for (int i = 0; i < n && bad < 0; i++)
            if (host[r * n + i] != given(r, i, key))
                bad = r * n + i;
    CHECK_MSG(bad < 0, "rank %d: element %d of %d gathered is %d", mt_rank, bad, n * mt_size,
              host[bad < 0 ? 0 : bad]);
}

static inline void sum(void *s, void *r, int n, int key)
{
    give(s, n, key);
    if (r != s)
        gt_set(r, GT_POISON, (size_t)n * sizeof(int));
    OK(MPI_Allreduce(r == s ? MPI_IN_PLACE : s, r, n, MPI_INT, MPI_SUM, mt_comm));
    is_sum(r, n, key);
}

static inline void still_works(int key)
{
    unsigned char *p = gt_alloc(GT_CUDA, dev, 40000, 4);

    sum(p, p, 1, key);
    sum(p, p, 9000, key);
    gt_free(p);
}

#endif
