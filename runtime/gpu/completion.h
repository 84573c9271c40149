/* SPDX-License-Identifier: BSD-3-Clause */
/* How a launched kernel reports that all its blocks have completed.  The threads of a block have
 * stored and meet at a barrier.  One thread then executes a fence, which by cumulativity covers the
 * stores of all of them.  Only then does it increment a counter or store the host's flag. */
#ifndef RT_GPU_COMPLETION_H
#define RT_GPU_COMPLETION_H

#include "runtime/gpu/ptx.h"

/* near: all stores go into this device's own memory, and the host has found (dev.c,
 * near_fence_is_enough()) that on this device a fence of device scope brings them into the
 * second-level cache, where every reader finds them.  The location of the sources does not matter:
 * what has been stored has been loaded, so the sources may be overwritten, too. */
__device__ __forceinline__ void fence_for(bool near)
{
    if (near)
        fence_device();
    else
        fence_system();
}

/* Called by all threads, last.  flag 0: the end of the kernel is the notification.  The counter, in
 * device memory, is zero between launches. */
__device__ __forceinline__ void notify_end(uint64_t flag, uint32_t value, uint64_t counter_at,
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
