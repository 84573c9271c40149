/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefix reductions over several hosts, if the ranks of each host are consecutive.  N hosts, m
 * bytes of a vector; a, b of a message between hosts.
 *
 * hier: each host combines among its ranks.  Its last rank, which has the host's sum, sends the sum
 * to the following hosts, and all ranks of a host prepend the sum of the hosts before.  a + (N - 1)
 * m b or, with many hosts or longer vectors, by doubling, (1 + log2 N) (a + m b).  Any operation:
 * everything is combined in the order of the ranks. */
#include "coll/algo/scan.h"
#include "coll/hier/hier.h"
#include "coll/hier/local.h"
#include "coll/sched.h"

#include "runtime/base/err.h"

/* The sums of the hosts before this one, host by host. */
static void send_behind(struct coll_hier_call *x, const struct coll_team *across, const void *sum,
                        void *before)
{
    struct coll_sched *s = x->s;
    const struct rt_layout *l = x->a->rtype;
    int64_t n = x->a->rcount;
    int self = across->rank;
    char *got = self > 1 ? coll_sched_tmp_elems(s, (self - 1) * n, l) : NULL;
    for (int i = self + 1; i < across->size; i++)
        coll_sched_send(s, sum, n, l, i);
    for (int i = 0; i < self; i++)
        coll_sched_recv(s, i == self - 1 ? before : coll_at(got, i * n, l), n, l, i);
    for (int i = self - 2; i >= 0; i--)
        coll_sched_reduce(s, coll_at(got, i * n, l), before, n, l);
    coll_sched_round(s);
}

/* At the last rank of each host. */
static void between_hosts(struct coll_hier_call *x, const void *sum, void *before)
{
    struct coll_args a = *x->a;
    struct coll_team *across = coll_hier_across(x, COLL_HIER_LAST, -1);
    if (!across)
        return;
    a.kind = COLL_EXSCAN;
    a.sbuf = sum;
    a.rbuf = before;
    if (coll_hier_direct(x->h, a.rcount * a.rtype->size))
        send_behind(x, across, sum, before);
    else
        coll_build_scan(x->s, across, &a);
    coll_sched_round(x->s);
}

static int start(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_hier_call x;
    if (!coll_hier_begin(&x, t, a, k))
        return -RT_ENOMEM;
    struct coll_sched *s = x.s;
    int64_t n = a->rcount;
    int last = x.local->size - 1;
    bool sums = x.local->rank == last, inclusive = a->kind == COLL_SCAN;
    void *sum = a->rbuf; /* of this host, at its last rank */
    if (sums && !inclusive) {
        sum = coll_sched_tmp_elems(s, n, a->rtype);
        coll_sched_copy(s, coll_input(a), n, a->rtype, sum, n, a->rtype);
        coll_sched_round(s);
    }
    coll_hier_scan(&x);
    if (sums && !inclusive && last > 0)
        coll_sched_reduce(s, a->rbuf, sum, n, a->rtype);
    coll_sched_round(s);
    void *before = x.h->node > 0 ? coll_sched_tmp_elems(s, n, a->rtype) : NULL;
    if (sums)
        between_hosts(&x, sum, before);
    if (x.h->node == 0)
        return coll_sched_go(s);
    coll_hier_bcast(&x, before, n, a->rtype, last);
    coll_sched_round(s);
    if (inclusive || x.local->rank > 0)
        coll_sched_reduce(s, before, a->rbuf, n, a->rtype);
    else
        coll_sched_copy(s, before, n, a->rtype, a->rbuf, n, a->rtype);
    return coll_sched_go(s);
}

#define HIER(kind) \
    { \
        "hier", "on each host, then with the prefix of the hosts before", kind, \
            COLL_NEED_NODES | COLL_NEED_NODE_ORDER, start \
    }

const struct coll_alg coll_hier_scan_algs[] = { HIER(COLL_SCAN), HIER(COLL_EXSCAN), { 0 } };
