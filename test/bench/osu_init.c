/* SPDX-License-Identifier: BSD-3-Clause */
/* How long MPI_Init takes: the quickest rank, the slowest and the average, in whole milliseconds;
 * with --json FILE also with all digits. */
#include "test/bench/bench.h"
#include <stdio.h>
#include <string.h>

static int write_json(const char *path, int n, double min, double max, double avg)
{
    FILE *f = fopen(path, "w");
    int bad = !f;

    if (f) {
        fprintf(f,
                "{ \"benchmark\": \"osu_init\", \"version\": \"%s\", \"ranks\": %d,\n"
                "  \"rows\": [ { \"min_ms\": %.9g, \"max_ms\": %.9g, \"avg_ms\": %.9g } ] }\n",
                BENCH_VERSION, n, min, max, avg);
        bad = fclose(f);
    }
    if (bad)
        fprintf(stderr, "osu_init: --json %s: could not write\n", path);
    return bad != 0;
}

int main(int argc, char **argv)
{
    double start = bench_now(), took, min = 0, max = 0, sum = 0;
    int rank, n, err = 0;

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
        if (argc == 3 && !strcmp(argv[1], "--json"))
            err = write_json(argv[2], n, min, max, sum / n);
    }
    MPI_Finalize();
    return err;
}
