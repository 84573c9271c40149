/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/topo/order.h"
int wm_topo_order(struct wm_comm *comm, int n, const struct wm_topo *t, int **order)
{
    (void)comm;
    (void)n;
    (void)t;
    *order = NULL;
    return MPI_SUCCESS;
}
