/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronisation of all processes of a window. */
#ifndef WM_RMA_SYNC_H
#define WM_RMA_SYNC_H

#include <mpi.h>
#include <stdbool.h>

struct wm_rma;

int wm_rma_barrier(struct wm_rma *r); /* MPI_SUCCESS or an error class */

/* The shortest path of MPI_Win_lock and MPI_Win_unlock: locks that no process holds in the other
 * mode.  They change the epoch, therefore only without threads.  False: nothing has been done. */
bool wm_rma_quick_lock(int lock_type, int rank, int assert, MPI_Win win);
bool wm_rma_quick_unlock(int rank, MPI_Win win);

#endif
