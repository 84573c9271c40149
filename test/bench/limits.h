/* SPDX-License-Identifier: BSD-3-Clause */
/* What limits_gpu.c gives to the kernels of limits.cu, each of which takes this one parameter.  A
 * test's driver runs the same on the CPU. */
#ifndef TEST_BENCH_LIMITS_H
#define TEST_BENCH_LIMITS_H

#include <stdint.h>

struct bench_kernel {
    uint64_t in, out; /* addresses of 32-bit words: polled, and written */
    uint64_t took;    /* bench_pong: where the nanoseconds go */
    uint64_t limit_ns;
    uint32_t rounds; /* bench_flag: the value to store; bench_work: how much */
    uint32_t first;  /* bench_pong: begins, and takes the time */
};

#endif
