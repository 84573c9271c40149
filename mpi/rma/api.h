/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts, for callers of other folders. */
#ifndef WM_RMA_API_H
#define WM_RMA_API_H

#include "mpi/rma/op.h"

/* The arguments of a put. */
void wm_rma_put_args(struct wm_rma_args *a, const void *origin_addr, MPI_Count origin_count,
                     struct wm_type *origin_datatype, int target_rank, MPI_Aint target_disp,
                     MPI_Count target_count, struct wm_type *target_datatype);
/* Checks a put that a stream of this process is to carry out, and waits until its lock is held.
 * MPI_SUCCESS or an error class. */
int wm_rma_put_check(struct wm_rma *r, struct wm_rma_args *a, struct wm_rma_target **out);
/* Starts a put whose sizes have been checked.  MPI_SUCCESS or an error class. */
int wm_rma_put_start(struct wm_rma *r, struct wm_rma_args *a);
/* MPI_Put; `note` as in struct wm_rma_args. */
int wm_rma_put(const void *origin_addr, MPI_Count origin_count, struct wm_type *origin_datatype,
               int target_rank, MPI_Aint target_disp, MPI_Count target_count,
               struct wm_type *target_datatype, struct wm_win *win, int note);

#endif
