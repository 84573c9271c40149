/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided communication: a put to the next rank, and a counter at
 * rank 0. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, size, wrong = 0;
    long *mine, one = 1, ticket, count;
    MPI_Win win;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(2 * sizeof *mine, sizeof *mine, MPI_INFO_NULL,
                     MPI_COMM_WORLD, &mine, &win);
    mine[0] = mine[1] = 0;

    long value = rank + 100;
    MPI_Win_fence(0, win);
    MPI_Put(&value, 1, MPI_LONG, (rank + 1) % size, 0, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    wrong += mine[0] != (rank + size - 1) % size + 100;

    /* Each process draws a number; rank 0 makes no call for that. */
    MPI_Win_lock_all(0, win);
    MPI_Fetch_and_op(&one, &ticket, MPI_LONG, 0, 1, MPI_SUM, win);
    MPI_Win_flush(0, win);
    wrong += ticket < 0 || ticket >= size;
    MPI_Win_unlock_all(win);

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(&count, 1, MPI_LONG, 0, 1, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
    wrong += count != size;
    MPI_Win_free(&win);
    MPI_Finalize();
    return wrong > 0;
}
