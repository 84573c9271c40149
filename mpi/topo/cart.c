/* SPDX-License-Identifier: BSD-3-Clause */
/* Cartesian topologies (MPI-5.0 sections 8.5.1, 8.5.5, 8.5.7 and 8.5.8).  Ranks are numbered in
 * row-major order: the last coordinate varies fastest.  Any thread. */
#include "mpi/api/bodies.h"
#include "mpi/topo/make.h"
#include "mpi/topo/order.h"
#include <stdlib.h>
#include <string.h>

/* The number of processes of the grid; the communicator must have as many. */
static int count_nodes(const struct wm_comm *comm, int ndims, const int dims[], int *nodes_p)
{
    int64_t n = 1;
    for (int i = 0; i < ndims; i++) {
        if (dims[i] <= 0)
            return wm_err(MPI_ERR_DIMS, "dims[%d] is %d, expected at least 1", i, dims[i]);
        n *= dims[i];
        if (n > comm->size)
            return wm_err(MPI_ERR_ARG,
                          "the grid has %lld processes or more, but the communicator only %d",
                          (long long)n, comm->size);
    }
    *nodes_p = (int)n;
    return MPI_SUCCESS;
}

static struct wm_topo *new_grid(int ndims, const int dims[], const int periods[])
{
    struct wm_topo shape = { .kind = MPI_CART,
                             .symmetric = true,
                             .ndims = ndims,
                             .indegree = 2 * ndims,
                             .outdegree = 2 * ndims };
    struct wm_topo *t = wm_topo_new(&shape);
    for (int i = 0; t && i < ndims; i++) {
        t->dims[i] = dims[i];
        t->periods[i] = periods[i] != 0;
    }
    if (!t)
        wm_err(MPI_ERR_NO_MEM, "no memory for a grid of %d dimensions", ndims);
    return t;
}

/* New ranks for the n processes of a grid. */
static int order_grid(struct wm_comm *comm, int n, const struct wm_topo *t, int **order)
{
    int room = 2 * t->ndims, *index = malloc(((size_t)n + 1) * ((size_t)room + 1) * sizeof *index);
    struct wm_adj g = { .n = n, .index = index, .edges = index ? index + n : NULL };
    for (int i = 0, at = 0; index && i < n; i++) {
        int *out = index + n + at, found = wm_topo_neighbors(t, i, out);
        for (int k = 0, kept = 0; k < found; k++)
            if (out[k] != MPI_PROC_NULL) {
                out[kept++] = out[k];
                at++;
            }
        index[i] = at;
    }
    int err = wm_topo_order(comm, index ? &g : NULL, order);
    free(index);
    return err;
}

int wm_api_cart_create(struct wm_comm *comm_old, int ndims, const int dims[], const int periods[],
                       int reorder, struct wm_comm **comm_cart)
{
    struct wm_topo *t = NULL;
    struct wm_topo_vote vote = { 0 };
    int n = 0, *order = NULL, err = wm_topo_intra(comm_old);
    if (err)
        return err;
    err = count_nodes(comm_old, ndims, dims, &n);
    if (!err) {
        t = new_grid(ndims, dims, periods);
        err = t ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    if (!err) {
        vote.print = wm_topo_print(wm_topo_print(ndims, ndims, t->dims), ndims, t->periods);
        vote.print = wm_topo_print(vote.print, 1, &(int){ reorder != 0 });
    }
    err = wm_topo_agree(comm_old, err, &vote);
    if (err) {
        wm_topo_free(t);
        return err;
    }
    if (reorder)
        err = order_grid(comm_old, n, t, &order);
    err = wm_topo_make(comm_old, n, order, t, err, comm_cart);
    free(order);
    return err;
}

/* The coordinates of another rank. */
static void coords_of(const struct wm_topo *t, int rank, int coords[])
{
    for (int d = t->ndims - 1; d >= 0; d--) {
        coords[d] = rank % t->dims[d];
        rank /= t->dims[d];
    }
}

/* Ranks of the slice that this process is in, in their order; n of them. */
static int slice(const struct wm_topo *t, const int remain[], int size, int ranks[])
{
    int n = 0, *at = malloc(((size_t)t->ndims + 1) * sizeof *at);
    if (!at)
        return -1;
    for (int r = 0; r < size; r++) {
        bool here = true;
        coords_of(t, r, at);
        for (int d = 0; d < t->ndims && here; d++)
            here = remain[d] || at[d] == t->coords[d];
        if (here)
            ranks[n++] = r;
    }
    free(at);
    return n;
}

/* The grid of the dimensions that remain. */
static struct wm_topo *sub_grid(const struct wm_topo *t, const int remain[])
{
    int kept = 0, *dims = malloc((2 * (size_t)t->ndims + 1) * sizeof *dims);
    if (!dims)
        return NULL;
    int *periods = dims + t->ndims;
    for (int d = 0; d < t->ndims; d++) {
        if (!remain[d])
            continue;
        dims[kept] = t->dims[d];
        periods[kept++] = t->periods[d];
    }
    struct wm_topo *s = new_grid(kept, dims, periods);
    free(dims);
    return s;
}

int wm_api_cart_sub(struct wm_comm *comm, const int remain_dims[], struct wm_comm **newcomm)
{
    struct wm_topo_vote vote = { 0 };
    struct wm_topo *t = comm->topo, *s = NULL;
    int n = 0, *ranks = NULL, err = wm_topo_need(comm, MPI_CART);
    if (err)
        return err;
    if (t->ndims && !remain_dims)
        err = wm_err(MPI_ERR_ARG, "argument 2 (remain_dims) is a null pointer, expected %d flags",
                     t->ndims);
    for (int d = 0; d < t->ndims && !err; d++)
        vote.print = wm_topo_print(vote.print, 1, &(int){ remain_dims[d] != 0 });
    if (!err) {
        s = sub_grid(t, remain_dims);
        ranks = malloc((size_t)comm->size * sizeof *ranks);
        n = s && ranks ? slice(t, remain_dims, comm->size, ranks) : -1;
        if (n < 0)
            err = wm_err(MPI_ERR_NO_MEM, "no memory for a part of a grid of %d processes",
                         comm->size);
    }
    err = wm_topo_agree(comm, err, &vote);
    if (err)
        wm_topo_free(s);
    else
        err = wm_topo_make(comm, n, ranks, s, MPI_SUCCESS, newcomm);
    free(ranks);
    return err;
}

/* No communication, so no knowledge of where the other processes run: the ranks stay. */
int wm_api_cart_map(struct wm_comm *comm, int ndims, const int dims[], const int periods[],
                    int *newrank)
{
    int n = 0;
    (void)periods;
    int err = wm_topo_intra(comm);
    if (!err)
        err = count_nodes(comm, ndims, dims, &n);
    if (!err)
        *newrank = comm->rank < n ? comm->rank : MPI_UNDEFINED;
    return err;
}

int wm_api_cartdim_get(struct wm_comm *comm, int *ndims)
{
    int err = wm_topo_need(comm, MPI_CART);
    if (!err)
        *ndims = comm->topo->ndims;
    return err;
}

static int check_maxdims(const struct wm_topo *t, int maxdims)
{
    if (maxdims >= t->ndims)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_ARG, "maxdims is %d, expected at least the grid's %d dimensions", maxdims,
                  t->ndims);
}

int wm_api_cart_get(struct wm_comm *comm, int maxdims, int dims[], int periods[], int coords[])
{
    int err = wm_topo_need(comm, MPI_CART);
    if (!err)
        err = check_maxdims(comm->topo, maxdims);
    for (int d = 0; !err && d < comm->topo->ndims; d++) {
        dims[d] = comm->topo->dims[d];
        periods[d] = comm->topo->periods[d];
        coords[d] = comm->topo->coords[d];
    }
    return err;
}

int wm_api_cart_coords(struct wm_comm *comm, int rank, int maxdims, int coords[])
{
    int err = wm_topo_need(comm, MPI_CART);
    if (!err)
        err = check_maxdims(comm->topo, maxdims);
    if (!err)
        coords_of(comm->topo, rank, coords);
    return err;
}

int wm_api_cart_rank(struct wm_comm *comm, const int coords[], int *rank)
{
    const struct wm_topo *t = comm->topo;
    int64_t r = 0;
    int err = wm_topo_need(comm, MPI_CART);
    if (err)
        return err;
    if (t->ndims && !coords)
        return wm_err(MPI_ERR_ARG, "argument 2 (coords) is a null pointer, expected %d coordinates",
                      t->ndims);
    for (int d = 0; d < t->ndims; d++) {
        int at = coords[d], size = t->dims[d];
        if (at < 0 || at >= size) {
            if (!t->periods[d])
                return wm_err(MPI_ERR_ARG,
                              "coords[%d] is %d, expected 0 to %d, for that dimension is not "
                              "periodic",
                              d, at, size - 1);
            at = at % size < 0 ? at % size + size : at % size;
        }
        r = r * size + at;
    }
    *rank = (int)r;
    return MPI_SUCCESS;
}

/* The rank `disp` steps further in a dimension whose ranks are `stride` apart. */
static int shifted(const struct wm_topo *t, int rank, int dim, int64_t disp, int stride)
{
    int64_t size = t->dims[dim], to = t->coords[dim] + disp;
    if (t->periods[dim])
        to = (to % size + size) % size;
    else if (to < 0 || to >= size)
        return MPI_PROC_NULL;
    return (int)(rank + (to - t->coords[dim]) * stride);
}

int wm_api_cart_shift(struct wm_comm *comm, int direction, int disp, int *rank_source,
                      int *rank_dest)
{
    const struct wm_topo *t = comm->topo;
    int stride = 1, err = wm_topo_need(comm, MPI_CART);
    if (err)
        return err;
    if (direction < 0 || direction >= t->ndims)
        return wm_err(MPI_ERR_DIMS,
                      "direction is %d, but the grid has %d dimension%s, numbered "
                      "from 0",
                      direction, t->ndims, t->ndims == 1 ? "" : "s");
    for (int d = direction + 1; d < t->ndims; d++)
        stride *= t->dims[d];
    *rank_source = shifted(t, comm->rank, direction, -(int64_t)disp, stride);
    *rank_dest = shifted(t, comm->rank, direction, disp, stride);
    return MPI_SUCCESS;
}
