/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits for progress.  Called under the domain's lock, which a wait gives up between polls. */
#ifndef WM_P2P_WAIT_H
#define WM_P2P_WAIT_H

#include "mpi/p2p/domain.h"
#include "runtime/base/idle.h"

/* A thread's wait: lives on its stack. */
struct wm_wait {
    bool (*ready)(void *arg); /* the wait has ended; called by any thread.  NULL: its thread asks */
    void *arg;
    struct rt_idle idle;
    bool counted; /* in domain->nawake */
};
bool wm_wait_done(void *done); /* `ready` of a done word */
#define WM_WAIT_DONE(done) \
    { \
        .ready = wm_wait_done, .arg = (void *)(uintptr_t)(done) \
    }

/* Progress until *done is nonzero; gives the core and, when idle, sleeps.  Called under the lock,
 * returns under it. */
void wm_domain_wait(struct wm_domain *d, const uint32_t *done);
/* The same until ready(arg), which any thread may call, under the lock. */
void wm_domain_until(struct wm_domain *d, bool (*ready)(void *arg), void *arg);
/* One idle step between polls, for loops of their own, which end with wm_domain_left().  Lock as
 * above. */
void wm_domain_idle(struct wm_domain *d, struct wm_wait *w);
void wm_domain_left(struct wm_domain *d, struct wm_wait *w);
/* The last step of a call that looks and does not wait, without the lock: who found nothing gives
 * the core away where others need it, because such calls come in loops. */
void wm_domain_polled(bool found);

#endif
