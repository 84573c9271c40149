/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets by a transport that accesses the memory of targets. */
#ifndef WM_RMA_NET_H
#define WM_RMA_NET_H

#include "mpi/rma/format.h"
#include "mpi/rma/op.h"

/* Starts a put or get.  0; -RT_ENOTSUP: it has to go by messages; -RT_EAGAIN: call again later; or
 * -RT_EPEER. */
int wm_rma_net_start(struct wm_rma_op *op);
void wm_rma_net_detach(struct wm_rma_target *t);
/* The target: an origin asks for the key of the memory. */
void wm_rma_net_on_ask(struct wm_rma *r, struct wm_peer *p);
void wm_rma_net_close(struct wm_rma *r);
/* The answer. */
void wm_rma_net_on_key(struct wm_rma *r, struct wm_rma_target *t, const struct wm_rma_msg *m,
                       const char *key);

#endif
