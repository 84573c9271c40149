/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages in pieces.  Under the domain's lock. */
#ifndef WM_P2P_PIECES_H
#define WM_P2P_PIECES_H

#include "mpi/p2p/engine.h"
#include "mpi/p2p/pipe.h"

/* A buffer of nbytes as `packed`, 0 or -RT_ENOMEM; and its return. */
int wm_packed_take(struct wm_preq *q, int64_t nbytes);
void wm_packed_drop(struct wm_preq *q);
void wm_pieces_ask(struct wm_preq *q, bool on_device); /* the receiver requests pieces */
int wm_pieces_send(struct wm_preq *q, const struct wm_cts *cts);
int wm_pieces_step(struct wm_preq *q);
void wm_pieces_stop(struct wm_preq *q, int err); /* the sender has failed */
void wm_pieces_drop(struct wm_preq *q);
void wm_pieces_resume(struct wm_domain *d);
void wm_pieces_fini(struct wm_domain *d);

#endif
