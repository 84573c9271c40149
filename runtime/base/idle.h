/* SPDX-License-Identifier: BSD-3-Clause */
/* What a waiting rank does between two unsuccessful polls: spin, then yield the core, then sleep.
 * The times are the settings spin_us and sleep_us, or by default depend on the ranks for each core:
 * with a core for each rank, spin long; with more ranks than cores, yield after a few polls.  The
 * caller sleeps itself, because only the layer above knows the doorbell and what must be polled
 * after it is armed. */
#ifndef RT_BASE_IDLE_H
#define RT_BASE_IDLE_H

#include <stdbool.h>
#include <stdint.h>

struct rt_idle { /* zeroed at the start of a wait and after progress */
    uint32_t polls;
    uint64_t since_ns; /* time of the first clock reading; 0: not read yet */
};

enum rt_idle_advice { RT_IDLE_POLL, RT_IDLE_SLEEP };

/* Called in MPI_Init with the ranks of this job on the host and the cores they may use, and again
 * when processes of other jobs share memory with this one. */
void rt_idle_configure(int nranks, int ncpus);
/* One step: pauses or yields, or returns RT_IDLE_SLEEP when the caller should sleep on the
 * doorbell.  nthreads: threads of this process that wait and do not sleep, including this one; if
 * they outnumber the cores, they yield after a microsecond. */
enum rt_idle_advice rt_idle_step(struct rt_idle *i, int nthreads);
/* sched_yield() for a waiting thread; the first call requests short time slices. */
void rt_idle_yield(void);
/* Polls that a collective makes before each yield if ranks outnumber cores. */
int rt_idle_yield_polls(void);
/* Whether the ranks outnumber the cores. */
bool rt_idle_oversubscribed(void);

#endif
