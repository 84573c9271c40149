/* SPDX-License-Identifier: BSD-3-Clause */
/* Gather and scatter, with equal and with given counts, over messages.
 *
 * binomial: packed blocks travel up (gather) or down (scatter) a tree, each inner rank handling
 * those of its subtree. log2(p) a + m (p - 1) b.  Best for small blocks.
 *
 * linear: the root exchanges one message with every rank, all at once.  (p - 1) (a + m b).  Best
 * for large blocks, where no rank should copy for others, and the only way when only the root
 * knows the counts.
 *
 * Reference: Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory,
 * practice, and experience", 2007. */
#include "coll/algo/algo.h"
#include "coll/algo/reduce.h"
#include "coll/sched.h"
#include "runtime/base/err.h"

/* The tree over ranks counted from the root: subtree of vr is [vr, vr + span), its parent vr - low.
 */
struct tree {
    int vr, low, span;
};

static struct tree tree_of(const struct coll_team *t, int root)
{
    int p = t->size, vr = (t->rank - root + p) % p, mask = 1;
    while (mask < p && !(vr & mask))
        mask *= 2;
    return (struct tree){ vr, mask, vr + mask < p ? mask : p - vr };
}

static int child_span(const struct tree *tr, int p, int mask)
{
    int first = tr->vr + mask;
    return first + mask < p ? mask : p - first;
}

static int start_gather_binomial(struct coll_team *t, const struct coll_args *a,
                                 struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size;
    struct tree tr = tree_of(t, a->root);
    bool in_place = a->sbuf == COLL_IN_PLACE;
    int64_t block = in_place ? a->rcount * a->rtype->size : a->scount * a->stype->size;
    if (tr.vr && tr.span == 1) {
        coll_sched_send(s, a->sbuf, a->scount, a->stype, (t->rank - tr.low + p) % p);
        return coll_sched_go(s);
    }
    char *tmp = coll_sched_tmp(s, tr.span * block);
    if (!in_place)
        coll_sched_copy(s, a->sbuf, a->scount, a->stype, tmp, block, &coll_bytes);
    for (int mask = 1; mask < tr.low && tr.vr + mask < p; mask *= 2)
        coll_sched_recv(s, tmp + mask * block, child_span(&tr, p, mask) * block, &coll_bytes,
                        (t->rank + mask) % p);
    coll_sched_round(s);
    if (tr.vr)
        coll_sched_send(s, tmp, tr.span * block, &coll_bytes, (t->rank - tr.low + p) % p);
    for (int i = in_place; !tr.vr && i < p; i++)
        coll_sched_copy(s, tmp + i * block, block, &coll_bytes,
                        coll_at(a->rbuf, (i + a->root) % p * a->rcount, a->rtype), a->rcount,
                        a->rtype);
    return coll_sched_go(s);
}

static int start_scatter_binomial(struct coll_team *t, const struct coll_args *a,
                                  struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size;
    struct tree tr = tree_of(t, a->root);
    bool in_place = a->rbuf == COLL_IN_PLACE;
    int64_t block = in_place ? a->scount * a->stype->size : a->rcount * a->rtype->size;
    int parent = (t->rank - tr.low + p) % p;
    if (tr.vr && tr.span == 1) {
        coll_sched_recv(s, a->rbuf, a->rcount, a->rtype, parent);
        return coll_sched_go(s);
    }
    char *tmp = coll_sched_tmp(s, tr.span * block);
    if (tr.vr)
        coll_sched_recv(s, tmp, tr.span * block, &coll_bytes, parent);
    for (int i = 0; !tr.vr && i < p; i++)
        coll_sched_copy(s, coll_at(a->sbuf, (i + a->root) % p * a->scount, a->stype), a->scount,
                        a->stype, tmp + i * block, block, &coll_bytes);
    coll_sched_round(s);
    int top = tr.vr ? tr.low / 2 : coll_pow2_below(p - 1);
    for (int mask = top; mask > 0; mask /= 2)
        if (tr.vr + mask < p)
            coll_sched_send(s, tmp + mask * block, child_span(&tr, p, mask) * block, &coll_bytes,
                            (t->rank + mask) % p);
    if (!in_place)
        coll_sched_copy(s, tmp, block, &coll_bytes, a->rbuf, a->rcount, a->rtype);
    return coll_sched_go(s);
}

static int start_gather_linear(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    if (t->rank != a->root) {
        coll_sched_send(s, a->sbuf, a->scount, a->stype, a->root);
        return coll_sched_go(s);
    }
    for (int i = 0; i < t->size; i++) {
        struct coll_block b = coll_args_block(a, COLL_RECV, i);
        if (i != t->rank)
            coll_sched_recv(s, b.at, b.n, b.l, i);
        else if (a->sbuf != COLL_IN_PLACE)
            coll_sched_copy(s, a->sbuf, a->scount, a->stype, b.at, b.n, b.l);
    }
    return coll_sched_go(s);
}

static int start_scatter_linear(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    if (t->rank != a->root) {
        coll_sched_recv(s, a->rbuf, a->rcount, a->rtype, a->root);
        return coll_sched_go(s);
    }
    for (int i = 0; i < t->size; i++) {
        struct coll_block b = coll_args_block(a, COLL_SEND, i);
        if (i != t->rank)
            coll_sched_send(s, b.at, b.n, b.l, i);
        else if (a->rbuf != COLL_IN_PLACE)
            coll_sched_copy(s, b.at, b.n, b.l, a->rbuf, a->rcount, a->rtype);
    }
    return coll_sched_go(s);
}

const struct coll_alg coll_gather_algs[] = {
    { "binomial", "packed blocks up a tree", COLL_GATHER, 0, start_gather_binomial },
    { "linear", "one message from every rank", COLL_GATHER, 0, start_gather_linear },
    { "linear", "one message from every rank", COLL_GATHERV, 0, start_gather_linear },
    { 0 },
};

const struct coll_alg coll_scatter_algs[] = {
    { "binomial", "packed blocks down a tree", COLL_SCATTER, 0, start_scatter_binomial },
    { "linear", "one message to every rank", COLL_SCATTER, 0, start_scatter_linear },
    { "linear", "one message to every rank", COLL_SCATTERV, 0, start_scatter_linear },
    { 0 },
};
