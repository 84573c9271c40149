/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates on memory that this process can reach. */
#ifndef WM_RMA_ACC_H
#define WM_RMA_ACC_H

#include "mpi/rma/element.h"
#include "mpi/rma/op.h"

struct wm_rma_origin;

/* inout (the target's memory) = origin op inout, old values to `result`, all atomic element by
 * element with regard to all accumulates on this target.  0 or -RT_E... */
int wm_rma_acc(const struct wm_rma_acc *a);
/* Compare-and-swap of one element; 0 or -RT_E... */
int wm_rma_cas(const struct wm_rma_acc *a, const void *compare);

/* ---- long ones on device memory, the target's side: acc_bulk.c ---- */

/* Answers when it is complete.  The data lie in memory of the origin with this key, or, if it is
 * NULL, are received. */
void wm_rma_fold_begin(struct wm_rma *r, struct wm_rma_origin *o, uint32_t id,
                       const struct wm_rma_acc *a, bool fetches, const char *key);
/* From the window's task: starts what may start. */
void wm_rma_folds_run(struct wm_rma *r);

/* ---- few elements by a device of the origin: acc_origin.c ---- */

/* Whether a device of the origin may carry out accumulates on this target.  Their operands then may
 * stay in device memory. */
static inline bool wm_rma_changes(const struct wm_rma_target *t)
{
    return t->path == WM_PATH_DEVICE && t->ctl->atomic;
}
/* Starts an accumulate or compare-and-swap.  0; -RT_ENOTSUP: it has to go by a message; -RT_EAGAIN:
 * it has to wait for another one. */
int wm_rma_change_start(struct wm_rma_op *op);

#endif
