/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of a collective operation.  The ranks agree on a plan: each accesses the file itself,
 * or the two-phase exchange.  In each round of the exchange every aggregator has a window of the
 * file (plan.c).  A rank's data in a window are consecutive positions of its view, so a rank sends
 * an aggregator one message: where the pieces are in the file, and to write, the data.  To read,
 * the aggregator answers with the data.  While a job writes a window, the next round is exchanged
 * into the other of two buffers.
 *
 *   write   begin planned | fill announced agreed swapped [write_window] | all_written ended
 *   read    begin planned | fill announced agreed swapped [read_window] answer deliver | ended
 *
 * An error of any rank ends the access of all: the ranks agree before each round's messages, and at
 * the end.  An aggregator whose access failed still answers in that round, so no rank hangs.
 * Mpirun ends the job of a rank that dies. */
#include "mpi/io/twophase.h"
#include "mpi/base/comm.h"
#include "mpi/coll/call.h"
#include "mpi/io/calls.h"
#include "mpi/io/hints.h"
#include "mpi/io/indep.h"
#include "mpi/io/onehost.h"
#include "mpi/io/window.h"
#include <stdlib.h>
#include <string.h>

/* Consecutive data of this rank, relative to the first byte of the access. */
struct part {
    int64_t pos, len;
};
/* Announces a message to an aggregator. */
struct notice {
    int64_t nbytes, data; /* of the message; of the user's data in it, or wanted */
};

/* What this rank receives in a round; as an aggregator, for its window [from, to). */
struct turn {
    struct wm_room room;
    int64_t *n, *displ;    /* of messages, by rank */
    struct notice *theirs; /* by rank */
    int64_t from, to;
};

struct wm_exchange {
    struct wm_room numbers; /* NUMBERS for each rank: all the arrays */
    struct wm_room send, image, marks;
    struct turn turn[2]; /* writing: of even and odd rounds; reading: the first */
    int64_t *n, *displ;  /* of the messages that this rank sends, by rank */
    struct notice *mine; /* by rank */
    struct part *part;   /* of this round, by aggregator */
    int me;              /* the number of this aggregator, or -1 */
    int64_t round;
    const struct turn *stored; /* for the job that writes */
    int64_t end;               /* of a read: positions before the end of the file */
};
#define SENT 6 /* numbers for each rank: n, displ, mine, part */
#define NUMBERS (SENT + 2 * 4)

void wm_exchange_free(struct wm_exchange *x)
{
    if (!x)
        return;
    free(x->numbers.p);
    free(x->send.p);
    free(x->image.p);
    free(x->marks.p);
    free(x->turn[0].room.p);
    free(x->turn[1].room.p);
    free(x);
}

static int64_t aligned(int64_t n) { return (n + 7) & ~INT64_C(7); }

static int size_of(const struct wm_cop *c) { return c->file->comm->size; }

static struct turn *turn_of(const struct wm_cop *c)
{
    struct wm_exchange *x = c->file->exchange;
    return &x->turn[c->write ? x->round % 2 : 0];
}

/* Ends with the error of any rank, or having moved all that there is. */
static void ended(struct wm_cop *c)
{
    bool failed = wm_cop_agreed(c, (int)c->v[0]);
    if (c->op)
        c->op->moved = failed ? 0 : c->file->exchange->end;
    wm_cop_end(c);
}

static void agree_and_end(struct wm_cop *c) { wm_cop_agree(c, ended); }

/* ---- messages to aggregators ---- */

/* The message to aggregator number i, for its window [from, to). */
static void fill_one(struct wm_cop *c, int i, int64_t from, int64_t to, int64_t *used)
{
    struct wm_iop *op = c->op;
    struct wm_exchange *x = c->file->exchange;
    struct part *part = &x->part[i];
    part->len = wm_iop_part(op, from, to, &part->pos);
    int64_t start = *used = aligned(*used);
    int rc = wm_pieces_put(op->view, op->pos + part->pos, part->len, &x->send, used);
    if (rc >= 0 && op->write)
        rc = wm_room_grow(&x->send, *used + part->len);
    wm_cop_fail(c, WM_COP_MEMORY, rc);
    if (rc >= 0 && op->write) {
        wm_cop_fail(c, WM_COP_COPY, wm_iop_pack(op, part->pos, x->send.p + *used, part->len));
        *used += part->len;
    }
    int peer = c->plan.agg[i];
    x->displ[peer] = start;
    x->n[peer] = *used - start;
    x->mine[peer] = (struct notice){ x->n[peer], part->len };
}

static void announced(struct wm_cop *c);

static void announce(struct wm_cop *c)
{
    const struct rt_layout *l = &wm_type_get(MPI_INT64_T)->layout;
    const struct coll_args a = { .kind = COLL_ALLTOALL,
                                 .sbuf = c->file->exchange->mine,
                                 .scount = 2,
                                 .stype = l,
                                 .rbuf = turn_of(c)->theirs,
                                 .rcount = 2,
                                 .rtype = l,
                                 .mem = RT_MEM_HOST };
    c->next = announced;
    wm_cop_call(c, &a);
}

/* Fills the messages to the aggregators. */
static void fill(struct wm_cop *c)
{
    struct wm_exchange *x = c->file->exchange;
    struct turn *t = turn_of(c);
    int64_t used = 0, from, to;
    memset(x->numbers.p, 0, (size_t)size_of(c) * SENT * sizeof(int64_t));
    t->from = t->to = 0;
    for (int i = 0; i < c->plan.naggs && !c->err; i++) {
        wm_plan_window(&c->plan, i, x->round, &from, &to);
        if (from >= to)
            continue;
        if (i == x->me)
            *t = (struct turn){ t->room, t->n, t->displ, t->theirs, from, to };
        if (c->op->nbytes)
            fill_one(c, i, from, to, &used);
    }
    announce(c);
}

/* Memory for all that this round needs, so that no allocation fails after the agreement. */
static int reserve(struct wm_cop *c)
{
    struct wm_exchange *x = c->file->exchange;
    struct turn *t = turn_of(c);
    int64_t in = 0, out = 0, answers = 0;
    for (int i = 0, n = size_of(c); i < n; i++) {
        t->displ[i] = in;
        t->n[i] = t->theirs[i].nbytes;
        in = aligned(in + t->n[i]);
        out += 8 + aligned(t->theirs[i].data);
        answers += 8 + aligned(x->mine[i].data);
    }
    if (c->write)
        return wm_room_grow(&t->room, in);
    int rc = wm_room_grow(&t->room, in > answers ? in : answers);
    return rc < 0 ? rc : wm_room_grow(&x->send, out);
}

static void swap(struct wm_cop *c, void (*next)(struct wm_cop *c))
{
    const struct rt_layout *l = &wm_type_get(MPI_BYTE)->layout;
    const struct wm_exchange *x = c->file->exchange;
    const struct turn *t = turn_of(c);
    const struct coll_args a = { .kind = COLL_ALLTOALLV,
                                 .sbuf = x->send.p,
                                 .scounts = x->n,
                                 .sdispls = x->displ,
                                 .stype = l,
                                 .rbuf = t->room.p,
                                 .rcounts = t->n,
                                 .rdispls = t->displ,
                                 .rtype = l,
                                 .mem = RT_MEM_HOST };
    c->next = next;
    wm_cop_call(c, &a);
}

static void swapped(struct wm_cop *c);

static void agreed(struct wm_cop *c)
{
    if (wm_cop_agreed(c, (int)c->v[0]))
        wm_cop_end(c);
    else
        swap(c, swapped);
}

static void announced(struct wm_cop *c)
{
    if (!c->err)
        wm_cop_fail(c, WM_COP_MEMORY, reserve(c));
    wm_cop_agree(c, agreed);
}

/* ---- the aggregator ---- */

static const struct wm_pieces *pieces_of(const struct wm_cop *c, const struct turn *t, int peer,
                                         int64_t *n)
{
    int64_t data = c->write ? t->theirs[peer].data : 0;
    *n = (t->theirs[peer].nbytes - data) / (int64_t)sizeof(struct wm_pieces);
    return (const struct wm_pieces *)(const void *)(t->room.p + t->displ[peer]);
}

/* All pieces of this round into the window. */
static void collect(struct wm_cop *c, const struct turn *t, struct wm_window *w)
{
    struct wm_exchange *x = c->file->exchange;
    int64_t n;
    uint64_t *marks = (uint64_t *)(void *)x->marks.p;
    *w = (struct wm_window){ c->file->fd, &c->file->fs, c->plan.high, t->from, t->to,
                             INT64_MAX,   c->plan.unit, x->image.p,   marks };
    wm_window_clear(w);
    for (int i = 0; i < size_of(c); i++) {
        if (!t->theirs[i].nbytes)
            continue;
        const struct wm_pieces *g = pieces_of(c, t, i, &n);
        wm_window_put(w, g, n, c->write ? (const char *)(g + n) : NULL);
    }
}

/* Job: the window of the last round exchanged. */
static int store(struct wm_cop *c)
{
    struct wm_window w;
    collect(c, c->file->exchange->stored, &w);
    return wm_window_write(&w);
}

/* Job: reads what the ranks want, and fills the answers: the number of bytes before the end of the
 * file, and the data. */
static int serve(struct wm_cop *c)
{
    struct wm_exchange *x = c->file->exchange;
    const struct turn *t = turn_of(c);
    struct wm_window w;
    int64_t n, at = 0;
    collect(c, t, &w);
    int rc = wm_window_read(&w);
    for (int i = 0; i < size_of(c); i++) {
        if (!t->theirs[i].data)
            continue;
        const struct wm_pieces *g = pieces_of(c, t, i, &n);
        int64_t got = rc < 0 ? 0 : wm_window_get(&w, g, n, x->send.p + at + 8);
        memcpy(x->send.p + at, &got, sizeof got);
        x->displ[i] = at;
        x->n[i] = 8 + t->theirs[i].data;
        at += aligned(x->n[i]);
    }
    return rc;
}

/* Runs the job of this round if this rank has a window. */
static void work(struct wm_cop *c, int (*job)(struct wm_cop *c), bool here)
{
    const struct turn *t = turn_of(c);
    if (t->from >= t->to)
        return;
    c->from = t->from;
    c->to = t->to;
    wm_cop_work(c, job, WM_COP_WINDOW, here);
}

/* ---- the end of a round ---- */

static void next_round(struct wm_cop *c)
{
    if (++c->file->exchange->round < c->plan.rounds) {
        c->next = fill;
        return;
    }
    c->next = agree_and_end;
    c->join = true;
}

/* The job of the round before has ended. */
static void write_window(struct wm_cop *c)
{
    struct wm_exchange *x = c->file->exchange;
    bool last = x->round + 1 == c->plan.rounds;
    x->stored = turn_of(c);
    if (!c->err)
        work(c, store, c->blocking && last);
    next_round(c);
}

static void deliver(struct wm_cop *c)
{
    const struct wm_iop *op = c->op;
    struct wm_exchange *x = c->file->exchange;
    const struct turn *t = turn_of(c);
    int rc = 0;
    for (int i = 0; i < c->plan.naggs && rc >= 0; i++) {
        const struct part *part = &x->part[i];
        char *answer = t->room.p + t->displ[c->plan.agg[i]];
        int64_t got;
        if (!part->len)
            continue;
        memcpy(&got, answer, sizeof got);
        if (got)
            rc = wm_iop_pack(op, part->pos, answer + 8, got);
        if (got < part->len && part->pos + got < x->end)
            x->end = part->pos + got;
    }
    wm_cop_fail(c, WM_COP_COPY, rc);
    next_round(c);
}

/* Lengths of the answers to this rank; serve() has filled in those that it sends. */
static void answer(struct wm_cop *c)
{
    const struct wm_exchange *x = c->file->exchange;
    struct turn *t = turn_of(c);
    int64_t at = 0;
    for (int i = 0; i < size_of(c); i++) {
        int64_t data = x->mine[i].data;
        t->displ[i] = at;
        t->n[i] = data ? 8 + data : 0;
        at += aligned(t->n[i]);
    }
    swap(c, deliver);
}

static void swapped(struct wm_cop *c)
{
    struct wm_exchange *x = c->file->exchange;
    c->join = true;
    c->next = write_window;
    if (c->write)
        return;
    c->next = answer;
    memset(x->n, 0, (size_t)size_of(c) * sizeof *x->n);
    work(c, serve, c->blocking);
}

/* ---- the plan ---- */

/* Job: the access of this rank alone. */
static int alone(struct wm_cop *c) { return wm_indep_run(c->op); }

_Static_assert(WM_PLAN_ID == (int)WM_FILE_ID && WM_PLAN_NOT_ID == (int)WM_FILE_NOT_ID &&
                   WM_PLAN_VALUES == (int)WM_FILE_NUMBERS,
               "a call without a plan has as many numbers");

static void planned(struct wm_cop *c)
{
    struct wm_exchange *x = c->file->exchange;
    int64_t offer = (c->v[WM_PLAN_ID] >> WM_FILE_FREE_SHIFT & WM_FILE_FREE_MASK) * WM_ONEHOST_UNIT;
    if (wm_file_calls_differ(c->v)) {
        c->why = WM_COP_CALLS;
        c->err = MPI_ERR_NOT_SAME;
        wm_cop_end(c);
        return;
    }
    if (offer)
        wm_onehost_take(c->file, offer);
    if (wm_cop_agreed(c, wm_plan_err(c->v))) {
        wm_cop_end(c);
        return;
    }
    wm_plan_make(c->file, c->write, c->v, &c->plan);
    bool near = offer && (c->write || c->plan.dense);
    if (!near && !c->write && c->file->hints->cb_read == WM_AUTOMATIC)
        c->plan.exchange = false;
    if (!c->plan.exchange) {
        wm_cop_end(c);
        wm_cop_work(c, alone, WM_COP_ALONE, c->blocking || !wm_iop_may_be_a_job(c->op));
        return;
    }
    for (int i = 0; i < c->plan.naggs; i++)
        if (c->plan.agg[i] == c->file->comm->rank)
            x->me = i;
    if (near && c->plan.rounds) {
        wm_onehost_begin(c, x->me);
        return;
    }
    if (x->me >= 0)
        wm_cop_fail(c, WM_COP_MEMORY, wm_window_rooms(c->plan.step, &x->image, &x->marks));
    c->next = fill;
    if (!c->plan.rounds) /* no rank has data */
        wm_cop_end(c);
}

/* The buffers of the file. */
static int open_exchange(struct wm_cop *c)
{
    struct wm_file *f = c->file;
    int64_t n = size_of(c);
    if (!f->exchange)
        f->exchange = calloc(1, sizeof *f->exchange);
    struct wm_exchange *x = f->exchange;
    if (!x || wm_room_grow(&x->numbers, n * NUMBERS * (int64_t)sizeof(int64_t)) < 0)
        return -RT_ENOMEM;
    int64_t *v = (int64_t *)(void *)x->numbers.p;
    x->n = v;
    x->displ = v + n;
    x->mine = (struct notice *)(v + 2 * n);
    x->part = (struct part *)(v + 4 * n);
    for (int i = 0; i < 2; i++) {
        int64_t *tv = v + (SENT + 4 * i) * n;
        x->turn[i].n = tv;
        x->turn[i].displ = tv + n;
        x->turn[i].theirs = (struct notice *)(tv + 2 * n);
    }
    x->me = -1;
    x->round = 0;
    x->end = c->op ? c->op->nbytes : 0;
    c->plan.agg = wm_plan_aggregators(f, &c->plan.naggs);
    return c->plan.agg ? 0 : -RT_ENOMEM;
}

static void begin(struct wm_cop *c)
{
    wm_cop_fail(c, WM_COP_MEMORY, open_exchange(c));
    wm_plan_numbers(c->op, c->err, c->v);
    int64_t offer = c->err ? 0 : wm_onehost_offer(c) / WM_ONEHOST_UNIT;
    c->v[WM_PLAN_ID] = c->id | offer << WM_FILE_FREE_SHIFT;
    c->v[WM_PLAN_NOT_ID] = -c->id;
    c->next = planned;
    wm_cop_max(c, WM_PLAN_VALUES);
}

void wm_twophase_init(struct wm_cop *c, struct wm_file *f, struct wm_iop *op, bool write, int err)
{
    wm_cop_init(c, f, op, write, err);
    c->next = begin;
}
