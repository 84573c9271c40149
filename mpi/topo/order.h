/* SPDX-License-Identifier: BSD-3-Clause */
/* New ranks for a topology's processes, so that neighbours run near each other (`reorder`). */
#ifndef WM_TOPO_ORDER_H
#define WM_TOPO_ORDER_H

#include "mpi/base/comm.h"

/* Who exchanges data with whom: edges[index[i - 1] .. index[i]) are the neighbours of node i, as in
 * MPI_Graph_create; weights NULL: all 1. */
struct wm_adj {
    int n;
    const int *index, *edges, *weights;
};

/* Where a process runs, from the outside in: host, package, L3 cache, core. */
#define WM_PLACE_LEVELS 4
struct wm_place {
    uint64_t at[WM_PLACE_LEVELS];
};

/* Collective over `comm`, blocking: which of its first g->n processes is to take each node of the
 * graph; malloc'ed into *order, NULL when no order is better than the ranks as they are.
 * `g` NULL: this process has failed; it still takes part.  MPI_SUCCESS or an error class; not all
 * processes need get the same. */
int wm_topo_order(struct wm_comm *comm, const struct wm_adj *g, int **order);
/* The same from known places, without communication, the same on every caller: for tests. */
int wm_topo_arrange(const struct wm_adj *g, const struct wm_place *places, int **order);
/* The cost of all edges when process order[i] takes node i; NULL: process i.  No unit: order.c. */
int64_t wm_topo_cost(const struct wm_adj *g, const struct wm_place *places, const int *order);

#endif
