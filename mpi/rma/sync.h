/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronisation of all processes of a window. */
#ifndef WM_RMA_SYNC_H
#define WM_RMA_SYNC_H

#include "mpi/rma/rma.h"

int wm_rma_barrier(struct wm_rma *r); /* MPI_SUCCESS or an error class */

#endif
