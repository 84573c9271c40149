/* SPDX-License-Identifier: BSD-3-Clause */
/* Bandwidth from rank 0 to rank 1: windows of MPI_Isend, each answered when the whole window has
 * arrived. */
#include "test/bench/bench.h"

static void measure(struct bench *b, size_t nbytes, double *v)
{
    struct bench_times t;
    double mb = (double)nbytes * b->opt.window / 1e6;

    pair_fill(b, nbytes);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_time(b, pair_window, &nbytes, &t);
    pair_check(b, nbytes, false);
    v[0] = mb / t.avg;
    v[1] = mb / t.max;
    v[2] = mb / t.min;
    v[3] = b->iters;
}

static const struct bench_spec spec = {
    .name = "osu_bw",
    .title = "Bandwidth Test",
    .help = "bandwidth from rank 0 to rank 1, with windows of nonblocking sends.",
    .flags = BENCH_TWO | BENCH_WINDOW | BENCH_DDT,
    .limit = LIMIT_ONE_WAY,
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
