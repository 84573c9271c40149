/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages in pieces.  Under the domain's lock. */
#ifndef WM_P2P_PIECES_H
#define WM_P2P_PIECES_H

#include "mpi/p2p/engine.h"
#include "mpi/p2p/pipe.h"

/* A sub-message of pieces, not a message of a user. */
static inline bool wm_is_piece(const struct wm_preq *q) { return q->coll && q->tag < 0; }
void wm_pieces_ask(struct wm_preq *q, bool on_device); /* the receiver requests pieces */
int wm_pieces_send(struct wm_preq *q, const struct wm_cts *cts);
int wm_pieces_step(struct wm_preq *q);
void wm_pieces_stop(struct wm_preq *q, int err); /* the sender has failed */
void wm_pieces_resume(struct wm_domain *d);
void wm_pieces_fini(struct wm_domain *d);

#endif
