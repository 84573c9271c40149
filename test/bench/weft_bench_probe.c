/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank costs while it does nothing.  `memory`: resident and proportional memory of each rank
 * after init and a barrier, averaged.  `idle SECONDS`: the processor time of all ranks but rank 1,
 * added up, while rank 0 waits in MPI_Recv for rank 1, which sleeps, and the others in MPI_Barrier.
 * `compute`: the time that rank 0 computes while the others wait in MPI_Barrier, in percent of its
 * time while they are asleep outside MPI.  Prints `key value` lines for test/bench/compare. */
#define _GNU_SOURCE 1
#include "test/bench/bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static long proc_kb(const char *file, const char *key)
{
    char line[256];
    long kb = -1;
    FILE *f = fopen(file, "r");

    while (f && kb < 0 && fgets(line, sizeof line, f)) {
        if (!strncmp(line, key, strlen(key)))
            kb = strtol(line + strlen(key), NULL, 10);
    }
    if (f)
        fclose(f);
    return kb;
}

static int memory(int rank, int n)
{
    long mine[2], sum[2] = { 0, 0 }, worst[2] = { 0, 0 };

    MPI_Barrier(MPI_COMM_WORLD);
    mine[0] = proc_kb("/proc/self/status", "VmRSS:");
    mine[1] = proc_kb("/proc/self/smaps_rollup", "Pss:");
    MPI_Reduce(mine, sum, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(mine, worst, 2, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("rss_kb %ld\npss_kb %ld\nrss_kb_max %ld\npss_kb_max %ld\n", sum[0] / n, sum[1] / n,
               worst[0], worst[1]);
    return 0;
}

static double cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static int idle(int rank, int n, double seconds)
{
    char word = 1;

    if (n < 2) {
        fprintf(stderr,
                "weft_bench_probe: idle needs at least 2 ranks; start it with mpirun -n 2\n");
        return 2;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double start = bench_now(), cpu = cpu_seconds(), sum = 0;
    if (rank == 1) {
        usleep((useconds_t)(seconds * 1e6));
        MPI_Send(&word, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    } else if (rank == 0) {
        MPI_Recv(&word, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    cpu = rank == 1 ? 0 : (cpu_seconds() - cpu) / (bench_now() - start) * 100;
    MPI_Reduce(&cpu, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("idle_cpu_percent %.3f\n", sum);
    return 0;
}

static double work(long units)
{
    double start = bench_now();

    for (volatile long i = 0; i < units; i++)
        ;
    return bench_now() - start;
}

/* Seconds of the work of rank 0; the others wait in MPI or sleep outside until it has ended. */
static double compute_beside(int rank, long units, int asleep)
{
    double took = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        usleep(20000); /* until the others wait */
        took = work(units);
    } else if (asleep) {
        usleep(1000000);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return took;
}

static int compute(int rank)
{
    double alone = 0, beside = 0;
    long units = 1000000;

    if (rank == 0)
        units = (long)((double)units * 0.4 / work(units));
    for (int round = 0; round < 3; round++) {
        alone += compute_beside(rank, units, 1);
        beside += compute_beside(rank, units, 0);
    }
    if (rank == 0)
        printf("compute_percent %.2f\n", beside / alone * 100);
    return 0;
}

int main(int argc, char **argv)
{
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 2;
    int rank, n, err = 2;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (argc == 2 && !strcmp(argv[1], "memory"))
        err = memory(rank, n);
    else if (argc >= 2 && argc <= 3 && !strcmp(argv[1], "idle") && seconds > 0 && seconds <= 60)
        err = idle(rank, n, seconds);
    else if (argc == 2 && !strcmp(argv[1], "compute"))
        err = compute(rank);
    else if (rank == 0)
        fprintf(stderr, "usage: weft_bench_probe memory | compute | idle [SECONDS, at most 60]\n");
    MPI_Barrier(MPI_COMM_WORLD); /* rank 0 prints the error before a rank exits with it */
    MPI_Finalize();
    return err;
}
