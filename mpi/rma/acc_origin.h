/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates of a few elements by a device of the origin. */
#ifndef WM_RMA_ACC_ORIGIN_H
#define WM_RMA_ACC_ORIGIN_H

#include "mpi/rma/op.h"

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
