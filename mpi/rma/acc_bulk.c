/* SPDX-License-Identifier: BSD-3-Clause */
/* Long accumulates on device memory, the target's side.  The data come as one ordinary message into
 * staging memory of the device, and one kernel reduces them.  While the kernel runs, the messages
 * of this window wait (serve.c), because they may change the same elements; the kernel is started
 * from the window's task, and so never beside an operation that a message has started.  The origin
 * sends no further accumulate to the target before this one is complete, which keeps their
 * order. */
#include "mpi/p2p/engine.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/rma/rma.h"
#include "runtime/base/err.h"
#include "runtime/reduce/gpu_codes.h"
#include <stdlib.h>

struct wm_rma_fold {
    struct rt_list link; /* in wm_rma.folds once the data are there */
    struct wm_rma *r;
    struct wm_peer *peer;
    uint32_t id;
    int err;
    struct wm_rma_acc acc;   /* its layout is `layout` */
    struct rt_layout layout; /* of an element of the target */
    struct rt_gpu *g;        /* which reduces, if there is a kernel */
    struct rt_reduce_gpu kernel;
    struct rt_gpu_stage *stage; /* the data, for the kernel; NULL: they are in `host` */
    char *host;
    struct rt_gpu_op op;
};

static void end(struct wm_rma_fold *f, int err)
{
    struct wm_rma *r = f->r;
    if (f->stage)
        rt_gpu_stage_give(f->stage);
    free(f->host);
    rt_layout_fini(&f->layout);
    wm_rma_send(r, f->peer, WM_RMA_DONE, f->id, err);
    r->nserving--;
    free(f);
}

static void folded(struct rt_gpu_op *op, int err)
{
    struct wm_rma_fold *f = rt_container(op, struct wm_rma_fold, op);
    struct wm_rma *r = f->r;
    r->folding = NULL;
    end(f, err);
    wm_rma_pump_need(r); /* for messages and data that have come meanwhile */
}

static void start(struct wm_rma_fold *f)
{
    struct wm_rma_acc *a = &f->acc;
    if (f->err || !f->stage) {
        a->origin = f->host;
        end(f, f->err ? f->err : wm_rma_acc(a));
        return;
    }
    f->r->folding = f;
    f->op.done = folded;
    if (a->op == RT_OP_REPLACE)
        rt_gpu_copy(f->g, a->base, f->stage->p, (size_t)a->len, &f->op);
    else
        rt_reduce_gpu_apply(f->g, f->kernel, f->stage->p, a->base, a->len / a->esize, &f->layout,
                            &f->op);
}

void wm_rma_folds_run(struct wm_rma *r)
{
    wm_rma_deferred_run(r);
    while (!r->folding && !rt_list_empty(&r->folds)) {
        struct wm_rma_fold *f = rt_container(r->folds.next, struct wm_rma_fold, link);
        rt_list_del(&f->link);
        start(f);
    }
}

static void received(struct rt_req *q, void *arg)
{
    struct wm_rma_fold *f = arg;
    f->err = q->err;
    wm_req_release(q);
    rt_list_append(&f->r->folds, &f->link);
    wm_rma_pump_need(f->r);
}

static bool has_kernel(struct wm_rma_fold *f, struct rt_gpu *g)
{
    const struct wm_rma_acc *a = &f->acc;
    const struct rt_op op = { .code = a->op };
    uintptr_t unit = (uintptr_t)(a->esize & -a->esize);
    return rt_elem_packs(a->elem) && (uintptr_t)a->base % unit == 0 &&
           rt_reduce_gpu(g, &op, a->elem, &f->kernel) >= 0;
}

/* Takes staging memory of the device, if the device can reduce the elements. */
static bool on_device(struct wm_rma_fold *f)
{
    const struct wm_rma_acc *a = &f->acc;
    struct rt_gpu_ptr at;
    if (!a->device || rt_gpu_query(a->base, (size_t)a->len, &at) < 0 ||
        (a->op != RT_OP_REPLACE && !has_kernel(f, at.g)) ||
        rt_gpu_stage_take(at.g, false, (size_t)a->len, &f->stage) < 0)
        return false;
    f->g = at.g;
    return true;
}

void wm_rma_fold_begin(struct wm_rma *r, struct wm_rma_origin *o, uint32_t id,
                       const struct wm_rma_acc *a)
{
    static const struct rt_layout bytes = {
        .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_BYTE
    };
    struct wm_rma_fold *f = calloc(1, sizeof *f);
    struct rt_req *q;
    if (!f || rt_layout_dup(&f->layout, a->layout) < 0)
        rt_boot_abort(1, "out of memory for an accumulate of a window");
    f->r = r;
    f->peer = o->peer;
    f->id = id;
    f->acc = *a;
    f->acc.layout = &f->layout;
    rt_list_init(&f->link);
    bool device = on_device(f);
    if (!device && !(f->host = aligned_alloc(64, ((size_t)a->len + 63) & ~(size_t)63)))
        rt_boot_abort(1, "out of memory for an accumulate of a window");
    struct wm_msg msg = { .buf = device ? f->stage->p : f->host,
                          .count = a->len,
                          .layout = &bytes,
                          .comm = r->comm,
                          .peer = o->rank,
                          .tag = wm_rma_tag(id, false),
                          .coll = true,
                          .on_device = device };
    r->nserving++;
    int err = wm_p2p_irecv(&msg, &q);
    if (err < 0) {
        end(f, err);
    } else if (rt_req_done(q)) {
        received(q, f);
    } else {
        q->notify = received;
        q->arg = f;
    }
}
