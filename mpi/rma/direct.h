/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on memory that this process can reach. */
#ifndef WM_RMA_DIRECT_H
#define WM_RMA_DIRECT_H

#include "mpi/rma/op.h"

/* Any operation.  0 or -RT_E... */
int wm_rma_execute(struct wm_rma *r, struct wm_rma_target *t, const struct wm_rma_args *a);

#endif
