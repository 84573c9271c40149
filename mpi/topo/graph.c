/* SPDX-License-Identifier: BSD-3-Clause */
/* Graph topologies of which every process knows all edges (MPI-5.0 sections 8.5.3, 8.5.5 and
 * 8.5.8).  index[i] is the number of edges of nodes 0 to i.  Any thread. */
#include "mpi/api/bodies.h"
#include "mpi/topo/make.h"
#include "mpi/topo/order.h"
#include <stdlib.h>
#include <string.h>

static int check_graph(const struct wm_comm *comm, int nnodes, const int index[], const int edges[])
{
    if (nnodes < 0)
        return wm_err(MPI_ERR_ARG, "nnodes is %d, expected at least 0", nnodes);
    if (nnodes && !index)
        return wm_err(MPI_ERR_ARG, "index is a null pointer, expected an array of %d", nnodes);
    if (nnodes > comm->size)
        return wm_err(MPI_ERR_ARG, "the graph has %d nodes, but the communicator only %d processes",
                      nnodes, comm->size);
    for (int i = 0; i < nnodes; i++)
        if (index[i] < (i ? index[i - 1] : 0))
            return wm_err(MPI_ERR_ARG, "index[%d] is %d, expected at least %d", i, index[i],
                          i ? index[i - 1] : 0);
    int nedges = nnodes ? index[nnodes - 1] : 0;
    if (nedges && !edges)
        return wm_err(MPI_ERR_ARG, "edges is a null pointer, expected %d edges", nedges);
    for (int i = 0; i < nedges; i++)
        if (edges[i] < 0 || edges[i] >= nnodes)
            return wm_err(MPI_ERR_ARG, "edges[%d] is %d, expected 0 to %d", i, edges[i],
                          nnodes - 1);
    return MPI_SUCCESS;
}

struct edge {
    int from, to;
};

static int by_ends(const void *pa, const void *pb)
{
    const struct edge *a = pa, *b = pb;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

/* Whether there are as many edges from i to j as from j to i, for all i and j; what neighbourhood
 * collectives require (MPI-5.0 section 8.6). */
static int check_symmetry(struct wm_topo *t)
{
    size_t n = (size_t)t->nedges;
    struct edge *out = malloc((2 * n + 1) * sizeof *out), *in = out + n;
    if (!out)
        return wm_err(MPI_ERR_NO_MEM, "no memory to look at the %d edges of a graph", t->nedges);
    for (int node = 0, e = 0; node < t->nnodes; node++)
        for (; e < t->index[node]; e++) {
            out[e] = (struct edge){ node, t->edges[e] };
            in[e] = (struct edge){ t->edges[e], node };
        }
    qsort(out, n, sizeof *out, by_ends);
    qsort(in, n, sizeof *in, by_ends);
    t->symmetric = memcmp(out, in, n * sizeof *out) == 0;
    free(out);
    return MPI_SUCCESS;
}

static int new_graph(int nnodes, const int index[], const int edges[], struct wm_topo **out)
{
    struct wm_topo shape = { .kind = MPI_GRAPH,
                             .nnodes = nnodes,
                             .nedges = nnodes ? index[nnodes - 1] : 0 };
    struct wm_topo *t = *out = wm_topo_new(&shape);
    if (!t)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a graph of %d edges", shape.nedges);
    for (int i = 0; i < nnodes; i++)
        t->index[i] = index[i];
    for (int i = 0; i < shape.nedges; i++)
        t->edges[i] = edges[i];
    return check_symmetry(t);
}

int wm_api_graph_create(struct wm_comm *comm_old, int nnodes, const int index[], const int edges[],
                        int reorder, struct wm_comm **comm_graph)
{
    struct wm_topo *t = NULL;
    struct wm_topo_vote vote = { 0 };
    int *order = NULL, err = wm_topo_intra(comm_old);
    if (err)
        return err;
    err = check_graph(comm_old, nnodes, index, edges);
    if (!err)
        err = new_graph(nnodes, index, edges, &t);
    if (!err) {
        vote.print = wm_topo_print((uint64_t)nnodes, nnodes, t->index);
        vote.print = wm_topo_print(vote.print, t->nedges, t->edges);
        vote.print = wm_topo_print(vote.print, 1, &(int){ reorder != 0 });
    }
    err = wm_topo_agree(comm_old, err, &vote);
    struct wm_adj g = { .n = nnodes, .index = t ? t->index : NULL, .edges = t ? t->edges : NULL };
    if (err) {
        wm_topo_free(t);
        return err;
    }
    if (reorder)
        err = wm_topo_order(comm_old, &g, &order);
    err = wm_topo_make(comm_old, nnodes, order, t, err, comm_graph);
    free(order);
    return err;
}

/* No communication, so no knowledge of where the other processes run: the ranks stay. */
int wm_api_graph_map(struct wm_comm *comm, int nnodes, const int index[], const int edges[],
                     int *newrank)
{
    int err = wm_topo_intra(comm);
    if (!err)
        err = check_graph(comm, nnodes, index, edges);
    if (!err)
        *newrank = comm->rank < nnodes ? comm->rank : MPI_UNDEFINED;
    return err;
}

int wm_api_graphdims_get(struct wm_comm *comm, int *nnodes, int *nedges)
{
    int err = wm_topo_need(comm, MPI_GRAPH);
    if (err)
        return err;
    *nnodes = comm->topo->nnodes;
    *nedges = comm->topo->nedges;
    return MPI_SUCCESS;
}

static int check_room(const char *what, int room, int needed)
{
    if (room >= needed)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_ARG, "%s is %d, expected at least %d", what, room, needed);
}

int wm_api_graph_get(struct wm_comm *comm, int maxindex, int maxedges, int index[], int edges[])
{
    const struct wm_topo *t = comm->topo;
    int err = wm_topo_need(comm, MPI_GRAPH);
    if (!err)
        err = check_room("maxindex", maxindex, t->nnodes);
    if (!err)
        err = check_room("maxedges", maxedges, t->nedges);
    for (int i = 0; !err && i < t->nnodes; i++)
        index[i] = t->index[i];
    for (int i = 0; !err && i < t->nedges; i++)
        edges[i] = t->edges[i];
    return err;
}

static int degree(const struct wm_topo *t, int node)
{
    return t->index[node] - (node ? t->index[node - 1] : 0);
}

int wm_api_graph_neighbors_count(struct wm_comm *comm, int rank, int *nneighbors)
{
    int err = wm_topo_need(comm, MPI_GRAPH);
    if (!err)
        *nneighbors = degree(comm->topo, rank);
    return err;
}

int wm_api_graph_neighbors(struct wm_comm *comm, int rank, int maxneighbors, int neighbors[])
{
    int err = wm_topo_need(comm, MPI_GRAPH);
    if (!err)
        err = check_room("maxneighbors", maxneighbors, degree(comm->topo, rank));
    if (!err)
        wm_topo_neighbors(comm->topo, rank, neighbors);
    return err;
}
