/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of a team whose ranks are on several hosts: the ranks of a host work together in its
 * node segment, and few messages go between hosts.  Called under the domain's lock.
 *
 * Each algorithm is a schedule (coll/sched.h) that is written for the whole team.  Its parts are
 * collectives of the local team, which are calls of coll/node where there is shared memory, and
 * messages between representatives: one rank of each host, or several at a time, each with its own
 * share.  Where calls are not allowed (persistent calls, which ranks start in different orders; no
 * shared memory) the local parts are messages, too.  All ranks of a host decide this alike; no
 * other host needs to know.
 *
 * Devices.  If the ranks of a host pass device memory, they vote (coll/gpu/vote.c): each writes the
 * schedule with temporaries on its device, which may fail, and votes.  If all vote yes, the calls
 * go from device to device, messages between hosts use device memory at this end, and the device
 * executes the local steps.  After one veto, all ranks of the host drop these schedules and copy
 * through host memory.
 *
 * Order.  Local calls are numbered when a collective is started, all of them at once.  So they have
 * the same order on all ranks of a host, and the last local call of a collective is complete before
 * the first one of the next collective begins.  No deadlock: a rank waits for others only in the
 * earliest collective that it has not finished, and the ranks with the earliest one of all wait for
 * no others.
 *
 * Messages between two ranks carry the collective's tag and match in order.  Both ranks write them
 * in the same order, because every algorithm is a sequence of phases on which all ranks agree. */
#ifndef COLL_HIER_HIER_H
#define COLL_HIER_HIER_H

#include "coll/coll.h"

/* A team of some ranks of another team: messages and shared memory are those of the whole team. */
struct coll_sub {
    struct coll_team team; /* first member */
    const struct coll_hier *h;
    /* Ranks of the whole team, by rank of this team; NULL: one rank of each host: */
    const int *ranks;
    int rail;            /* its number on the host, or COLL_HIER_LAST; */
    int root_node, root; /* on host root_node (-1: none): rank `root` of the whole team instead */
};

#define COLL_HIER_LAST (-1)

struct coll_hier {
    struct coll_team *up;  /* the whole team */
    struct coll_sub local; /* ranks of this host; its list is owned */
    bool mapped;           /* the following fields are set, which happens at the first collective */
    int nnodes, node;      /* hosts, in the order of their lowest ranks; this rank's */
    int most, least;       /* most and fewest ranks on a host */
    /* Host i has ranks start[i] ..  start[i + 1] - 1 of `order`.  NULL: of the team, because the
     * ranks of each host are consecutive. */
    int *start, *order;
    int *node_of; /* by rank; NULL like `order` */
};

/* The rank with number i on a host; the number of ranks on a host. */
static inline int coll_hier_rank(const struct coll_hier *h, int node, int i)
{
    return h->order ? h->order[h->start[node] + i] : h->start[node] + i;
}
static inline int coll_hier_count(const struct coll_hier *h, int node)
{
    return h->start[node + 1] - h->start[node];
}

extern const struct coll_alg coll_hier_rooted_algs[], coll_hier_allreduce_algs[],
    coll_hier_allgather_algs[], coll_hier_alltoall_algs[], coll_hier_gather_algs[],
    coll_hier_reduce_scatter_algs[], coll_hier_scan_algs[];

#endif
