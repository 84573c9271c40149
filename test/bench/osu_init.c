/* SPDX-License-Identifier: BSD-3-Clause */
/* How long MPI_Init takes: the quickest rank, the slowest and the average, in whole milliseconds.
 */
#include "test/bench/bench.h"
#include <stdio.h>

int main(int argc, char **argv)
{
    double start = bench_now(), took, min = 0, max = 0, sum = 0;
    int rank, n;

    MPI_Init(&argc, &argv);
    took = (bench_now() - start) * 1e3;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Reduce(&took, &min, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&took, &max, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&took, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("# OSU MPI Init Test v7.0-weft%s\n", BENCH_VERSION);
        printf("nprocs: %d, min: %.0f ms, max: %.0f ms, avg: %.0f ms\n", n, min, max, sum / n);
    }
    MPI_Finalize();
    return 0;
}
