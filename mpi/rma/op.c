/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that are not finished within their call: made, ended at the origin, ended at the
 * target.  Also their requests. */
#include "mpi/rma/op.h"
#include "mpi/p2p/request.h"
#include "mpi/rma/target.h"
#include "runtime/base/err.h"
#include <string.h>

struct rt_slab wm_rma_op_slab = RT_SLAB(15, "one-sided operation", struct wm_rma_op);

/* ---- requests ---- */

struct rma_req {
    struct rt_req r; /* first member */
    struct wm_comm *comm;
};

static void *req_owner(const struct rt_req *r) { return ((const struct rma_req *)r)->comm; }

static int req_cancel(struct rt_req *r)
{
    (void)r;
    return -RT_ENOTSUP;
}

static void req_release(struct rt_req *r)
{
    wm_comm_unref(((struct rma_req *)r)->comm);
    rt_slab_free(&wm_request_slab, r);
}

static const struct rt_req_ops req_ops = { .name = "one-sided operation",
                                           .cancel = req_cancel,
                                           .release = req_release,
                                           .owner = req_owner,
                                           .no_free_active = true };

struct rt_req *wm_rma_req_new(struct wm_comm *c)
{
    struct rma_req *q = wm_req_alloc(&req_ops);
    if (!q)
        return NULL;
    q->r.status = (struct rt_status){ .src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };
    q->comm = c;
    wm_comm_ref(c);
    return &q->r;
}

/* ---- operations ---- */

static void ref(struct wm_type *t)
{
    if (t)
        wm_type_ref(t);
}

static void unref(struct wm_type *t)
{
    if (t)
        wm_type_unref(t);
}

struct wm_rma_op *wm_rma_op_new(struct wm_rma *r, struct wm_rma_target *t,
                                const struct wm_rma_args *a)
{
    struct wm_rma_op *op = rt_slab_alloc(&wm_rma_op_slab);
    if (!op)
        return NULL;
    op->rma = r;
    op->t = t;
    op->a = *a;
    op->a.mem = op->mem;
    if (rt_unlikely(a->on_device))
        memcpy(op->mem, a->mem, sizeof op->mem);
    rt_list_init(&op->link);
    ref(a->origin.type);
    ref(a->result.type);
    ref(a->target.type);
    if (a->what == WM_RMA_DO_CAS && !(a->on_device & WM_RMA_COMPARE))
        op->a.compare = memcpy(op->value[0], a->compare, (size_t)a->nbytes);
    if (a->what == WM_RMA_DO_CAS && !(a->on_device & WM_RMA_ORIGIN))
        op->a.origin.buf = memcpy(op->value[1], a->origin.buf, (size_t)a->nbytes);
    return op;
}

/* The operation returns data to the origin: its request ends when the data have arrived. */
static bool returns(const struct wm_rma_op *op)
{
    return op->a.what == WM_RMA_DO_GET || op->a.fetches;
}

static void end_request(struct wm_rma_op *op)
{
    if (op->req)
        wm_req_end(op->req, op->err);
    op->req = NULL;
}

void wm_rma_op_local(struct wm_rma_op *op, int err)
{
    if (err && !op->err)
        op->err = err;
    if (!op->local)
        return;
    op->local = false;
    op->t->nlocal--;
    if (!returns(op))
        end_request(op);
}

void wm_rma_op_unlend(struct wm_rma_op *op)
{
    if (op->lent.mem)
        op->lent.ops->mem_dereg(op->lent.mem);
    op->lent.mem = NULL;
}

void wm_rma_op_done(struct wm_rma_op *op, int err)
{
    rt_list_del(&op->link);
    wm_rma_op_local(op, err);
    if (op->err)
        wm_rma_note(op->t, op->err);
    op->t->device.nfolds -= op->folds;
    wm_rma_op_unlend(op);
    end_request(op);
    unref(op->a.origin.type);
    unref(op->a.result.type);
    unref(op->a.target.type);
    rt_slab_free(&wm_rma_op_slab, op);
}
