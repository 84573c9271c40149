/* SPDX-License-Identifier: BSD-3-Clause */
/* Making communicators with topologies.  All members first exchange whether they can continue, so
 * that a wrong argument in one process is an error in all of them and no process waits.  Called
 * without the domain's lock. */
#include "mpi/topo/make.h"
#include "mpi/coll/exch.h"
#include "mpi/core/commnew.h"
#include "mpi/core/ctx.h"
#include "mpi/core/group.h"
#include "mpi/p2p/domain.h"
#include <stdlib.h>

int wm_topo_intra(const struct wm_comm *comm)
{
    if (comm->inter)
        return wm_err(MPI_ERR_COMM, "the communicator is an intercommunicator; topologies are for "
                                    "intracommunicators (MPI-5.0 section 8.1)");
    return MPI_SUCCESS;
}

uint64_t wm_topo_print(uint64_t print, int n, const int v[])
{
    for (int i = 0; i < n; i++)
        print = (print ^ (uint32_t)v[i]) * 0x100000001b3u + 0x9e3779b97f4a7c15u;
    return print;
}

struct ballot {
    uint64_t low, high, balance;
    int64_t total;
    int32_t bad_rank, bad_class; /* the lowest rank that found something; INT32_MAX: none */
};

static void merge(void *pa, const void *pb)
{
    struct ballot *a = pa;
    const struct ballot *b = pb;
    if (b->low < a->low)
        a->low = b->low;
    if (b->high > a->high)
        a->high = b->high;
    a->balance += b->balance;
    a->total += b->total;
    if (b->bad_rank < a->bad_rank) {
        a->bad_rank = b->bad_rank;
        a->bad_class = b->bad_class;
    }
}

int wm_topo_agree(struct wm_comm *comm, int err, struct wm_topo_vote *vote)
{
    struct ballot b = { .low = vote->print,
                        .high = vote->print,
                        .balance = vote->balance,
                        .total = vote->total,
                        .bad_rank = err ? comm->rank : INT32_MAX,
                        .bad_class = err };
    struct wm_exch x = wm_exch_all(comm);
    rt_lock(&comm->dom->lock);
    int rc = wm_exch_combine(&x, &b, sizeof b, merge);
    rt_unlock(&comm->dom->lock);
    if (err)
        return err; /* with the text that came with it */
    if (rc)
        return wm_err_rt(rc, "agreeing on a topology among %d processes", comm->size);
    if (b.bad_rank != INT32_MAX)
        return wm_err(b.bad_class,
                      "rank %d failed in this call, so no process gets a communicator; its own "
                      "message says why",
                      b.bad_rank);
    if (b.low != b.high)
        return wm_err(MPI_ERR_ARG, "the processes passed different arguments, which must be the "
                                   "same in all of them");
    vote->balance = b.balance;
    vote->total = b.total;
    return MPI_SUCCESS;
}

/* The group with these ranks of the parent. */
static int make_group(const struct wm_comm *parent, int n, const int order[], struct wm_group **out)
{
    if (n == 0) {
        *out = NULL;
        return MPI_SUCCESS;
    }
    struct rt_proc *procs = malloc((size_t)n * sizeof *procs);
    if (!procs)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a group of %d processes", n);
    for (int i = 0; i < n; i++)
        procs[i] = wm_group_proc(parent->group, order ? order[i] : i);
    int err = wm_group_create(procs, n, out);
    if (!err)
        wm_group_set_session(*out, parent->session);
    return err;
}

int wm_topo_make(struct wm_comm *parent, int n, const int order[], struct wm_topo *t, int err,
                 struct wm_comm **out)
{
    struct wm_group *g = NULL;
    struct wm_comm *c = NULL;
    if (!err)
        err = make_group(parent, n, order, &g);
    struct wm_ctx_search s = { .err = err, .users = true };
    err = wm_comm_create_checked(parent, g, &s, &c);
    wm_group_unref(g);
    if (err || !c) {
        wm_topo_free(t);
    } else {
        c->topo = t;
        c->topo_ops = &wm_topo_ops;
        if (t->kind != MPI_DIST_GRAPH)
            wm_topo_locate(t, c->rank);
        wm_topo_finish(t);
    }
    if (!err)
        *out = c;
    return err;
}

static int grid_neighbors(const struct wm_topo *t, int rank, int out[])
{
    int64_t stride = 1;
    for (int d = t->ndims - 1; d >= 0; d--) {
        int size = t->dims[d], at = (int)(rank / stride % size);
        for (int up = 0; up < 2; up++) {
            int to = up ? at + 1 : at - 1;
            if (t->periods[d])
                to = (to + size) % size;
            out[2 * d + up] = to < 0 || to >= size ? MPI_PROC_NULL
                                                   : (int)(rank + (to - at) * stride);
        }
        stride *= size;
    }
    return 2 * t->ndims;
}

int wm_topo_neighbors(const struct wm_topo *t, int rank, int out[])
{
    if (t->kind == MPI_CART)
        return grid_neighbors(t, rank, out);
    int from = rank ? t->index[rank - 1] : 0, n = t->index[rank] - from;
    for (int i = 0; i < n; i++)
        out[i] = t->edges[from + i];
    return n;
}

void wm_topo_locate(struct wm_topo *t, int rank)
{
    if (t->kind == MPI_CART) {
        for (int d = t->ndims - 1, rest = rank; d >= 0; rest /= t->dims[d--])
            t->coords[d] = rest % t->dims[d];
        grid_neighbors(t, rank, t->sources);
        return;
    }
    int from = rank ? t->index[rank - 1] : 0;
    t->sources = t->destinations = t->edges + from;
    t->indegree = t->outdegree = t->index[rank] - from;
}

int wm_topo_need(const struct wm_comm *comm, int kind)
{
    static const char *const what[] = { "a Cartesian topology", "a graph topology",
                                        "a distributed graph topology" };
    if (comm->topo && comm->topo->kind == kind)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_TOPOLOGY, "the communicator has %s; expected one with %s",
                  comm->topo ? "another topology" : "no topology",
                  what[kind == MPI_CART    ? 0
                       : kind == MPI_GRAPH ? 1
                                           : 2]);
}
