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

#include "coll/algo/algo.h"
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
    bool several;          /* there are several hosts, and on one of them more than one rank */
    int nnodes, node;      /* hosts, in the order of their lowest ranks; this rank's */
    int most, least;       /* ranks on a host */
    /* Host i has ranks start[i] .. start[i + 1] - 1 of `order`; NULL: of the team, each host's
     * ranks follow each other. */
    int *start, *order;
    int *node_of; /* by rank; NULL as `order` */
};

/* Finds out where all ranks are; the same on all.  0, or -RT_ENOMEM: to be repeated. */
int coll_hier_map(struct coll_hier *h);
/* Before this rank says what memory it passes: whether it would go by its device, and the schedule
 * for that has been written into the task. */
bool coll_hier_on_device(struct coll_task *k);
extern int64_t coll_hier_device_min; /* bytes from which it does; a test has its own */
void coll_hier_fini(struct coll_team *t);
static inline bool coll_hier_nodes(const struct coll_team *t)
{
    return t->hier && t->hier->several;
}

/* Rank with number i on a host; the host of a rank; ranks on a host. */
static inline int coll_hier_rank(const struct coll_hier *h, int node, int i)
{
    return h->order ? h->order[h->start[node] + i] : h->start[node] + i;
}
int coll_hier_node(const struct coll_hier *h, int rank);
static inline int coll_hier_count(const struct coll_hier *h, int node)
{
    return h->start[node + 1] - h->start[node];
}

/* ---- a collective that is being written (local.c) ---- */

struct coll_hier_call {
    struct coll_sched *s;
    struct coll_hier *h;
    const struct coll_args *a;
    struct coll_team *local; /* of h */
    bool shared;             /* local parts may be calls */
};

/* False: no memory. */
bool coll_hier_begin(struct coll_hier_call *x, struct coll_team *t, const struct coll_args *a,
                     struct coll_task *k);
/* The team of the ranks with number `rail` on their hosts, to which this rank belongs; root >= 0:
 * of that rank on its host.  Its ranks are the numbers of the hosts.  Messages go to it from here
 * on.  NULL: no memory, noted in the schedule. */
struct coll_team *coll_hier_across(struct coll_hier_call *x, int rail, int root);

/* Whether the hosts are so few that for small data each sends to all others at once: one message
 * after the other costs more than a few at a time; and so for vectors of this length. */
bool coll_hier_few(const struct coll_hier *h);
bool coll_hier_direct(const struct coll_hier *h, int64_t nbytes);

/* The sum of n elements of each of those representatives, sent directly and added up in the order
 * of hosts, to one of them or to all (-1), who get the same bits.  `in` may be `out`. */
void coll_hier_sum(struct coll_hier_call *x, const struct coll_team *across, const void *in,
                   void *out, int64_t n, int root);

/* The local rank that speaks for this host in a rooted call: the root, or the lowest. */
int coll_hier_speaker(const struct coll_hier_call *x);

/* Parts among the ranks of this host; `root` is a rank of the local team, and n the same on all.
 * They join the round that is being written, which they end, unless they are calls in shared
 * memory.  reduce: `in` may be `out`, which only the root uses. */
void coll_hier_bcast(struct coll_hier_call *x, void *buf, int64_t n, const struct rt_layout *l,
                     int root);
void coll_hier_reduce(struct coll_hier_call *x, const void *in, void *out, int64_t n, int root);
/* The whole call, a scan or exscan, among them. */
void coll_hier_scan(struct coll_hier_call *x);
void coll_hier_arrive(struct coll_hier_call *x);
void coll_hier_release(struct coll_hier_call *x);
/* Shares into which the vectors of all hosts are cut so that on each there is a rank for every one:
 * at most the ranks of the smallest, and one where ranks are too many for it. */
int coll_hier_rails(const struct coll_hier *h);
/* n elements from `in` are cut into a run for each of the first nrails ranks, which get the sums of
 * theirs at `out`; and back: runs at `in`, all of them to all ranks, or to the root, at `out`. */
void coll_hier_reduce_scatter(struct coll_hier_call *x, const void *in, void *out, int64_t n,
                              int nrails);
void coll_hier_collect(struct coll_hier_call *x, const void *in, void *out, int64_t n, int nrails);
void coll_hier_gather_runs(struct coll_hier_call *x, const void *in, void *out, int64_t n,
                           int nrails, int root);
/* The same for given runs, `v` lengths and then offsets of all local ranks'; and from the lowest
 * rank to their owners. */
void coll_hier_reduce_runs(struct coll_hier_call *x, const void *in, void *out, const int64_t *v);
void coll_hier_scatter_runs(struct coll_hier_call *x, const void *in, void *out, const int64_t *v);
/* Given blocks of bytes, `len` and places of all local ranks': this rank's, n elements of `l` at
 * `in`, perhaps in place, to all of them at `out`. */
void coll_hier_collect_blocks(struct coll_hier_call *x, const void *in, int64_t n,
                              const struct rt_layout *l, char *out, const int64_t *len,
                              const int64_t *at);
/* Blocks of nbytes, packed at the root by local rank, and n elements of `l` at each rank; there
 * COLL_IN_PLACE at the root. */
void coll_hier_gather(struct coll_hier_call *x, const void *in, int64_t n,
                      const struct rt_layout *l, char *out, int64_t nbytes, int root);
void coll_hier_scatter(struct coll_hier_call *x, const char *in, int64_t nbytes, void *out,
                       int64_t n, const struct rt_layout *l, int root);

extern const struct coll_alg coll_hier_rooted_algs[], coll_hier_allreduce_algs[],
    coll_hier_allgather_algs[], coll_hier_alltoall_algs[], coll_hier_gather_algs[],
    coll_hier_reduce_scatter_algs[], coll_hier_scan_algs[];

#endif
