/* SPDX-License-Identifier: BSD-3-Clause */
/* Epochs: which call is legal when, and whether an operation may start. */
#ifndef WM_RMA_EPOCH_H
#define WM_RMA_EPOCH_H

#include "mpi/rma/rma.h"
#include "mpi/rma/target.h"

enum wm_rma_move {
    WM_MOVE_FENCE,
    WM_MOVE_START,
    WM_MOVE_COMPLETE,
    WM_MOVE_POST,
    WM_MOVE_WAIT,
    WM_MOVE_LOCK,
    WM_MOVE_UNLOCK,
    WM_MOVE_LOCK_ALL,
    WM_MOVE_UNLOCK_ALL,
    WM_MOVE_FLUSH,
    WM_MOVE_OPERATION,
    WM_MOVE_REQUEST, /* an operation with a request */
    WM_MOVE_ENQUEUE, /* a call that puts work on the window's stream */
    WM_MOVE_FREE,
    WM_MOVES
};
/* MPI_SUCCESS, or MPI_ERR_RMA_SYNC with a text. */
int wm_rma_may(const struct wm_rma *r, enum wm_rma_move move);
/* For calls that name a rank; t is its target.  The first operation after a fence also opens the
 * fence's epoch. */
int wm_rma_may_with(struct wm_rma *r, enum wm_rma_move move, const struct wm_rma_target *t);
/* Whether operations may be carried out now in the current epoch: the target has posted, the lock
 * is held. */
bool wm_rma_ready(const struct wm_rma *r, const struct wm_rma_target *t);

#endif
