/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking collectives: each call is timed alone, with a barrier between calls, at every rank;
 * printed are the average over the ranks, and with -f the quickest and the slowest rank. */
#include "test/bench/coll.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LATE_US = 2000 }; /* how late rank 0 comes to a barrier that is checked */

static bool one_host(void)
{
    MPI_Comm node;
    int here = 0, all = 0;

    MPI_Comm_size(MPI_COMM_WORLD, &all);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &here);
    MPI_Comm_free(&node);
    MPI_Allreduce(MPI_IN_PLACE, &here, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return here == all;
}

/* No rank may leave a barrier before the last has entered.  Only on one host, where all ranks read
 * the same clock.  Under --fault the barrier is left out. */
void coll_barrier_check(struct bench *b, const struct coll_kind *kind)
{
    MPI_Request req;
    double came, left, last = 0;

    if (!b->opt.check || !one_host())
        return;
    if (b->rank == 0)
        usleep(LATE_US);
    came = bench_now();
    if (!b->opt.fault && b->spec->flags & BENCH_OVERLAP) {
        kind->start(b, 0, &req);
        MPI_Wait(&req, MPI_STATUS_IGNORE);
    } else if (!b->opt.fault) {
        kind->call(b, 0);
    }
    left = bench_now();
    MPI_Allreduce(&came, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    b->bad += left < last;
}

void coll_check(struct bench *b, const struct coll_kind *kind, size_t nbytes)
{
    if (!kind->check)
        coll_barrier_check(b, kind);
    else if (!b->opt.in_place || b->iters + b->skip == 1) /* else the input was overwritten */
        kind->check(b, nbytes);
}

void coll_spread(double mine, int nranks, double *v)
{
    double sum = 0;

    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &v[1], 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &v[2], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    v[0] = sum / nranks;
}

void coll_measure(struct bench *b, size_t nbytes, double *v)
{
    const struct coll_kind *kind = b->spec->arg;
    int count = bench_count(b, nbytes);
    double all = 0;

    if (kind->fill)
        kind->fill(b, nbytes);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = -b->skip; i < b->iters; i++) {
        double start = bench_now();
        kind->call(b, count);
        if (i >= 0)
            all += bench_now() - start;
        if (kind->fill) /* a barrier after a barrier would measure nothing else */
            MPI_Barrier(MPI_COMM_WORLD);
    }
    coll_check(b, kind, nbytes);
    coll_spread(all / b->iters * 1e6, b->nranks, v);
    v[3] = b->iters;
}

const struct bench_spec coll_spec = {
    .iters = 1000,
    .iters_large = 100,
    .skip = 100,
    .skip_large = 10,
    .max = 1u << 20,
    .cols = { { "Avg Latency(us)", "latency_us", 18, 2, false },
              { "Min Latency(us)", "latency_min_us", 18, 2, true },
              { "Max Latency(us)", "latency_max_us", 18, 2, true },
              { "Iterations", "iterations", 12, 0, true } },
    .measure = coll_measure,
};

int coll_main(int argc, char **argv, const char *name)
{
    const struct coll_kind *kind = coll_find(name);
    bool exchange = (kind->flags & (BENCH_SEND_ALL | BENCH_RECV_ALL | BENCH_REDUCES)) ==
                    (BENCH_SEND_ALL | BENCH_RECV_ALL);
    char program[40], title[80], help[120];
    struct bench_spec spec = coll_spec;

    snprintf(program, sizeof program, "osu_%s", name);
    snprintf(title, sizeof title, "%s%s Latency Test", kind->title,
             exchange ? " Personalized Exchange" : "");
    snprintf(help, sizeof help, "time of MPI %s, averaged over the ranks.", kind->title);
    spec.name = program;
    spec.title = title;
    spec.help = help;
    spec.flags = kind->flags;
    spec.arg = kind;
    return bench_main(argc, argv, &spec);
}
