/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator for the processes of each host, and one of their first
 * processes; errors are returned. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, local, n, hosts = 0;
    MPI_Comm host, firsts;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank,
                        MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &local);
    MPI_Comm_split(MPI_COMM_WORLD, local == 0 ? 0 : MPI_UNDEFINED, rank,
                   &firsts);
    if (firsts != MPI_COMM_NULL) {
        MPI_Comm_size(firsts, &hosts);
        MPI_Comm_free(&firsts);
    }
    MPI_Bcast(&hosts, 1, MPI_INT, 0, host);

    MPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN);
    int err = MPI_Send(NULL, 0, MPI_INT, -77, 0, host);
    int errclass;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_class(err, &errclass);
    MPI_Error_string(err, text, &n);
    if (rank == 0)
        printf("%d hosts; as expected: %s\n", hosts, text);
    MPI_Comm_free(&host);
    MPI_Finalize();
    return hosts < 1 || errclass != MPI_ERR_RANK;
}
