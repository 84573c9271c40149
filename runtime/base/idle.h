/* SPDX-License-Identifier: BSD-3-Clause */
/* What a waiting rank does between two unsuccessful polls: spin, then yield the core a few times,
 * then sleep.  All waits of the library follow this one policy.  Its times are the settings spin_us
 * and sleep_us, or by default depend on the ranks for each core: with a core for each rank, spin
 * long; with more ranks than cores, yield after a few polls.  A caller with a doorbell sleeps
 * itself, because only the layer above knows the doorbell and what must be polled after it is
 * armed; a wait that no doorbell ends sleeps by a timer that grows (rt_idle_pause). */
#ifndef RT_BASE_IDLE_H
#define RT_BASE_IDLE_H

#include <stdbool.h>
#include <stdint.h>

struct rt_idle { /* zeroed at the start of a wait and after progress */
    uint32_t polls, yields;
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
/* The same without a spin phase, for a caller that has polled by its own rule because ranks
 * outnumber cores. */
enum rt_idle_advice rt_idle_step_shared(struct rt_idle *i);
/* One step of a wait that no doorbell ends: sleeps by a timer instead of returning RT_IDLE_SLEEP.
 * True: it has slept, so this is the time for checks that cost a system call. */
bool rt_idle_pause(struct rt_idle *i, int nthreads);
/* A sleep by a timer, for a wait that has lasted waited_ns. */
void rt_idle_nap(uint64_t waited_ns);
/* Polls that a collective makes before each yield if ranks outnumber cores. */
int rt_idle_yield_polls(void);
/* Whether the ranks outnumber the cores; whether other threads need the core of this one, ranks or
 * others. */
bool rt_idle_oversubscribed(void);
bool rt_idle_suffices(int nthreads); /* a core for each of these threads of this process */
bool rt_idle_contended(void);
/* A look at whether other threads need the core, for calls that poll in a loop, each at most some
 * hundred polls after the last one; ever fewer of them yield. */
void rt_idle_look(struct rt_idle *i);

#endif
