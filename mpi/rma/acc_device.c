/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates on device memory by kernels: the origin's data go to pinned memory, which the kernel
 * reads, so the target's elements do not leave the device unless the origin fetches them. */
#include "mpi/p2p/device.h"
#include "mpi/rma/rma.h"
#include "runtime/base/err.h"
#include "runtime/gpu/gpu.h"
#include "runtime/reduce/gpu_codes.h"
#include <string.h>

/* By the polling kernel, through pinned memory: a copy of the driver for which the host waits takes
 * several times as long.  -RT_ENOTSUP: not this memory, or no pinned memory is left. */
static int copy_short(char *device, char *host, size_t n, bool to_device)
{
    struct rt_gpu_wait w;
    struct rt_gpu_ptr p;
    struct rt_gpu_stage *s;
    if (rt_gpu_query(device, n, &p) < 0 || rt_gpu_stage_take(p.g, true, n, &s) < 0)
        return -RT_ENOTSUP;
    if (to_device)
        memcpy(s->p, host, n);
    rt_gpu_wait_begin(&w);
    rt_gpu_copy(p.g, to_device ? device : s->p, to_device ? s->p : device, n, &w.op);
    int err = rt_gpu_wait(&w);
    if (!to_device && !err)
        memcpy(host, s->p, n);
    rt_gpu_stage_give(s);
    return err;
}

static bool is_short(const struct rt_layout *l, int64_t n)
{
    return l->contig && n <= (int64_t)RT_GPU_STAGE_SMALL;
}

int wm_rma_pack(const struct rt_layout *l, int64_t count, const void *buf, int64_t pos, void *out,
                int64_t n)
{
    int err = is_short(l, n) ? copy_short((char *)(uintptr_t)buf + pos, out, (size_t)n, false)
                             : -RT_ENOTSUP;
    return err == -RT_ENOTSUP ? wm_pack_now(l, count, buf, pos, out, n) : err;
}

int wm_rma_unpack(const struct rt_layout *l, int64_t count, void *buf, int64_t pos, const void *in,
                  int64_t n)
{
    int err = is_short(l, n) ? copy_short((char *)buf + pos, (char *)(uintptr_t)in, (size_t)n, true)
                             : -RT_ENOTSUP;
    return err == -RT_ENOTSUP ? wm_unpack_now(l, count, buf, pos, in, n) : err;
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
    struct rt_gpu_ptr p;
    struct rt_gpu_stage *stage;
    uintptr_t unit = (uintptr_t)(a->esize & -a->esize);
    if (!a->layout->contig || !rt_elem_packs(a->elem) || (uintptr_t)at % unit)
        return -RT_ENOTSUP;
    int err = rt_gpu_query(at, (size_t)len, &p);
    if (!err)
        err = rt_reduce_gpu(p.g, &op, a->elem, &kernel);
    if (err)
        return err;
    if (rt_gpu_stage_take(p.g, true, (size_t)len, &stage) < 0)
        return -RT_ENOTSUP;
    memcpy(stage->p, a->origin + done, (size_t)len);
    if (a->result)
        err = wm_rma_pack(a->layout, a->count, a->base, a->pos + done, a->result + done, len);
    if (!err)
        err = fold(p.g, kernel, a, stage->p, at, len);
    rt_gpu_stage_give(stage);
    return err;
}
