/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring of processes in each row of a grid, and one number from each
 * neighbour. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int size, rank, dims[2] = { 0, 0 }, periods[2] = { 1, 1 }, at[2];
    int left, right, got, sum, wrong = 0;
    MPI_Comm grid, row;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, at);

    MPI_Cart_shift(grid, 1, 1, &left, &right);
    MPI_Sendrecv(&at[1], 1, MPI_INT, right, 0, &got, 1, MPI_INT, left, 0,
                 grid, MPI_STATUS_IGNORE);
    wrong += got != (at[1] + dims[1] - 1) % dims[1];

    int near[4];
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, near, 1, MPI_INT, grid);
    wrong += near[2] != left || near[3] != right;

    /* The communicator of this row. */
    MPI_Cart_sub(grid, (int[]){ 0, 1 }, &row);
    MPI_Allreduce(&at[1], &sum, 1, MPI_INT, MPI_SUM, row);
    wrong += sum != dims[1] * (dims[1] - 1) / 2;

    MPI_Comm_free(&row);
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return wrong > 0;
}
