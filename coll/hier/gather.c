/* SPDX-License-Identifier: BSD-3-Clause */
/* Gather and scatter of equal blocks over several hosts: the blocks of a host's ranks travel as one
 * message between the host's representative and the root.  N hosts, m bytes of a host: (N - 1) (a +
 * m b).  Best for small blocks.  Large blocks should not be copied by other ranks, and given counts
 * are known to the root only. */
#include "coll/hier/hier.h"
#include "coll/hier/local.h"
#include "coll/hier/team.h"
#include "coll/sched.h"

#include "runtime/base/err.h"

/* Blocks of all ranks, host by host, at the root: in the user's buffer if they lie there in this
 * order. */
static char *whole(struct coll_hier_call *x, const void *buf, int64_t nbytes, bool contig)
{
    const struct coll_hier *h = x->h;
    if (h->up->rank != x->a->root)
        return NULL;
    if (contig && !h->order)
        return (char *)buf; /* const is dropped for a gather, which writes */
    return coll_sched_tmp(x->s, h->up->size * nbytes);
}

/* The address of a host's blocks in it. */
static char *node_at(const struct coll_hier *h, char *all, int node, int64_t nbytes)
{
    return all ? all + h->start[node] * nbytes : NULL;
}

/* The messages between the root and the other hosts. */
static void pass(struct coll_hier_call *x, char *all, char *own, int64_t nbytes, bool to_root)
{
    const struct coll_hier *h = x->h;
    int root = coll_hier_node(h, x->a->root);
    struct coll_team *across = coll_hier_across(x, 0, x->a->root);
    for (int i = 0; across && i < h->nnodes; i++) {
        bool here = across->rank == root;
        if (i == across->rank || (!here && i != root))
            continue;
        char *at = here ? node_at(h, all, i, nbytes) : own;
        int64_t len = coll_hier_count(h, here ? i : h->node) * nbytes;
        if (here == to_root)
            coll_sched_recv(x->s, at, len, &coll_bytes, i);
        else
            coll_sched_send(x->s, at, len, &coll_bytes, i);
    }
}

static int start_gather(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_hier_call x;
    if (!coll_hier_begin(&x, t, a, k))
        return -RT_ENOMEM;
    const struct coll_hier *h = x.h;
    int speaker = coll_hier_speaker(&x);
    bool root = t->rank == a->root, in_place = a->sbuf == COLL_IN_PLACE;
    int64_t nbytes = in_place ? a->rcount * a->rtype->size : a->scount * a->stype->size;
    char *all = whole(&x, a->rbuf, nbytes, root && a->rtype->contig);
    char *own = node_at(h, all, h->node, nbytes);
    if (!root && x.local->rank == speaker)
        own = coll_sched_tmp(x.s, x.local->size * nbytes);
    if (in_place && all != a->rbuf)
        coll_hier_gather(&x, coll_at(a->rbuf, t->rank * a->rcount, a->rtype), a->rcount, a->rtype,
                         own, nbytes, speaker);
    else
        coll_hier_gather(&x, a->sbuf, a->scount, a->stype, own, nbytes, speaker);
    if (!root)
        coll_sched_round(x.s); /* the root's receives need not wait for its own host */
    if (x.local->rank == speaker)
        pass(&x, all, own, nbytes, true);
    coll_sched_round(x.s);
    for (int i = 0; root && all != a->rbuf && i < h->nnodes; i++)
        for (int j = 0; j < coll_hier_count(h, i); j++)
            coll_sched_copy(x.s, node_at(h, all, i, nbytes) + j * nbytes, nbytes, &coll_bytes,
                            coll_at(a->rbuf, coll_hier_rank(h, i, j) * a->rcount, a->rtype),
                            a->rcount, a->rtype);
    return coll_sched_go(x.s);
}

static int start_scatter(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_hier_call x;
    if (!coll_hier_begin(&x, t, a, k))
        return -RT_ENOMEM;
    const struct coll_hier *h = x.h;
    int speaker = coll_hier_speaker(&x);
    bool root = t->rank == a->root, in_place = a->rbuf == COLL_IN_PLACE;
    int64_t nbytes = in_place ? a->scount * a->stype->size : a->rcount * a->rtype->size;
    char *all = whole(&x, a->sbuf, nbytes, root && a->stype->contig);
    char *own = node_at(h, all, h->node, nbytes);
    for (int i = 0; root && all != a->sbuf && i < h->nnodes; i++)
        for (int j = 0; j < coll_hier_count(h, i); j++)
            coll_sched_copy(x.s, coll_at(a->sbuf, coll_hier_rank(h, i, j) * a->scount, a->stype),
                            a->scount, a->stype, node_at(h, all, i, nbytes) + j * nbytes, nbytes,
                            &coll_bytes);
    coll_sched_round(x.s);
    if (!root && x.local->rank == speaker)
        own = coll_sched_tmp(x.s, x.local->size * nbytes);
    if (x.local->rank == speaker)
        pass(&x, all, own, nbytes, false);
    if (!root)
        coll_sched_round(x.s);
    coll_hier_scatter(&x, own, nbytes, a->rbuf, a->rcount, a->rtype, speaker);
    return coll_sched_go(x.s);
}

const struct coll_alg coll_hier_gather_algs[] = {
    { "hier", "on each host, then one message of each to the root", COLL_GATHER, COLL_NEED_NODES,
      start_gather },
    { "hier", "one message to each host, then on each of them", COLL_SCATTER, COLL_NEED_NODES,
      start_scatter },
    { 0 },
};
