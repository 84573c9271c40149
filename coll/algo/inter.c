/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives between the two groups of an intercommunicator, over messages (MPI-5.0 section
 * 6.2.3): one algorithm for each kind, so there is nothing to choose.  p ranks in the local group,
 * q in the remote one.
 *
 * What all ranks of a group contribute to one result (reductions, barrier) is combined at rank 0 of
 * the group; the two ranks 0 exchange the results; what a whole group receives is broadcast from
 * its rank 0: (log2(p) + 1 + log2(q)) messages one after the other.  Blocks that one process sends
 * to another (gather, scatter, alltoall) go straight there; those of an allgather to the other
 * group's rank 0, because only the other group knows the lengths when they are given.
 *
 * In rooted calls a->root is COLL_ROOT at the root, COLL_NOBODY at the others of its group, and the
 * root's rank in the other group. */
#include "coll/algo/algo.h"
#include "coll/algo/barrier.h"
#include "coll/algo/bcast.h"
#include "coll/algo/reduce.h"
#include "coll/sched.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

static int start_barrier(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    (void)a;
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    struct coll_team *l = t->local;
    coll_sched_team(s, l);
    coll_build_arrive(s, l);
    if (l->rank == 0) {
        coll_sched_team(s, t);
        coll_sched_send(s, NULL, 0, &coll_bytes, 0);
        coll_sched_recv(s, NULL, 0, &coll_bytes, 0);
    }
    coll_sched_round(s);
    coll_sched_team(s, l);
    coll_build_bcast(s, l, NULL, 0, &coll_bytes, 0);
    return coll_sched_go(s);
}

/* Broadcasts buf from rank 0 to the local group. */
static void hand_out(struct coll_sched *s, struct coll_team *t, void *buf, int64_t n,
                     const struct rt_layout *l)
{
    coll_sched_round(s);
    coll_sched_team(s, t->local);
    coll_build_bcast(s, t->local, buf, n, l, 0);
}

static int start_bcast(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    if (a->root == COLL_ROOT) {
        coll_sched_send(s, a->rbuf, a->rcount, a->rtype, 0);
    } else if (a->root != COLL_NOBODY) {
        if (t->rank == 0)
            coll_sched_recv(s, a->rbuf, a->rcount, a->rtype, a->root);
        hand_out(s, t, a->rbuf, a->rcount, a->rtype);
    }
    return coll_sched_go(s);
}

/* Blocks of remote rank i in the send and in the receive buffer. */
static void send_block(struct coll_sched *s, const struct coll_args *a, int i)
{
    struct coll_block b = coll_args_block(a, COLL_SEND, i);
    coll_sched_send(s, b.at, b.n, b.l, i);
}

static void recv_block(struct coll_sched *s, const struct coll_args *a, int i)
{
    struct coll_block b = coll_args_block(a, COLL_RECV, i);
    coll_sched_recv(s, b.at, b.n, b.l, i);
}

static int start_gather(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    for (int i = 0; a->root == COLL_ROOT && i < t->remote_size; i++)
        recv_block(s, a, i);
    if (a->root >= 0)
        coll_sched_send(s, a->sbuf, a->scount, a->stype, a->root);
    return coll_sched_go(s);
}

static int start_scatter(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    for (int i = 0; a->root == COLL_ROOT && i < t->remote_size; i++)
        send_block(s, a, i);
    if (a->root >= 0)
        coll_sched_recv(s, a->rbuf, a->rcount, a->rtype, a->root);
    return coll_sched_go(s);
}

static int start_alltoall(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    for (int i = 0; i < t->remote_size; i++)
        recv_block(s, a, (t->rank + i) % t->remote_size);
    for (int i = 0; i < t->remote_size; i++)
        send_block(s, a, (t->rank + i) % t->remote_size);
    return coll_sched_go(s);
}

static int start_allgather(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    coll_sched_send(s, a->sbuf, a->scount, a->stype, 0);
    for (int i = 0; t->rank == 0 && i < t->remote_size; i++)
        recv_block(s, a, i);
    hand_out(s, t, a->rbuf, t->remote_size * a->rcount, a->rtype);
    return coll_sched_go(s);
}

/* The blocks may lie anywhere, so they travel packed. */
static int start_allgatherv(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int64_t nbytes = 0, at = 0;
    for (int i = 0; i < t->remote_size; i++)
        nbytes += a->rcounts[i] * a->rtype->size;
    char *tmp = coll_sched_tmp(s, nbytes);
    coll_sched_send(s, a->sbuf, a->scount, a->stype, 0);
    for (int i = 0; i < t->remote_size; i++) {
        int64_t len = a->rcounts[i] * a->rtype->size;
        if (t->rank == 0)
            coll_sched_recv(s, tmp + at, len, &coll_bytes, i);
        at += len;
    }
    hand_out(s, t, tmp, nbytes, &coll_bytes);
    at = 0;
    for (int i = 0; i < t->remote_size; i++) {
        int64_t len = a->rcounts[i] * a->rtype->size;
        coll_sched_copy(s, tmp + at, len, &coll_bytes, coll_at(a->rbuf, a->rdispls[i], a->rtype),
                        a->rcounts[i], a->rtype);
        at += len;
    }
    return coll_sched_go(s);
}

/* Combines the local group's n elements at its rank 0.  Returns their address there; it is not used
 * on other ranks. */
static const void *combine(struct coll_sched *s, struct coll_team *t, const struct coll_args *a,
                           int64_t n)
{
    struct coll_args whole = *a;
    whole.rcount = n;
    if (t->size == 1)
        return a->sbuf;
    void *out = t->rank == 0 ? coll_sched_tmp_elems(s, n, a->rtype) : NULL;
    coll_sched_team(s, t->local);
    coll_build_reduce(s, t->local, &whole, a->sbuf, out, 0);
    coll_sched_round(s);
    coll_sched_team(s, t);
    return out;
}

static int start_reduce(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    if (a->root == COLL_ROOT) {
        coll_sched_recv(s, a->rbuf, a->rcount, a->rtype, 0);
    } else if (a->root != COLL_NOBODY) {
        const void *sum = combine(s, t, a, a->rcount);
        if (t->rank == 0)
            coll_sched_send(s, sum, a->rcount, a->rtype, a->root);
    }
    return coll_sched_go(s);
}

static int start_allreduce(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    const void *sum = combine(s, t, a, a->rcount);
    if (t->rank == 0) {
        coll_sched_recv(s, a->rbuf, a->rcount, a->rtype, 0);
        coll_sched_send(s, sum, a->rcount, a->rtype, 0);
    }
    hand_out(s, t, a->rbuf, a->rcount, a->rtype);
    return coll_sched_go(s);
}

/* The vectors of both groups have the same length, each group cuts it in its own way. */
static int start_reduce_scatter(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    const struct rt_layout *l = a->rtype;
    int64_t n = t->size * a->rcount, at = 0;
    for (int i = 0; a->rcounts && i < t->size; i++)
        n += a->rcounts[i];
    const void *sum = combine(s, t, a, n);
    char *got = t->rank == 0 ? coll_sched_tmp_elems(s, n, l) : NULL;
    if (t->rank == 0) {
        coll_sched_recv(s, got, n, l, 0);
        coll_sched_send(s, sum, n, l, 0);
    }
    coll_sched_round(s);
    coll_sched_team(s, t->local);
    for (int i = 0; i < t->size; i++) {
        int64_t len = a->rcounts ? a->rcounts[i] : a->rcount;
        if (i == t->rank && i == 0)
            coll_sched_copy(s, got, len, l, a->rbuf, len, l);
        else if (i == t->rank)
            coll_sched_recv(s, a->rbuf, len, l, 0);
        else if (t->rank == 0)
            coll_sched_send(s, coll_at(got, at, l), len, l, i);
        at += len;
    }
    return coll_sched_go(s);
}

const struct coll_alg coll_inter_algs[] = {
    { "inter", "between two groups", COLL_BARRIER, 0, start_barrier },
    { "inter", "between two groups", COLL_BCAST, 0, start_bcast },
    { "inter", "between two groups", COLL_REDUCE, 0, start_reduce },
    { "inter", "between two groups", COLL_ALLREDUCE, 0, start_allreduce },
    { "inter", "between two groups", COLL_GATHER, 0, start_gather },
    { "inter", "between two groups", COLL_GATHERV, 0, start_gather },
    { "inter", "between two groups", COLL_SCATTER, 0, start_scatter },
    { "inter", "between two groups", COLL_SCATTERV, 0, start_scatter },
    { "inter", "between two groups", COLL_ALLGATHER, 0, start_allgather },
    { "inter", "between two groups", COLL_ALLGATHERV, 0, start_allgatherv },
    { "inter", "between two groups", COLL_ALLTOALL, 0, start_alltoall },
    { "inter", "between two groups", COLL_ALLTOALLV, 0, start_alltoall },
    { "inter", "between two groups", COLL_ALLTOALLW, 0, start_alltoall },
    { "inter", "between two groups", COLL_REDUCE_SCATTER, 0, start_reduce_scatter },
    { "inter", "between two groups", COLL_REDUCE_SCATTER_BLOCK, 0, start_reduce_scatter },
    { 0 },
};
