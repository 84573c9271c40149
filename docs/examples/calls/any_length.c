/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0 receives messages whose senders and lengths are not known. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank > 0) {
        double data[100] = { rank };
        MPI_Send(data, rank % 100 + 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
    }
    for (int i = 1; rank == 0 && i < size; i++) {
        MPI_Message message;
        MPI_Status status;
        int count;
        MPI_Mprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &message, &status);
        MPI_Get_count(&status, MPI_DOUBLE, &count);
        double *data = malloc((size_t)count * sizeof *data);
        MPI_Mrecv(data, count, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
        wrong += count != status.MPI_SOURCE % 100 + 1;
        wrong += data[0] != status.MPI_SOURCE;
        free(data);
    }
    MPI_Finalize();
    return wrong > 0;
}
