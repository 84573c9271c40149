/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that serves other hosts while the program does not call MPI. */
#ifndef WM_RMA_HELPER_H
#define WM_RMA_HELPER_H

#include "mpi/rma/rma.h"

void wm_rma_helper_join(struct wm_rma *r); /* after the hints are set */
void wm_rma_helper_leave(struct wm_rma *r);

#endif
