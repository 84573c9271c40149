/* SPDX-License-Identifier: BSD-3-Clause */
/* A clock that costs a few ns to read, for intervals between checks that need no precision: how
 * often a wait makes a system call, or asks the driver. */
#ifndef RT_BASE_TICKS_H
#define RT_BASE_TICKS_H

#include <stdint.h>
#include "runtime/base/clock.h"

/* In units of 256 cycles of the time stamp counter, or of 256 ns. */
static inline uint64_t rt_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc() >> 8;
#else
    return rt_now_ns() >> 8;
#endif
}
/* Once, before the first rt_ticks_in_ms(). */
void rt_ticks_init(void);
/* Ticks in that many milliseconds, or in less.  Any thread. */
uint64_t rt_ticks_in_ms(unsigned ms);
extern uint64_t rt_ticks_per_ms; /* in ticks.c */

#endif
