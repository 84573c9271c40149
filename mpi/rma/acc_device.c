/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates on device memory by kernels: the origin's data go to pinned memory, which the kernel
 * reads, so the target's elements do not leave the device unless the origin fetches them. */
#include "mpi/rma/acc_device.h"
#include "mpi/p2p/pack_any.h"
#include "runtime/base/err.h"
#include "runtime/gpu/gpu.h"
#include "runtime/gpu/kernel.h"
#include "runtime/reduce/gpu_codes.h"
#include <string.h>

/* A copy by the polling kernel, through pinned memory.  A copy by the driver, which the host has to
 * wait for, takes several times as long.  -RT_ENOTSUP: not this memory, or no pinned memory is
 * left. */
static int copy_short(struct rt_gpu *g, char *device, char *host, size_t n, bool to_device)
{
    struct rt_gpu_wait w;
    struct rt_gpu_stage *s;
    if (rt_gpu_stage_take(g, true, n, &s) < 0)
        return -RT_ENOTSUP;
    if (to_device)
        memcpy(s->p, host, n);
    rt_gpu_wait_begin(&w);
    rt_gpu_copy(g, to_device ? device : s->p, to_device ? s->p : device, n, &w.op);
    int err = rt_gpu_wait(&w);
    if (!to_device && !err)
        memcpy(host, s->p, n);
    rt_gpu_stage_give(s);
    return err;
}

static bool is_short(const struct wm_mem *mem, const struct rt_layout *l, int64_t n)
{
    return mem->kind == WM_MEMORY_DEVICE && l->contig && n <= (int64_t)RT_GPU_STAGE_SMALL;
}

int wm_rma_pack(const struct wm_mem *mem, const struct rt_layout *l, int64_t count, const void *buf,
                int64_t pos, void *out, int64_t n)
{
    int err = is_short(mem, l, n)
                  ? copy_short(mem->at.g, (char *)(uintptr_t)buf + pos, out, (size_t)n, false)
                  : -RT_ENOTSUP;
    return err == -RT_ENOTSUP ? wm_pack_now(mem, l, count, buf, pos, out, n) : err;
}

int wm_rma_unpack(const struct wm_mem *mem, const struct rt_layout *l, int64_t count, void *buf,
                  int64_t pos, const void *in, int64_t n)
{
    int err = is_short(mem, l, n)
                  ? copy_short(mem->at.g, (char *)buf + pos, (char *)(uintptr_t)in, (size_t)n, true)
                  : -RT_ENOTSUP;
    return err == -RT_ENOTSUP ? wm_unpack_now(mem, l, count, buf, pos, in, n) : err;
}

static int fold(struct rt_gpu *g, struct rt_reduce_gpu kernel, const struct wm_rma_acc *a,
                const char *in, char *at, int64_t len)
{
    const struct rt_layout element = { .size = a->esize,
                                       .extent = a->esize,
                                       .true_extent = a->esize,
                                       .contig = true,
                                       .elem = (uint8_t)a->elem };
    struct rt_gpu_wait w;
    rt_gpu_wait_begin(&w);
    rt_reduce_gpu_apply(g, kernel, in, at, len / a->esize, &element, &w.op);
    return rt_gpu_wait(&w);
}

int wm_rma_acc_device(const struct wm_rma_acc *a, int64_t done, int64_t len)
{
    const struct rt_op op = { .code = a->op };
    char *at = a->base + a->pos + done;
    struct rt_reduce_gpu kernel;
    struct rt_gpu *g = a->mem->at.g;
    struct rt_gpu_stage *stage;
    uintptr_t unit = (uintptr_t)(a->esize & -a->esize);
    if (a->mem->kind != WM_MEMORY_DEVICE || !a->layout->contig || !rt_elem_packs(a->elem) ||
        (uintptr_t)at % unit)
        return -RT_ENOTSUP;
    int err = rt_reduce_gpu(g, &op, a->elem, &kernel);
    if (err)
        return err;
    if (rt_gpu_stage_take(g, true, (size_t)len, &stage) < 0)
        return -RT_ENOTSUP;
    memcpy(stage->p, a->origin + done, (size_t)len);
    if (a->result)
        err = wm_rma_pack(a->mem, a->layout, a->count, a->base, a->pos + done, a->result + done,
                          len);
    if (!err)
        err = fold(g, kernel, a, stage->p, at, len);
    rt_gpu_stage_give(stage);
    return err;
}

/* ---- by atomic operations ---- */

#define TABLE_MOST ((int64_t)(RT_GPU_STAGE_SMALL / sizeof(uint64_t)))

struct table {
    uint64_t *at;
    char *base;                /* of the layout's element */
    int64_t esize, skip, left; /* elements to pass over, and then to list */
};

static void list_run(struct table *t, char *at, int64_t n)
{
    int64_t first = t->skip < n ? t->skip : n;
    t->skip -= first;
    for (int64_t i = first; i < n && t->left; i++, t->left--)
        *t->at++ = (uintptr_t)at + (uint64_t)(i * t->esize);
}

static void list_runs(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep)
{
    struct table *t = arg;
    for (int64_t i = 0; i < nrep && t->left; i++)
        list_run(t, t->base + off + i * stride, len / t->esize);
}

/* The addresses of n elements from packed position `pos` on. */
static void list_elements(const struct wm_rma_acc *a, int64_t pos, int64_t n, uint64_t *out)
{
    const struct rt_layout *l = a->layout;
    struct table t = { .at = out, .esize = a->esize, .left = n };
    t.skip = pos % l->size / a->esize;
    for (int64_t i = pos / l->size; i < a->count && t.left; i++) {
        t.base = a->base + i * l->extent;
        rt_layout_each(l, list_runs, &t);
    }
}

/* Operands, old values and addresses of a kernel. */
enum { IN, OLD, TABLE, STAGES };

static int change(const struct wm_rma_acc *a, struct rt_gpu_atomic *c, int64_t done, int64_t n,
                  struct rt_gpu_stage *const *stage)
{
    const struct rt_gpu_ptr *p = &a->mem->at;
    int64_t pos = a->pos + done, len = n * a->esize;
    struct rt_gpu_wait w;
    c->count = (size_t)n;
    c->near = !a->result && rt_gpu_lies_on(p->g, p);
    c->dst = (uintptr_t)a->base + (uint64_t)pos;
    if (stage[TABLE]) {
        list_elements(a, pos, n, (uint64_t *)(void *)stage[TABLE]->p);
        c->table = (uintptr_t)stage[TABLE]->p;
    }
    if (a->origin && c->code != RT_GPU_ATOMIC_READ) {
        memcpy(stage[IN]->p, a->origin + done, (size_t)len);
        c->src = (uintptr_t)stage[IN]->p;
    }
    if (a->result)
        c->old = (uintptr_t)stage[OLD]->p;
    rt_gpu_wait_begin(&w);
    rt_gpu_atomic(p->g, c, &w.op);
    int err = rt_gpu_wait(&w);
    if (!err && a->result)
        memcpy(a->result + done, stage[OLD]->p, (size_t)len);
    return err;
}

static int change_part(const struct wm_rma_acc *a, struct rt_gpu_atomic *c, int64_t done,
                       int64_t len)
{
    int64_t most = a->layout->contig ? len / a->esize : TABLE_MOST;
    struct rt_gpu_stage *stage[STAGES] = { NULL };
    int err = 0;
    for (int i = IN; i < STAGES && !err; i++)
        if (i != TABLE || !a->layout->contig)
            err = rt_gpu_stage_take(a->mem->at.g, true, RT_GPU_STAGE_SMALL, &stage[i]);
    for (int64_t i = 0, all = len / a->esize, n; i < all && !err; i += n) {
        n = all - i < most ? all - i : most;
        err = change(a, c, done + i * a->esize, n, stage);
    }
    for (int i = IN; i < STAGES; i++)
        if (stage[i])
            rt_gpu_stage_give(stage[i]);
    return err;
}

int wm_rma_acc_atomic(const struct wm_rma_acc *a, int64_t done, int64_t len)
{
    struct rt_reduce_gpu kernel;
    if (!a->atomic || rt_reduce_gpu_atomic(a->op, a->elem, a->esize, &kernel) < 0)
        return -RT_ENOTSUP;
    struct rt_gpu_atomic c = { .type = kernel.type, .code = kernel.code };
    return change_part(a, &c, done, len);
}

int wm_rma_cas_atomic(const struct wm_rma_acc *a, const void *compare)
{
    struct rt_reduce_gpu kernel;
    if (!a->atomic || rt_reduce_gpu_atomic(RT_OP_NO_OP, a->elem, a->esize, &kernel) < 0)
        return -RT_ENOTSUP;
    struct rt_gpu_atomic c = { .type = kernel.type,
                               .code = RT_GPU_ATOMIC_CAS,
                               .given = RT_GPU_GIVEN_COMPARE };
    memcpy(&c.compare, compare, (size_t)a->esize);
    return change_part(a, &c, 0, a->len);
}
