/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective calls: parameters for all ranks, sums, a table at rank 0. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, n = 0, wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    if (rank == 0)
        n = 1000; /* for example from a file */
    MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);

    long long part = 0, sum = 0, before = 0;
    for (int i = rank; i < n; i += size)
        part += i;
    MPI_Allreduce(&part, &sum, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    wrong += sum != (long long)n * (n - 1) / 2;

    MPI_Exscan(&part, &before, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        before = 0; /* the result of rank 0 is undefined */

    long long *all = rank == 0 ? malloc((size_t)size * sizeof *all) : NULL;
    MPI_Gather(&before, 1, MPI_LONG_LONG, all, 1, MPI_LONG_LONG, 0,
               MPI_COMM_WORLD);
    for (int i = 1; rank == 0 && i < size; i++)
        wrong += all[i] < all[i - 1];
    free(all);

    /* The sum replaces the input; other work may be done meanwhile. */
    MPI_Request req;
    MPI_Iallreduce(MPI_IN_PLACE, &part, 1, MPI_LONG_LONG, MPI_SUM,
                   MPI_COMM_WORLD, &req);
    MPI_Wait(&req, MPI_STATUS_IGNORE);
    wrong += part != sum;
    MPI_Finalize();
    return wrong > 0;
}
