/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of intercommunicators share: one between the first `k` ranks and the others. */
#ifndef TEST_MPI_INTER_H
#define TEST_MPI_INTER_H

#include "test/mpi/mpitest.h"

struct halves {
    MPI_Comm local, inter;
    bool left;            /* this rank is one of the first k */
    int k;                /* size of the left group */
    int n, m;             /* processes of the local and of the remote group */
    int rank;             /* in the local group */
    int first, far_first; /* ranks in mt_comm of the two groups' rank 0 */
};

/* Leaders: the last rank of the left group and the first of the right one. */
static inline struct halves inter_halves(int k)
{
    struct halves h = { .left = mt_rank < k, .k = k };

    h.n = h.left ? k : mt_size - k;
    h.m = mt_size - h.n;
    h.first = h.left ? 0 : k;
    h.far_first = h.left ? k : 0;
    h.rank = mt_rank - h.first;
    OK(MPI_Comm_split(mt_comm, h.left, mt_rank, &h.local));
    OK(MPI_Intercomm_create(h.local, h.left ? k - 1 : 0, mt_comm, h.left ? k : k - 1, 12,
                            &h.inter));
    MPI_Comm_set_errhandler(h.inter, MPI_ERRORS_RETURN);
    return h;
}

static inline void inter_done(struct halves *h)
{
    OK(MPI_Comm_free(&h->inter));
    OK(MPI_Comm_free(&h->local));
}

#endif
