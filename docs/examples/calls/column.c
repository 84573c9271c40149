/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rank sends a column of its matrix to the next one. */
#include <mpi.h>

enum { ROWS = 20, COLUMNS = 30 };

int main(int argc, char **argv)
{
    static double a[ROWS][COLUMNS], got[ROWS];
    int rank, size, wrong = 0;
    MPI_Datatype column;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            a[i][j] = rank * 1000 + i * COLUMNS + j;

    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Sendrecv(&a[0][3], 1, column, next, 0, got, ROWS, MPI_DOUBLE, last,
                 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Type_free(&column);

    for (int i = 0; i < ROWS; i++)
        wrong += got[i] != last * 1000 + i * COLUMNS + 3;
    MPI_Finalize();
    return wrong > 0;
}
