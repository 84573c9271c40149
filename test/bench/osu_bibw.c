/* SPDX-License-Identifier: BSD-3-Clause */
/* Bandwidth of both directions together: both ranks send a window and receive one at the same time.
 */
#include "test/bench/bench.h"

static void measure(struct bench *b, size_t nbytes, double *v)
{
    struct bench_times t;
    double mb = 2.0 * (double)nbytes * b->opt.window / 1e6;

    pair_fill(b, nbytes);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_time(b, pair_window_both, &nbytes, &t);
    pair_check(b, nbytes, true);
    v[0] = mb / t.avg;
    v[1] = mb / t.max;
    v[2] = mb / t.min;
    v[3] = b->iters;
}

static const struct bench_spec spec = {
    .name = "osu_bibw",
    .title = "Bi-Directional Bandwidth Test",
    .help = "bandwidth of both directions together, with windows of nonblocking sends.",
    .flags = BENCH_TWO | BENCH_WINDOW | BENCH_DDT,
    .limit = LIMIT_BOTH_WAYS,
    .iters = 100,
    .iters_large = 20,
    .skip = 10,
    .skip_large = 2,
    .max = 4u << 20,
    .cols = { { "Bandwidth (MB/s)", "bandwidth_mb_s", 18, 2, false },
              { "Min (MB/s)", "bandwidth_min_mb_s", 18, 2, true },
              { "Max (MB/s)", "bandwidth_max_mb_s", 18, 2, true },
              { "Iterations", "iterations", 12, 0, true } },
    .measure = measure,
};

int main(int argc, char **argv) { return bench_main(argc, argv, &spec); }
