/* SPDX-License-Identifier: BSD-3-Clause */
/* The run of a benchmark from MPI_Init to MPI_Finalize: sizes, repetitions, the extra passes that
 * validate data, and the exit status.  All ranks call it; rank 0 prints. */
#include "test/bench/bench.h"
#include "test/bench/device.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CHECK_PASSES =
        4,      /* further passes with other data under -c; the timed pass is checked as well */
    PROBES = 3, /* --seconds: calls by which the time of one is estimated */
    LAPS = 10   /* -f: parts into which the timed iterations are cut for min and max */
};

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int bench_count(const struct bench *b, size_t nbytes) { return (int)(nbytes / b->type_len); }

void bench_time(struct bench *b, bench_work_fn *work, void *arg, struct bench_times *out)
{
    int laps = b->opt.full && b->iters >= LAPS ? LAPS : 1;
    double all = 0;

    out->min = 1e30;
    out->max = 0;
    if (b->skip > 0)
        work(b, arg, b->skip);
    for (int lap = 0; lap < laps; lap++) {
        int n = b->iters / laps + (lap < b->iters % laps);
        double start = bench_now();
        work(b, arg, n);
        double took = bench_now() - start;
        all += took;
        if (took / n < out->min)
            out->min = took / n;
        if (took / n > out->max)
            out->max = took / n;
    }
    out->avg = all / b->iters;
}

static int complain(const struct bench *b, const char *what)
{
    if (b->rank == 0)
        fprintf(stderr, "%s: %s\n", b->spec->name, what);
    return 2;
}

static int check_world(struct bench *b)
{
    char msg[200];

    if ((b->spec->flags & BENCH_TWO) && b->nranks != 2) {
        snprintf(msg, sizeof msg, "needs exactly 2 ranks, got %d; start it with mpirun -n 2",
                 b->nranks);
        return complain(b, msg);
    }
    if ((b->spec->flags & BENCH_PAIRS) && b->nranks < 2)
        return complain(b, "needs at least 2 ranks; start it with mpirun -n 2");
    b->pairs = b->opt.pairs ? b->opt.pairs : b->nranks / 2;
    if (b->pairs > b->nranks / 2) {
        snprintf(msg, sizeof msg, "-p %d needs %d ranks, got %d", b->pairs, 2 * b->pairs,
                 b->nranks);
        return complain(b, msg);
    }
    b->peer = b->rank < b->pairs       ? b->rank + b->pairs
              : b->rank < 2 * b->pairs ? b->rank - b->pairs
                                       : -1;
    if (b->opt.limits && b->nranks != 2)
        return complain(b, "--limits measures two ranks; start it with mpirun -n 2");
    return 0;
}

static int set_type(struct bench *b)
{
    char msg[200];

    if (!b->opt.op)
        b->opt.op = bench_op_find("sum");
    b->elem = b->opt.type;
    if (!b->elem)
        b->elem = bench_type_find(!(b->spec->flags & BENCH_REDUCES) ? "mpi_char"
                                  : b->opt.op->uses & BENCH_PLACES  ? "mpi_float_int"
                                  : b->spec->flags & BENCH_ONE      ? "mpi_int64"
                                                                    : "mpi_int");
    b->type = bench_type_handle(b->elem);
    if (b->type == MPI_DATATYPE_NULL) {
        snprintf(msg, sizeof msg, "-T %s: this MPI library has no such type", b->elem->name);
        return complain(b, msg);
    }
    b->op = bench_op_handle(b->opt.op);
    b->type_len = b->elem->len;
    b->block = b->opt.ddt_block * b->type_len;
    b->stride = b->opt.ddt_stride * b->type_len;
    if (b->opt.min && b->opt.min < b->type_len)
        b->opt.min = b->type_len;
    return 0;
}

/* The first rank without a device prints why; all ranks end then. */
static int open_device(struct bench *b)
{
    bool wanted = b->opt.accel || b->opt.touch_gpu || b->opt.gpu_compute;
    int local = device_local_rank(), bad, first;
    MPI_Comm node;

    b->kind = b->opt.kind[b->rank >= b->pairs];
    if (!wanted)
        return 0;
    if (local < 0) {
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
        MPI_Comm_rank(node, &local);
        MPI_Comm_free(&node);
    }
    bad = device_open(local, b->opt.same_gpu) ? b->rank : b->nranks;
    MPI_Allreduce(&bad, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == b->rank)
        fprintf(stderr,
                "%s: rank %d: -d cuda: %s; leave -d cuda, D and M out, or run it on a "
                "machine with an NVIDIA driver and device\n",
                b->spec->name, b->rank, device_why());
    return first < b->nranks ? BENCH_NO_DEVICE : 0;
}

/* A rank's buffers stay within -M: the largest size shrinks, as users of the originals expect. */
static int alloc_buffers(struct bench *b)
{
    size_t blocks = b->opt.many_bufs ? (size_t)b->opt.window : 1;
    size_t sends = b->spec->flags & BENCH_SEND_ALL ? (size_t)b->nranks : blocks;
    size_t recvs = b->spec->flags & BENCH_RECV_ALL ? (size_t)b->nranks : blocks;
    size_t most = sends > recvs ? sends : recvs, span;

    if (b->spec->flags & BENCH_NOSIZE)
        b->opt.min = b->opt.max = 1;
    if (b->spec->flags & BENCH_ONE)
        b->opt.min = b->opt.max = b->type_len;
    if (bench_span(b, b->opt.max) > b->opt.mem_limit / most) {
        b->opt.max = b->opt.mem_limit / most;
        if (b->block)
            b->opt.max = b->opt.max / b->stride * b->block;
    }
    span = bench_span(b, b->opt.max);
    if (b->opt.max / b->type_len > INT_MAX)
        return complain(b,
                        "more than 2147483647 elements in a message; a lower -m maximum, please");
    if (b->opt.max < b->opt.min)
        return complain(
            b, "the -M memory limit leaves no message size; raise -M or lower the -m minimum");
    b->sbuf = bench_alloc(b, sends * span + (size_t)b->nranks * b->type_len);
    b->rbuf = bench_alloc(b, recvs * span + (size_t)b->nranks * b->type_len);
    b->rows = calloc(BENCH_ROWS, sizeof *b->rows);
    if (!b->sbuf || !b->rbuf || !b->rows) {
        fprintf(stderr, "%s: rank %d: no %smemory for buffers of %zu bytes%s%s; lower -m or -M\n",
                b->spec->name, b->rank,
                b->kind == 'H'   ? ""
                : b->kind == 'D' ? "device "
                                 : "managed ",
                (sends + recvs) * span, b->kind == 'H' ? "" : ": ",
                b->kind == 'H' ? "" : device_why());
        MPI_Abort(MPI_COMM_WORLD, b->kind == 'H' ? 2 : BENCH_NO_DEVICE);
    }
    return 0;
}

static void set_counts(struct bench *b, size_t nbytes)
{
    bool large = nbytes > BENCH_LARGE;

    b->iters = b->opt.iters > 0 ? b->opt.iters : large ? b->spec->iters_large : b->spec->iters;
    b->skip = b->opt.skip >= 0 ? b->opt.skip : large ? b->spec->skip_large : b->spec->skip;
}

/* Seconds of one call and its overhead, averaged over n calls. */
static double probe(struct bench *b, size_t nbytes, int n)
{
    double unused[BENCH_COLS], start = bench_now();

    b->iters = n;
    b->skip = 0;
    b->spec->measure(b, nbytes, unused);
    return (bench_now() - start) / n;
}

/* --seconds: limits the counts to what fits into that time, estimated from one call, or from a few
 * after it; rank 0 decides. */
static void cut_counts(struct bench *b, size_t nbytes, int *iters, int *skip)
{
    double first = probe(b, nbytes, 1), took = probe(b, nbytes, 1), all;
    int n[2];

    took = took < first ? took : first; /* the first may have to prepare much */
    MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (took * PROBES < b->opt.seconds)
        took = probe(b, nbytes, PROBES);
    set_counts(b, nbytes);
    n[0] = b->iters;
    n[1] = b->skip;
    all = took * (n[0] + n[1]) * b->opt.repeat;
    if (all > b->opt.seconds) {
        n[1] = (int)(n[1] * b->opt.seconds / all);
        n[0] = (int)(n[0] * b->opt.seconds / all);
        n[0] = n[0] > 0 ? n[0] : 1;
    }
    MPI_Bcast(n, 2, MPI_INT, 0, MPI_COMM_WORLD);
    *iters = n[0];
    *skip = n[1];
}

static int by_first(const void *x, const void *y)
{
    double a = ((const struct bench_row *)x)->v[0], c = ((const struct bench_row *)y)->v[0];
    return (a > c) - (a < c);
}

static long count_bad(struct bench *b)
{
    long all = 0;
    MPI_Allreduce(&b->bad, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* The further passes of -c with other data; how many ranks saw wrong data in any pass of the row.
 */
static long check_row(struct bench *b, size_t nbytes)
{
    for (int i = 0; i < CHECK_PASSES && b->opt.check; i++) {
        double unused[BENCH_COLS];
        b->iters = 1;
        b->skip = 0;
        b->seed = 1000u + (unsigned)i;
        b->spec->measure(b, nbytes, unused);
    }
    return b->opt.check ? count_bad(b) : 0;
}

/* Measures one size --repeat times; the row kept is the whole repetition whose first column is the
 * median. */
static long measure_row(struct bench *b, size_t nbytes, struct bench_row *out)
{
    struct bench_row *reps = calloc((size_t)b->opt.repeat, sizeof *reps);
    bool latency = bench_limit_is_time(b->spec->limit);
    double best = 0;
    int iters = 0, skip = 0;
    long bad;

    if (!reps)
        MPI_Abort(MPI_COMM_WORLD, 2);
    b->bad = 0;
    if (b->spec->flags & BENCH_DDT)
        pair_message(b, nbytes);
    if (b->opt.seconds > 0)
        cut_counts(b, nbytes, &iters, &skip);
    for (int i = 0; i < b->opt.repeat; i++) {
        set_counts(b, nbytes);
        if (iters) {
            b->iters = iters;
            b->skip = skip;
        }
        b->seed = (unsigned)i;
        b->spec->measure(b, nbytes, reps[i].v);
        double limit = b->opt.limits ? bench_limit(b, nbytes) : 0;
        if (i == 0 || (latency ? limit < best : limit > best))
            best = limit;
    }
    qsort(reps, (size_t)b->opt.repeat, sizeof *reps, by_first);
    *out = reps[b->opt.repeat / 2];
    out->nbytes = nbytes;
    out->limit = best;
    free(reps);
    bad = check_row(b, nbytes);
    if (b->spec->flags & BENCH_DDT)
        pair_message_free(b);
    return bad;
}

static void complain_data(const struct bench *b, size_t nbytes, long bad)
{
    if (b->spec->flags & BENCH_NOSIZE)
        fprintf(stderr, "%s: %ld times a rank left the barrier before the last had come\n",
                b->spec->name, bad);
    else
        fprintf(stderr, "%s: wrong data at message size %zu (%ld checks failed)\n", b->spec->name,
                nbytes, bad);
}

/* Larger steps than the usual ones still end with the largest size. */
size_t bench_next_size(const struct bench *b, size_t n)
{
    size_t next = n ? n * (size_t)b->opt.step : b->type_len;

    for (int i = 0; i < b->opt.nsizes; i++) {
        if (b->opt.sizes[i] > n)
            return b->opt.sizes[i];
    }
    if (b->opt.nsizes)
        return b->opt.max + 1;
    return b->opt.step > 2 && n < b->opt.max && next > b->opt.max ? b->opt.max : next;
}

static int run_sizes(struct bench *b)
{
    int failed = 0;

    for (size_t n = b->opt.min; n <= b->opt.max; n = bench_next_size(b, n)) {
        struct bench_row row;
        long bad = measure_row(b, n, &row);
        if (b->rank == 0) {
            bench_table_row(b, &row, bad == 0);
            b->rows[b->nrows++] = row;
        }
        if (bad) {
            failed = 1;
            if (b->rank == 0)
                complain_data(b, n, bad);
        }
    }
    return failed;
}

static int write_reports(const struct bench *b)
{
    int failed = 0;

    if (b->rank == 0 && b->opt.json)
        failed |= bench_json_write(b, b->opt.json);
    if (b->rank == 0 && b->opt.plot)
        failed |= bench_plot_write(b, b->opt.plot);
    return failed;
}

static int run(struct bench *b)
{
    int err = check_world(b);

    if (err)
        return err;
    err = set_type(b);
    if (!err)
        err = open_device(b);
    if (!err && b->spec->open)
        err = b->spec->open(b);
    if (!err)
        err = alloc_buffers(b);
    if (err)
        return err;
    if (b->opt.touch_gpu)
        pair_touch_gpu(b);
    if (b->opt.limits && bench_limits_open(b))
        return 2;
    if (b->rank == 0)
        bench_table_head(b);
    err = run_sizes(b);
    err |= write_reports(b);
    bench_limits_close(b);
    return err;
}

/* Some libraries want the device current before MPI_Init.  Possible only where the launcher gives
 * the local rank; what fails here is tried again, and reported, later. */
static void early_device(const struct bench_spec *spec, int argc, char **argv)
{
    struct bench_opts opt;
    int local = device_local_rank();

    if (local >= 0 && !bench_opts_parse(&opt, spec, argc, argv, false) &&
        (opt.accel || opt.touch_gpu || opt.gpu_compute))
        device_open(local, opt.same_gpu);
}

int bench_main(int argc, char **argv, const struct bench_spec *spec)
{
    struct bench b = { .spec = spec, .argc = argc, .argv = argv };
    int want = spec->flags & BENCH_THREADS ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, got = 0, err;

    early_device(spec, argc, argv);
    MPI_Init_thread(&argc, &argv, want, &got);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.nranks);
    err = bench_opts_parse(&b.opt, spec, argc, argv, b.rank == 0);
    if (!err && got < want)
        err = complain(&b, "needs MPI_THREAD_MULTIPLE, which this MPI library does not give");
    else if (!err)
        err = run(&b);
    else if (err == 1)
        err = 0;
    bench_free(&b, b.sbuf);
    bench_free(&b, b.rbuf);
    free(b.rows);
    if (spec->close)
        spec->close();
    /* A launcher may end the job at the first rank that fails; rank 0 has printed why by then. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return err;
}
