/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's side of messages. */
#ifndef WM_RMA_SERVE_H
#define WM_RMA_SERVE_H

#include "mpi/rma/format.h"
#include "mpi/rma/rma.h"

/* A message of an origin, with `len` bytes of data. */
void wm_rma_serve(struct wm_rma *r, struct wm_peer *from, int rank, const struct wm_rma_msg *m,
                  const char *data, size_t len);
void wm_rma_deferred_run(struct wm_rma *r); /* messages deferred while a kernel ran */

#endif
