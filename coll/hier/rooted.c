/* SPDX-License-Identifier: BSD-3-Clause */
/* Barrier, broadcast and reduction over several hosts.  N hosts; a, b of a message between them.
 *
 * hier, barrier: the ranks of a host notify the lowest rank; the lowest ranks notify each other,
 * with many hosts in the rounds of dissemination, and release the other ranks.  ceil(log2 N) a,
 * with few hosts a.
 *
 * hier, broadcast and reduction: a binomial tree over the hosts, whose representatives are the root
 * and, on other hosts, the lowest ranks; on each host in shared memory.  log2(N) (a + m b); small
 * data go between the root and few hosts directly, a + (N - 1) m b.
 *
 * hier_chain, broadcast: the hosts form a chain from the root's host on; data flow through it in
 * pieces of d bytes, each of which is distributed on a host while the next piece arrives.  (N - 2 +
 * m/d) (a + d b).  Best for large data and more than two hosts; else the tree, as in algo/bcast.c.
 *
 * hier_split, reduction: each rank of a host reduces its share, each share goes up a tree of its
 * own, and the root collects.  log2(N) (a + m b / K) with K shares in progress at a time. */
#include "coll/algo/barrier.h"
#include "coll/algo/bcast.h"
#include "coll/algo/reduce.h"
#include "coll/hier/hier.h"
#include "coll/hier/local.h"
#include "coll/hier/team.h"
#include "coll/sched.h"

#include "runtime/base/err.h"

static void meet(struct coll_hier_call *x)
{
    struct coll_team *across = coll_hier_across(x, 0, -1);
    if (across && !coll_hier_few(x->h)) {
        coll_build_dissemination(x->s, across);
        return;
    }
    for (int i = 0; across && i < across->size; i++) {
        if (i == across->rank)
            continue;
        coll_sched_recv(x->s, NULL, 0, &coll_bytes, i);
        coll_sched_send(x->s, NULL, 0, &coll_bytes, i);
    }
    coll_sched_round(x->s);
}

static int start_barrier(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_hier_call x;
    if (!coll_hier_begin(&x, t, a, k))
        return -RT_ENOMEM;
    coll_hier_arrive(&x);
    coll_sched_round(x.s);
    if (x.local->rank == 0)
        meet(&x);
    coll_hier_release(&x);
    return coll_sched_go(x.s);
}

/* Sends the data to the hosts' representatives; the last round, in which a rank only sends, is left
 * open. */
static void send_to_hosts(struct coll_hier_call *x)
{
    const struct coll_args *a = x->a;
    struct coll_team *across = coll_hier_across(x, 0, a->root);
    int root = coll_hier_node(x->h, a->root), p = x->h->nnodes;
    if (!across)
        return;
    if (!coll_hier_direct(x->h, a->rcount * a->rtype->size)) {
        coll_build_bcast_open(x->s, across, a->rbuf, a->rcount, a->rtype, root);
        return;
    }
    if (across->rank != root) {
        coll_sched_recv(x->s, a->rbuf, a->rcount, a->rtype, root);
        coll_sched_round(x->s);
    }
    for (int i = 1; across->rank == root && i < p; i++)
        coll_sched_send(x->s, a->rbuf, a->rcount, a->rtype, (root + i) % p);
}

static int start_bcast(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_hier_call x;
    if (!coll_hier_begin(&x, t, a, k))
        return -RT_ENOMEM;
    int first = coll_hier_speaker(&x);
    if (x.local->rank == first)
        send_to_hosts(&x);
    /* While the messages to other hosts are in progress: */
    coll_hier_bcast(&x, a->rbuf, a->rcount, a->rtype, first);
    return coll_sched_go(x.s);
}

/* Messages of turn i: piece i is received and piece i - 1 is forwarded. */
static void chain_turn(struct coll_hier_call *x, const struct coll_team *across, char *buf,
                       int64_t nbytes, int64_t piece, int64_t i)
{
    int n = across->size, root = coll_hier_node(x->h, x->a->root);
    int vr = (across->rank - root + n) % n;
    int64_t at = i * piece, left = nbytes - at, before = left + piece;
    if (vr > 0 && left > 0)
        coll_sched_recv(x->s, buf + at, left < piece ? left : piece, &coll_bytes,
                        (across->rank - 1 + n) % n);
    if (vr < n - 1 && i > 0)
        coll_sched_send(x->s, buf + at - piece, before < piece ? before : piece, &coll_bytes,
                        (across->rank + 1) % n);
}

static int start_bcast_chain(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_hier_call x;
    int64_t nbytes = a->rcount * a->rtype->size;
    int64_t piece = coll_chain_piece(t, nbytes, t->hier->nnodes);
    if (!piece)
        return start_bcast(t, a, k);
    if (!coll_hier_begin(&x, t, a, k))
        return -RT_ENOMEM;
    int first = coll_hier_speaker(&x);
    struct coll_team *across = x.local->rank == first ? coll_hier_across(&x, 0, a->root) : NULL;
    char *buf = coll_build_packed(x.s, t, a, nbytes);
    for (int64_t i = 0; (i - 1) * piece < nbytes; i++) {
        int64_t at = (i - 1) * piece, left = nbytes - at;
        if (across) {
            coll_sched_team(x.s, across);
            chain_turn(&x, across, buf, nbytes, piece, i);
        }
        if (i > 0)
            coll_hier_bcast(&x, buf + at, left < piece ? left : piece, &coll_bytes, first);
        coll_sched_round(x.s);
    }
    coll_build_unpacked(x.s, t, a, buf, nbytes);
    return coll_sched_go(x.s);
}

static int start_reduce(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_hier_call x;
    if (!coll_hier_begin(&x, t, a, k))
        return -RT_ENOMEM;
    int first = coll_hier_speaker(&x);
    const void *in = coll_input(a);
    void *sum = t->rank == a->root ? a->rbuf : NULL;
    if (x.local->size == 1 && !sum)
        sum = (void *)in; /* read only */
    else if (x.local->rank == first && !sum)
        sum = coll_sched_tmp_elems(x.s, a->rcount, a->rtype);
    coll_hier_reduce(&x, in, sum, a->rcount, first);
    coll_sched_round(x.s);
    if (x.local->rank == first) {
        struct coll_team *across = coll_hier_across(&x, 0, a->root);
        int root = coll_hier_node(x.h, a->root);
        if (across && coll_hier_direct(x.h, a->rcount * a->rtype->size))
            coll_hier_sum(&x, across, sum, a->rbuf, a->rcount, root);
        else if (across)
            coll_build_reduce(x.s, across, a, sum, a->rbuf, root);
    }
    return coll_sched_go(x.s);
}

static int start_reduce_split(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_hier_call x;
    int nrails = coll_hier_rails(t->hier);
    if (nrails == 1)
        return start_reduce(t, a, k);
    if (!coll_hier_begin(&x, t, a, k))
        return -RT_ENOMEM;
    const struct rt_layout *l = a->rtype;
    int root = coll_hier_node(x.h, a->root), self = x.local->rank;
    struct coll_args part = *a;
    void *share = NULL;
    part.rcount = 0;
    if (self < nrails) {
        part.rcount = coll_cut(a->rcount, nrails, self + 1) - coll_cut(a->rcount, nrails, self);
        share = coll_sched_tmp_elems(x.s, part.rcount, l);
    }
    coll_hier_reduce_scatter(&x, coll_input(a), share, a->rcount, nrails);
    coll_sched_round(x.s);
    if (part.rcount) {
        struct coll_team *across = coll_hier_across(&x, self, -1);
        if (across)
            coll_build_reduce(x.s, across, &part, share, share, root);
    }
    if (x.h->node == root)
        coll_hier_gather_runs(&x, share, a->rbuf, a->rcount, nrails, coll_hier_speaker(&x));
    return coll_sched_go(x.s);
}

const struct coll_alg coll_hier_rooted_algs[] = {
    { "hier", "on each host, then among the hosts", COLL_BARRIER, COLL_NEED_NODES, start_barrier },
    { "hier", "down a tree of hosts, then on each host", COLL_BCAST, COLL_NEED_NODES, start_bcast },
    { "hier_chain", "in pieces along the hosts, and on each host", COLL_BCAST, COLL_NEED_NODES,
      start_bcast_chain },
    { "hier", "on each host, then up a tree of hosts", COLL_REDUCE,
      COLL_NEED_NODES | COLL_NEED_NODE_ORDER, start_reduce },
    { "hier_split", "on each host in shares, each up a tree of hosts", COLL_REDUCE,
      COLL_NEED_NODES | COLL_NEED_COMMUTES, start_reduce_split },
    { 0 },
};
