/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of a wait.  Called under the domain's lock. */
#ifndef WM_P2P_WAIT_INT_H
#define WM_P2P_WAIT_INT_H

#include "mpi/p2p/wait.h"
#include "runtime/mem/deaths.h"

/* Microseconds.  The longest sleep, a safety net: only a defect ever needs it, and then `rescues`
 * counts. */
#define WM_WAIT_NET_US 1000000

/* Whether something has happened that may end the wait early. */
static inline bool wm_wait_interrupted(const struct wm_wait *w)
{
    return w->by.hits && w->seen != rt_interrupts();
}

/* Other lanes read it at any time. */
static inline void wm_wait_count_awake(struct wm_domain *d, int n)
{
    rt_store_relaxed(&d->wait.nawake, d->wait.nawake + n);
}

/* wait_sleep.c: sleeps once.  The wait counts as awake. */
void wm_wait_sleep(struct wm_domain *d, struct wm_wait *w);

/* wait_note.c: publishes the wait if it is old.  Returns the longest sleep, in microseconds: it
 * ends when a description is due. */
int wm_wait_publish(struct wm_domain *d, struct wm_wait *w);
void wm_wait_publish_polls(struct wm_wait *w); /* a loop of polls */
void wm_wait_unpublish(struct wm_wait *w);

#endif
