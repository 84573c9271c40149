/* SPDX-License-Identifier: BSD-3-Clause */
/* How a launched kernel says that all its blocks have ended.  Threads of a block have stored and
 * meet at a barrier; one then executes a fence, which by cumulativity covers the stores of all of
 * them, and only then is a counter raised or the host's flag stored. */
#ifndef RT_GPU_COMPLETION_H
#define RT_GPU_COMPLETION_H

#include "runtime/gpu/ptx.h"

/* near: all stores go into this device's own memory, and the host has found the device to be one of
 * those on which (dev.c, near_fence_is_enough()) a fence of the device has them in its second-level
 * cache, where everybody finds them.  Where the data come from does not matter: what
 * has been stored has been loaded, so the sources may be written again, too. */
__device__ __forceinline__ void fence_for(bool near)
{
    if (near)
        fence_device();
    else
        fence_system();
}

/* Called by all threads, last.  flag 0: the end of the kernel says it.  The counter, in device
 * memory, is zero between launches. */
__device__ __forceinline__ void tell_end(uint64_t flag, uint32_t value, uint64_t counter_at,
                                         bool near)
{
    if (!flag)
        return;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    fence_for(near);
    if (gridDim.x > 1) {
        uint32_t *counter = (uint32_t *)counter_at;
        if (atomicAdd(counter, 1u) != gridDim.x - 1)
            return;
        *(volatile uint32_t *)counter = 0;
        fence_for(near); /* the other blocks' data, seen by way of the counter, before the flag */
    }
    host_store(flag, value);
}

#endif
