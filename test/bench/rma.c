/* SPDX-License-Identifier: BSD-3-Clause */
/* The one-sided benchmarks: rank 0 is the origin, rank 1 the target; in osu_put_bibw, and in the
 * latency of epochs that both ranks take part in, each is both.  A latency is the time of an
 * operation with its synchronisation, half a round trip where the ranks take turns (fence, pscw,
 * notify).
 * -c checks one more epoch, whose data rank 0 makes, so that --fault is seen in all of them. */
#include "test/bench/rma.h"
#include "test/bench/bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Other libraries do not have them and do not declare them. */
int MPIX_Put_notify(const void *origin, int count, MPI_Datatype type, int target, MPI_Aint disp,
                    int target_count, MPI_Datatype target_type, int notification, MPI_Win win);
int MPIX_Notify_wait(int notification, MPI_Count count, MPI_Win win);
#pragma weak MPIX_Put_notify
#pragma weak MPIX_Notify_wait

enum { TAG_DATA = 110, TAG_BASE = 111 };

enum rma_what { DO_PUT, DO_GET, DO_ACC, DO_GET_ACC, DO_FOP, DO_CAS };

struct rma_kind {
    enum rma_what what;
    bool bandwidth, both;
    struct bench_spec spec;
};

struct rma {
    struct bench *b;
    const struct rma_kind *kind;
    MPI_Win win;
    MPI_Group peer;
    MPI_Aint disp; /* where the data begin at the other rank */
    char *memory;  /* of this rank's window */
    char *result;  /* old values, and what they have to be */
    char *before;
    size_t nbytes; /* of an operation */
    int count, window;
};

static bool fetches(const struct rma *x) { return x->kind->what >= DO_GET_ACC; }

/* ---- windows ---- */

static void attach(struct rma *x, size_t len)
{
    MPI_Aint mine, other;

    MPI_Win_attach(x->win, x->b->rbuf, (MPI_Aint)len);
    MPI_Get_address(x->b->rbuf, &mine);
    MPI_Sendrecv(&mine, 1, MPI_AINT, x->b->peer, TAG_BASE, &other, 1, MPI_AINT, x->b->peer,
                 TAG_BASE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    x->disp = other;
}

static void open_window(struct rma *x)
{
    struct bench *b = x->b;
    size_t len = x->nbytes * (b->opt.many_bufs ? (size_t)x->window : 1);

    x->memory = b->rbuf;
    if (b->opt.win == BENCH_WIN_ALLOCATE)
        MPI_Win_allocate((MPI_Aint)len, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &x->memory, &x->win);
    else if (b->opt.win == BENCH_WIN_CREATE)
        MPI_Win_create(b->rbuf, (MPI_Aint)len, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &x->win);
    else
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &x->win);
    if (b->opt.win == BENCH_WIN_DYNAMIC)
        attach(x, len);
    if (b->opt.win == BENCH_WIN_ALLOCATE && len)
        memset(x->memory, 'a', len);
}

static void close_window(struct rma *x)
{
    if (x->b->opt.win == BENCH_WIN_DYNAMIC)
        MPI_Win_detach(x->win, x->b->rbuf);
    MPI_Win_free(&x->win);
}

/* ---- operations and epochs ---- */

static void operation(struct rma *x, int i)
{
    struct bench *b = x->b;
    size_t at = b->opt.many_bufs ? (size_t)i * x->nbytes : 0;
    MPI_Aint disp = x->disp + (MPI_Aint)at;
    int n = x->count;

    switch (x->kind->what) {
    case DO_PUT:
        MPI_Put(b->sbuf + at, n, b->type, b->peer, disp, n, b->type, x->win);
        break;
    case DO_GET:
        MPI_Get(b->sbuf + at, n, b->type, b->peer, disp, n, b->type, x->win);
        break;
    case DO_ACC:
        MPI_Accumulate(b->sbuf, n, b->type, b->peer, disp, n, b->type, b->op, x->win);
        break;
    case DO_GET_ACC:
        MPI_Get_accumulate(b->sbuf, n, b->type, x->result, n, b->type, b->peer, disp, n, b->type,
                           b->op, x->win);
        break;
    case DO_FOP:
        MPI_Fetch_and_op(b->sbuf, x->result, b->type, b->peer, disp, b->op, x->win);
        break;
    case DO_CAS:
        MPI_Compare_and_swap(b->sbuf, x->before, x->result, b->type, b->peer, disp, x->win);
        break;
    }
}

static void operations(struct rma *x)
{
    for (int i = 0; i < x->window; i++)
        operation(x, i);
}

/* An epoch of the origin; with flushes, a part of one. */
static void passive(struct rma *x)
{
    int peer = x->b->peer;
    enum bench_sync sync = x->b->opt.sync;

    if (sync == BENCH_SYNC_LOCK)
        MPI_Win_lock(MPI_LOCK_SHARED, peer, 0, x->win);
    else if (sync == BENCH_SYNC_LOCK_ALL)
        MPI_Win_lock_all(0, x->win);
    operations(x);
    if (sync == BENCH_SYNC_LOCK)
        MPI_Win_unlock(peer, x->win);
    else if (sync == BENCH_SYNC_LOCK_ALL)
        MPI_Win_unlock_all(x->win);
    else if (sync == BENCH_SYNC_FLUSH)
        MPI_Win_flush(peer, x->win);
    else
        MPI_Win_flush_local(peer, x->win);
}

static void run_passive(struct rma *x, int n)
{
    enum bench_sync sync = x->b->opt.sync;
    bool flushes = sync == BENCH_SYNC_FLUSH || sync == BENCH_SYNC_FLUSH_LOCAL;

    if (x->b->rank)
        return;
    if (flushes)
        MPI_Win_lock(MPI_LOCK_SHARED, x->b->peer, 0, x->win);
    for (int i = 0; i < n; i++)
        passive(x);
    if (flushes)
        MPI_Win_unlock(x->b->peer, x->win);
}

static void run_fence(struct rma *x, int n)
{
    int turns = x->kind->bandwidth ? 1 : 2;

    MPI_Win_fence(0, x->win);
    for (int i = 0; i < n * turns; i++) {
        if (x->kind->both || x->b->rank == i % turns)
            operations(x);
        MPI_Win_fence(0, x->win);
    }
}

static void origin_epoch(struct rma *x)
{
    MPI_Win_start(x->peer, 0, x->win);
    operations(x);
    MPI_Win_complete(x->win);
}

static void target_epoch(struct rma *x)
{
    MPI_Win_post(x->peer, 0, x->win);
    MPI_Win_wait(x->win);
}

static void run_pscw(struct rma *x, int n)
{
    bool turns = !x->kind->bandwidth;

    for (int i = 0; i < n; i++) {
        if (x->kind->both)
            MPI_Win_post(x->peer, 0, x->win);
        if (!x->kind->both && x->b->rank)
            target_epoch(x);
        if (x->kind->both || turns || !x->b->rank)
            origin_epoch(x);
        if (x->kind->both)
            MPI_Win_wait(x->win);
        else if (turns && !x->b->rank)
            target_epoch(x);
    }
}

static void put_notify(struct rma *x)
{
    struct bench *b = x->b;

    MPIX_Put_notify(b->sbuf, x->count, b->type, b->peer, x->disp, x->count, b->type, 0, x->win);
}

static void run_notify(struct rma *x, int n)
{
    if (!MPIX_Put_notify || !MPIX_Notify_wait) {
        fprintf(stderr, "-s notify: this MPI library has no MPIX_Put_notify\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Win_lock(MPI_LOCK_SHARED, x->b->peer, 0, x->win);
    for (int i = 0; i < n; i++) {
        if (!x->b->rank)
            put_notify(x);
        MPIX_Notify_wait(0, 1, x->win);
        if (x->b->rank)
            put_notify(x);
    }
    MPI_Win_unlock(x->b->peer, x->win);
}

static void work(struct bench *b, void *arg, int n)
{
    if (b->opt.sync == BENCH_SYNC_FENCE)
        run_fence(arg, n);
    else if (b->opt.sync == BENCH_SYNC_PSCW)
        run_pscw(arg, n);
    else if (b->opt.sync == BENCH_SYNC_NOTIFY)
        run_notify(arg, n);
    else
        run_passive(arg, n);
}

/* ---- validation ---- */

/* Numbers of both ranks for what reduces, a pattern for what moves. */
static void fill(struct rma *x)
{
    struct bench *b = x->b;
    int n = (int)x->nbytes;

    if (x->kind->what >= DO_ACC) {
        bench_fill_numbers(b, b->rank ? x->memory : b->sbuf, x->nbytes);
    } else if (x->kind->what == DO_PUT) {
        bench_fill(b, b->sbuf, x->nbytes, 0, 1);
        bench_poison(b, x->memory, x->nbytes);
    } else if (b->rank) {
        MPI_Recv(x->memory, n, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        bench_fill(b, b->sbuf, x->nbytes, 0, 1);
        MPI_Send(b->sbuf, n, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
        bench_poison(b, b->sbuf, x->nbytes);
    }
}

static void check(struct rma *x)
{
    struct bench *b = x->b;
    int n = (int)(x->nbytes / b->type_len);

    if (fetches(x) && !b->rank)
        bench_check_same(b, x->result, x->before, x->nbytes);
    if (x->kind->what == DO_GET && !b->rank)
        bench_check(b, b->sbuf, x->nbytes, 0, 1);
    else if (x->kind->what == DO_PUT && (b->rank || x->kind->both))
        bench_check(b, x->memory, x->nbytes, 0, 1);
    else if (x->kind->what >= DO_ACC && b->rank)
        bench_check_part(b, x->memory, (size_t)n, 0, x->kind->what == DO_CAS ? 1 : 2);
}

/* One more epoch.  The own memory is looked at under a lock, as the separate memory model asks. */
static void validate(struct rma *x)
{
    struct bench *b = x->b;

    if (!b->opt.check)
        return;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, b->rank, 0, x->win);
    fill(x);
    MPI_Win_unlock(b->rank, x->win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (fetches(x) && !b->rank) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, x->win);
        MPI_Get(x->before, x->count, b->type, 1, x->disp, x->count, b->type, x->win);
        MPI_Win_unlock(1, x->win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    work(b, x, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, b->rank, 0, x->win);
    check(x);
    MPI_Win_unlock(b->rank, x->win);
}

/* ---- measurement ---- */

static void values(const struct rma *x, const struct bench_times *t, double *v)
{
    enum bench_sync sync = x->b->opt.sync;
    double mb = (double)x->nbytes * x->window * (x->kind->both ? 2 : 1) / 1e6;
    double us = sync >= BENCH_SYNC_PSCW ? 1e6 / 2 : 1e6;

    v[0] = x->kind->bandwidth ? mb / t->avg : t->avg * us;
    v[1] = x->kind->bandwidth ? mb / t->max : t->min * us;
    v[2] = x->kind->bandwidth ? mb / t->min : t->max * us;
    v[3] = x->b->iters;
}

static void measure(struct bench *b, size_t nbytes, double *v)
{
    struct rma x = { .b = b, .kind = b->spec->arg, .nbytes = nbytes };
    struct bench_times t;
    MPI_Group world;

    x.count = (int)(x.nbytes / b->type_len);
    x.window = x.kind->bandwidth ? b->opt.window : 1;
    if (fetches(&x)) {
        x.result = bench_alloc(b, x.nbytes);
        x.before = bench_alloc(b, x.nbytes);
        if (!x.result || !x.before)
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &b->peer, &x.peer);
    open_window(&x);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_time(b, work, &x, &t);
    MPI_Barrier(MPI_COMM_WORLD);
    values(&x, &t, v);
    validate(&x);
    close_window(&x);
    MPI_Group_free(&x.peer);
    MPI_Group_free(&world);
    bench_free(b, x.result);
    bench_free(b, x.before);
}

/* ---- the programs ---- */

#define COLS_US \
    .cols = { { "Latency (us)", "latency_us", 18, 2, false }, \
              { "Min Latency(us)", "latency_min_us", 18, 2, true }, \
              { "Max Latency(us)", "latency_max_us", 18, 2, true }, \
              { "Iterations", "iterations", 12, 0, true } }
#define COLS_MB \
    .cols = { { "Bandwidth (MB/s)", "bandwidth_mb_s", 18, 2, false }, \
              { "Min (MB/s)", "bandwidth_min_mb_s", 18, 2, true }, \
              { "Max (MB/s)", "bandwidth_max_mb_s", 18, 2, true }, \
              { "Iterations", "iterations", 12, 0, true } }
#define SPEC(Name, Title, Help, Flags, Limit) \
    .name = "osu_" Name, .title = Title, .help = Help, .limit = (Limit), .measure = measure, \
    .flags = BENCH_TWO | BENCH_RMA | (Flags), .max = 4u << 20
#define LATENCY .iters = 10000, .iters_large = 1000, .skip = 100, .skip_large = 10, COLS_US
#define BANDWIDTH .iters = 100, .iters_large = 20, .skip = 10, .skip_large = 2, COLS_MB

static const struct rma_kind kinds[] = {
    { DO_PUT,
      false,
      false,
      { SPEC("put_latency", "MPI_Put Latency Test", "time of MPI_Put and its synchronisation.",
             BENCH_NOTIFIES, LIMIT_COPY),
        LATENCY } },
    { DO_GET,
      false,
      false,
      { SPEC("get_latency", "MPI_Get latency Test", "time of MPI_Get and its synchronisation.", 0,
             LIMIT_COPY),
        LATENCY } },
    { DO_PUT,
      true,
      false,
      { SPEC("put_bw", "MPI_Put Bandwidth Test", "bandwidth of windows of MPI_Put to rank 1.",
             BENCH_WINDOW, LIMIT_ONE_CORE),
        BANDWIDTH } },
    { DO_GET,
      true,
      false,
      { SPEC("get_bw", "MPI_Get Bandwidth Test", "bandwidth of windows of MPI_Get from rank 1.",
             BENCH_WINDOW, LIMIT_ONE_CORE),
        BANDWIDTH } },
    { DO_PUT,
      true,
      true,
      { SPEC("put_bibw", "MPI_Put Bi-directional Bandwidth Test",
             "bandwidth of windows of MPI_Put by both ranks together.", BENCH_WINDOW | BENCH_ACTIVE,
             LIMIT_BOTH_WAYS),
        BANDWIDTH } },
    { DO_ACC,
      false,
      false,
      { SPEC("acc_latency", "MPI_Accumulate latency Test",
             "time of MPI_Accumulate and its synchronisation.", BENCH_REDUCES, LIMIT_ADD),
        LATENCY } },
    { DO_GET_ACC,
      false,
      false,
      { SPEC("get_acc_latency", "MPI_Get_accumulate latency Test",
             "time of MPI_Get_accumulate and its synchronisation.", BENCH_REDUCES, LIMIT_ADD),
        LATENCY } },
    { DO_FOP,
      false,
      false,
      { SPEC("fop_latency", "MPI_Fetch_and_op latency Test",
             "time of MPI_Fetch_and_op and its synchronisation.", BENCH_REDUCES | BENCH_ONE,
             LIMIT_ADD),
        LATENCY } },
    { DO_CAS,
      false,
      false,
      { SPEC("cas_latency", "MPI_Compare_and_swap latency Test",
             "time of MPI_Compare_and_swap and its synchronisation.", BENCH_REDUCES | BENCH_ONE,
             LIMIT_ADD),
        LATENCY } },
};

int rma_main(int argc, char **argv, const char *name)
{
    size_t i = 0;

    while (strcmp(kinds[i].spec.name, name))
        i++;
    struct bench_spec spec = kinds[i].spec;
    spec.arg = &kinds[i];
    return bench_main(argc, argv, &spec);
}
