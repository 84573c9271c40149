/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction whose result is scattered, equal blocks or given counts, over messages.  m is the
 * whole vector.
 *
 * direct: every rank sends block i to rank i and combines what it gets in rank order, so any
 * operation works. (p - 1) a + m b + m c; needs memory for m.
 *
 * recursive_halving: pairs at distance p/2, p/4, ... exchange the half that the other needs and
 * combine. log2(p) a + m b + m c.  Best for small data; commutative operation, p a power of two.
 *
 * Reference: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
 * MPICH", 2005. */
#include "coll/algo/algo.h"
#include "coll/sched.h"
#include "runtime/base/err.h"

/* First element of block i; block p is the end. */
static int64_t block_start(const struct coll_args *a, int i)
{
    int64_t at = 0;
    if (!a->rcounts)
        return i * a->rcount;
    for (int j = 0; j < i; j++)
        at += a->rcounts[j];
    return at;
}

static int start_direct(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size;
    const struct rt_layout *l = a->rtype;
    const char *in = coll_input(a);
    int64_t own = block_start(a, t->rank), own_n = block_start(a, t->rank + 1) - own, at = 0;
    char *tmp = coll_sched_tmp_elems(
        s, p * own_n, l); /* block of rank i at i * own_n; this rank's is copied later */
    for (int i = 0; i < p; i++) {
        int64_t n = a->rcounts ? a->rcounts[i] : a->rcount;
        if (i != t->rank) {
            coll_sched_recv(s, coll_at(tmp, i * own_n, l), own_n, l, i);
            coll_sched_send(s, coll_at(in, at, l), n, l, i);
        }
        at += n;
    }
    coll_sched_round(s);
    /* The sum of the ranks up to i stands in the place of rank i. */
    coll_sched_copy(s, coll_at(in, own, l), own_n, l, coll_at(tmp, t->rank * own_n, l), own_n, l);
    for (int i = 1; i < p; i++)
        coll_sched_reduce(s, coll_at(tmp, (i - 1) * own_n, l), coll_at(tmp, i * own_n, l), own_n,
                          l);
    coll_sched_copy(s, coll_at(tmp, (p - 1) * own_n, l), own_n, l, a->rbuf, own_n, l);
    return coll_sched_go(s);
}

static int start_recursive_halving(struct coll_team *t, const struct coll_args *a,
                                   struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size, lo = 0, hi = p;
    const struct rt_layout *l = a->rtype;
    int64_t n = block_start(a, p);
    char *acc = coll_sched_tmp_elems(s, n, l), *tmp = coll_sched_tmp_elems(s, n, l);
    coll_sched_copy(s, coll_input(a), n, l, acc, n, l);
    coll_sched_round(s);
    for (int mask = p / 2; mask > 0; mask /= 2) {
        int mid = (lo + hi) / 2, give_lo = t->rank & mask ? lo : mid,
            give_hi = t->rank & mask ? mid : hi;
        lo = t->rank & mask ? mid : lo;
        hi = t->rank & mask ? hi : mid;
        int64_t give = block_start(a, give_lo), keep = block_start(a, lo),
                keep_n = block_start(a, hi) - keep;
        coll_sched_recv(s, coll_at(tmp, keep, l), keep_n, l, t->rank ^ mask);
        coll_sched_send(s, coll_at(acc, give, l), block_start(a, give_hi) - give, l,
                        t->rank ^ mask);
        coll_sched_reduce(s, coll_at(tmp, keep, l), coll_at(acc, keep, l), keep_n, l);
        coll_sched_round(s);
    }
    int64_t own = block_start(a, t->rank), own_n = block_start(a, t->rank + 1) - own;
    coll_sched_copy(s, coll_at(acc, own, l), own_n, l, a->rbuf, own_n, l);
    return coll_sched_go(s);
}

#define HALVING_NEEDS (COLL_NEED_COMMUTES | COLL_NEED_POW2)

const struct coll_alg coll_reduce_scatter_algs[] = {
    { "direct", "every block straight to its owner", COLL_REDUCE_SCATTER, 0, start_direct },
    { "direct", "every block straight to its owner", COLL_REDUCE_SCATTER_BLOCK, 0, start_direct },
    { "recursive_halving", "log2(p) halvings", COLL_REDUCE_SCATTER, HALVING_NEEDS,
      start_recursive_halving },
    { "recursive_halving", "log2(p) halvings", COLL_REDUCE_SCATTER_BLOCK, HALVING_NEEDS,
      start_recursive_halving },
    { 0 },
};
