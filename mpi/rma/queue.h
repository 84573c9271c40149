/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of a target: operations that have not been started. */
#ifndef WM_RMA_QUEUE_H
#define WM_RMA_QUEUE_H

#include "mpi/rma/op.h"

/* Appends an operation to the target's queue, and starts what may start. */
void wm_rma_queue(struct wm_rma *r, struct wm_rma_target *t, struct wm_rma_op *op);
/* Starts the operations that may start for a target. */
void wm_rma_target_run(struct wm_rma *r, struct wm_rma_target *t);

#endif
