/* SPDX-License-Identifier: BSD-3-Clause */
/* The two-phase exchange.  In each round every aggregator has a window of the file (plan.c).  A
 * rank's data in a window are consecutive positions of its view, so a rank sends an aggregator one
 * message: where the pieces are in the file, and to write, the data.  To read, the aggregator
 * answers with the data.
 *
 * An error of any rank ends the access of all: the ranks agree before each round's messages, and at
 * the end.  An aggregator whose access failed still answers in that round, so no rank hangs.
 * Mpirun ends the job of a rank that dies. */
#include "mpi/io/twophase.h"
#include "mpi/base/comm.h"
#include "mpi/coll/call.h"
#include "mpi/io/window.h"
#include "mpi/p2p/pack_any.h"
#include <stdlib.h>
#include <string.h>

struct wm_exchange {
    struct wm_room send, recv, image, marks;
    struct wm_room numbers; /* NUMBERS for each rank */
};
#define NUMBERS 10

/* Consecutive data of this rank, relative to the first byte of the access. */
struct part {
    int64_t pos, len;
};
/* Announces a message to an aggregator. */
struct notice {
    int64_t nbytes, data; /* of the message; of the user's data in it, or wanted */
};

struct run {
    struct wm_iop *op;
    struct wm_file *file;
    const struct wm_plan *plan;
    struct wm_exchange *x;
    int size, me;                 /* ranks; the number of this aggregator, or -1 */
    int64_t *sn, *sd, *rn, *rd;   /* lengths and displacements of messages, by rank */
    struct notice *mine, *theirs; /* by rank */
    struct part *part;            /* of this round, by aggregator */
    int64_t from, to;             /* this aggregator's window */
    int64_t end;                  /* of a read: positions before the end of the file */
};

void wm_exchange_free(struct wm_exchange *x)
{
    if (!x)
        return;
    free(x->send.p);
    free(x->recv.p);
    free(x->image.p);
    free(x->marks.p);
    free(x->numbers.p);
    free(x);
}

static int64_t aligned(int64_t n) { return (n + 7) & ~INT64_C(7); }

static int64_t clip(int64_t n, int64_t most) { return n < 0 ? 0 : n > most ? most : n; }

/* A collective call on the file's communicator. */
static int run_coll(const struct run *r, const struct coll_args *a)
{
    wm_file_lock(r->file);
    int rc = wm_coll_run(r->file->comm, a);
    wm_file_unlock(r->file);
    return rc < 0 ? wm_file_err(r->file, rc, "could not exchange the data of") : MPI_SUCCESS;
}

static int memory_error(int rc)
{
    return rc < 0 ? wm_err(MPI_ERR_NO_MEM, "no memory for a collective access to a file")
                  : MPI_SUCCESS;
}

static int file_error(const struct run *r, int rc)
{
    return rc < 0 ? wm_err_rt(rc, "could not %s bytes %lld to %lld of file %s",
                              r->op->write ? "write" : "read", (long long)r->from,
                              (long long)r->to - 1, r->file->name)
                  : MPI_SUCCESS;
}

/* ---- steps of a round ---- */

static int fill_one(struct run *r, int i, int64_t round, int64_t *used)
{
    struct wm_iop *op = r->op;
    struct part *part = &r->part[i];
    int64_t from, to;
    wm_plan_window(r->plan, i, round, &from, &to);
    if (i == r->me) {
        r->from = from;
        r->to = to;
    }
    if (from >= to || !op->nbytes)
        return MPI_SUCCESS;
    part->pos = clip(wm_view_below(op->view, from) - op->pos, op->nbytes);
    part->len = clip(wm_view_below(op->view, to) - op->pos, op->nbytes) - part->pos;
    int peer = r->plan->agg[i], rc = 0;
    int64_t start = aligned(*used);
    *used = start;
    int err = memory_error(
        wm_pieces_put(op->view, op->pos + part->pos, part->len, &r->x->send, used));
    if (!err && op->write) {
        err = memory_error(wm_room_grow(&r->x->send, *used + part->len));
        if (!err && part->len)
            rc = wm_pack_any(op->mem, op->count, op->buf, part->pos, r->x->send.p + *used,
                             part->len);
        err = rc < 0 ? wm_any_error(rc) : err;
        *used += part->len;
    }
    r->sd[peer] = start;
    r->sn[peer] = *used - start;
    r->mine[peer] = (struct notice){ r->sn[peer], part->len };
    return err;
}

/* Fills the messages to the aggregators. */
static int fill(struct run *r, int64_t round)
{
    int64_t used = 0;
    int err = MPI_SUCCESS;
    memset(r->x->numbers.p, 0, (size_t)r->size * NUMBERS * sizeof(int64_t));
    for (int i = 0; i < r->plan->naggs && !err; i++)
        err = fill_one(r, i, round, &used);
    return err;
}

static int announce(struct run *r)
{
    const struct rt_layout *l = &wm_type_get(MPI_INT64_T)->layout;
    const struct coll_args a = { .kind = COLL_ALLTOALL,
                                 .sbuf = r->mine,
                                 .scount = 2,
                                 .stype = l,
                                 .rbuf = r->theirs,
                                 .rcount = 2,
                                 .rtype = l,
                                 .mem = RT_MEM_HOST };
    return run_coll(r, &a);
}

/* Memory for all that this round needs: nothing fails for want of memory after the agreement. */
static int reserve(struct run *r)
{
    int64_t in = 0, out = 0, answers = 0;
    for (int i = 0; i < r->size; i++) {
        r->rd[i] = in;
        r->rn[i] = r->theirs[i].nbytes;
        in = aligned(in + r->rn[i]);
        if (!r->op->write) {
            out += 8 + aligned(r->theirs[i].data);
            answers += 8 + aligned(r->mine[i].data);
        }
    }
    int rc = wm_room_grow(&r->x->recv, in > answers ? in : answers);
    if (rc >= 0)
        rc = wm_room_grow(&r->x->send, out);
    if (rc >= 0 && r->to > r->from && r->me >= 0)
        rc = wm_window_rooms(r->to - r->from, &r->x->image, &r->x->marks);
    return memory_error(rc);
}

static int swap(struct run *r)
{
    const struct rt_layout *l = &wm_type_get(MPI_BYTE)->layout;
    const struct coll_args a = { .kind = COLL_ALLTOALLV,
                                 .sbuf = r->x->send.p,
                                 .scounts = r->sn,
                                 .sdispls = r->sd,
                                 .stype = l,
                                 .rbuf = r->x->recv.p,
                                 .rcounts = r->rn,
                                 .rdispls = r->rd,
                                 .rtype = l,
                                 .mem = RT_MEM_HOST };
    return run_coll(r, &a);
}

/* ---- the aggregator ---- */

static const struct wm_pieces *pieces_of(const struct run *r, int peer, int64_t *n)
{
    int64_t data = r->op->write ? r->theirs[peer].data : 0;
    *n = (r->theirs[peer].nbytes - data) / (int64_t)sizeof(struct wm_pieces);
    return (const struct wm_pieces *)(const void *)(r->x->recv.p + r->rd[peer]);
}

/* All pieces of this round into the window. */
static void collect(struct run *r, struct wm_window *w)
{
    int64_t n;
    wm_window_open(w, r->file->fd, r->from, r->to, &r->x->image, &r->x->marks);
    for (int i = 0; i < r->size; i++) {
        if (!r->theirs[i].nbytes)
            continue;
        const struct wm_pieces *g = pieces_of(r, i, &n);
        wm_window_put(w, g, n, r->op->write ? (const char *)(g + n) : NULL);
    }
}

static int store(struct run *r)
{
    struct wm_window w;
    if (r->me < 0 || r->from >= r->to)
        return MPI_SUCCESS;
    collect(r, &w);
    return file_error(r, wm_window_write(&w));
}

/* Reads what the ranks want, and fills the answers: the number of bytes before the end of the file,
 * and the data. */
static int serve(struct run *r)
{
    struct wm_window w;
    int64_t n, at = 0;
    if (r->me < 0 || r->from >= r->to)
        return MPI_SUCCESS;
    collect(r, &w);
    int err = file_error(r, wm_window_read(&w));
    for (int i = 0; i < r->size; i++) {
        if (!r->theirs[i].data)
            continue;
        const struct wm_pieces *g = pieces_of(r, i, &n);
        int64_t got = err ? 0 : wm_window_get(&w, g, n, r->x->send.p + at + 8);
        memcpy(r->x->send.p + at, &got, sizeof got);
        r->sd[i] = at;
        r->sn[i] = 8 + r->theirs[i].data;
        at += aligned(r->sn[i]);
    }
    return err;
}

/* ---- the answers ---- */

/* Lengths of the answers; those that this rank sends are filled in by serve(). */
static void expect(struct run *r)
{
    int64_t at = 0;
    for (int i = 0; i < r->size; i++) {
        int64_t data = r->mine[i].data;
        r->rd[i] = at;
        r->rn[i] = data ? 8 + data : 0;
        at += aligned(r->rn[i]);
    }
}

static int deliver(struct run *r)
{
    struct wm_iop *op = r->op;
    int rc = 0;
    for (int i = 0; i < r->plan->naggs && rc >= 0; i++) {
        const struct part *part = &r->part[i];
        const char *answer = r->x->recv.p + r->rd[r->plan->agg[i]];
        int64_t got;
        if (!part->len)
            continue;
        memcpy(&got, answer, sizeof got);
        if (got)
            rc = wm_unpack_any(op->mem, op->count, op->buf, part->pos, answer + 8, got);
        if (got < part->len && part->pos + got < r->end)
            r->end = part->pos + got;
    }
    return rc < 0 ? wm_any_error(rc) : MPI_SUCCESS;
}

static int answer(struct run *r)
{
    memset(r->sn, 0, (size_t)r->size * sizeof *r->sn);
    int err = serve(r);
    expect(r);
    int failed = swap(r);
    if (failed)
        return failed;
    return err ? err : deliver(r);
}

/* ---- the whole ---- */

static int run_rounds(struct run *r)
{
    int err = MPI_SUCCESS, failed;
    for (int64_t round = 0; round < r->plan->rounds; round++) {
        int bad = fill(r, round);
        err = err ? err : bad;
        failed = announce(r);
        if (failed)
            return failed;
        if (!err)
            err = reserve(r);
        err = wm_file_agree(r->file, err);
        if (err)
            return err;
        failed = swap(r);
        if (failed)
            return failed;
        err = r->op->write ? store(r) : answer(r);
    }
    return wm_file_agree(r->file, err);
}

/* The buffers of the file. */
static int open_run(struct run *r)
{
    struct wm_file *f = r->file;
    if (!f->exchange)
        f->exchange = calloc(1, sizeof *f->exchange);
    r->x = f->exchange;
    int64_t nbytes = (int64_t)r->size * NUMBERS * (int64_t)sizeof(int64_t);
    if (!r->x || wm_room_grow(&r->x->numbers, nbytes) < 0)
        return memory_error(-RT_ENOMEM);
    int64_t *v = (int64_t *)(void *)r->x->numbers.p, n = r->size;
    r->sn = v;
    r->sd = v + n;
    r->rn = v + 2 * n;
    r->rd = v + 3 * n;
    r->mine = (struct notice *)(v + 4 * n);
    r->theirs = (struct notice *)(v + 6 * n);
    r->part = (struct part *)(v + 8 * n);
    return MPI_SUCCESS;
}

int wm_twophase_run(struct wm_iop *op, const struct wm_plan *p)
{
    struct run r = { .op = op, .file = op->file, .plan = p, .me = -1, .end = op->nbytes };
    r.size = r.file->comm->size;
    for (int i = 0; i < p->naggs; i++)
        if (p->agg[i] == r.file->comm->rank)
            r.me = i;
    op->moved = 0;
    int err = wm_file_agree(r.file, open_run(&r));
    if (!err)
        err = run_rounds(&r);
    op->moved = err ? 0 : r.end;
    return err;
}
