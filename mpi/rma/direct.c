/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on memory that this process can reach: by a pointer, or in private memory of another
 * process by process_vm_readv and process_vm_writev.  The origin's buffers may be device memory.
 * Operations are complete on return. */
#include "mpi/rma/direct.h"
#include "mpi/p2p/pack_any.h"
#include "mpi/rma/acc.h"
#include "mpi/rma/cma.h"
#include "mpi/rma/element.h"
#include "mpi/rma/notify.h"
#include "mpi/rma/op.h"
#include "mpi/rma/target.h"
#include "runtime/base/copy.h"
#include "runtime/base/err.h"
#include <stdlib.h>
#include <string.h>

#define PART ((int64_t)64 << 10) /* packed bytes at a time, where one side has gaps */
/* The same where one side is device memory: a copy has a fixed cost of microseconds. */
#define DEVICE_PART ((int64_t)1 << 20)

static char *target_of(const struct wm_rma_target *t, const struct wm_rma_args *a)
{
    return (char *)((uintptr_t)t->ptr + (uintptr_t)(a->disp * t->unit));
}

/* Between packed data and the target's memory. */
static int move_packed(const struct wm_rma_target *t, const struct wm_rma_args *a, char *there,
                       int64_t pos, char *packed, int64_t n)
{
    const struct rt_layout *tl = &a->target.type->layout;
    bool write = a->what == WM_RMA_DO_PUT;
    if (t->path == WM_PATH_CMA)
        return wm_rma_cma(t->local, write, tl, a->target.count, there, pos, packed, n);
    if (write)
        rt_layout_unpack(tl, a->target.count, there, pos, packed, n);
    else
        rt_layout_pack(tl, a->target.count, there, pos, packed, n);
    return 0;
}

/* Through a buffer, part by part. */
static int copy_packed(const struct wm_rma_target *t, const struct wm_rma_args *a, char *there)
{
    const struct wm_rma_side *o = &a->origin;
    const struct rt_layout *ol = &o->type->layout;
    bool write = a->what == WM_RMA_DO_PUT;
    int64_t most = a->on_device ? DEVICE_PART : PART;
    most = a->nbytes < most ? a->nbytes : most;
    char *tmp = malloc((size_t)most);
    int err = tmp ? 0 : -RT_ENOMEM;
    for (int64_t pos = 0, n; pos < a->nbytes && !err; pos += n) {
        n = a->nbytes - pos < most ? a->nbytes - pos : most;
        if (write)
            err = wm_pack_now(wm_rma_mem(a, WM_RMA_ORIGIN), ol, o->count, o->buf, pos, tmp, n);
        if (!err)
            err = move_packed(t, a, there, pos, tmp, n);
        if (!write && !err)
            err = wm_unpack_now(wm_rma_mem(a, WM_RMA_ORIGIN), ol, o->count, o->buf, pos, tmp, n);
    }
    free(tmp);
    return err;
}

/* The origin's buffer is device memory, the target's memory is not. */
static int copy_device(const struct wm_rma_target *t, const struct wm_rma_args *a, char *there)
{
    const struct wm_rma_side *o = &a->origin;
    if (t->path == WM_PATH_CMA || !a->target.type->layout.contig)
        return copy_packed(t, a, there);
    return a->what == WM_RMA_DO_PUT ? wm_pack_now(wm_rma_mem(a, WM_RMA_ORIGIN), &o->type->layout,
                                                  o->count, o->buf, 0, there, a->nbytes)
                                    : wm_unpack_now(wm_rma_mem(a, WM_RMA_ORIGIN), &o->type->layout,
                                                    o->count, o->buf, 0, there, a->nbytes);
}

static int copy_cma(const struct wm_rma_target *t, const struct wm_rma_args *a, char *there)
{
    if (a->origin.type->layout.contig)
        return move_packed(t, a, there, 0, a->origin.buf, a->nbytes);
    return copy_packed(t, a, there);
}

/* A put or get.  0 or -RT_E... */
static int copy(const struct wm_rma_target *t, const struct wm_rma_args *a)
{
    const struct rt_layout *ol = &a->origin.type->layout, *tl = &a->target.type->layout;
    char *there = target_of(t, a);
    if (rt_unlikely(a->on_device))
        return copy_device(t, a, there);
    if (rt_unlikely(t->path == WM_PATH_CMA))
        return copy_cma(t, a, there);
    bool put = a->what == WM_RMA_DO_PUT;
    if (rt_likely(ol->contig && tl->contig)) {
        char *to = put ? there : a->origin.buf, *from = put ? a->origin.buf : there;
        if (a->nbytes <= 64)
            rt_copy_small(to, from, (size_t)a->nbytes);
        else
            memmove(to, from, (size_t)a->nbytes); /* a process may name its own memory twice */
    } else if (put) {
        rt_layout_copy(ol, a->origin.count, a->origin.buf, tl, a->target.count, there);
    } else {
        rt_layout_copy(tl, a->target.count, there, ol, a->origin.count, a->origin.buf);
    }
    return 0;
}

/* An accumulate in parts, as far as the origin's or the result's data have gaps or are device
 * memory. */
static int accumulate(struct wm_rma_acc *c, const struct wm_rma_args *a)
{
    const struct wm_rma_side *o = &a->origin, *res = &a->result;
    bool gives = a->opcode != RT_OP_NO_OP;
    bool packs = gives && (!o->type->layout.contig || a->on_device & WM_RMA_ORIGIN);
    bool unpacks = a->fetches && (!res->type->layout.contig || a->on_device & WM_RMA_RESULT);
    int64_t most = packs || unpacks ? PART / c->esize * c->esize : a->nbytes;
    char *tmp = packs || unpacks ? malloc(2 * (size_t)(most < a->nbytes ? most : a->nbytes)) : NULL;
    int err = (packs || unpacks) && !tmp ? -RT_ENOMEM : 0;
    for (int64_t pos = 0; pos < a->nbytes && !err; pos += c->len) {
        c->pos = pos;
        c->len = a->nbytes - pos < most ? a->nbytes - pos : most;
        c->origin = !gives ? NULL : packs ? tmp : o->buf + pos;
        c->result = !a->fetches ? NULL : unpacks ? tmp + c->len : res->buf + pos;
        if (packs)
            err = wm_pack_now(wm_rma_mem(a, WM_RMA_ORIGIN), &o->type->layout, o->count, o->buf, pos,
                              tmp, c->len);
        if (!err)
            err = wm_rma_acc(c);
        if (unpacks && !err)
            err = wm_unpack_now(wm_rma_mem(a, WM_RMA_RESULT), &res->type->layout, res->count,
                                res->buf, pos, tmp + c->len, c->len);
    }
    free(tmp);
    return err;
}

int wm_rma_execute(struct wm_rma *r, struct wm_rma_target *t, const struct wm_rma_args *a)
{
    if (rt_likely(a->what == WM_RMA_DO_PUT || a->what == WM_RMA_DO_GET)) {
        int err = rt_likely(a->nbytes) ? copy(t, a) : 0;
        if (rt_unlikely(a->note) && !err)
            wm_rma_notify_target(r, t, a->note);
        return err;
    }
    const struct wm_type *basic = a->target.type->basic;
    struct wm_rma_acc c; /* field by field: clearing it first costs as much as a short accumulate */
    c.rma = r;
    c.ctl = t->ctl;
    c.cma = t->path == WM_PATH_CMA ? t->local : -1;
    c.zero = t->ptr;
    c.base = target_of(t, a);
    c.count = a->target.count;
    c.layout = &a->target.type->layout;
    c.mem = NULL;
    c.op = a->opcode;
    c.elem = basic->layout.elem;
    c.esize = basic->layout.size;
    c.pos = 0;
    c.len = a->nbytes;
    if (wm_rma_element_try(r, &c, a))
        return 0;
    if (a->what == WM_RMA_DO_ACC)
        return accumulate(&c, a);
    c.origin = a->origin.buf;
    c.result = a->result.buf;
    if (rt_likely(!(a->on_device & WM_RMA_RESULT)))
        return wm_rma_cas(&c, a->compare);
    char old[16];
    c.result = old;
    int err = wm_rma_cas(&c, a->compare);
    return err ? err
               : wm_unpack_now(wm_rma_mem(a, WM_RMA_RESULT), c.layout, 1, a->result.buf, 0, old,
                               a->nbytes);
}
