/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic changes of elements by a device: a few by the polling kernel, more by a launch.  Under the
 * domain's lock. */
#include "runtime/gpu/atomic.h"
#include "runtime/base/cfg.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/copy.h"
#include "runtime/gpu/flight.h"
#include "runtime/gpu/fold.h"
#include "runtime/gpu/fold_kernels.h"
#include "runtime/gpu/linger.h"
#include "runtime/gpu/move.h"

/* The device of the memory at `at`; -1: it is no device's own memory, or not known. */
static int ordinal_of(const void *at)
{
    int attributes[] = { CU_PTR_MEMORY_TYPE, CU_PTR_IS_MANAGED, CU_PTR_DEVICE_ORDINAL };
    uint32_t type = 0, managed = 0;
    int ordinal = -1;
    void *values[] = { &type, &managed, &ordinal };
    cu_result r = rt_cuda.pointer_get_attributes(3, attributes, values, (cu_ptr)(uintptr_t)at);

    return r == CU_OK && type == CU_MEMORY_DEVICE && !managed ? ordinal : -1;
}

/* With `gpu_engines` kernels of the application may fill the device for long. */
bool rt_gpu_has_atomics(struct rt_gpu *g) { return g->fn[RT_GPU_ATOMIC] && !cfg.gpu_engines; }

bool rt_gpu_atomics_reach(struct rt_gpu *g, const void *at)
{
    int there = ordinal_of(at), native = 0;
    cu_device here, other;

    if (there < 0 || !rt_gpu_has_atomics(g))
        return false;
    if (there == g->info.ordinal)
        return true;
    return rt_cuda.device_get_p2p_attribute &&
           rt_cuda.device_get(&here, g->info.ordinal) == CU_OK &&
           rt_cuda.device_get(&other, there) == CU_OK &&
           rt_cuda.device_get_p2p_attribute(&native, CU_P2P_NATIVE_ATOMICS, here, other) == CU_OK &&
           native;
}

static bool ring_can(const struct rt_gpu_atomic *a, size_t nbytes)
{
    uint64_t any = a->dst | a->old | (a->given & RT_GPU_GIVEN_SRC ? 0 : a->src);

    return a->count <= RT_GPU_RING_CHANGES && !a->table && !(any & (nbytes - 1));
}

static struct rt_gpu_desc describe(const struct rt_gpu_atomic *a, size_t len, bool near)
{
    return (struct rt_gpu_desc){
        .fold = RT_GPU_RING_FOLD(RT_GPU_RING_ATOMIC, a->type, a->code, a->given, 0, 0, 0),
        .dst = a->dst,
        .src = a->old,
        .len = (uint32_t)len,
        .near = near,
        .more = { a->src, a->compare },
    };
}

static unsigned grid_of(const struct rt_gpu *g, size_t count)
{
    size_t n = (count + WEFT_FOLD_THREADS - 1) / WEFT_FOLD_THREADS;
    unsigned most = rt_gpu_most_blocks(g, WEFT_ATOMIC_BLOCKS_SM);

    return n < most ? (unsigned)n : most;
}

void rt_gpu_atomic(struct rt_gpu *g, const struct rt_gpu_atomic *a, struct rt_gpu_op *op)
{
    size_t nbytes = rt_gpu_type_nbytes(a->type), len = a->count * nbytes;

    if (a->count == 0 || !g->move) { /* ends at once, with success or an error */
        rt_gpu_copy(g, NULL, NULL, 0, op);
        return;
    }
    bool near = a->near && g->near_fence;
    struct move_fold f = { .atomic = { .type = a->type,
                                       .code = a->code,
                                       .given = a->given,
                                       .near = near,
                                       .count = a->count,
                                       .dst = a->dst,
                                       .table = a->table,
                                       .src = a->src,
                                       .compare = a->compare,
                                       .old = a->old },
                           .k = RT_GPU_ATOMIC,
                           .grid = grid_of(g, a->count),
                           .weight = len };
    op->len = 0;
    if (!move_begin(g, op))
        return;
    if (ring_can(a, nbytes) && move_ring_is_idle(g->move) && move_linger_takes(g->move, len)) {
        struct rt_gpu_desc d = describe(a, len, near);
        move_linger_post_fold(g->move, &f, &d, op);
    } else {
        move_launch(g->move, f.k, f.grid, WEFT_FOLD_THREADS, &f.args, sizeof f.args, op);
    }
}
