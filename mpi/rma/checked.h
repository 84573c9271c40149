/* SPDX-License-Identifier: BSD-3-Clause */
/* What WEFT_CHECK looks at in windows.  Only if cfg.check is set; under the domain's lock. */
#ifndef WM_RMA_CHECKED_H
#define WM_RMA_CHECKED_H

#include "mpi/rma/op.h"

/* An operation has started; `done`: its data have been moved. */
void wm_rma_checked_op(struct wm_rma *r, const struct wm_rma_args *a, bool done);
/* The operations with a target, NULL: all, are complete at this process. */
void wm_rma_checked_end(const struct wm_rma *r, const struct wm_rma_target *t);
/* MPI_SUCCESS or MPI_ERR_RMA_SYNC. */
int wm_rma_checked_fence(struct wm_rma *r, int assert);
/* At the creation of a window (`win` NULL) and at its end: whether its memory is none.  Ends the
 * job at the creation. */
void wm_rma_checked_memory(const struct wm_win *win, const void *base, size_t nbytes);

#endif
