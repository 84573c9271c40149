/* SPDX-License-Identifier: BSD-3-Clause */
/* The two-phase exchange: collective access through aggregators. */
#ifndef WM_IO_TWOPHASE_H
#define WM_IO_TWOPHASE_H

#include "mpi/io/plan.h"

/* Carries out the accesses of all ranks by a plan with p->exchange; collective and blocking.  Sets
 * op->moved.  Returns MPI_SUCCESS, or on all ranks the class of any rank's error. */
int wm_twophase_run(struct wm_iop *op, const struct wm_plan *p);
/* Frees the buffers that a file keeps for its next exchange; NULL: none. */
struct wm_exchange;
void wm_exchange_free(struct wm_exchange *x);

#endif
