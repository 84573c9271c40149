/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates of a few elements, fetch-and-op and compare-and-swap on device memory by a device of
 * the origin: atomic operations on the target's memory, which is mapped, so the target takes no
 * part.
 *
 * One rule makes all accumulates on a target atomic.  The target decides once, at creation, and
 * publishes it (ctl->atomic): every accumulate on elements of 1, 2, 4 or 8 bytes that are numbers
 * or bytes is then an operation of a device that is atomic for all devices, by whatever process and
 * path: the target carries out long ones, scattered ones, and those of origins without such access
 * by the same operations (acc_device.c, acc_bulk.c).  All other elements (complex numbers, pairs,
 * longer ones, and what is not aligned to its size) the target alone changes, one message after
 * another.
 *
 * Accumulates of one origin on a target keep their order: one by a device starts when the target
 * has acknowledged all messages, and the next accumulate waits until the device has finished. */
#include "mpi/rma/acc.h"
#include "mpi/rma/map.h"
#include "runtime/base/err.h"
#include "runtime/gpu/kernel.h"
#include "runtime/reduce/gpu_codes.h"
#include <string.h>

/* Most bytes of elements: as many as the ring of the polling kernel takes.  The polling kernel
 * changes all of them in the time that one takes. */
#define MOST (RT_GPU_RING_CHANGES * sizeof(uint64_t))

static bool result_on_host(const struct wm_rma_args *a)
{
    return a->result.type && !(a->on_device & WM_RMA_RESULT);
}

static void changed(struct rt_gpu_op *copy, int err)
{
    struct wm_rma_op *op = rt_container(copy, struct wm_rma_op, copy);
    op->t->device.ncopies--;
    op->t->device.nchanges--;
    op->copying = false;
    if (result_on_host(&op->a) && !err)
        memcpy(op->a.result.buf, op->stage->p, (size_t)op->a.nbytes);
    if (op->stage)
        rt_gpu_stage_give(op->stage);
    op->stage = NULL;
    wm_rma_op_done(op, err);
}

/* Type and code; false: an operation for messages. */
static bool describe(const struct wm_rma_op *op, struct rt_gpu_atomic *c)
{
    const struct wm_rma_args *a = &op->a;
    const struct wm_type *basic = a->target.type->basic;
    bool swaps = a->what == WM_RMA_DO_CAS;
    struct rt_reduce_gpu kernel;
    uint64_t at = op->t->ctl->base + (uint64_t)(a->disp * op->t->unit);
    int64_t count = a->nbytes / basic->layout.size;
    if (count > RT_GPU_RING_CHANGES || !a->target.type->layout.contig ||
        (a->origin.type && !a->origin.type->layout.contig) ||
        (a->result.type && !a->result.type->layout.contig))
        return false;
    if (rt_reduce_gpu_atomic(swaps ? RT_OP_NO_OP : (enum rt_opcode)a->opcode, basic->layout.elem,
                             basic->layout.size, &kernel) < 0 ||
        at % (uint64_t)basic->layout.size)
        return false;
    *c = (struct rt_gpu_atomic){ .type = kernel.type,
                                 .code = swaps ? RT_GPU_ATOMIC_CAS : kernel.code,
                                 .count = (size_t)count };
    return true;
}

/* Takes a buffer that is on a device.  All such buffers of an operation must be on the same device,
 * which then carries out the operation; *near describes the last of them. */
static bool on_one_device(const struct wm_rma_op *op, int which, const void *buf,
                          struct rt_gpu_ptr *near)
{
    const struct wm_mem *mem = wm_rma_mem(&op->a, which);
    if ((uintptr_t)buf % (uintptr_t)op->a.target.type->basic->layout.size ||
        mem->kind != WM_MEMORY_DEVICE || (near->g && near->g != mem->at.g))
        return false;
    *near = mem->at;
    return true;
}

/* An operand: its value or its device address. */
static bool operand(const struct wm_rma_op *op, int which, const void *buf, uint64_t *out,
                    uint8_t *given, struct rt_gpu_ptr *near)
{
    if (op->a.on_device & which) {
        *out = (uintptr_t)buf;
        return on_one_device(op, which, buf, near);
    }
    memcpy(out, buf, (size_t)op->a.target.type->basic->layout.size);
    *given |= which == WM_RMA_ORIGIN ? RT_GPU_GIVEN_SRC : RT_GPU_GIVEN_COMPARE;
    return true;
}

/* Pinned memory in place of buffers in host memory: for the result, and after it for the operands
 * if there are several. */
static bool stage(struct wm_rma_op *op, struct rt_gpu_atomic *c, struct rt_gpu *g)
{
    bool several = c->given & RT_GPU_GIVEN_SRC && c->count > 1;
    if (!several && !result_on_host(&op->a))
        return true;
    if (rt_gpu_stage_take(g, true, 2 * MOST, &op->stage) < 0)
        return false;
    if (several) {
        c->given &= (uint8_t)~RT_GPU_GIVEN_SRC;
        c->src = (uintptr_t)memcpy(op->stage->p + MOST, op->a.origin.buf, (size_t)op->a.nbytes);
    }
    if (result_on_host(&op->a))
        c->old = (uintptr_t)op->stage->p;
    return true;
}

/* Operands and result; *near: memory of the device that carries out the operation. */
static bool buffers(struct wm_rma *r, struct wm_rma_op *op, struct rt_gpu_atomic *c,
                    struct rt_gpu_ptr *near)
{
    const struct wm_rma_args *a = &op->a;
    bool ok = true, here = a->on_device & WM_RMA_RESULT;
    if (c->code != RT_GPU_ATOMIC_READ)
        ok = operand(op, WM_RMA_ORIGIN, a->origin.buf, &c->src, &c->given, near);
    if (ok && c->code == RT_GPU_ATOMIC_CAS)
        ok = operand(op, WM_RMA_COMPARE, a->compare, &c->compare, &c->given, near);
    if (ok && here) {
        c->old = (uintptr_t)a->result.buf;
        ok = on_one_device(op, WM_RMA_RESULT, a->result.buf, near);
    }
    c->near = ok && here && rt_gpu_lies_on(near->g, near); /* `near` is the result's */
    if (ok && !near->g) {
        const struct wm_mem *own = wm_rma_own(r);
        if (!own)
            return false;
        *near = own->at;
    }
    return ok && stage(op, c, near->g);
}

static void release(struct wm_rma_op *op)
{
    if (op->stage)
        rt_gpu_stage_give(op->stage);
    op->stage = NULL;
}

int wm_rma_change_start(struct wm_rma_op *op)
{
    struct wm_rma *r = op->rma;
    struct wm_rma_target *t = op->t;
    struct rt_gpu_ptr near = { .g = NULL };
    struct rt_gpu_atomic c;
    bool atomic;
    if (!wm_rma_changes(t) || t->msg.sent != t->msg.acked || t->device.nfolds || !describe(op, &c))
        return -RT_ENOTSUP;
    if (t->device.nchanges)
        return -RT_EAGAIN;
    char *there = buffers(r, op, &c, &near) ? wm_rma_map_reach(r, t, &near, &atomic) : NULL;
    if (!there || !atomic) {
        release(op);
        return -RT_ENOTSUP;
    }
    c.dst = (uintptr_t)there + (uint64_t)(op->a.disp * t->unit);
    rt_list_del(&op->link);
    rt_list_append(&t->flight, &op->link);
    wm_rma_activate(r, t);
    t->device.ncopies++;
    t->device.nchanges++;
    op->copying = true;
    op->copy.done = changed;
    rt_gpu_atomic(near.g, &c, &op->copy);
    return 0;
}
