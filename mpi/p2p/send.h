/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending: eager messages, and messages that wait for room.  Under the domain's lock. */
#ifndef WM_P2P_SEND_H
#define WM_P2P_SEND_H

#include "mpi/p2p/engine.h"

/* Starts a send; *out is a request to wait for and release, with a handle in wm_request_slab.  0 or
 * -RT_E... */
int wm_p2p_isend(const struct wm_msg *m, enum wm_mode mode, struct rt_req **out);
/* Sent in place of a collective's message whose data are poisoned: the receive ends with
 * -RT_EREMOTE. */
int wm_p2p_send_poison(const struct wm_msg *m);

/* Bytes of count elements, or -RT_EINVAL on overflow. */
int64_t wm_nbytes(int64_t count, const struct rt_layout *l);

/* Sends what is queued, as far as there is room; returns the number of messages. */
int wm_retry(struct wm_domain *d);
void wm_pend_drop(struct wm_peer *p, int err); /* the peer is lost */
/* The acknowledgement of a synchronous eager message has arrived, at the sender. */
void wm_on_sync_ack(struct wm_domain *d, const struct wm_fin *f);

#endif
