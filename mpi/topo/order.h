/* SPDX-License-Identifier: BSD-3-Clause */
/* New ranks for a topology's processes, so that neighbours run near each other (`reorder`). */
#ifndef WM_TOPO_ORDER_H
#define WM_TOPO_ORDER_H

#include "mpi/core/comm.h"
#include "mpi/topo/topo.h"

/* Collective over `comm`, blocking: which of its first n processes is to take each node of the grid
 * or graph `t`; malloc'ed into *order, NULL when nothing is to be gained. */
int wm_topo_order(struct wm_comm *comm, int n, const struct wm_topo *t, int **order);

#endif
