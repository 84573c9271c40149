/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction to a root over messages.
 *
 * binomial: in round k, ranks with bit k clear receive from rank + 2^k and combine in rank order,
 * so any operation works. A commutative operation is rotated so that the root is rank 0 of the
 * tree; another one ends at rank 0, which passes the result on.  log2(p) (a + m b + m c).  Best
 * for small data.
 *
 * rabenseifner: recursive halving leaves every active rank a complete piece, the pieces go to the
 * root. (log2(p) + p) a + 2 m b + m c.  Best for large data; needs a commutative operation.
 *
 * Reference: Rabenseifner, "Optimization of collective reduction operations", 2004. */
#include "coll/algo/reduce.h"
#include "coll/algo/algo.h"
#include "coll/sched.h"
#include "runtime/base/err.h"

void coll_build_reduce(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a,
                       const void *in, void *out, int root)
{
    int p = t->size, top = a->op->commutes ? root : 0, vr = (t->rank - top + p) % p, mask;
    int64_t n = a->rcount;
    const struct rt_layout *l = a->rtype;
    const void *have = in;
    void *held = NULL, *spare = NULL;
    for (mask = 1; mask < p && !(vr & mask); mask *= 2) {
        if (vr + mask >= p)
            continue;
        /* The vector received is that of higher ranks, so the result is combined into it; the
         * buffer combined from takes the next receive.  The last receive of the root goes to
         * `out`. */
        bool last = t->rank == root && vr == 0 && 2 * mask >= p && have != out;
        void *got = last ? out : spare ? spare : coll_sched_tmp_elems(s, n, l);
        coll_sched_recv(s, got, n, l, (vr + mask + top) % p);
        coll_sched_reduce(s, have, got, n, l);
        coll_sched_round(s);
        spare = held;
        have = held = got;
    }
    if (vr)
        coll_sched_send(s, have, n, l, (vr - mask + top) % p);
    else if (t->rank == root)
        coll_sched_copy(s, have, n, l, out, n, l);
    else
        coll_sched_send(s, have, n, l, root);
    coll_sched_round(s);
    if (t->rank == root && top != root) {
        coll_sched_recv(s, out, n, l, top);
        coll_sched_round(s);
    }
}

static int start_binomial(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    coll_build_reduce(s, t, a, coll_input(a), a->rbuf, a->root);
    return coll_sched_go(s);
}

struct coll_halving coll_build_halving(struct coll_sched *s, const struct coll_team *t, void *acc,
                                       void *tmp, int64_t n, const struct rt_layout *l)
{
    struct coll_halving h = { .pow2 = coll_pow2_below(t->size) };
    h.rest = t->size - h.pow2;
    h.vr = t->rank < 2 * h.rest ? (t->rank % 2 ? t->rank / 2 : -1) : t->rank - h.rest;
    if (h.vr < 0) {
        coll_sched_send(s, acc, n, l, t->rank + 1);
        coll_sched_round(s);
        return h;
    }
    if (t->rank < 2 * h.rest) {
        coll_sched_recv(s, tmp, n, l, t->rank - 1);
        coll_sched_reduce(s, tmp, acc, n, l);
        coll_sched_round(s);
    }
    int lo = 0, hi = h.pow2;
    for (int mask = h.pow2 / 2; mask > 0; mask /= 2) {
        int mid = (lo + hi) / 2, peer = coll_halving_rank(&h, h.vr ^ mask);
        int give_lo = h.vr & mask ? lo : mid, give_hi = h.vr & mask ? mid : hi;
        lo = h.vr & mask ? mid : lo;
        hi = h.vr & mask ? hi : mid;
        int64_t give = coll_cut(n, h.pow2, give_lo), keep = coll_cut(n, h.pow2, lo);
        int64_t keep_n = coll_cut(n, h.pow2, hi) - keep;
        coll_sched_recv(s, coll_at(tmp, keep, l), keep_n, l, peer);
        coll_sched_send(s, coll_at(acc, give, l), coll_cut(n, h.pow2, give_hi) - give, l, peer);
        coll_sched_reduce(s, coll_at(tmp, keep, l), coll_at(acc, keep, l), keep_n, l);
        coll_sched_round(s);
    }
    h.lo = coll_cut(n, h.pow2, h.vr);
    h.hi = coll_cut(n, h.pow2, h.vr + 1);
    return h;
}

static int start_rabenseifner(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int64_t n = a->rcount;
    const struct rt_layout *l = a->rtype;
    void *acc = t->rank == a->root ? a->rbuf : coll_sched_tmp_elems(s, n, l);
    if (coll_input(a) != acc)
        coll_sched_copy(s, coll_input(a), n, l, acc, n, l);
    coll_sched_round(s);
    struct coll_halving h = coll_build_halving(s, t, acc, coll_sched_tmp_elems(s, n, l), n, l);
    if (t->rank != a->root && h.vr >= 0)
        coll_sched_send(s, coll_at(acc, h.lo, l), h.hi - h.lo, l, a->root);
    for (int vr = 0; t->rank == a->root && vr < h.pow2; vr++) {
        int64_t lo = coll_cut(n, h.pow2, vr);
        if (vr != h.vr)
            coll_sched_recv(s, coll_at(acc, lo, l), coll_cut(n, h.pow2, vr + 1) - lo, l,
                            coll_halving_rank(&h, vr));
    }
    return coll_sched_go(s);
}

const struct coll_alg coll_reduce_algs[] = {
    { "binomial", "tree of log2(p) levels, whole vectors", COLL_REDUCE, 0, start_binomial },
    { "rabenseifner", "recursive halving, then the pieces to the root", COLL_REDUCE,
      COLL_NEED_COMMUTES, start_rabenseifner },
    { 0 },
};
