/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of limits_gpu.c, one thread each, and the computation of compute.c.  All loops end
 * after limit_ns, whatever the other side does, so that a failed measurement is a missing figure
 * and not a hang. */
#include "test/bench/limits.h"

typedef volatile uint32_t word;
enum { LOOKS = 64 }; /* between two looks at the clock */

static __device__ uint64_t now_ns()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

static __device__ bool wait_for(word *w, uint32_t value, uint64_t until)
{
    for (int i = 1; *w != value; i++) {
        if (i % LOOKS == 0 && now_ns() > until)
            return false;
    }
    return true;
}

static __device__ word *at(uint64_t address) { return (word *)address; }

extern "C" __global__ void bench_empty(struct bench_kernel) {}

extern "C" __global__ void bench_flag(struct bench_kernel k) { *at(k.out) = k.rounds; }

/* Answers `rounds` words of the host, 1, 2, 3 and so on. */
extern "C" __global__ void bench_echo(struct bench_kernel k)
{
    uint64_t until = now_ns() + k.limit_ns;

    for (uint32_t i = 1; i <= k.rounds && wait_for(at(k.in), i, until); i++)
        *at(k.out) = i;
}

/* One of two: the words lie in the memory of the device that polls them.  The first stores the
 * nanoseconds of all rounds but round one, in which the other had to be waited for; nothing when
 * time was up. */
extern "C" __global__ void bench_pong(struct bench_kernel k)
{
    uint64_t start = now_ns(), until = start + k.limit_ns;

    for (uint32_t i = 1; i <= k.rounds; i++) {
        if (k.first)
            *at(k.out) = i;
        if (!wait_for(at(k.in), i, until))
            return;
        if (!k.first)
            *at(k.out) = i;
        if (i == 1)
            start = now_ns();
    }
    if (k.first)
        *(volatile uint64_t *)k.took = now_ns() - start;
}

/* Counted work of every thread of the grid; the result, which is never -1, is not wanted. */
extern "C" __global__ void bench_work(struct bench_kernel k)
{
    float x = (float)threadIdx.x;

    for (uint32_t i = 0; i < k.rounds; i++)
        x = x * 0.999999f + 1e-6f;
    if (x == -1.0f)
        *at(k.out) = 1;
}
