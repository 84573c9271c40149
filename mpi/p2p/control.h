/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages, and the queue of messages that wait for room in the transport.  Under the
 * domain's lock. */
#ifndef WM_P2P_CONTROL_H
#define WM_P2P_CONTROL_H

#include "mpi/p2p/engine.h"

/* Control messages.  Both queue a message that meets -RT_EAGAIN.  If it cannot be sent at all,
 * wm_send_ctl ends the job and wm_try_ctl returns the error. */
void wm_send_ctl(struct wm_domain *d, struct wm_peer *p, struct btl_hdr hdr, const void *data,
                 uint32_t len);
int wm_try_ctl(struct wm_domain *d, struct wm_peer *p, struct btl_hdr hdr, const void *data,
               uint32_t len);
/* wm_send_ctl() has failed.  Ends the job, because the peer would wait forever for the message.  A
 * lost peer does not wait. */
void wm_ctl_failed(const struct wm_peer *p, int err);
/* Queues what met -RT_EAGAIN: a message with its data, or the eager message of q.  0 or
 * -RT_ENOMEM. */
int wm_pend(struct wm_domain *d, struct wm_peer *p, struct btl_hdr hdr, const void *data,
            uint32_t len, struct wm_preq *q);
void wm_pend_rma(struct wm_preq *q); /* its put or get */
/* From here on sends take the slow path. */
static inline void wm_peer_hold(struct wm_peer *p)
{
    if (p->budget > 0)
        p->held_budget = p->budget;
    p->budget = 0;
}

#endif
