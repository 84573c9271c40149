/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbourhood collectives (MPI-5.0 section 8.6).  Under the domain's lock.
 *
 * linear   All receives and sends in one round.  Cost for d neighbours and blocks of m bytes:
 *          d (a + m b), and no rank waits for any but its neighbours.  Schemes that combine
 *          messages along the dimensions of a grid save starts for diagonal neighbours only, which
 *          Cartesian topologies do not have. */
#include "coll/algo/algo.h"
#include "coll/sched.h"

#include "runtime/base/err.h"

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
        struct coll_block b = coll_args_block(a, COLL_RECV, slot);
        coll_sched_recv(s, b.at, b.n, b.l, nb->sources[slot]);
    }
    for (int i = 0; i < nb->ndestinations; i++) {
        if (nb->destinations[i] < 0)
            continue;
        struct coll_block b = coll_args_block(a, COLL_SEND, i);
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
