/* SPDX-License-Identifier: BSD-3-Clause */
/* Where streams of several processes meet: one warp that signals and waits (kernel.h has the
 * contract).  It is a kernel of its own, so that only a warp waits and never the grid of a
 * reduction.  Each lane polls one flag; all awaited flags lie in this device's memory, so polling
 * does not use the links. */
#include "runtime/gpu/kernel.h"
#include "runtime/gpu/ptx.h"
#include <stddef.h>

/* The host's word lies across PCIe: it is read once in LOOK_POLLS polls, about 0.1 ms.  More often
 * only costs PCIe reads; less often only delays the end after a failure. */
#define LOOK_POLLS 256u

__device__ __forceinline__ uint32_t load_sys(uint64_t addr)
{
    return from<true>::load((const uint32_t *)addr);
}

/* Whether the flag has reached its value. */
__device__ __forceinline__ bool wait_for(const struct rt_gpu_meet &p, uint64_t flag, uint32_t e)
{
    for (uint32_t polls = 1;; polls++) {
        if ((int32_t)(load_sys(flag) - e) >= 0)
            return true;
        if (load_sys(p.poison))
            return false;
        if (polls % LOOK_POLLS == 0 &&
            load_sys(p.words + offsetof(struct rt_gpu_meet_words, abort)))
            return false;
        if (polls > LOOK_POLLS)
            __nanosleep(200);
    }
}

extern "C" __global__ void __launch_bounds__(32)
    weft_meet(const __grid_constant__ struct rt_gpu_meet p)
{
    unsigned lane = threadIdx.x;
    uint32_t e = load_word((const uint32_t *)p.count) + p.step;
    uint32_t run = load_word((const uint32_t *)p.runs) + 1;
    bool came = true;

    __syncwarp();
    if (lane == 0) {
        store_word((uint32_t *)p.count, e);
        store_word((uint32_t *)p.runs, run);
        host_store(p.words + offsetof(struct rt_gpu_meet_words, begun), run);
    }
    fence_system(); /* the stream's earlier work, before the signals */
    if (lane < p.nsignal && p.adds)
        atomic_add((uint32_t *)p.signal[lane], 1u);
    else if (lane < p.nsignal)
        host_store(p.signal[lane], e);
    if (lane < p.nwait)
        came = wait_for(p, p.wait[lane], e - p.behind);
    fence_system(); /* the signals, before the stream's later work */
    if (!__all_sync(EVERY_LANE, came)) {
        if (lane < p.npoison)
            host_store(p.poison_of[lane], 1);
        if (lane == 0)
            host_store(p.words + offsetof(struct rt_gpu_meet_words, failed), 1);
    }
    __syncwarp();
    if (lane == 0) {
        fence_system(); /* failed, before ended */
        if (p.ticket)
            host_store(p.words + offsetof(struct rt_gpu_meet_words, ended), p.ticket);
        host_store(p.words + offsetof(struct rt_gpu_meet_words, over), run);
    }
}
