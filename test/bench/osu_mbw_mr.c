/* SPDX-License-Identifier: BSD-3-Clause */
/* Bandwidth and message rate of several pairs at once: rank i sends windows to rank i + pairs. */
#include "test/bench/bench.h"

static void measure(struct bench *b, size_t nbytes, double *v)
{
    struct bench_times t;
    double sum = 0, mine, mb = (double)nbytes * b->opt.window / 1e6;

    pair_fill(b, nbytes);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_time(b, pair_window, &nbytes, &t);
    mine = b->rank < b->pairs ? t.avg : 0;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    pair_check(b, nbytes, false);
    if (b->rank == 0) {
        double avg = sum / b->pairs; /* seconds for a window, averaged over the senders */
        v[0] = mb * b->pairs / avg;
        v[1] = b->opt.window * (double)b->pairs / avg;
        v[2] = b->iters;
    }
}

static const struct bench_spec spec = {
    .name = "osu_mbw_mr",
    .title = "Multiple Bandwidth / Message Rate Test",
    .help = "bandwidth and message rate of all pairs of ranks together.",
    .flags = BENCH_PAIRS | BENCH_WINDOW | BENCH_RATE | BENCH_DDT,
    .limit = LIMIT_ONE_WAY,
    .iters = 100,
    .iters_large = 20,
    .skip = 10,
    .skip_large = 2,
    .max = 4u << 20,
    .cols = { { "MB/s", "bandwidth_mb_s", 18, 2, false },
              { "Messages/s", "messages_s", 18, 2, false },
              { "Iterations", "iterations", 12, 0, true } },
    .measure = measure,
};

int main(int argc, char **argv) { return bench_main(argc, argv, &spec); }
