/* SPDX-License-Identifier: BSD-3-Clause */
/* Which parts of the user's buffers a collective call reads and defines, for those who copy them.
 * Pure functions of the call. */
#include "mpi/core/coll_blocks.h"
#include "mpi/core/coll_call.h"

bool wm_blocks_apart(enum coll_kind kind, enum wm_side side)
{
    switch (kind) {
    case COLL_ALLTOALLV:
    case COLL_ALLTOALLW:
    case COLL_NEIGHBOR_ALLTOALLV:
    case COLL_NEIGHBOR_ALLTOALLW:
        return true;
    case COLL_GATHERV:
    case COLL_ALLGATHERV:
    case COLL_NEIGHBOR_ALLGATHERV:
        return side == WM_RECV;
    default:
        return kind == COLL_SCATTERV && side == WM_SEND;
    }
}

/* Equal blocks side by side, one a process; a neighbour that does not exist has none. */
static bool is_row(enum coll_kind kind, enum wm_side side)
{
    if (kind == COLL_ALLTOALL || kind == COLL_NEIGHBOR_ALLTOALL)
        return true;
    return side == WM_RECV
               ? kind == COLL_GATHER || kind == COLL_ALLGATHER || kind == COLL_NEIGHBOR_ALLGATHER
               : kind == COLL_SCATTER;
}

static bool is_gather(enum coll_kind k) { return k == COLL_GATHER || k == COLL_GATHERV; }
static bool is_allgather(enum coll_kind k) { return k == COLL_ALLGATHER || k == COLL_ALLGATHERV; }
static bool is_scatter(enum coll_kind k) { return k == COLL_SCATTER || k == COLL_SCATTERV; }

/* Whether this process uses the buffer at all. */
static bool is_used(const struct coll_args *a, const struct wm_comm *c, enum wm_side side)
{
    if (a->kind == COLL_BARRIER || (side == WM_RECV ? a->rbuf : a->sbuf) == COLL_IN_PLACE)
        return false;
    if ((a->kind == COLL_REDUCE && side == WM_RECV) || (is_scatter(a->kind) && side == WM_SEND) ||
        (is_gather(a->kind) && side == WM_RECV))
        return wm_call_root(c, a->root);
    if (a->kind == COLL_REDUCE && c->inter) /* the root's group gives nothing */
        return a->root >= 0;
    return side == WM_RECV ? a->rtype || a->rtypes : a->stype || a->stypes;
}

/* Of a row in place one block is this process's own. */
static bool is_cut(const struct coll_args *a, enum wm_side side)
{
    if (!is_row(a->kind, side))
        return false;
    return a->neighbors || a->sbuf == COLL_IN_PLACE || a->rbuf == COLL_IN_PLACE;
}

int wm_blocks_of(const struct coll_args *a, const struct wm_comm *c, enum wm_side side)
{
    if (!is_used(a, c, side))
        return 0;
    if (!wm_blocks_apart(a->kind, side) && !is_cut(a, side))
        return 1;
    if (a->neighbors)
        return side == WM_RECV ? a->neighbors->nsources : a->neighbors->ndestinations;
    return c->remote->size;
}

static int64_t sum(const int64_t *v, int n)
{
    int64_t s = 0;
    for (int i = 0; i < n; i++)
        s += v[i];
    return s;
}

/* Elements of a side that is one block.  Of a vector that is reduced and scattered the receive
 * side is this process's part; in place all of it is input. */
static int64_t elements(const struct coll_args *a, const struct wm_comm *c, enum wm_side side)
{
    bool whole = side == WM_SEND || a->sbuf == COLL_IN_PLACE;
    int64_t n = side == WM_RECV ? a->rcount : a->scount;
    if (a->kind == COLL_REDUCE_SCATTER)
        return whole ? sum(a->rcounts, c->size) : a->rcounts[c->rank];
    if (a->kind == COLL_REDUCE_SCATTER_BLOCK)
        return whole ? a->rcount * c->size : a->rcount;
    return is_row(a->kind, side) ? n * c->remote->size : n;
}

int64_t wm_block_defined(const struct coll_args *a, const struct wm_comm *c,
                         const struct wm_block *b)
{
    if (a->kind == COLL_REDUCE_SCATTER)
        return a->rcounts[c->rank];
    return a->kind == COLL_REDUCE_SCATTER_BLOCK ? a->rcount : b->n;
}

/* Received data replace the buffer's, so those are input in place and of a broadcast's root only.
 */
static void set_ways(const struct coll_args *a, const struct wm_comm *c, enum wm_side side, int i,
                     struct wm_block *b)
{
    bool bcast_root = a->kind == COLL_BCAST && wm_call_root(c, a->root),
         in_place = a->sbuf == COLL_IN_PLACE,
         own = in_place && (is_gather(a->kind) || is_allgather(a->kind)) && i == c->rank;
    if (side == WM_SEND) {
        b->in = !(a->rbuf == COLL_IN_PLACE && i == c->rank); /* a scatter's root keeps its part */
        b->out = false;
        return;
    }
    b->in = bcast_root || (in_place && !is_gather(a->kind) && (own || !is_allgather(a->kind)));
    b->out = !bcast_root && !own && !(a->kind == COLL_EXSCAN && c->rank == 0);
}

struct wm_block wm_block_at(const struct coll_args *a, const struct wm_comm *c, enum wm_side side,
                            int i)
{
    const struct coll_neighbors *nb = a->neighbors;
    const int64_t *counts = side == WM_RECV ? a->rcounts : a->scounts,
                  *displs = side == WM_RECV ? a->rdispls : a->sdispls;
    const struct rt_layout *const *types = side == WM_RECV ? a->rtypes : a->stypes;
    struct wm_block b = { .l = side == WM_RECV ? a->rtype : a->stype,
                          .at = (uintptr_t)(side == WM_RECV ? a->rbuf : a->sbuf) };
    set_ways(a, c, side, i, &b);
    if (wm_blocks_apart(a->kind, side)) {
        b.l = types ? types[i] : b.l;
        b.n = b.l ? counts[i] : 0;
        b.at += (uintptr_t)(types || !b.l ? displs[i] : displs[i] * b.l->extent);
    } else if (is_cut(a, side)) {
        b.n = side == WM_RECV ? a->rcount : a->scount;
        b.at += (uintptr_t)(i * b.n * b.l->extent);
    } else {
        b.n = elements(a, c, side);
    }
    if (nb && (side == WM_RECV ? nb->sources : nb->destinations)[i] < 0)
        b.n = 0;
    return b;
}
