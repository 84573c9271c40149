/* SPDX-License-Identifier: BSD-3-Clause */
/* Rendezvous: the two sides of a large message, and its events.  Under the domain's lock. */
#ifndef WM_P2P_RNDV_H
#define WM_P2P_RNDV_H

#include "mpi/p2p/engine.h"

int wm_rndv_send(struct wm_preq *q); /* 0 or -RT_E... */
void wm_rndv_recv(struct wm_preq *q, const struct wm_rts *rts);
void wm_on_cts(const struct wm_cts *cts);
void wm_on_fin(struct wm_domain *d, enum wm_kind kind, const struct wm_fin *f);
void wm_on_fins(struct wm_domain *d, const struct wm_fins *f);
void wm_on_early(const struct btl_peer *from, const void *data, size_t len);
void wm_rndv_fail_peer(struct wm_peer *p, int err);

#endif
