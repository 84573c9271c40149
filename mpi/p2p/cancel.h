/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancelling a send, and requests whose peer has left.  Under the domain's lock. */
#ifndef WM_P2P_CANCEL_H
#define WM_P2P_CANCEL_H

#include "mpi/p2p/engine.h"

/* Asks the target to give the message back; also for a send that is complete, if its target has
 * left. 0, or an error of the request to the target. */
int wm_cancel_send(struct wm_preq *q);
/* A request that has failed because its peer has gone counts as cancelled, if the peer had
 * published before that it sends and receives no more.  peer may be NULL. */
void wm_cancel_forgive(struct wm_preq *q, const struct wm_peer *peer);
void wm_on_cancel(struct wm_domain *d, struct wm_peer *from, const struct wm_key *k,
                  const void *data, size_t len);
void wm_on_cancelled(const struct wm_fin *f);
/* Called when progress finds no event: cancels sends whose target is in MPI_Finalize and does not
 * answer.  wm_cancel_left(): the same for one target that has gone. */
void wm_cancel_look(struct wm_domain *d);
void wm_cancel_left(struct wm_peer *p);

#endif
