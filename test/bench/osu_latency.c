/* SPDX-License-Identifier: BSD-3-Clause */
/* Half the time of a ping-pong between two ranks, with MPI_Send and MPI_Recv. */
#include "test/bench/bench.h"

static void measure(struct bench *b, size_t nbytes, double *v)
{
    struct bench_times t;

    pair_fill(b, nbytes);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_time(b, pair_pingpong, &nbytes, &t);
    pair_check(b, nbytes, true);
    v[0] = t.avg * 1e6 / 2;
    v[1] = t.min * 1e6 / 2;
    v[2] = t.max * 1e6 / 2;
    v[3] = b->iters;
}

static const struct bench_spec spec = {
    .name = "osu_latency",
    .title = "Latency Test",
    .help = "half the time of a ping-pong between two ranks.",
    .flags = BENCH_TWO | BENCH_DDT,
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
