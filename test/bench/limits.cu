/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of limits_gpu.c, one thread each.  All loops end after limit_ns, whatever the other
 * side does, so that a failed measurement is a missing figure and not a hang. */
#include <stdint.h>

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

extern "C" __global__ void bench_empty()
{
}

extern "C" __global__ void bench_flag(word *flag, uint32_t value)
{
    *flag = value;
}

/* Answers `rounds` words of the host, 1, 2, 3 and so on. */
extern "C" __global__ void bench_echo(word *in, word *out, uint32_t rounds, uint64_t limit_ns)
{
    uint64_t until = now_ns() + limit_ns;

    for (uint32_t i = 1; i <= rounds && wait_for(in, i, until); i++)
        *out = i;
}

/* One of two: the words `mine` and `theirs` lie in the memory of the device that polls them.  The
 * first writes the nanoseconds of all rounds but the first, in which the other had to be waited
 * for, to *took; 0 when time was up. */
extern "C" __global__ void bench_pong(word *mine, word *theirs, uint32_t first, uint32_t rounds,
                                      uint64_t limit_ns, uint64_t *took)
{
    uint64_t start = now_ns(), until = start + limit_ns;

    for (uint32_t i = 1; i <= rounds; i++) {
        if (first)
            *theirs = i;
        if (!wait_for(mine, i, until))
            return;
        if (!first)
            *theirs = i;
        if (i == 1)
            start = now_ns();
    }
    if (first)
        *took = now_ns() - start;
}
