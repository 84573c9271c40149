/* SPDX-License-Identifier: BSD-3-Clause */
/* Long accumulates on device memory, the target's side.  One kernel reduces the data where they lie
 * in device memory of the origin.  If it cannot read them there, they come as one ordinary message
 * into staging memory of the device; old values go back as one message.
 * While the kernel runs, the messages of this window wait (serve.c), because they may change the
 * same elements; the kernel is started from the window's task, and so never beside an operation
 * that a message has started.  The origin sends no further accumulate to the target before this one
 * is complete, which keeps their order. */
#include "mpi/rma/acc.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/rma/map.h"
#include "mpi/rma/message.h"
#include "mpi/rma/origin.h"
#include "mpi/rma/progress.h"
#include "runtime/base/err.h"
#include "runtime/reduce/gpu_codes.h"
#include <stdlib.h>

struct wm_rma_fold {
    struct rt_list link; /* in wm_rma.service.folds once its next step may start */
    struct wm_rma *r;
    struct wm_peer *peer;
    int rank;
    uint32_t id;
    bool fetches, folded;
    int err;
    struct wm_rma_acc acc; /* its layout is `layout`, its mem is `mem` or NULL */
    struct wm_mem mem;
    struct rt_layout layout; /* of an element of the target */
    struct rt_gpu *g;        /* which reduces; NULL: the CPU does */
    struct rt_reduce_gpu kernel;
    bool atomic, near;             /* by atomic operations; the elements lie on g */
    struct btl_rmem *borrowed;     /* the data in the origin's memory; NULL */
    const struct btl_ops *ops;     /* of `borrowed` */
    struct rt_gpu_stage *stage[2]; /* of g: the data, the old values */
    char *host[2];                 /* in place of `stage` if the CPU reduces */
    struct rt_gpu_op op;
};
enum { IN, OLD };

static const struct rt_layout bytes = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_BYTE
};

static char *data_of(const struct wm_rma_fold *f, int which)
{
    if (which == IN && f->borrowed)
        return f->borrowed->ptr;
    return f->g ? f->stage[which]->p : f->host[which];
}

static struct wm_msg message(const struct wm_rma_fold *f, int which)
{
    return (struct wm_msg){ .buf = data_of(f, which),
                            .count = f->acc.len,
                            .layout = &bytes,
                            .comm = f->r->comm,
                            .peer = f->rank,
                            .tag = wm_rma_tag(f->id, which == OLD),
                            .coll = true };
}

static void release(struct wm_rma_fold *f)
{
    if (f->borrowed)
        f->ops->detach(f->borrowed);
    f->borrowed = NULL;
    for (int i = IN; i <= OLD; i++) {
        if (f->stage[i])
            rt_gpu_stage_give(f->stage[i]);
        free(f->host[i]);
        f->stage[i] = NULL;
        f->host[i] = NULL;
    }
}

static void end(struct wm_rma_fold *f, int err)
{
    release(f);
    rt_layout_fini(&f->layout);
    if (err || !f->fetches)
        wm_rma_send(f->r, f->peer, WM_RMA_DONE, f->id, err);
    f->r->service.nserving--;
    free(f);
}

/* The next step is made by the window's task. */
static void step_later(struct wm_rma_fold *f)
{
    rt_list_append(&f->r->service.folds, &f->link);
    wm_rma_pump_need(f->r);
}

/* ---- steps ---- */

static void answered(struct rt_req *q, void *arg)
{
    int err = q->err;
    wm_req_release(q);
    end(arg, err);
}

static void answer(struct wm_rma_fold *f)
{
    struct wm_msg msg = message(f, OLD);
    struct rt_req *q;
    int err = wm_p2p_isend(&msg, WM_STANDARD, &q);
    if (err < 0) {
        end(f, err);
    } else if (rt_req_done(q)) {
        answered(q, f);
    } else {
        q->notify = answered;
        q->arg = f;
    }
}

static void folded(struct rt_gpu_op *op, int err)
{
    struct wm_rma_fold *f = rt_container(op, struct wm_rma_fold, op);
    f->r->service.folding = NULL;
    f->folded = true;
    f->err = err;
    step_later(f); /* the window's task then also executes the deferred messages */
}

static void reduce(struct wm_rma_fold *f)
{
    struct wm_rma_acc *a = &f->acc;
    f->op.done = folded;
    if (a->op == RT_OP_REPLACE)
        rt_gpu_copy(f->g, a->base, data_of(f, IN), (size_t)a->len, &f->op);
    else
        rt_reduce_gpu_apply(f->g, f->kernel, data_of(f, IN), a->base, a->len / a->esize, &f->layout,
                            &f->op);
}

static void fetched(struct rt_gpu_op *op, int err)
{
    struct wm_rma_fold *f = rt_container(op, struct wm_rma_fold, op);
    if (err || f->acc.op == RT_OP_NO_OP)
        folded(op, err);
    else
        reduce(f);
}

static void change(struct wm_rma_fold *f)
{
    struct wm_rma_acc *a = &f->acc;
    struct rt_gpu_atomic c = { .type = f->kernel.type,
                               .code = f->kernel.code,
                               .near = f->near,
                               .count = (size_t)(a->len / a->esize),
                               .dst = (uintptr_t)a->base };
    if (a->op != RT_OP_NO_OP)
        c.src = (uintptr_t)data_of(f, IN);
    if (f->fetches)
        c.old = (uintptr_t)f->stage[OLD]->p;
    f->op.done = folded;
    rt_gpu_atomic(f->g, &c, &f->op);
}

static void start(struct wm_rma_fold *f)
{
    struct wm_rma_acc *a = &f->acc;
    f->r->service.folding = f;
    if (f->atomic) {
        change(f);
    } else if (f->fetches) {
        f->op.done = fetched;
        rt_gpu_copy(f->g, f->stage[OLD]->p, a->base, (size_t)a->len, &f->op);
    } else {
        reduce(f);
    }
}

static void step(struct wm_rma_fold *f)
{
    if (!f->g && !f->err) {
        f->acc.origin = f->host[IN];
        f->acc.result = f->fetches ? f->host[OLD] : NULL;
        f->err = wm_rma_acc(&f->acc);
        f->folded = true;
    }
    if (f->err || (f->folded && !f->fetches))
        end(f, f->err);
    else if (f->folded)
        answer(f);
    else
        start(f);
}

void wm_rma_folds_run(struct wm_rma *r)
{
    while (!r->service.folding && !rt_list_empty(&r->service.folds)) {
        struct wm_rma_fold *f = rt_container(r->service.folds.next, struct wm_rma_fold, link);
        rt_list_del(&f->link);
        step(f);
    }
}

/* ---- begin ---- */

static void received(struct rt_req *q, void *arg)
{
    struct wm_rma_fold *f = arg;
    f->err = q->err;
    wm_req_release(q);
    step_later(f);
}

static void receive(struct wm_rma_fold *f)
{
    struct wm_msg msg = message(f, IN);
    struct rt_req *q;
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

static bool has_kernel(struct wm_rma_fold *f, struct rt_gpu *g)
{
    const struct wm_rma_acc *a = &f->acc;
    const struct rt_op op = { .code = a->op };
    uintptr_t unit = (uintptr_t)(a->esize & -a->esize);
    f->atomic = a->atomic && rt_reduce_gpu_atomic(a->op, a->elem, a->esize, &f->kernel) >= 0;
    if (f->atomic)
        return true;
    if (a->op == RT_OP_REPLACE || a->op == RT_OP_NO_OP)
        return true; /* copies */
    return rt_elem_packs(a->elem) && (uintptr_t)a->base % unit == 0 &&
           rt_reduce_gpu(g, &op, a->elem, &f->kernel) >= 0;
}

static bool needs(const struct wm_rma_fold *f, int which)
{
    return which == IN ? f->acc.op != RT_OP_NO_OP && !f->borrowed : f->fetches;
}

static void borrow(struct wm_rma_fold *f, const char *key)
{
    uintptr_t unit = (uintptr_t)(f->acc.esize & -f->acc.esize);
    f->borrowed = wm_rma_borrow(f->r, f->rank, key, &f->mem.at, &f->ops);
    if (f->borrowed && (uintptr_t)f->borrowed->ptr % unit)
        release(f);
}

/* Takes what the kernel needs beside the elements, if the device can reduce them. */
static bool on_device(struct wm_rma_fold *f, const char *key)
{
    const struct wm_rma_acc *a = &f->acc;
    const struct rt_gpu_ptr *at = &f->mem.at;
    if (!a->mem || f->mem.kind != WM_MEMORY_DEVICE || !has_kernel(f, at->g))
        return false;
    if (key)
        borrow(f, key);
    for (int i = IN; i <= OLD; i++)
        if (needs(f, i) && rt_gpu_stage_take(at->g, false, (size_t)a->len, &f->stage[i]) < 0) {
            release(f);
            return false;
        }
    f->g = at->g;
    f->near = rt_gpu_lies_on(at->g, at);
    return true;
}

static bool on_host(struct wm_rma_fold *f)
{
    size_t n = ((size_t)f->acc.len + 63) & ~(size_t)63;
    for (int i = IN; i <= OLD; i++)
        if (needs(f, i) && !(f->host[i] = aligned_alloc(64, n)))
            return false;
    return true;
}

void wm_rma_fold_begin(struct wm_rma *r, struct wm_rma_origin *o, uint32_t id,
                       const struct wm_rma_acc *a, bool fetches, const char *key)
{
    struct wm_rma_fold *f = calloc(1, sizeof *f);
    if (!f || rt_layout_dup(&f->layout, a->layout) < 0)
        rt_boot_abort(1, "out of memory for an accumulate of a window");
    f->r = r;
    f->peer = o->peer;
    f->rank = o->rank;
    f->id = id;
    f->fetches = fetches;
    f->acc = *a;
    f->acc.layout = &f->layout;
    if (a->mem) {
        f->mem = *a->mem;
        f->acc.mem = &f->mem;
    }
    rt_list_init(&f->link);
    if (!on_device(f, key) && !on_host(f))
        rt_boot_abort(1, "out of memory for an accumulate of a window");
    r->service.nserving++;
    if (!needs(f, IN)) {
        step_later(f);
        return;
    }
    if (key)
        wm_rma_send(r, f->peer, WM_RMA_WANTED, id, 0);
    receive(f);
}
