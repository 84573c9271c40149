/* SPDX-License-Identifier: BSD-3-Clause */
/* The rate of rt_ticks(), measured against the clock of the system.  Any thread. */
#include "runtime/base/ticks.h"
#include "runtime/base/atomic.h"

#include <stdbool.h>

#define CALIBRATE_NS 10000000 /* time after which the two clocks give the rate well enough */

/* Until it has been measured: exact for 1 GHz, and too small for a faster counter, which is safe;
 * no time stamp counter of an x86-64 processor is slower. */
uint64_t rt_ticks_per_ms = 1000000 / 256;

static struct {
    uint64_t ticks, ns; /* both clocks at one time, constant after rt_ticks_init() */
    bool measured;
} begin;

void rt_ticks_init(void)
{
    begin.ns = rt_now_ns();
    begin.ticks = rt_ticks();
}

/* The interval in ticks lies inside the interval in ns: if this thread is interrupted between two
 * reads of the clocks, the rate is too small, never too large. */
static void measure(void)
{
    uint64_t ticks = rt_ticks() - begin.ticks, ns = rt_now_ns() - begin.ns;
    if (begin.ns == 0 || ns < CALIBRATE_NS)
        return;
    rt_store_relaxed(&rt_ticks_per_ms, (uint64_t)((double)ticks * 1e6 / (double)ns));
    rt_store_relaxed(&begin.measured, true);
}

uint64_t rt_ticks_in_ms(unsigned ms)
{
    if (rt_unlikely(!rt_load_relaxed(&begin.measured)))
        measure();
    return ms * rt_load_relaxed(&rt_ticks_per_ms);
}
