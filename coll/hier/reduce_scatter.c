/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction whose result is scattered, equal blocks or given counts, over several hosts.  N hosts,
 * m bytes of the whole vector.
 *
 * hier: if all hosts have the same number of ranks, rank j of a host first gets the host's sum of
 * the blocks of all ranks j, and the ranks j exchange these sums.  Otherwise the lowest rank of
 * each host gets the host's whole sum, the hosts exchange their sums, and blocks are distributed.
 * Between hosts (N - 1) a + m b / L for each of the L ranks of a host, or (N - 1) a + m b for one.
 * For operations that commute: sums are made host by host. */
#include "coll/hier/hier.h"
#include "coll/hier/local.h"
#include "coll/sched.h"

#include "runtime/base/err.h"

struct scatter {
    struct coll_hier_call x;
    int nrails;     /* ranks of a host that communicate with other hosts: all, or one */
    int64_t *first; /* by rank: first element of its block, one more at the end */
    /* [nrails][nnodes + 1]: offset, in elements, of each host's part among the blocks of a rail;
     * the last entry is the length of the rail. */
    int64_t *sum;
    /* By rank of this host: the lengths of the results of the local part, then their offsets. */
    int64_t *runs;
    char *in; /* the input in the order of rails, hosts, ranks */
};

static int64_t count_of(const struct scatter *c, int rank)
{
    return c->first[rank + 1] - c->first[rank];
}

/* The offsets of the hosts' parts in a rail: nnodes + 1 entries. */
static int64_t *sums(const struct scatter *c, int rail)
{
    return c->sum + rail * (c->x.h->nnodes + 1);
}

static bool measure(struct scatter *c, const struct coll_args *a)
{
    const struct coll_hier *h = c->x.h;
    int size = h->up->size;
    c->nrails = h->most == h->least ? h->most : 1;
    c->first = coll_sched_keep(c->x.s, (size + 1) * (int64_t)sizeof *c->first);
    c->sum = coll_sched_keep(c->x.s, (h->nnodes + 1) * c->nrails * (int64_t)sizeof *c->sum);
    if (!c->first || !c->sum)
        return false;
    c->first[0] = 0;
    for (int r = 0; r < size; r++)
        c->first[r + 1] = c->first[r] + (a->rcounts ? a->rcounts[r] : a->rcount);
    for (int rail = 0; rail < c->nrails; rail++) {
        int64_t *v = sums(c, rail), n = 0;
        for (int i = 0; i < h->nnodes; i++) {
            v[i] = n;
            for (int j = rail; j < coll_hier_count(h, i); j += c->nrails)
                n += count_of(c, coll_hier_rank(h, i, j));
        }
        v[h->nnodes] = n;
    }
    return true;
}

/* The result of a local rank is its rail or, if there is one rail, its own block. */
static bool measure_runs(struct scatter *c)
{
    const struct coll_hier *h = c->x.h;
    int size = c->x.local->size;
    int64_t *v = c->runs = coll_sched_keep(c->x.s, 2 * size * (int64_t)sizeof *v), at = 0;
    for (int i = 0; v && i < size; i++) {
        v[i] = c->nrails > 1 ? sums(c, i)[h->nnodes] : count_of(c, coll_hier_rank(h, h->node, i));
        v[size + i] = at;
        at += v[i];
    }
    return v;
}

/* Puts the input's blocks into the order rail, host, rank; they have it already with one rail and
 * consecutive ranks. */
static void arrange(struct scatter *c, const struct coll_args *a)
{
    const struct coll_hier *h = c->x.h;
    const struct rt_layout *l = a->rtype;
    int64_t at = 0;
    c->in = (char *)coll_input(a); /* read only */
    if (c->nrails == 1 && !h->order)
        return;
    c->in = coll_sched_tmp_elems(c->x.s, c->first[h->up->size], l);
    for (int rail = 0; rail < c->nrails; rail++)
        for (int i = 0; i < h->nnodes; i++)
            for (int j = rail; j < coll_hier_count(h, i); j += c->nrails) {
                int rank = coll_hier_rank(h, i, j);
                int64_t n = count_of(c, rank);
                coll_sched_copy(c->x.s, coll_at(coll_input(a), c->first[rank], l), n, l,
                                coll_at(c->in, at, l), n, l);
                at += n;
            }
    coll_sched_round(c->x.s);
}

/* Every host's part of a rail, combined there in the order of hosts.  Returns the address of this
 * host's sum. */
static char *exchange(struct scatter *c, char *part, int rail)
{
    struct coll_sched *s = c->x.s;
    const struct rt_layout *l = c->x.a->rtype;
    struct coll_team *across = coll_hier_across(&c->x, rail, -1);
    if (!across)
        return NULL;
    int p = across->size, self = across->rank;
    const int64_t *v = sums(c, rail);
    int64_t own = v[self + 1] - v[self];
    char *got = coll_sched_tmp_elems(s, p * own, l);
    for (int i = 1; i < p; i++) {
        int to = (self + i) % p, from = (self - i + p) % p;
        if (own)
            coll_sched_recv(s, coll_at(got, from * own, l), own, l, from);
        if (v[to + 1] - v[to])
            coll_sched_send(s, coll_at(part, v[to], l), v[to + 1] - v[to], l, to);
    }
    coll_sched_round(s);
    coll_sched_copy(s, coll_at(part, v[self], l), own, l, coll_at(got, self * own, l), own, l);
    for (int i = 1; i < p; i++)
        coll_sched_reduce(s, coll_at(got, (i - 1) * own, l), coll_at(got, i * own, l), own, l);
    coll_sched_round(s);
    return coll_at(got, (p - 1) * own, l);
}

static int start(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct scatter c = { 0 };
    if (!coll_hier_begin(&c.x, t, a, k))
        return -RT_ENOMEM;
    if (!measure(&c, a) || !measure_runs(&c))
        return coll_sched_go(c.x.s);
    int self = c.x.local->rank, nnodes = c.x.h->nnodes;
    int64_t n = self < c.nrails ? sums(&c, self)[nnodes] : 0;
    char *part = self < c.nrails ? coll_sched_tmp_elems(c.x.s, n, a->rtype) : NULL, *sum = NULL;
    arrange(&c, a);
    if (c.nrails == 1)
        coll_hier_reduce(&c.x, c.in, part, n = c.first[t->size], 0);
    else
        coll_hier_reduce_runs(&c.x, c.in, part, c.runs);
    coll_sched_round(c.x.s);
    if (self < c.nrails)
        sum = exchange(&c, part, self);
    if (c.nrails > 1)
        coll_sched_copy(c.x.s, sum, count_of(&c, t->rank), a->rtype, a->rbuf, count_of(&c, t->rank),
                        a->rtype);
    else
        coll_hier_scatter_runs(&c.x, sum, a->rbuf, c.runs);
    return coll_sched_go(c.x.s);
}

#define HIER(kind) \
    { \
        "hier", "on each host, then among the hosts", kind, COLL_NEED_NODES | COLL_NEED_COMMUTES, \
            start \
    }

const struct coll_alg coll_hier_reduce_scatter_algs[] = {
    HIER(COLL_REDUCE_SCATTER),
    HIER(COLL_REDUCE_SCATTER_BLOCK),
    { 0 },
};
