/* SPDX-License-Identifier: BSD-3-Clause */
/* Ping-pongs of several pairs at once; the average, and with -f the quickest and the slowest pair.
 */
#include "test/bench/bench.h"

static void measure(struct bench *b, size_t nbytes, double *v)
{
    struct bench_times t;
    double mine, low, sum = 0, min = 0, max = 0;

    pair_fill(b, nbytes);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_time(b, pair_pingpong, &nbytes, &t);
    pair_check(b, nbytes, true);
    mine = b->rank < b->pairs ? t.avg * 1e6 / 2 : 0;
    low = b->rank < b->pairs ? mine : 1e30;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&low, &min, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &max, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    v[0] = sum / b->pairs;
    v[1] = min;
    v[2] = max;
    v[3] = b->iters;
}

static const struct bench_spec spec = {
    .name = "osu_multi_lat",
    .title = "Multi Latency Test",
    .help = "average latency of all pairs of ranks at once.",
    .flags = BENCH_PAIRS | BENCH_DDT,
    .limit = LIMIT_LATENCY,
    .iters = 10000,
    .iters_large = 1000,
    .skip = 100,
    .skip_large = 10,
    .max = 4u << 20,
    .cols = { { "Avg Latency(us)", "latency_us", 18, 2, false },
              { "Min Latency(us)", "latency_min_us", 18, 2, true },
              { "Max Latency(us)", "latency_max_us", 18, 2, true },
              { "Iterations", "iterations", 12, 0, true } },
    .measure = measure,
};

int main(int argc, char **argv) { return bench_main(argc, argv, &spec); }
