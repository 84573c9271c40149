/* SPDX-License-Identifier: BSD-3-Clause */
/* The transfer of a rendezvous: its states, its put and its get.  Functions that return int return
 * 0 or -RT_E...  Under the domain's lock. */
#ifndef WM_P2P_TRANSFER_H
#define WM_P2P_TRANSFER_H

#include "mpi/p2p/engine.h"

static inline struct btl *wm_btl_of(const struct wm_preq *q) { return q->peer->eager->btl; }
/* Whether put is faster than get where a transport moves a whole message by one of them. */
bool wm_rndv_put_wins(const struct wm_preq *q);

/* One step of the state machine; err: this part has failed.  The request may be freed on return. */
void wm_rndv_step(struct wm_preq *q, enum wm_preq_step step, int err);
bool wm_rndv_awaits(const struct wm_preq *q, enum wm_preq_step step);
/* A decision of this side: enters the next state. */
void wm_rndv_enter(struct wm_preq *q, enum wm_preq_state state);
/* This side fails, or has nothing to move: neither the transport nor the peer is involved. */
void wm_rndv_end(struct wm_preq *q, int err);

int wm_rndv_announce(struct wm_preq *q, struct wm_rts *rts); /* sends the RTS */
/* Registers a part of the message with the transport that moves it; its key.  at: where device
 * memory lies, NULL for host memory. */
int wm_rndv_key(struct wm_preq *q, struct btl_peer *by, const struct rt_gpu_ptr *at, int64_t off,
                int64_t len, char *key);
void wm_rndv_unregister(struct wm_preq *q); /* before the memory is released */
/* Asks the sender to write [off, off + len) of the message. */
int wm_rndv_ask_put(struct wm_preq *q, int64_t off, int64_t len, bool will_get);
void wm_rndv_put(struct wm_preq *q, const struct wm_cts *cts); /* the receiver has asked so */
int wm_rndv_pull(struct wm_preq *q, const void *key); /* gets the message, whole or get_len bytes */
void wm_rndv_got(struct wm_preq *q, int err);
int wm_rndv_start(struct wm_preq *q); /* its put or get: 0, -RT_EAGAIN, or an error */
void wm_rndv_send_fin(struct wm_preq *q, enum wm_kind kind, int err);
/* Sends the FIN_GETS gathered in `fins`. */
void wm_fins_flush(struct wm_domain *d);

/* A buffer of nbytes as `packed`, 0 or -RT_ENOMEM; and its return. */
int wm_packed_take(struct wm_preq *q, int64_t nbytes);
void wm_packed_drop(struct wm_preq *q);

#endif
