/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbours exchange a number a hundred times, by persistent requests. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, size, wrong = 0, out, in;
    MPI_Request req[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;

    MPI_Recv_init(&in, 1, MPI_INT, last, 0, MPI_COMM_WORLD, &req[0]);
    MPI_Send_init(&out, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &req[1]);
    for (int step = 0; step < 100; step++) {
        out = rank + step;
        MPI_Startall(2, req);
        MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
        wrong += in != last + step;
    }
    MPI_Request_free(&req[0]);
    MPI_Request_free(&req[1]);
    MPI_Finalize();
    return wrong > 0;
}
