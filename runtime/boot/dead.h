/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes that are known to have died, in the order in which this process has learned of
 * them; only with the setting `ft`, else empty.  Sources: events of the PMIx server (mpirun
 * --ft), and what the transports and the node segment find, which rt_dead_add() enters.  An entry
 * is never removed.  Any thread. */
#ifndef RT_BOOT_DEAD_H
#define RT_BOOT_DEAD_H

#include "runtime/base/atomic.h"
#include "runtime/boot/boot.h"

extern RT_HIDDEN uint32_t rt_dead_count;
static inline uint32_t rt_dead(void) { return rt_load_acquire(&rt_dead_count); }
struct rt_proc rt_dead_at(uint32_t i); /* i < rt_dead() */
bool rt_dead_has(struct rt_proc p);
void rt_dead_add(struct rt_proc p); /* does nothing if `p` is in the list already */

/* Deaths in other jobs, by events: entered once this process has met the dead.  rt_dead_meet()
 * enters them; called by one thread at a time, like jobs.h. */
extern RT_HIDDEN uint32_t rt_dead_unmet; /* number of events that it has not looked at */
void rt_dead_meet(void);

/* Called after an entry by an event, on a thread of PMIx; set before rt_boot_init(). */
extern RT_HIDDEN void (*rt_dead_notify)(void);

void rt_dead_open(void); /* called by rt_boot_init(), connected to the server */

#endif
