/* SPDX-License-Identifier: BSD-3-Clause */
/* Rendezvous: the state machine of a large message, its put and its get.  Functions that return int
 * return 0 or -RT_E...  Under the domain's lock. */
#ifndef WM_P2P_RNDV_H
#define WM_P2P_RNDV_H

#include "mpi/p2p/engine.h"

int wm_rndv_send(struct wm_preq *q);
int wm_rndv_announce(struct wm_preq *q, const struct wm_rts *rts); /* sends the RTS */
/* Registers the message with the transport that moves its device memory; its key. */
int wm_rndv_dev_key(struct wm_preq *q, struct btl_peer *by, char *key);
/* Asks the sender to write [off, off + len) of the message. */
int wm_rndv_ask_put(struct wm_preq *q, int64_t off, int64_t len, bool will_get);
int wm_rndv_pull(struct wm_preq *q, const void *key); /* gets the message, whole or get_len bytes */
/* Whether put is faster than get where a transport moves a whole message by one of them. */
bool wm_rndv_put_wins(const struct wm_preq *q);
void wm_rndv_got(struct wm_preq *q, int err);
void wm_rndv_send_fin(struct wm_preq *q, enum wm_kind kind, int err);
int wm_rndv_start(struct wm_preq *q); /* its put or get: 0, -RT_EAGAIN, or an error */
void wm_rndv_recv(struct wm_preq *q, const struct wm_rts *rts);
void wm_on_cts(const struct wm_cts *cts);
void wm_on_fin(struct wm_domain *d, enum wm_kind kind, const struct wm_fin *f);
void wm_on_fins(struct wm_domain *d, const struct wm_fins *f);
/* One step of the state machine; err: this part has failed.  The request may be freed on return. */
void wm_rndv_step(struct wm_preq *q, enum wm_preq_step step, int err);
/* A decision of this side: enters the next state. */
void wm_rndv_enter(struct wm_preq *q, enum wm_preq_state state);
/* This side fails, or has nothing to move: neither the transport nor the peer is involved. */
void wm_rndv_end(struct wm_preq *q, int err);
void wm_rndv_fail_peer(struct wm_peer *p, int err);
void wm_on_early(const struct btl_peer *from, const void *data, size_t len);
/* Sends the FIN_GETS gathered in `fins`. */
void wm_fins_flush(struct wm_domain *d);

#endif
