/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft, for ft_look.py: the last rank dies; the others revoke a communicator with a name and
 * wait, until a descriptor is closed. */
#include "test/mpi/ft_test.h"

int main(int argc, char **argv)
{
    MPI_Comm halo, unnamed;
    int v, alive[64];
    ft_init(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &unnamed));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &halo));
    OK(MPI_Comm_set_name(halo, "halo"));
    ft_lose_last(0);
    FAILS(MPI_Recv(&v, 1, MPI_INT, mt_size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          MPIX_ERR_PROC_FAILED);
    OK(MPIX_Comm_revoke(unnamed));
    OK(MPI_Comm_free(&unnamed)); /* is not shown any more */
    OK(MPIX_Comm_revoke(halo));
    if (mt_rank == 0) {
        printf("# has revoked\n");
        fflush(stdout);
        while (read(0, &v, 1) > 0)
            continue;
        for (int i = 1; i < mt_size - 1; i++)
            OK(MPI_Send(&v, 1, MPI_INT, i, 2, MPI_COMM_WORLD));
    } else {
        OK(MPI_Recv(&v, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    OK(MPI_Comm_free(&halo));
    for (int i = 0; i < mt_size - 1; i++)
        alive[i] = i;
    return ft_end("failed ranks and revoked communicators are shown", 0, alive, mt_size - 1);
}
