/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: several nonblocking calls of one communicator in progress at once, of which a member
 * has died.  They take effect in the order of the calls, also those that are made of several
 * agreements, and each result is valid however late its request is completed. */
#include "test/mpi/ft_test.h"

#define NFLAGS 3

static MPI_Comm comm;
static int n; /* survivors; the last rank of `comm` has died */

static bool has_class(int rc, int want)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(rc, &class);
    return class == want;
}

static void lose_last(void)
{
    char c;
    ft_lose_last(0);
    n = mt_size - 1;
    CHECK(
        has_class(MPI_Recv(&c, 1, MPI_CHAR, n, 1, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED));
}

static void check_small(MPI_Comm small, int step)
{
    int size = -1, rank = -1, sum = 0;
    OK(MPI_Comm_size(small, &size));
    OK(MPI_Comm_rank(small, &rank));
    CHECK_EQ(size, n);
    CHECK_EQ(rank, mt_rank);
    OK(MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, small));
    CHECK_EQ(sum, n * step);
    if (n > 1) {
        OK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % n, 2, &sum, 1, MPI_INT, (rank + n - 1) % n,
                        2, small, MPI_STATUS_IGNORE));
        CHECK_EQ(sum, (rank + n - 1) % n);
    }
}

/* Agreements, a shrinking, agreements; completed from the last to the first. */
static void mixed(int step, bool acked)
{
    MPI_Request r[2 * NFLAGS + 1];
    MPI_Comm small = MPI_COMM_NULL;
    int flags[2 * NFLAGS], wanted = acked ? MPI_SUCCESS : MPIX_ERR_PROC_FAILED;
    for (int i = 0; i < 2 * NFLAGS; i++) {
        if (i == NFLAGS)
            OK(MPIX_Comm_ishrink(comm, &small, &r[2 * NFLAGS]));
        flags[i] = ~(1 << (mt_rank + i)) & 0xffff;
        OK(MPIX_Comm_iagree(comm, &flags[i], &r[i]));
        if ((step + mt_rank) % 3 == 0) /* so that processes begin later ones at different times */
            for (int k = 0, done; k < 50; k++)
                MPI_Test(&r[i], &done, MPI_STATUS_IGNORE);
    }
    OK(MPI_Wait(&r[2 * NFLAGS], MPI_STATUS_IGNORE));
    check_small(small, step);
    for (int i = 2 * NFLAGS - 1; i >= 0; i--) {
        if (r[i] != MPI_REQUEST_NULL) { /* else a test has completed it */
            int rc = MPI_Wait(&r[i], MPI_STATUS_IGNORE);
            CHECK_MSG(has_class(rc, wanted), "agreement %d: rc %d", i, rc);
        }
        int all = 0xffff;
        for (int k = 0; k < n; k++)
            all &= ~(1 << (k + i));
        CHECK_MSG(flags[i] == all, "agreement %d: flag %x, expected %x", i, (unsigned)flags[i],
                  (unsigned)all);
    }
    OK(MPI_Comm_free(&small));
}

/* A collective that fails at once makes progress, too: without that, the revocation would not
 * arrive in a process that repeats the call. */
static void until_revoked(void)
{
    int rc;
    do {
        rc = MPI_Barrier(comm);
        if (mt_rank == 0)
            OK(MPIX_Comm_revoke(comm));
    } while (has_class(rc, MPIX_ERR_PROC_FAILED));
    CHECK(has_class(rc, MPIX_ERR_REVOKED));
}

int main(int argc, char **argv)
{
    int rc, acked, alive[64];
    ft_init(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    lose_last();
    for (int step = 0; step < 6; step++)
        mixed(step, false);
    until_revoked(); /* neither procedure minds */
    for (int step = 0; step < 6; step++)
        mixed(step, false);
    OK(MPIX_Comm_ack_failed(comm, 1, &acked));
    CHECK_EQ(acked, 1);
    mixed(1, true);
    rc = MPIX_Comm_ishrink(comm, NULL, NULL);
    CHECK(has_class(rc, MPI_ERR_ARG));
    OK(MPI_Comm_free(&comm));
    for (int i = 0; i < n; i++)
        alive[i] = i;
    return ft_end("nonblocking calls in order", 0, alive, n);
}
