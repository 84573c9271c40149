/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that end without a connection to this one.  Under the domain's lock. */
#ifndef WM_P2P_ENDED_H
#define WM_P2P_ENDED_H

#include "mpi/p2p/domain.h"

/* When a wait looks for such processes: zero at its begin. */
struct wm_look {
    uint64_t next_ns, every_ns;
};
/* After a sleep that ended without an event, or many polls that have found nothing.  If it is time
 * for a look, asks the launcher whether processes have ended with which there was no communication,
 * and fails the operations that wait for them.  The lock is released meanwhile. */
void wm_domain_look_for_ended(struct wm_domain *d, struct wm_look *l);
/* Notifies process `to` that another one has died. */
void wm_domain_report_died(struct wm_domain *d, struct rt_proc to, struct rt_proc dead);
/* Interrupts the waits of process `to`, after what this process has sent before. */
void wm_domain_interrupt(struct wm_domain *d, struct rt_proc to);
/* Another process has found that this one has died.  Fails the operations that wait for it, if
 * there was no communication with it: else this process notices the death itself. */
void wm_domain_died(struct wm_domain *d, struct rt_proc proc);

#endif
