/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion of operations. */
#ifndef WM_RMA_FLUSH_H
#define WM_RMA_FLUSH_H

#include "mpi/rma/target.h"

enum wm_rma_until {
    WM_UNTIL_ORIGIN, /* the origin's buffers are free, results are there */
    /* operations that need an answer are complete at the target; the others have been sent */
    WM_UNTIL_EXECUTED,
    WM_UNTIL_TARGET /* all is complete at the target */
};
/* Waits for the operations of this target; NULL: of all targets.  MPI_SUCCESS, or the error class
 * of the first operation that failed. */
int wm_rma_flush(struct wm_rma *r, struct wm_rma_target *t, enum wm_rma_until until);

#endif
