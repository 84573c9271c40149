/* SPDX-License-Identifier: BSD-3-Clause */
/* All ranks write one file, each its own block, and read the block of
 * the next rank. */
#include <mpi.h>

enum { N = 1000 };

int main(int argc, char **argv)
{
    static int block[N];
    int rank, size, count, wrong = 0;
    const char *name = argc > 1 ? argv[1] : "blocks.dat";
    MPI_File fh;
    MPI_Status status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int err = MPI_File_open(MPI_COMM_WORLD, name,
                            MPI_MODE_CREATE | MPI_MODE_RDWR |
                                MPI_MODE_DELETE_ON_CLOSE,
                            MPI_INFO_NULL, &fh);
    if (err) /* files return errors by default */
        MPI_Abort(MPI_COMM_WORLD, 1);

    /* Offsets count integers from here on. */
    MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (int i = 0; i < N; i++)
        block[i] = rank * N + i;
    MPI_File_write_at_all(fh, (MPI_Offset)rank * N, block, N, MPI_INT,
                          MPI_STATUS_IGNORE);
    MPI_File_sync(fh);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_sync(fh);

    int next = (rank + 1) % size;
    MPI_File_read_at_all(fh, (MPI_Offset)next * N, block, N, MPI_INT,
                         &status);
    MPI_Get_count(&status, MPI_INT, &count);
    wrong += count != N || block[0] != next * N;
    MPI_File_close(&fh);
    MPI_Finalize();
    return wrong > 0;
}
