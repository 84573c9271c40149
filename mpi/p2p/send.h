/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending: eager messages, control messages, and messages that wait for room.  Under the domain's
 * lock. */
#ifndef WM_P2P_SEND_H
#define WM_P2P_SEND_H

#include "mpi/p2p/engine.h"

/* Starts a send; *out is a request to wait for and release, with a handle in wm_request_slab. */
int wm_p2p_isend(const struct wm_msg *m, enum wm_mode mode, struct rt_req **out);
/* In place of a message of a collective, whose data are void: the receive ends with -RT_EREMOTE. */
int wm_p2p_tell_void(const struct wm_msg *m);

/* Bytes of count elements, or -RT_EINVAL on overflow. */
int64_t wm_nbytes(int64_t count, const struct rt_layout *l);

/* Control messages.  Both queue one that meets -RT_EAGAIN; wm_send_ctl ends the job when
 * the message cannot be sent at all, wm_try_ctl leaves that to the caller. */
void wm_send_ctl(struct wm_domain *d, struct wm_peer *p, struct btl_hdr hdr, const void *data,
                 uint32_t len);
int wm_try_ctl(struct wm_domain *d, struct wm_peer *p, struct btl_hdr hdr, const void *data,
               uint32_t len);
int wm_retry(struct wm_domain *d);
/* Queues a put or get that met -RT_EAGAIN. */
void wm_pend_rma(struct wm_preq *q);
void wm_pend_drop(struct wm_peer *p, int err); /* the peer is lost */
/* The sync acknowledgement and the answers of a rendezvous, for the sender's side. */
void wm_on_sync_ack(struct wm_domain *d, const struct wm_fin *f);

#endif
