/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and dead processes, with the setting `ft`: runtime/boot/dead.h has the list of deaths,
 * which is empty without it.  Under the domain's lock. */
#ifndef WM_P2P_FAILED_H
#define WM_P2P_FAILED_H

#include "mpi/p2p/domain.h"
#include "runtime/boot/dead.h"

/* Fails the operations that wait for processes that have died since the last call. */
void wm_failed_take(struct wm_domain *d);
static inline void wm_failed_look(struct wm_domain *d)
{
    if (rt_unlikely(d->failed.ntaken != rt_dead() || d->failed.due_ns || d->failed.nagreeing))
        wm_failed_take(d);
}

/* Whether a process of `c` to receive from has died whose death the user has not acknowledged: a
 * receive from any source must not be waited for. */
bool wm_failed_unacked(struct wm_comm *c);

/* Acknowledges the first n entries of the list. */
void wm_failed_ack(struct wm_comm *c, uint32_t n);

/* Whether messages of `c` may be left in this process, or come late, which a later communicator
 * with the same context would receive: `c` is revoked, one of its calls has failed here, or one of
 * its members has died.  In each other process all messages for it have been received. */
bool wm_failed_taints(const struct wm_comm *c);
/* The context is that of a communicator that is revoked, or freed with messages left: it is never
 * used again.  False: as before. */
bool wm_failed_retire(struct wm_domain *d, uint32_t ctx);
void wm_failed_fini(struct wm_domain *d); /* forgets them, when no message can arrive any more */
/* Whether a message that arrives without a receive for it is to be dropped: its context is one of
 * these, and its sender waits for no answer. */
bool wm_failed_drops(const struct wm_domain *d, uint32_t kind, uint32_t ctx);

#endif
