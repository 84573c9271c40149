/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of a wait.  Called under the domain's lock. */
#ifndef WM_P2P_WAIT_INT_H
#define WM_P2P_WAIT_INT_H

#include <poll.h>
#include "mpi/p2p/wait.h"
#include "runtime/mem/deaths.h"

/* Microseconds.  The longest sleep, a safety net: only a defect ever needs it, and then `rescues`
 * counts. */
#define WM_WAIT_NET_US 1000000
/* The longest sleep where another thread polls descriptors, but not those of this wait. */
#define WM_WAIT_FDS_US 10000

/* Whether something has happened that may end the wait early. */
static inline bool wm_wait_interrupted(const struct wm_wait *w)
{
    return w->by.hits && w->seen != rt_interrupts();
}

/* Whether its thread must wake up. */
static inline bool wm_wait_ended(const struct wm_wait *w)
{
    return (w->ready && w->ready(w->arg)) || wm_wait_interrupted(w);
}

/* Other lanes read it at any time. */
static inline void wm_wait_count_awake(struct wm_domain *d, int n)
{
    rt_store_relaxed(&d->wait.nawake, d->wait.nawake + n);
}

/* wait_sleep.c: sleeps once.  The wait counts as awake. */
void wm_wait_sleep(struct wm_domain *d, struct wm_wait *w);
int wm_wait_exhaust(struct wm_domain *d); /* 0: nothing is left to do until a bell rings */
/* Makes progress on behalf of those that sleep, if none of the lane is awake.  True: more is left.
 */
bool wm_wait_serve(struct wm_domain *d);
void wm_wait_on_release(struct rt_lock *l); /* of the domain's lock */
void wm_wait_count_sleep(struct wm_domain *d, uint64_t begin_ns);

/* wait_lanes.c.  By a thread that releases the lock: where no thread sleeps; where there are
 * guests. */
void wm_lanes_serve(struct wm_domain *d);
void wm_lanes_wake_guests(struct wm_domain *d);

/* One sleep on the bell of the process, by a thread that holds no lock of a lane.  Where lane 0 has
 * descriptors, one sleeping thread at a time polls them. */
struct wm_sleep {
    uint32_t armed;
    bool polls, missed; /* missed: the thread that polled has gone; do not sleep */
    int limit_us, nfds; /* nfds: -1 if a transport has work already */
    struct pollfd p[1 + 2 * WM_BTL_MAX + WM_WAIT_FDS];
};
/* `polls`: it has descriptors of its own. */
void wm_sleep_arm(struct wm_sleep *s, bool polls, int limit_us);
/* Progress of each lane but one.  True: something may be left to do. */
bool wm_lanes_look(const struct wm_domain *but, struct wm_sleep *s);
/* Adds the descriptors of a lane's transports, under its lock; progress must follow. */
void wm_sleep_add(struct wm_sleep *s, struct wm_domain *d);
bool wm_sleep(struct wm_sleep *s, const struct wm_domain *d); /* true: there was an event */
void wm_sleep_end(const struct wm_sleep *s);                  /* with or without a lock */
void wm_lanes_sleep(struct wm_domain *d, struct wm_wait *w);  /* w->lanes; as wm_wait_sleep() */

/* wait_note.c: publishes the wait if it is old.  Returns the longest sleep, in microseconds: it
 * ends when a description is due. */
int wm_wait_publish(struct wm_domain *d, struct wm_wait *w);
void wm_wait_publish_polls(struct wm_wait *w); /* a loop of polls */
void wm_wait_unpublish(struct wm_wait *w);

#endif
