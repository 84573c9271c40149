/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of a team whose ranks are on several hosts: the ranks of a host work together in its
 * node segment, and few messages go between hosts.  Called under the domain's lock.
 *
 * Each algorithm is a schedule (coll/sched.h) that is written for the whole team.  Its parts are
 * collectives of the local team, which are calls of coll/node where there is shared memory, and
 * messages between representatives: one rank a host, or several at a time, each with its own share.
 * Where calls may not be used (persistent calls, which ranks start in different orders; no shared
 * memory) the local parts are messages, too.  Whether they are is decided alike by all ranks of a
 * host, and no other host needs to know.
 *
 * Devices.  Where the ranks of a host pass device memory they vote (coll/gpu/vote.c): each writes
 * the schedule with temporaries on its device, which may fail, and votes.  All yes: the
 * calls go from device to device, messages between hosts have device memory at this end, and the
 * local steps are the device's.  One veto: all drop theirs and copy through host memory.
 *
 * Order.  Local calls are numbered when a collective is started, all of them at once, so they come
 * in the same order on all ranks of a host, and a collective's last local call is over before the
 * next one's first begins.  No deadlock: a rank waits for others only in the earliest collective
 * that it has not finished, and the ranks with the earliest one of all wait for no others.
 *
 * Messages between two ranks carry the collective's tag and match in order.  Both ranks write them
 * in the same order, because every algorithm is a sequence of phases in which all ranks agree. */
#ifndef COLL_HIER_HIER_H
#define COLL_HIER_HIER_H

#include "coll/coll.h"

/* A team of some ranks of another: messages and shared memory are those of the whole team. */
struct coll_sub {
    struct coll_team team; /* first member */
    const struct coll_hier *h;
    const int *ranks;    /* of the whole team, by rank of this one; NULL: one on each host, */
    int rail;            /* the one with this number on its host, or COLL_HIER_LAST, */
    int root_node, root; /* but on that host (-1: none) this rank of the whole team */
};

#define COLL_HIER_LAST (-1)

struct coll_hier {
    struct coll_team *up;  /* the whole team */
    struct coll_sub local; /* ranks of this host; its list is owned */
    bool mapped;           /* what follows is known; found out at the first collective */
    int nnodes, node;      /* hosts, in the order of their lowest ranks; this rank's */
    int most, least;       /* ranks on a host */
    /* Host i has ranks start[i] .. start[i + 1] - 1 of `order`; NULL: of the team, each host's
     * ranks follow each other. */
    int *start, *order;
    int *node_of; /* by rank; NULL as `order` */
};

/* Rank with number i on a host; the host of a rank; ranks on a host. */
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
