/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbourhood collectives (MPI-5.0 section 8.6).  Under the domain's lock.
 *
 * linear   All receives and sends in one round.  Cost for d neighbours and blocks of m bytes:
 *          d (a + m b), and no rank waits for any but its neighbours.  Schemes that combine
 *          messages along the dimensions of a grid save starts for diagonal neighbours only, which
 *          Cartesian topologies do not have. */
#include "coll/algo/algo.h"

#include "runtime/base/err.h"

struct block {
    void *at;
    int64_t n;
    const struct rt_layout *l;
};

static struct block send_block(const struct coll_args *a, int i)
{
    switch (a->kind) {
    case COLL_NEIGHBOR_ALLTOALL:
        return (struct block){ coll_at(a->sbuf, i * a->scount, a->stype), a->scount, a->stype };
    case COLL_NEIGHBOR_ALLTOALLV:
        return (struct block){ coll_at(a->sbuf, a->sdispls[i], a->stype), a->scounts[i], a->stype };
    case COLL_NEIGHBOR_ALLTOALLW:
        return (struct block){ (char *)a->sbuf + a->sdispls[i], a->scounts[i], a->stypes[i] };
    default:
        return (struct block){ (void *)a->sbuf, a->scount, a->stype };
    }
}

static struct block recv_block(const struct coll_args *a, int i)
{
    switch (a->kind) {
    case COLL_NEIGHBOR_ALLGATHERV:
    case COLL_NEIGHBOR_ALLTOALLV:
        return (struct block){ coll_at(a->rbuf, a->rdispls[i], a->rtype), a->rcounts[i], a->rtype };
    case COLL_NEIGHBOR_ALLTOALLW:
        return (struct block){ (char *)a->rbuf + a->rdispls[i], a->rcounts[i], a->rtypes[i] };
    default:
        return (struct block){ coll_at(a->rbuf, i * a->rcount, a->rtype), a->rcount, a->rtype };
    }
}

static int start_linear(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    (void)t;
    const struct coll_neighbors *nb = a->neighbors;
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    for (int i = 0; i < nb->nsources; i++) {
        /* Both neighbours in a ring of one or two are the same rank, which sends down first. */
        int slot = nb->grid ? i ^ 1 : i;
        if (nb->sources[slot] < 0)
            continue;
        struct block b = recv_block(a, slot);
        coll_sched_recv(s, b.at, b.n, b.l, nb->sources[slot]);
    }
    for (int i = 0; i < nb->ndestinations; i++) {
        if (nb->destinations[i] < 0)
            continue;
        struct block b = send_block(a, i);
        coll_sched_send(s, b.at, b.n, b.l, nb->destinations[i]);
    }
    return coll_sched_go(s);
}

const struct coll_alg coll_neighbor_algs[] = {
    { "linear", "all messages at once", COLL_NEIGHBOR_ALLGATHER, 0, start_linear },
    { "linear", "all messages at once", COLL_NEIGHBOR_ALLGATHERV, 0, start_linear },
    { "linear", "all messages at once", COLL_NEIGHBOR_ALLTOALL, 0, start_linear },
    { "linear", "all messages at once", COLL_NEIGHBOR_ALLTOALLV, 0, start_linear },
    { "linear", "all messages at once", COLL_NEIGHBOR_ALLTOALLW, 0, start_linear },
    { 0 },
};
