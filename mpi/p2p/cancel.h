/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancelling a send.  Under the domain's lock. */
#ifndef WM_P2P_CANCEL_H
#define WM_P2P_CANCEL_H

#include "mpi/p2p/engine.h"

/* Asks the target to give the message back; also for a send that is complete, if its target has
 * left. 0, or an error of the request to the target. */
int wm_cancel_send(struct wm_preq *q);
void wm_on_cancel(struct wm_domain *d, struct wm_peer *from, const struct wm_key *k,
                  const void *data, size_t len);
void wm_on_cancelled(const struct wm_fin *f);
/* Cancels the sends that this target, which has gone, does not give back. */
void wm_cancel_left(struct wm_peer *p);

/* Asks for an announced send without progress, inside of an upcall, too. */
void wm_recall_send(struct wm_preq *q);

#endif
