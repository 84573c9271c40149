/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest program: init, one barrier, a line from rank 0, finalize.  `time mpirun -n N
 * osu_hello` measures a launch. */
#include "test/bench/bench.h"
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, n;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("# OSU MPI Hello World Test v7.0-weft%s\nThis is a test with %d processes\n",
               BENCH_VERSION, n);
    MPI_Finalize();
    return 0;
}
