/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rank sends its number to the next one, in three ways. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, got = -1, wrong = 0;
    MPI_Request req[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;

    /* Blocking calls: rank 0 receives last, so that no rank hangs. */
    if (rank > 0)
        MPI_Recv(&got, 1, MPI_INT, last, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (size > 1)
        MPI_Send(&rank, 1, MPI_INT, next, 7, MPI_COMM_WORLD);
    if (rank == 0 && size > 1)
        MPI_Recv(&got, 1, MPI_INT, last, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    wrong += size > 1 && got != last;

    /* Nonblocking calls: the order does not matter. */
    MPI_Irecv(&got, 1, MPI_INT, last, 8, MPI_COMM_WORLD, &req[0]);
    MPI_Isend(&rank, 1, MPI_INT, next, 8, MPI_COMM_WORLD, &req[1]);
    MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
    wrong += got != last;

    /* Both in one call. */
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 9, &got, 1, MPI_INT, last, 9,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wrong += got != last;

    printf("rank %d got %d\n", rank, got);
    MPI_Finalize();
    return wrong > 0;
}
