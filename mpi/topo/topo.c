/* SPDX-License-Identifier: BSD-3-Clause */
/* Topologies as objects: one block of memory each.  No locks: a topology is private until its
 * communicator is returned, and constant afterwards. */
#include "mpi/topo/topo.h"
#include "mpi/api/bodies.h"
#include "mpi/base/comm.h"
#include <stdlib.h>
#include <string.h>

/* Lays the arrays out in `ints`; returns how many ints they take.  With `ints` not there yet
 * (`base` NULL) it only counts. */
static size_t place(struct wm_topo *t, int *base)
{
    size_t n = 0;
    int **const arrays[] = { &t->dims,         &t->periods,       &t->coords,
                             &t->index,        &t->edges,         &t->sources,
                             &t->destinations, &t->sourceweights, &t->destweights };
    bool dist = t->kind == MPI_DIST_GRAPH, cart = t->kind == MPI_CART;
    int in = t->indegree, out = t->outdegree;
    int win = dist && t->weighted ? in : 0, wout = dist && t->weighted ? out : 0;
    const int room[] = { t->ndims,       t->ndims,  t->ndims,
                         t->nnodes,      t->nedges, dist || cart ? in : 0,
                         dist ? out : 0, win,       wout };
    for (size_t i = 0; i < sizeof room / sizeof room[0]; i++) {
        if (base)
            *arrays[i] = base + n;
        n += (size_t)room[i];
    }
    if (base && cart)
        t->destinations = t->sources;
    return n;
}

struct wm_topo *wm_topo_new(const struct wm_topo *shape)
{
    struct wm_topo head = *shape;
    size_t n = place(&head, NULL);
    struct wm_topo *t = calloc(1, sizeof *t + n * sizeof t->ints[0]);
    if (!t)
        return NULL;
    *t = head;
    t->nints = n;
    place(t, t->ints);
    return t;
}

void wm_topo_finish(struct wm_topo *t)
{
    t->neighbors = (struct coll_neighbors){ .nsources = t->indegree,
                                            .ndestinations = t->outdegree,
                                            .sources = t->sources,
                                            .destinations = t->destinations,
                                            .grid = t->kind == MPI_CART };
}

void wm_topo_free(struct wm_topo *t) { free(t); }

/* For a duplicate of the communicator. */
static int topo_copy(const struct wm_topo *t, struct wm_topo **out)
{
    struct wm_topo *c = wm_topo_new(t);
    if (!c)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a copy of the topology");
    memcpy(c->ints, t->ints, t->nints * sizeof t->ints[0]);
    if (t->kind == MPI_GRAPH) /* parts of the list of all edges */
        c->sources = c->destinations = c->edges + (t->sources - t->edges);
    wm_topo_finish(c);
    *out = c;
    return MPI_SUCCESS;
}

const struct wm_topo_ops wm_topo_ops = { .copy = topo_copy, .free = wm_topo_free };

int wm_api_topo_test(struct wm_comm *comm, int *status)
{
    *status = comm->topo ? comm->topo->kind : MPI_UNDEFINED;
    return MPI_SUCCESS;
}
