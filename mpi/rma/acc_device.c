/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates on device memory by kernels: the origin's data go to pinned memory, which the kernel
 * reads, so the target's elements do not leave the device unless the origin fetches them. */
#include "mpi/rma/rma.h"
#include "runtime/base/err.h"
#include "runtime/gpu/gpu.h"
#include "runtime/reduce/gpu_codes.h"
#include <string.h>

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
        err = rt_gpu_copy_now(p.g, a->result + done, at, (size_t)len);
    if (!err)
        err = fold(p.g, kernel, a, stage->p, at, len);
    rt_gpu_stage_give(stage);
    return err;
}
