/* SPDX-License-Identifier: BSD-3-Clause */
/* The windows of this process. */
#ifndef WM_RMA_WINDOWS_H
#define WM_RMA_WINDOWS_H

#include "mpi/rma/rma.h"

/* From here on messages for the window are received.  It has a hidden communicator. */
void wm_rma_enlist(struct wm_rma *r);
void wm_rma_delist(struct wm_rma *r);
/* Processes of other hosts are served while the program does not call MPI, unless the hints forbid
 * locks.  Without the lock. */
void wm_rma_join_helper(struct wm_rma *r);

#endif
