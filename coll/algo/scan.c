/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefix reductions over messages.
 *
 * recursive_doubling: before round k a rank holds the combination of the 2^k ranks up to itself,
 * sends it to rank + 2^k and puts what comes from rank - 2^k in front.  log2(p) (a + m b + m c);
 * rank order, so any operation works.  An exclusive scan first passes the input one rank on and
 * then scans among the ranks from 1.
 *
 * linear: rank r adds its input to what rank r - 1 passes on.  p (a + m b + m c) for the last rank,
 * but only p - 1 messages and combinations in all: best where ranks outnumber cores.
 *
 * Reference: Hillis, Steele, "Data parallel algorithms", 1986. */
#include "coll/algo/scan.h"
#include "coll/algo/algo.h"
#include "coll/sched.h"
#include "runtime/base/err.h"

void coll_build_scan(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a)
{
    int first = a->kind == COLL_EXSCAN; /* lowest rank that takes part in the scan proper */
    int64_t n = a->rcount;
    const struct rt_layout *l = a->rtype;
    if (first) {
        const void *in = coll_input(a);
        if (t->rank + 1 < t->size && t->rank > 0 && in == a->rbuf) {
            void *copy = coll_sched_tmp_elems(
                s, n, l); /* rbuf receives in the round that sends its old contents */
            coll_sched_copy(s, in, n, l, copy, n, l);
            coll_sched_round(s);
            in = copy;
        }
        if (t->rank > 0)
            coll_sched_recv(s, a->rbuf, n, l, t->rank - 1);
        if (t->rank + 1 < t->size)
            coll_sched_send(s, in, n, l, t->rank + 1);
    } else if (a->sbuf != COLL_IN_PLACE) {
        coll_sched_copy(s, a->sbuf, n, l, a->rbuf, n, l);
    }
    coll_sched_round(s);
    if (t->rank < first)
        return;
    void *tmp = coll_sched_tmp_elems(s, n, l);
    for (int dist = 1; dist < t->size; dist *= 2) {
        if (t->rank + dist < t->size)
            coll_sched_send(s, a->rbuf, n, l, t->rank + dist);
        if (t->rank - dist >= first) {
            coll_sched_recv(s, tmp, n, l, t->rank - dist);
            coll_sched_reduce(s, tmp, a->rbuf, n, l);
        }
        coll_sched_round(s);
    }
}

static int start_recursive_doubling(struct coll_team *t, const struct coll_args *a,
                                    struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    coll_build_scan(s, t, a);
    return coll_sched_go(s);
}

static int start_linear(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int64_t n = a->rcount;
    const struct rt_layout *l = a->rtype;
    bool inclusive = a->kind == COLL_SCAN, last = t->rank + 1 == t->size;
    const void *in = coll_input(a);
    void *sum = a->rbuf; /* of the ranks up to this one */
    if (!inclusive && !last)
        sum = coll_sched_tmp_elems(s, n, l);
    if (in != sum && (inclusive || !last))
        coll_sched_copy(s, in, n, l, sum, n, l);
    coll_sched_round(s);
    if (t->rank > 0) {
        void *before = inclusive ? coll_sched_tmp_elems(s, n, l) : a->rbuf;
        coll_sched_recv(s, before, n, l, t->rank - 1);
        if (inclusive || !last)
            coll_sched_reduce(s, before, sum, n, l);
        coll_sched_round(s);
    }
    if (!last)
        coll_sched_send(s, sum, n, l, t->rank + 1);
    return coll_sched_go(s);
}

const struct coll_alg coll_scan_algs[] = {
    { "linear", "from rank to rank", COLL_SCAN, 0, start_linear },
    { "linear", "from rank to rank", COLL_EXSCAN, 0, start_linear },
    { "recursive_doubling", "log2(p) rounds", COLL_SCAN, 0, start_recursive_doubling },
    { "recursive_doubling", "log2(p) rounds", COLL_EXSCAN, 0, start_recursive_doubling },
    { 0 },
};
