/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion of operations: at the origin, and at the target.  Operations through memory are
 * complete when the call returns; a memory fence orders them.  The target acknowledges only the
 * last message, and only on request: by a message of a flush, or by a flag in a put or accumulate
 * where the program flushes each of them.  Messages are executed in order, so a message with data
 * for the origin acknowledges, too. */
#include "mpi/rma/flush.h"
#include "mpi/api/bodies.h"
#include "mpi/rma/checked.h"
#include "mpi/rma/epoch.h"
#include "mpi/rma/message.h"
#include "mpi/rma/progress.h"
#include "mpi/rma/target.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"

static bool at_origin(const struct wm_rma *r, const struct wm_rma_target *t)
{
    (void)r;
    return !t->nlocal;
}

static bool at_target(const struct wm_rma *r, const struct wm_rma_target *t)
{
    (void)r;
    return rt_list_empty(&t->queue) && rt_list_empty(&t->flight) && t->msg.acked == t->msg.sent;
}

static bool is_sent(const struct wm_rma *r, const struct wm_rma_target *t)
{
    (void)r;
    return rt_list_empty(&t->queue);
}

static bool is_executed(const struct wm_rma *r, const struct wm_rma_target *t)
{
    (void)r;
    return rt_list_empty(&t->queue) && rt_list_empty(&t->flight);
}

/* Requests an acknowledgement of all sent messages, unless one will come. */
static void ask(struct wm_rma *r, struct wm_rma_target *t)
{
    if (t->msg.acked == t->msg.sent || t->msg.flushed == t->msg.sent || !t->msg.peer)
        return;
    t->msg.acks = t->msg.sent - t->msg.acked == 1;
    t->msg.flushed = t->msg.sent;
    wm_rma_send(r, t->msg.peer, WM_RMA_FLUSH, 0, (int64_t)t->msg.sent);
}

/* The error of operations since the last call. */
static int take_error(struct wm_rma_target *t)
{
    int err = t->err;
    t->err = 0;
    if (!err)
        return MPI_SUCCESS;
    if (err == -RT_ERANGE)
        return wm_err(MPI_ERR_RMA_RANGE,
                      "an operation accessed memory of rank %d outside of the window", t->rank);
    return wm_err_rt(err, "an operation on rank %d", t->rank);
}

static int each(struct wm_rma *r, struct wm_rma_target *t, wm_rma_cond *cond)
{
    struct rt_list *l, *tmp;
    int err = MPI_SUCCESS;
    if (t)
        return rt_list_empty(&t->active) ? MPI_SUCCESS : wm_rma_wait(r, t, cond);
    rt_list_each_safe (l, tmp, &r->targets.active) {
        int e = wm_rma_wait(r, rt_container(l, struct wm_rma_target, active), cond);
        err = err ? err : e;
    }
    return err;
}

static void finish(struct wm_rma *r, struct wm_rma_target *t, int *err)
{
    if (at_target(r, t))
        rt_list_del(&t->active);
    int e = take_error(t);
    *err = *err ? *err : e;
}

int wm_rma_flush(struct wm_rma *r, struct wm_rma_target *t, enum wm_rma_until until)
{
    struct rt_list *l, *tmp;
    if (rt_likely(rt_list_empty(&r->targets.active)))
        return MPI_SUCCESS;
    int err = MPI_SUCCESS;
    if (until == WM_UNTIL_TARGET) {
        err = each(r, t, is_sent);
        rt_list_each (l, &r->targets.active) {
            struct wm_rma_target *k = rt_container(l, struct wm_rma_target, active);
            if (!t || t == k)
                ask(r, k);
        }
    }
    int e = each(r, t,
                 until == WM_UNTIL_ORIGIN     ? at_origin
                 : until == WM_UNTIL_EXECUTED ? is_executed
                                              : at_target);
    err = err ? err : e;
    rt_list_each_safe (l, tmp, &r->targets.active) {
        struct wm_rma_target *k = rt_container(l, struct wm_rma_target, active);
        if (!t || t == k)
            finish(r, k, &err);
    }
    return err;
}

static int flush(struct wm_win *win, int rank, enum wm_rma_until until)
{
    struct wm_rma *r = win->rma;
    struct wm_rma_target *t;
    if (rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    rt_lock(&r->dom->lock);
    int err = wm_rma_named(r, rank, &t);
    if (!err)
        err = wm_rma_may_with(r, WM_MOVE_FLUSH, t);
    if (!err)
        err = wm_rma_flush(r, t, until);
    if (rt_unlikely(cfg.check) && !err)
        wm_rma_checked_end(r, t);
    wm_rma_poll(r);
    rt_unlock(&r->dom->lock);
    rt_fence(); /* stores to the target's memory before what follows */
    return err;
}

static int flush_all(struct wm_win *win, enum wm_rma_until until)
{
    struct wm_rma *r = win->rma;
    rt_lock(&r->dom->lock);
    int err = wm_rma_may(r, WM_MOVE_FLUSH);
    if (!err)
        err = wm_rma_flush(r, NULL, until);
    if (rt_unlikely(cfg.check) && !err)
        wm_rma_checked_end(r, NULL);
    wm_rma_poll(r);
    rt_unlock(&r->dom->lock);
    rt_fence();
    return err;
}

int wm_api_win_flush(int rank, struct wm_win *win) { return flush(win, rank, WM_UNTIL_TARGET); }

int wm_api_win_flush_local(int rank, struct wm_win *win)
{
    return flush(win, rank, WM_UNTIL_ORIGIN);
}

int wm_api_win_flush_all(struct wm_win *win) { return flush_all(win, WM_UNTIL_TARGET); }

int wm_api_win_flush_local_all(struct wm_win *win) { return flush_all(win, WM_UNTIL_ORIGIN); }

int wm_api_win_sync(struct wm_win *win)
{
    struct wm_rma *r = win->rma;
    rt_lock(&r->dom->lock);
    wm_rma_poll(r);
    rt_unlock(&r->dom->lock);
    rt_fence();
    return MPI_SUCCESS;
}
