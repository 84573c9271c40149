/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of device memory, mapped by the other processes of the host.  The owner describes its
 * memory once, at creation, by a key of the transport for device memory in its control block.  An
 * origin maps the memory for the device that copies, and that device copies without the target's
 * help: puts and gets of contiguous elements at the target.  Accumulates: acc_origin.c.  The data
 * of long ones are mapped the other way: the origin lends them to the target. */
#include "mpi/rma/map.h"
#include "mpi/rma/notify.h"
#include "mpi/rma/op.h"
#include "mpi/rma/target.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include <stdlib.h>
#include <string.h>

/* The memory of a target, mapped for one device of this process. */
struct wm_rma_map {
    struct wm_rma_map *next;
    struct rt_gpu *g;
    const struct btl_ops *ops;
    struct btl_rmem *att; /* NULL: it could not be mapped */
    bool atomic;          /* rt_gpu_atomics_reach() */
    unsigned skip;        /* operations before another attempt */
};

_Static_assert(BTL_KEY_MAX <= WM_RMA_KEY, "a key of the transport fits");

/* Operations by messages after a failure; an attempt takes as long as several of them. */
#define TRY_AGAIN 255

/* ---- the owner ---- */

const struct wm_mem *wm_rma_own(struct wm_rma *r)
{
    if (!r->shared.ctl->on_device || !r->memory.base)
        return NULL;
    if (rt_unlikely(r->device.own.kind != WM_MEMORY_DEVICE || r->device.own_era != rt_gpu_era)) {
        if (wm_resolve_bytes(r->memory.base, (int64_t)r->memory.nbytes, &r->device.own) < 0)
            r->device.own.kind = WM_MEMORY_UNRESOLVED;
        r->device.own_era = rt_gpu_era;
    }
    return r->device.own.kind == WM_MEMORY_DEVICE ? &r->device.own : NULL;
}

/* The connection for device memory to a rank of the window; NULL: none that can map. */
static struct btl_peer *connection(struct wm_rma *r, int rank)
{
    struct wm_peer *p;
    struct btl_peer *bp = wm_comm_peer(r->comm, rank, &p) < 0 ? NULL : wm_domain_dev(r->dom, p);
    return bp && !wm_dev_by_net(p) && bp->btl->caps.flags & BTL_PTR ? bp : NULL;
}

static int offer_all(struct wm_rma *r, const int *ranks)
{
    int err = 0;
    for (int i = 0; i < r->shared.nmembers && err >= 0; i++) {
        struct btl_peer *bp = connection(r, ranks[i]);
        err = !bp                       ? -RT_ENOTSUP
              : bp->btl->ops->mem_offer ? bp->btl->ops->mem_offer(bp, r->device.mem)
                                        : 0;
    }
    return err;
}

void wm_rma_map_offer(struct wm_rma *r, const int *ranks)
{
    struct btl_peer *self = connection(r, r->comm->rank);
    const struct wm_mem *own = self ? wm_rma_own(r) : NULL;
    if (!own)
        return;
    const struct btl_ops *ops = self->btl->ops;
    if (ops->mem_reg(self->btl, r->memory.base, (size_t)r->memory.nbytes, &own->at,
                     &r->device.mem) < 0) {
        r->device.mem = NULL;
        return;
    }
    r->device.mem_ops = ops;
    if (offer_all(r, ranks) < 0 || ops->mem_key(r->device.mem, r->shared.ctl->key) < 0)
        return;
    r->shared.ctl->has_key = 1;
    r->shared.ctl->atomic = rt_gpu_lies_on(own->at.g, &own->at) && rt_gpu_has_atomics(own->at.g);
}

void wm_rma_map_withdraw(struct wm_rma *r)
{
    if (r->device.mem)
        r->device.mem_ops->mem_dereg(r->device.mem);
    r->device.mem = NULL;
}

/* ---- the origin ---- */

static void maps_free(struct wm_rma_map **maps)
{
    for (struct wm_rma_map *m = *maps, *next; m; m = next) {
        next = m->next;
        if (m->att)
            m->ops->detach(m->att);
        free(m);
    }
    *maps = NULL;
}

void wm_rma_maps_free(struct wm_rma_target *t)
{
    maps_free(&t->device.maps);
    maps_free(&t->device.shown);
}

/* The mapping for a device; NULL: no memory for it. */
static struct wm_rma_map *map_of(struct wm_rma_target *t, struct rt_gpu *g)
{
    /* a context has been released: its mappings are invalid */
    if (rt_unlikely(t->device.map_era != rt_gpu_era) && !t->device.ncopies && !t->device.streamed) {
        maps_free(&t->device.maps);
        t->device.map_era = rt_gpu_era;
    }
    if (rt_unlikely(t->device.map_era != rt_gpu_era))
        return NULL;
    struct wm_rma_map *m = t->device.maps;
    while (m && m->g != g)
        m = m->next;
    if (m || !(m = calloc(1, sizeof *m)))
        return m;
    m->g = g;
    m->next = t->device.maps;
    t->device.maps = m;
    return m;
}

/* Maps the memory of a target, unless it is mapped already.  0 or -RT_E... */
static int attach(struct wm_rma *r, struct wm_rma_target *t, struct wm_rma_map *m,
                  const struct rt_gpu_ptr *near)
{
    if (rt_likely(m->att != NULL))
        return 0;
    if (m->skip) {
        m->skip--;
        return -RT_ENOTSUP;
    }
    struct btl_peer *bp = connection(r, t->rank);
    int err = bp ? bp->btl->ops->attach(bp, t->ctl->key, near, &m->att) : -RT_ENOTSUP;
    if (err >= 0) {
        m->ops = bp->btl->ops;
        m->atomic = rt_gpu_atomics_reach(near->g, m->att->ptr);
        return 0;
    }
    m->att = NULL;
    m->skip = TRY_AGAIN;
    log_debug(MPI, "window %u: device memory of rank %d cannot be mapped: operations by messages",
              r->comm->ctx, t->rank);
    return err;
}

/* By a mapping of its own (t->device.shown), because the mappings for copies end with their
 * context. */
char *wm_rma_map_address(struct wm_rma *r, struct wm_rma_target *t)
{
    if (t->device.shown)
        return t->device.shown->att->ptr;
    const struct wm_mem *own = t->path == WM_PATH_DEVICE ? wm_rma_own(r) : NULL;
    if (!own)
        return NULL;
    struct wm_rma_map *m = calloc(1, sizeof *m);
    if (!m || attach(r, t, m, &own->at) < 0) {
        free(m);
        return NULL;
    }
    t->device.shown = m;
    return m->att->ptr;
}

char *wm_rma_map_reach(struct wm_rma *r, struct wm_rma_target *t, const struct rt_gpu_ptr *near,
                       bool *atomic)
{
    struct wm_rma_map *m = map_of(t, near->g);
    if (!m || attach(r, t, m, near) < 0)
        return NULL;
    *atomic = m->atomic;
    return m->att->ptr;
}

char *wm_rma_map_for_stream(struct wm_rma *r, struct wm_rma_target *t, const struct wm_rma_args *a,
                            const struct rt_gpu_ptr *near)
{
    bool atomic;
    if (t->path != WM_PATH_DEVICE || !a->target.type->layout.contig)
        return NULL;
    char *there = wm_rma_map_reach(r, t, near, &atomic);
    if (!there)
        return NULL;
    t->device.streamed = true;
    return there + a->disp * t->unit;
}

static void copied(struct rt_gpu_op *copy, int err)
{
    struct wm_rma_op *op = rt_container(copy, struct wm_rma_op, copy);
    const struct wm_rma_side *o = &op->a.origin;
    op->t->device.ncopies--;
    op->copying = false;
    if (op->stage && op->a.what == WM_RMA_DO_GET && !err)
        rt_layout_unpack(&o->type->layout, o->count, o->buf, 0, op->stage->p, op->a.nbytes);
    if (op->stage)
        rt_gpu_stage_give(op->stage);
    op->stage = NULL;
    if (op->a.note && !err)
        wm_rma_notify_target(op->rma, op->t, op->a.note);
    wm_rma_op_done(op, err);
}

/* Where the origin's data are for the device: in place, or in pinned memory. */
static int origin_of(struct wm_rma *r, struct wm_rma_op *op, const struct rt_gpu_ptr **near,
                     char **here)
{
    const struct wm_rma_side *o = &op->a.origin;
    size_t n = (size_t)op->a.nbytes;
    *here = o->buf;
    if (op->a.on_device & WM_RMA_ORIGIN) {
        *near = &wm_rma_mem(&op->a, WM_RMA_ORIGIN)->at;
        return o->type->layout.contig ? 0 : -RT_ENOTSUP;
    }
    /* host memory: the device of the own window copies; messages have pipelines for long data */
    const struct wm_mem *own = n <= RT_GPU_STAGE_SMALL ? wm_rma_own(r) : NULL;
    if (!own)
        return -RT_ENOTSUP;
    *near = &own->at;
    int err = rt_gpu_stage_take(own->at.g, true, n, &op->stage);
    if (err < 0)
        return err;
    *here = op->stage->p;
    if (op->a.what == WM_RMA_DO_PUT)
        rt_layout_pack(&o->type->layout, o->count, o->buf, 0, *here, op->a.nbytes);
    return 0;
}

/* `here`: the origin's data; `near`: memory of the device that copies. */
static int copy(struct wm_rma *r, struct wm_rma_op *op, const struct rt_gpu_ptr *near, char *here)
{
    struct wm_rma_target *t = op->t;
    bool atomic;
    char *there = wm_rma_map_reach(r, t, near, &atomic);
    if (!there)
        return -RT_ENOTSUP;
    there += op->a.disp * t->unit;
    size_t n = (size_t)op->a.nbytes;
    bool put = op->a.what == WM_RMA_DO_PUT;
    rt_list_del(&op->link);
    rt_list_append(&t->flight, &op->link);
    wm_rma_activate(r, t);
    t->device.ncopies++;
    op->copying = true;
    op->copy.done = copied;
    if (put)
        rt_gpu_copy(near->g, there, here, n, &op->copy);
    else if (!op->stage && rt_gpu_lies_on(near->g, near))
        rt_gpu_copy_near(near->g, here, there, n, &op->copy);
    else
        rt_gpu_copy(near->g, here, there, n, &op->copy);
    rt_gpu_copies_more(near->g); /* no call between here and the flush makes progress */
    return 0;
}

int wm_rma_map_start(struct wm_rma_op *op)
{
    const struct rt_gpu_ptr *near;
    char *here;
    if (!op->a.target.type->layout.contig || !op->a.nbytes)
        return -RT_ENOTSUP;
    int err = origin_of(op->rma, op, &near, &here);
    if (err >= 0)
        err = copy(op->rma, op, near, here);
    if (err >= 0)
        return 0;
    if (op->stage)
        rt_gpu_stage_give(op->stage);
    op->stage = NULL;
    return -RT_ENOTSUP; /* messages report the error if they fail, too */
}

/* ---- data of long accumulates ---- */

static int lend(struct wm_rma_op *op, struct btl_peer *bp, char *key)
{
    const struct wm_rma_args *a = &op->a;
    const struct wm_mem *mem = wm_rma_mem(a, WM_RMA_ORIGIN);
    const struct btl_ops *ops = bp->btl->ops;
    int err = ops->mem_reg(bp->btl, a->origin.buf, (size_t)a->nbytes, &mem->at, &op->lent.mem);
    if (err < 0) {
        op->lent.mem = NULL;
        return err;
    }
    op->lent.ops = ops;
    err = ops->mem_offer ? ops->mem_offer(bp, op->lent.mem) : 0;
    return err < 0 ? err : ops->mem_key(op->lent.mem, key);
}

bool wm_rma_lend(struct wm_rma_op *op, char key[WM_RMA_KEY])
{
    const struct wm_rma_side *o = &op->a.origin;
    struct wm_rma_target *t = op->t;
    if (t->path != WM_PATH_DEVICE || !o->type || !o->type->layout.contig ||
        wm_rma_mem(&op->a, WM_RMA_ORIGIN)->kind != WM_MEMORY_DEVICE)
        return false;
    if (t->device.lend_skip) {
        t->device.lend_skip--;
        return false;
    }
    struct btl_peer *bp = connection(op->rma, t->rank);
    if (bp && lend(op, bp, key) >= 0)
        return true;
    wm_rma_op_unlend(op);
    return false;
}

void wm_rma_lend_refused(struct wm_rma_op *op)
{
    wm_rma_op_unlend(op);
    op->t->device.lend_skip = TRY_AGAIN;
}

struct btl_rmem *wm_rma_borrow(struct wm_rma *r, int rank, const char *key,
                               const struct rt_gpu_ptr *near, const struct btl_ops **ops)
{
    struct btl_peer *bp = connection(r, rank);
    struct btl_rmem *m;
    if (!bp || bp->btl->ops->attach(bp, key, near, &m) < 0)
        return NULL;
    *ops = bp->btl->ops;
    return m;
}
