/* SPDX-License-Identifier: BSD-3-Clause */
/* What a waiting rank does between two unsuccessful polls: spin, then yield the core, then
 * sleep.  Times come from cfg spin_us/sleep_us or, by default, from ranks per core: with a core
 * each, spin long; oversubscribed, yield at once. The sleeping itself is a callback, because
 * only the layer above knows the doorbell and what must be polled after arming. */
#ifndef RT_BASE_IDLE_H
#define RT_BASE_IDLE_H

#include <stdbool.h>
#include <stdint.h>

struct rt_idle { /* zeroed at the start of a wait and after progress */
    uint32_t polls;
    uint64_t since_ns; /* time of the first clock reading; 0 = not read yet */
};

enum rt_idle_advice { RT_IDLE_POLL, RT_IDLE_SLEEP };

/* Called once by the boot code: ranks of this job on the host and cores they may use. */
void rt_idle_configure(int nranks, int ncpus);
/* One step: pauses or yields by itself, and answers RT_IDLE_SLEEP when it is time to sleep on
 * the doorbell.  nthreads: threads of this process that wait and are not asleep, this one included;
 * when they are more than its cores they yield after a microsecond. */
enum rt_idle_advice rt_idle_step(struct rt_idle *i, int nthreads);
/* sched_yield() of a waiting thread; the first one requests short time slices. */
void rt_idle_yield(void);
/* Polls that a collective makes before each yield where ranks outnumber cores. */
int rt_idle_yield_polls(void);
bool rt_idle_oversubscribed(void);

#endif
