/* SPDX-License-Identifier: BSD-3-Clause */
/* Nonblocking collectives: first the communication alone, then the same with as much computation
 * between start and wait. Overlap is the share of the communication that the computation hid.  */
#include "test/bench/coll.h"
#include "test/bench/compute.h"
#include <stdio.h>
#include <stdlib.h>

enum { V_OVERALL, V_COMPUTE, V_INIT, V_TEST, V_WAIT, V_PURE, V_MIN, V_MAX, V_OVERLAP, PARTS };

static double pure_us(struct bench *b, const struct coll_kind *kind, int count)
{
    MPI_Request req;
    double all = 0;

    for (int i = -b->skip; i < b->iters; i++) {
        double start = bench_now();
        kind->start(b, count, &req);
        MPI_Wait(&req, MPI_STATUS_IGNORE);
        if (i >= 0)
            all += bench_now() - start;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return all / b->iters * 1e6;
}

/* The computation, cut into pieces with calls of MPI_Test between them; adds to the two times. */
static void compute_and_test(struct bench *b, long steps, MPI_Request *req, double *computed,
                             double *tested)
{
    int pieces = b->opt.tests + 1, done;

    for (int i = 0; i < pieces; i++) {
        double start = bench_now();
        compute(steps / pieces);
        double mid = bench_now();
        *computed += mid - start;
        if (i + 1 < pieces) {
            MPI_Test(req, &done, MPI_STATUS_IGNORE);
            *tested += bench_now() - mid;
        }
    }
}

static void overlapped(struct bench *b, const struct coll_kind *kind, int count, long steps,
                       double *part)
{
    MPI_Request req;

    for (int i = -b->skip; i < b->iters; i++) {
        double computed = 0, tested = 0, start = bench_now(), started, waiting, end;
        kind->start(b, count, &req);
        started = bench_now();
        compute_and_test(b, steps, &req, &computed, &tested);
        waiting = bench_now();
        MPI_Wait(&req, MPI_STATUS_IGNORE);
        end = bench_now();
        if (i >= 0) {
            part[V_OVERALL] += end - start;
            part[V_COMPUTE] += computed;
            part[V_INIT] += started - start;
            part[V_TEST] += tested;
            part[V_WAIT] += end - waiting;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void summarise(struct bench *b, double *part, double pure, double *v)
{
    double sum[PARTS] = { 0 }, low = 0, high = 0, hidden;

    for (int i = 0; i < V_PURE; i++)
        part[i] *= 1e6 / b->iters;
    part[V_PURE] = pure;
    MPI_Reduce(part, sum, V_PURE + 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&pure, &low, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&pure, &high, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int i = 0; i <= V_PURE; i++)
        v[i] = sum[i] / b->nranks;
    v[V_MIN] = low;
    v[V_MAX] = high;
    hidden = v[V_PURE] > 0 ? 100 - (v[V_OVERALL] - v[V_COMPUTE]) / v[V_PURE] * 100 : 0;
    v[V_OVERLAP] = hidden > 0 ? hidden : 0;
}

static void measure(struct bench *b, size_t nbytes, double *v)
{
    const struct coll_kind *kind = b->spec->arg;
    int count = bench_count(b, nbytes);
    double part[PARTS] = { 0 }, pure;

    if (kind->fill)
        kind->fill(b, nbytes);
    MPI_Barrier(MPI_COMM_WORLD);
    pure = pure_us(b, kind, count);
    if (b->opt.in_place && kind->fill)
        kind->fill(b, nbytes); /* the input was overwritten */
    overlapped(b, kind, count, compute_steps(pure), part);
    coll_check(b, kind, nbytes);
    summarise(b, part, pure, v);
}

int icoll_main(int argc, char **argv, const char *name)
{
    const struct coll_kind *kind = coll_find(name);
    char program[40], title[80], help[140];
    struct bench_spec spec = {
        .name = program,
        .title = title,
        .help = help,
        .note = "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n",
        .flags = kind->flags | BENCH_OVERLAP | BENCH_COMPUTES,
        .iters = 1000,
        .iters_large = 100,
        .skip = 100,
        .skip_large = 10,
        .max = 1u << 20,
        .cols = { [V_OVERALL] = { "Overall(us)", "overall_us", 18, 2, false },
                  [V_COMPUTE] = { "Compute(us)", "compute_us", 18, 2, false },
                  [V_INIT] = { "Coll. Init(us)", "init_us", 18, 2, true },
                  [V_TEST] = { "MPI_Test(us)", "test_us", 18, 2, true },
                  [V_WAIT] = { "MPI_Wait(us)", "wait_us", 18, 2, true },
                  [V_PURE] = { "Pure Comm.(us)", "pure_us", 18, 2, false },
                  [V_MIN] = { "Min Comm.(us)", "pure_min_us", 18, 2, true },
                  [V_MAX] = { "Max Comm.(us)", "pure_max_us", 18, 2, true },
                  [V_OVERLAP] = { "Overlap(%)", "overlap_percent", 18, 2, false } },
        .open = compute_open,
        .measure = measure,
        .arg = kind,
    };

    snprintf(program, sizeof program, "osu_i%s", name);
    snprintf(title, sizeof title, "Non-blocking %s Latency Test", kind->title);
    snprintf(help, sizeof help,
             "time of nonblocking MPI %s, alone and beside a computation, and their overlap.",
             kind->title);
    return bench_main(argc, argv, &spec);
}
