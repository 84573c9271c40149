/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_atomic: kernel.h has its contract.  A thread has four operands in flight, then changes four
 * elements one after another. */
#include "runtime/gpu/atomic_kernel.h"
#include "runtime/gpu/completion.h"

#define AHEAD 4u

template <class U, class OP>
__device__ __forceinline__ void change_all(const struct rt_gpu_atomic_args &a, OP op)
{
    const u64 nt = (u64)gridDim.x * blockDim.x;
    const bool loads = !(a.given & RT_GPU_GIVEN_SRC) && a.code != RT_GPU_ATOMIC_READ;

#pragma unroll 1
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += AHEAD * nt) {
        U v[AHEAD];
        U *at[AHEAD];
#pragma unroll
        for (unsigned k = 0; k < AHEAD; k++) {
            const u64 e = i + k * nt;
            v[k] = (U)a.src;
            at[k] = (U *)a.dst + e;
            if (loads && e < a.count)
                v[k] = (U)value_of(a.src + e * sizeof(U), false, sizeof(U));
            if (a.table && e < a.count)
                at[k] = (U *)atomic_load((const u64 *)a.table + e);
        }
#pragma unroll
        for (unsigned k = 0; k < AHEAD; k++) {
            const u64 e = i + k * nt;
            if (e >= a.count)
                break;
            U was = op(at[k], v[k]);
            if (a.old)
                ((U *)a.old)[e] = was;
        }
    }
}

extern "C" __global__ void __launch_bounds__(WEFT_FOLD_THREADS, WEFT_ATOMIC_BLOCKS_SM)
    weft_atomic(const __grid_constant__ struct rt_gpu_atomic_args a)
{
    u64 compare = a.code == RT_GPU_ATOMIC_CAS
                      ? value_of(a.compare, a.given & RT_GPU_GIVEN_COMPARE, atomic_nbytes(a.type))
                      : 0;

    each_change(a.type, a.code, compare,
                [&](auto unit, auto op) { change_all<decltype(unit)>(a, op); });
    notify_end(a.flag, a.value, a.counter, a.near);
}
