/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of targets, the origin's side of messages that come: data, the end of an operation,
 * locks, posts, acknowledgements. */
#include "mpi/rma/message.h"
#include "mpi/rma/acc_device.h"
#include "mpi/rma/map.h"
#include "mpi/rma/net.h"
#include "mpi/rma/queue.h"
#include <string.h>

static struct wm_rma_op *op_of(const struct wm_rma *r, uint32_t id)
{
    struct wm_rma_op *op = rt_slab_get(&wm_rma_op_slab, id);
    return op && op->rma == r ? op : NULL;
}

/* All messages up to the one with this number have been executed. */
static void acked(struct wm_rma_target *t, uint32_t seq)
{
    if ((int32_t)(seq - t->msg.acked) > 0)
        t->msg.acked = seq;
}

static void on_data(struct wm_rma_op *op, const struct wm_rma_msg *m, const char *data)
{
    bool get = op->a.what == WM_RMA_DO_GET;
    const struct wm_rma_side *to = get ? &op->a.origin : &op->a.result;
    int err = 0;
    int which = get ? WM_RMA_ORIGIN : WM_RMA_RESULT;
    if (rt_unlikely(op->a.on_device & which))
        err = wm_rma_unpack(wm_rma_mem(&op->a, which), &to->type->layout, to->count, to->buf,
                            m->pos, data, m->len);
    else if (to->type->layout.contig)
        memcpy(to->buf + m->pos, data, m->len);
    else
        rt_layout_unpack(&to->type->layout, to->count, to->buf, m->pos, data, m->len);
    op->err = op->err ? op->err : err;
    if (op->acks)
        acked(op->t, op->seq);
    op->back += m->len;
    if (op->back == op->a.nbytes)
        wm_rma_op_done(op, 0);
}

static void on_done(struct wm_rma_op *op, int err)
{
    op->answered = true;
    if (op->acks)
        acked(op->t, op->seq);
    if (op->folds && op->a.fetches)
        wm_rma_fetch_fails(op, err);
    else if (op->bulk_req && op->a.what == WM_RMA_DO_GET)
        /* no data will come: the cancellation ends in bulk_done() */
        op->bulk_req->ops->cancel(op->bulk_req);
    else if (op->bulk_req)
        op->err = err;
    else
        wm_rma_op_done(op, err);
}

static void on_wanted(struct wm_rma_op *op)
{
    wm_rma_lend_refused(op);
    int err = wm_rma_bulk_data(op);
    if (err < 0 && op->a.fetches)
        wm_rma_fetch_fails(op, err);
    else if (err < 0)
        wm_rma_op_done(op, err);
}

void wm_rma_on_answer(struct wm_rma *r, int rank, const struct wm_rma_msg *m, const char *data)
{
    struct wm_rma_op *op = m->code <= WM_RMA_WANTED ? op_of(r, m->id) : NULL;
    struct wm_rma_target *t = wm_rma_target(r, rank);
    if (!t)
        rt_boot_abort(1, "out of memory for the state of a window");
    if (m->code == WM_RMA_DATA && op)
        on_data(op, m, data);
    else if (m->code == WM_RMA_DONE && op)
        on_done(op, (int)m->value);
    else if (m->code == WM_RMA_WANTED && op)
        on_wanted(op);
    else if (m->code == WM_RMA_GRANT)
        t->epoch.granted = true;
    else if (m->code == WM_RMA_FLUSHED)
        acked(t, (uint32_t)m->value);
    else if (m->code == WM_RMA_FAILED)
        wm_rma_note(t, (int)m->value);
    else if (m->code == WM_RMA_POST)
        t->epoch.post_seen = true;
    else if (m->code == WM_RMA_KEY_GIVEN)
        wm_rma_net_on_key(r, t, m, data);
    if (!rt_list_empty(&t->queue))
        wm_rma_target_run(r, t);
}
