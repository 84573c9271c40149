/* SPDX-License-Identifier: BSD-3-Clause */
/* Time of spawning and of connecting processes.  `spawn N K`: N times, MPI_Comm_spawn of K children
 * and MPI_Comm_disconnect; the median of the spawns.  `connect N`: N times, rank 0 accepts and rank
 * 1 connects; the median of rank 1.  Prints `key value` lines for test/bench/compare. */
#include "test/bench/bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ms(double *took, int n)
{
    qsort(took, (size_t)n, sizeof *took, compare);
    return took[n / 2] * 1e3;
}

static void spawn(char *program, double *took, int n, int children)
{
    MPI_Comm inter;
    for (int i = 0; i < n; i++) {
        double start = bench_now();
        MPI_Comm_spawn(program, MPI_ARGV_NULL, children, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter,
                       MPI_ERRCODES_IGNORE);
        took[i] = bench_now() - start;
        MPI_Comm_disconnect(&inter);
    }
    printf("spawn_ms %.3f\n", median_ms(took, n));
}

static void meet(int rank, double *took, int n)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;

    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; i < n && rank < 2; i++) {
        double start = bench_now();
        if (rank == 0)
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        else
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        took[i] = bench_now() - start;
        MPI_Comm_disconnect(&inter);
    }
    if (rank == 0)
        MPI_Close_port(port);
    else if (rank == 1)
        printf("connect_ms %.3f\n", median_ms(took, n));
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    int rank, n = argc > 2 ? atoi(argv[2]) : 0, children = argc > 3 ? atoi(argv[3]) : 1;
    double *took = calloc((size_t)n + 1, sizeof *took);

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (parent != MPI_COMM_NULL)
        MPI_Comm_disconnect(&parent);
    else if (took && n > 0 && !strcmp(argv[1], "spawn"))
        spawn(argv[0], took, n, children);
    else if (took && n > 0 && !strcmp(argv[1], "connect"))
        meet(rank, took, n);
    else
        fprintf(stderr, "usage: weft_bench_meet spawn N CHILDREN | connect N\n");
    MPI_Finalize();
    free(took);
    return 0;
}
