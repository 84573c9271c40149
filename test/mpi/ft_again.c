/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: the last rank dies; rank 1 gives up a communicator, so that a message of rank 0 is
 * never received, and all free the communicator without revoking it.  Communicators that are made
 * later do not receive that message: neither one that has arrived before the communicator was
 * freed, nor one that comes after that. */
#include "test/mpi/ft_test.h"

#define TAG 1

static void check_values(MPI_Comm c, int expected)
{
    int got = -1;
    MPI_Request r = MPI_REQUEST_NULL;
    if (mt_rank == 0)
        OK(MPI_Isend(&expected, 1, MPI_INT, 1, TAG, c, &r));
    if (mt_rank == 1) {
        OK(MPI_Recv(&got, 1, MPI_INT, 0, TAG, c, MPI_STATUS_IGNORE));
        CHECK_MSG(got == expected, "received %d, expected %d", got, expected);
    }
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

static void leave_message(MPI_Comm c, bool early)
{
    int stale = 666;
    MPI_Request r = MPI_REQUEST_NULL;
    if (mt_rank == 1 && early) /* after the message: messages of one sender are in order */
        OK(MPI_Recv(NULL, 0, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (mt_rank == 0) {
        if (!early)
            OK(MPI_Recv(NULL, 0, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Isend(&stale, 1, MPI_INT, 1, TAG, c, &r));
        if (early)
            OK(MPI_Send(NULL, 0, MPI_INT, 1, TAG, MPI_COMM_WORLD));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
    FAILS(MPI_Recv(&stale, 1, MPI_INT, mt_size - 1, TAG, c, MPI_STATUS_IGNORE),
          MPIX_ERR_PROC_FAILED);
    OK(MPI_Comm_free(&c));
    if (mt_rank == 1 && !early)
        OK(MPI_Send(NULL, 0, MPI_INT, 0, TAG, MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    MPI_Comm doomed[2], fresh[6];
    int alive[64];
    ft_init(argc, argv);
    for (int i = 0; i < 2; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, doomed + i));
        MPI_Comm_set_errhandler(doomed[i], MPI_ERRORS_RETURN);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < mt_size - 1; i++)
        alive[i] = i;
    ft_lose_last(0);
    for (int i = 0; i < 2; i++)
        leave_message(doomed[i], i == 0);
    OK(MPIX_Comm_shrink(MPI_COMM_WORLD, fresh));
    for (int i = 1; i < 6; i++)
        OK(MPI_Comm_dup(fresh[0], fresh + i));
    for (int i = 0; i < 6; i++) {
        check_values(fresh[i], 100 + i);
        OK(MPI_Comm_free(fresh + i));
    }
    return ft_end("contexts with messages left are not used again", 0, alive, mt_size - 1);
}
