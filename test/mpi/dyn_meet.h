/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of an intercommunicator between groups that have just met. */
#ifndef TEST_MPI_DYN_MEET_H
#define TEST_MPI_DYN_MEET_H

#include "test/mpi/mpitest.h"

/* Each pair of the two groups exchanges a message of n ints. */
static inline void exchange_all(MPI_Comm c, int n)
{
    int rank, far, *out = malloc((size_t)n * sizeof *out), *in = malloc((size_t)n * sizeof *in);
    OK(MPI_Comm_rank(c, &rank));
    OK(MPI_Comm_remote_size(c, &far));
    for (int i = 0; i < far; i++) {
        MPI_Request q;
        MPI_Status s;
        for (int k = 0; k < n; k++)
            out[k] = rank * 1000 + i + k;
        OK(MPI_Isend(out, n, MPI_INT, i, 7, c, &q));
        OK(MPI_Recv(in, n, MPI_INT, i, 7, c, &s));
        CHECK_EQ(s.MPI_SOURCE, i);
        for (int k = 0; k < n; k++)
            if (in[k] != i * 1000 + rank + k) {
                CHECK_EQ(in[k], i * 1000 + rank + k);
                break;
            }
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    }
    free(in);
    free(out);
}

static inline void sums(MPI_Comm c, MPI_Comm merged, bool first)
{
    int rank, size, far, mrank, msize, v, sum = -1;
    OK(MPI_Comm_rank(c, &rank));
    OK(MPI_Comm_size(c, &size));
    OK(MPI_Comm_remote_size(c, &far));
    v = rank + 1;
    OK(MPI_Allreduce(&v, &sum, 1, MPI_INT, MPI_SUM, c));
    CHECK_EQ(sum, far * (far + 1) / 2);
    OK(MPI_Comm_rank(merged, &mrank));
    OK(MPI_Comm_size(merged, &msize));
    CHECK_EQ(msize, size + far);
    CHECK_EQ(mrank, first ? rank : rank + far);
    OK(MPI_Allreduce(&mrank, &sum, 1, MPI_INT, MPI_SUM, merged));
    CHECK_EQ(sum, msize * (msize - 1) / 2);
}

static inline void large_bcast(MPI_Comm merged)
{
    enum { N = 300000 };
    int rank, size, *b = malloc(N * sizeof *b);
    OK(MPI_Comm_rank(merged, &rank));
    OK(MPI_Comm_size(merged, &size));
    for (int i = 0; i < N; i++)
        b[i] = rank == size - 1 ? i ^ 0x5a5a : 0;
    OK(MPI_Bcast(b, N, MPI_INT, size - 1, merged));
    for (int i = 0; i < N; i++)
        if (b[i] != (i ^ 0x5a5a)) {
            CHECK_EQ(b[i], i ^ 0x5a5a);
            break;
        }
    free(b);
}

/* Makes all checks on a new intercommunicator, and disconnects it. */
static inline void use(MPI_Comm c, bool first)
{
    MPI_Comm merged, again;
    int inter = 0;
    OK(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN));
    OK(MPI_Comm_test_inter(c, &inter));
    CHECK(inter);
    exchange_all(c, 1);
    exchange_all(c, 100000);
    OK(MPI_Intercomm_merge(c, !first, &merged));
    sums(c, merged, first);
    large_bcast(merged);
    OK(MPI_Comm_dup(merged, &again));
    OK(MPI_Barrier(again));
    OK(MPI_Comm_free(&again));
    OK(MPI_Comm_free(&merged));
    OK(MPI_Comm_disconnect(&c));
    CHECK(c == MPI_COMM_NULL);
}

#endif
