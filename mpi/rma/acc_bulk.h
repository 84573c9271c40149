/* SPDX-License-Identifier: BSD-3-Clause */
/* Long accumulates on device memory, the target's side. */
#ifndef WM_RMA_ACC_BULK_H
#define WM_RMA_ACC_BULK_H

#include "mpi/rma/element.h"
#include "mpi/rma/origin.h"

/* Answers when it is complete.  The data lie in memory of the origin with this key, or, if it is
 * NULL, are received. */
void wm_rma_fold_begin(struct wm_rma *r, struct wm_rma_origin *o, uint32_t id,
                       const struct wm_rma_acc *a, bool fetches, const char *key);
/* From the window's task: starts what may start. */
void wm_rma_folds_run(struct wm_rma *r);

#endif
