/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual topologies as objects (MPI-5.0 chapter 8).  A topology is made with its communicator,
 * belongs to it, and never changes; so all threads may read it, and a pending neighbourhood
 * collective, which holds the communicator, may point into it. */
#ifndef WM_TOPO_TOPO_H
#define WM_TOPO_TOPO_H

#include "mpi/base/comm.h"

struct wm_topo {
    int kind;                     /* MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH */
    bool weighted;                /* distributed graph */
    bool symmetric;               /* neighbourhood collectives have as many senders as receivers */
    int ndims;                    /* grid */
    int nnodes;                   /* graph */
    int nedges;                   /* graph: of all nodes */
    int indegree;                 /* neighbours that send to this process; */
    int outdegree;                /* that it sends to; MPI_PROC_NULL counts in both */
    size_t nints;                 /* of `ints` */
    int *dims, *periods, *coords; /* grid: ndims each; coordinates of this process */
    int *index, *edges;           /* graph: as given to MPI_Graph_create */
    int *sources, *destinations;  /* in the order of MPI-5.0 section 8.6; may be one array */
    int *sourceweights, *destweights; /* distributed graph with weights, else NULL */
    struct coll_neighbors neighbors;  /* the same as collectives see it */
    int ints[];                       /* behind all of these */
};

/* A topology with room for its arrays, all zero, from the numbers in `shape` (kind, weighted,
 * ndims, nnodes, nedges, indegree, outdegree).  NULL when memory is out. */
struct wm_topo *wm_topo_new(const struct wm_topo *shape);
/* Fills `neighbors` once the arrays are final. */
void wm_topo_finish(struct wm_topo *t);
/* Tolerates NULL. */
void wm_topo_free(struct wm_topo *t);
extern const struct wm_topo_ops wm_topo_ops;

#endif
