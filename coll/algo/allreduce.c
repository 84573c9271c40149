/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction to all ranks over messages.
 *
 * recursive_doubling: pairs at distance 1, 2, 4, ... exchange and combine whole vectors in rank
 * order; ranks beyond a power of two are folded into a neighbour first.  log2(p) (a + m b + m c).
 * Best for small data; any operation.
 *
 * rabenseifner: recursive halving leaves every active rank a complete piece, recursive doubling
 * collects them. 2 log2(p) a + 2 m b + m c.  Best from some kilobytes on; needs a commutative
 * operation.
 *
 * ring: p - 1 rounds reduce pieces along a ring, p - 1 rounds pass the results round. 2 (p - 1) a
 * + 2 m b + m c, always between neighbours.  Best for very large data; needs a commutative
 * operation.
 *
 * tree: binomial reduction to rank 0, binomial broadcast.  2 log2(p) (a + m b) + log2(p) m c.
 * Fewest messages at a time.
 *
 * Every rank gets the same bits: each piece is combined once, or in the same order everywhere.
 *
 * Reference: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
 * MPICH", 2005. */
#include "coll/algo/allreduce.h"
#include "coll/algo/algo.h"
#include "coll/algo/bcast.h"
#include "coll/algo/reduce.h"
#include "coll/sched.h"
#include "runtime/base/err.h"

/* Copies the input to rbuf, on which all algorithms but the tree work. */
static void build_own(struct coll_sched *s, const struct coll_args *a)
{
    if (a->sbuf != COLL_IN_PLACE)
        coll_sched_copy(s, a->sbuf, a->rcount, a->rtype, a->rbuf, a->rcount, a->rtype);
    coll_sched_round(s);
}

static int start_tree(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    coll_build_reduce(s, t, a, coll_input(a), a->rbuf, 0);
    coll_build_bcast(s, t, a->rbuf, a->rcount, a->rtype, 0);
    return coll_sched_go(s);
}

void coll_build_doubling(struct coll_sched *s, const struct coll_team *t, void *buf, int64_t n,
                         const struct rt_layout *l)
{
    struct coll_halving h = { .pow2 = coll_pow2_below(t->size) };
    h.rest = t->size - h.pow2;
    h.vr = t->rank < 2 * h.rest ? (t->rank % 2 ? t->rank / 2 : -1) : t->rank - h.rest;
    void *have = buf, *other = t->size > 1 ? coll_sched_tmp_elems(s, n, l) : NULL;
    if (t->rank < 2 * h.rest && h.vr < 0) {
        coll_sched_send(s, have, n, l, t->rank + 1);
    } else if (t->rank < 2 * h.rest) {
        coll_sched_recv(s, other, n, l, t->rank - 1);
        coll_sched_reduce(s, other, have, n, l);
    }
    coll_sched_round(s);
    for (int mask = 1; h.vr >= 0 && mask < h.pow2; mask *= 2) {
        int peer = coll_halving_rank(&h, h.vr ^ mask);
        coll_sched_recv(s, other, n, l, peer);
        coll_sched_send(s, have, n, l, peer);
        if (peer < t->rank) {
            coll_sched_reduce(s, other, have, n, l);
        } else {
            void *lower = have;
            coll_sched_reduce(s, lower, other, n, l);
            have = other;
            other = lower;
        }
        coll_sched_round(s);
    }
    if (h.vr < 0)
        coll_sched_recv(s, buf, n, l, t->rank + 1);
    else if (t->rank < 2 * h.rest)
        coll_sched_send(s, have, n, l, t->rank - 1);
    if (h.vr >= 0 && have != buf)
        coll_sched_copy(s, have, n, l, buf, n, l);
    coll_sched_round(s);
}

static int start_recursive_doubling(struct coll_team *t, const struct coll_args *a,
                                    struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    build_own(s, a);
    coll_build_doubling(s, t, a->rbuf, a->rcount, a->rtype);
    return coll_sched_go(s);
}

void coll_build_rabenseifner(struct coll_sched *s, const struct coll_team *t, void *buf, int64_t n,
                             const struct rt_layout *l)
{
    struct coll_halving h = coll_build_halving(s, t, buf, coll_sched_tmp_elems(s, n, l), n, l);
    for (int mask = 1; h.vr >= 0 && mask < h.pow2; mask *= 2) {
        int mine = h.vr & ~(mask - 1), theirs = mine ^ mask,
            peer = coll_halving_rank(&h, h.vr ^ mask);
        int64_t g = coll_cut(n, h.pow2, mine), r = coll_cut(n, h.pow2, theirs);
        coll_sched_recv(s, coll_at(buf, r, l), coll_cut(n, h.pow2, theirs + mask) - r, l, peer);
        coll_sched_send(s, coll_at(buf, g, l), coll_cut(n, h.pow2, mine + mask) - g, l, peer);
        coll_sched_round(s);
    }
    if (h.vr < 0)
        coll_sched_recv(s, buf, n, l, t->rank + 1);
    else if (t->rank < 2 * h.rest)
        coll_sched_send(s, buf, n, l, t->rank - 1);
    coll_sched_round(s);
}

static int start_rabenseifner(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    build_own(s, a);
    coll_build_rabenseifner(s, t, a->rbuf, a->rcount, a->rtype);
    return coll_sched_go(s);
}

static int start_ring(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size, left = (t->rank - 1 + p) % p, right = (t->rank + 1) % p;
    int64_t n = a->rcount;
    const struct rt_layout *l = a->rtype;
    void *tmp = coll_sched_tmp_elems(s, coll_cut(n, p, 1),
                                     l); /* the first piece is a longest one */
    build_own(s, a);
    /* Rounds 0 .. p - 2 reduce, rounds p - 1 .. 2p - 3 pass complete pieces on. */
    for (int i = 0; i < 2 * (p - 1); i++) {
        int give = (t->rank - i + 2 * p) % p, take = (t->rank - i - 1 + 2 * p) % p;
        int64_t g = coll_cut(n, p, give), r = coll_cut(n, p, take),
                r_n = coll_cut(n, p, take + 1) - r;
        void *to = coll_at(a->rbuf, r, l);
        bool reduces = i < p - 1;
        coll_sched_recv(s, reduces ? tmp : to, r_n, l, left);
        coll_sched_send(s, coll_at(a->rbuf, g, l), coll_cut(n, p, give + 1) - g, l, right);
        if (reduces)
            coll_sched_reduce(s, tmp, to, r_n, l);
        coll_sched_round(s);
    }
    return coll_sched_go(s);
}

const struct coll_alg coll_allreduce_algs[] = {
    { "recursive_doubling", "log2(p) exchanges of whole vectors", COLL_ALLREDUCE, 0,
      start_recursive_doubling },
    { "rabenseifner", "recursive halving, then recursive doubling", COLL_ALLREDUCE,
      COLL_NEED_COMMUTES, start_rabenseifner },
    { "ring", "reduce and pass on pieces along a ring", COLL_ALLREDUCE, COLL_NEED_COMMUTES,
      start_ring },
    { "tree", "binomial reduction, binomial broadcast", COLL_ALLREDUCE, 0, start_tree },
    { 0 },
};
