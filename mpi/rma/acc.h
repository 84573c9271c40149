/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates on memory that this process can reach. */
#ifndef WM_RMA_ACC_H
#define WM_RMA_ACC_H

#include "mpi/rma/element.h"

/* inout (the target's memory) = origin op inout, old values to `result`, all atomic element by
 * element with regard to all accumulates on this target.  0 or -RT_E... */
int wm_rma_acc(const struct wm_rma_acc *a);
/* Compare-and-swap of one element; 0 or -RT_E... */
int wm_rma_cas(const struct wm_rma_acc *a, const void *compare);

#endif
