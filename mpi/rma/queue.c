/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of a target: operations that have not been started, because the target has not posted,
 * its lock is not held, or its connection is busy.  They start here, each by the path of its
 * target: a device, the transport, messages or memory. */
#include "mpi/rma/queue.h"
#include "mpi/rma/acc.h"
#include "mpi/rma/message.h"
#include "mpi/rma/direct.h"
#include "mpi/rma/epoch.h"
#include "mpi/rma/map.h"
#include "mpi/rma/net.h"
#include "mpi/rma/op.h"
#include "mpi/rma/progress.h"
#include "mpi/rma/target.h"
#include "runtime/base/err.h"

/* Starts an operation that needs no message.  -RT_ENOTSUP: it needs one. */
static int start_apart(struct wm_rma_op *op)
{
    bool moves = op->a.what < WM_RMA_DO_ACC;
    if (op->t->path == WM_PATH_DEVICE)
        return moves ? wm_rma_map_start(op) : wm_rma_change_start(op);
    return op->t->path == WM_PATH_RDMA && moves ? wm_rma_net_start(op) : -RT_ENOTSUP;
}

/* 0: started; -RT_EAGAIN: call again later; else -RT_E... */
static int start(struct wm_rma_op *op)
{
    if (!wm_rma_sends(op->t))
        return wm_rma_execute(op->rma, op->t, &op->a);
    if (op->t->msg.peer->err)
        return op->t->msg.peer->err;
    int err = start_apart(op);
    return err == -RT_ENOTSUP ? wm_rma_am_send(op) : err;
}

void wm_rma_target_run(struct wm_rma *r, struct wm_rma_target *t)
{
    while (!rt_list_empty(&t->queue)) {
        struct wm_rma_op *op = rt_container(t->queue.next, struct wm_rma_op, link);
        if (!wm_rma_ready(r, t)) {
            if (r->epoch.access == WM_ACCESS_LOCK_ALL && !t->by_ctl)
                wm_rma_ask(r, t, WM_WANT_SHARED);
            return;
        }
        int err = start(op);
        if (err == -RT_EAGAIN)
            return;
        if (err < 0 || !wm_rma_sends(t))
            wm_rma_op_done(op, err);
    }
    rt_list_del(&t->busy);
}

void wm_rma_queue(struct wm_rma *r, struct wm_rma_target *t, struct wm_rma_op *op)
{
    rt_list_append(&t->queue, &op->link);
    op->local = true;
    t->nlocal++;
    wm_rma_activate(r, t);
    wm_rma_target_run(r, t);
    if (!rt_list_empty(&t->queue)) {
        if (rt_list_empty(&t->busy))
            rt_list_append(&r->targets.busy, &t->busy);
        wm_rma_pump_need(r);
    }
}
