/* SPDX-License-Identifier: BSD-3-Clause */
/* The building blocks of the collectives in coll/hier: parts among the ranks of this host, as calls
 * in shared memory or as messages, and the team of the hosts' representatives. */

#include "coll/hier/local.h"
#include "coll/algo/barrier.h"
#include "coll/algo/bcast.h"
#include "coll/algo/reduce.h"
#include "coll/algo/scan.h"
#include "coll/hier/team.h"
#include "coll/node/move.h"
#include "coll/node/node.h"
#include "coll/sched.h"
#include "runtime/base/err.h"

bool coll_hier_begin(struct coll_hier_call *x, struct coll_team *t, const struct coll_args *a,
                     struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return false;
    *x = (struct coll_hier_call){ .s = s, .h = t->hier, .a = a, .local = &t->hier->local.team };
    x->shared = x->local->node && !k->messages && (!k->gpu || x->local->gpu);
    return true;
}

struct coll_team *coll_hier_across(struct coll_hier_call *x, int rail, int root)
{
    struct coll_sub *b = coll_sched_keep(x->s, sizeof *b);
    if (!b)
        return NULL;
    *b = x->h->local;
    b->team.node = NULL;
    b->team.gpu = NULL;
    b->team.device_part = NULL;
    b->team.rank = x->h->node;
    b->team.size = x->h->nnodes;
    b->team.one_node = false;
    b->ranks = NULL;
    b->rail = rail;
    b->root = root;
    b->root_node = root < 0 ? -1 : coll_hier_node(x->h, root);
    coll_sched_team(x->s, &b->team);
    return &b->team;
}

/* Model: starting a message costs a rank at most a tenth of the time until the message arrives.
 * Where a start costs more, sending to all hosts at once is chosen for a few hosts too many. */
#define FEW_NODES 8

/* This number of bytes takes at most the time of a message's start. */
#define DIRECT_MAX 4096

bool coll_hier_few(const struct coll_hier *h) { return h->nnodes <= FEW_NODES; }

bool coll_hier_direct(const struct coll_hier *h, int64_t nbytes)
{
    return coll_hier_few(h) && nbytes <= DIRECT_MAX;
}

int coll_hier_speaker(const struct coll_hier_call *x)
{
    int i = 0, root = x->a->root;
    if (coll_hier_node(x->h, root) != x->h->node)
        return 0;
    while (x->h->local.ranks[i] != root)
        i++;
    return i;
}

/* ---- parts among the ranks of this host ---- */

/* A call in shared memory; false: messages have to be used. */
static bool call(struct coll_hier_call *x, const struct coll_args *a)
{
    return x->shared && coll_sched_call(x->s, x->local, a);
}

static void by_messages(struct coll_hier_call *x) { coll_sched_team(x->s, x->local); }

int coll_hier_rails(const struct coll_hier *h)
{
    struct coll_team largest = { .size = h->most };
    struct coll_args a = { .kind = COLL_REDUCE_SCATTER };
    return coll_node_block_fits(&largest, &a, 1) ? h->least : 1;
}

void coll_hier_bcast(struct coll_hier_call *x, void *buf, int64_t n, const struct rt_layout *l,
                     int root)
{
    struct coll_args a = {
        .kind = COLL_BCAST, .rbuf = buf, .rcount = n, .rtype = l, .stype = l, .root = root
    };
    if (x->local->size == 1 || call(x, &a))
        return;
    by_messages(x);
    coll_build_bcast(x->s, x->local, buf, n, l, root);
}

void coll_hier_release(struct coll_hier_call *x) { coll_hier_bcast(x, NULL, 0, &coll_bytes, 0); }

void coll_hier_arrive(struct coll_hier_call *x)
{
    struct coll_args a = { .kind = COLL_GATHER, .stype = &coll_bytes, .rtype = &coll_bytes };
    if (x->local->size == 1 || call(x, &a))
        return;
    by_messages(x);
    coll_build_arrive(x->s, x->local);
    coll_sched_round(x->s);
}

void coll_hier_reduce(struct coll_hier_call *x, const void *in, void *out, int64_t n, int root)
{
    struct coll_args a = *x->a;
    a.kind = COLL_REDUCE;
    a.sbuf = in == out && x->local->rank == root ? COLL_IN_PLACE : in;
    a.rbuf = out;
    a.rcount = n;
    a.root = root;
    if (x->local->size == 1) {
        if (in != out)
            coll_sched_copy(x->s, in, n, a.rtype, out, n, a.rtype);
        coll_sched_round(x->s);
        return;
    }
    if (call(x, &a))
        return;
    by_messages(x);
    coll_build_reduce(x->s, x->local, &a, in, out, root);
}

void coll_hier_sum(struct coll_hier_call *x, const struct coll_team *across, const void *in,
                   void *out, int64_t n, int root)
{
    struct coll_sched *s = x->s;
    const struct rt_layout *l = x->a->rtype;
    int p = across->size, self = across->rank;
    bool takes = root < 0 || root == self;
    char *got = takes ? coll_sched_tmp_elems(s, p * n, l) : NULL;
    for (int i = 1; i < p; i++) {
        int from = (self + i) % p, to = (self - i + p) % p;
        if (takes)
            coll_sched_recv(s, coll_at(got, from * n, l), n, l, from);
        if (root < 0 || root == to)
            coll_sched_send(s, in, n, l, to);
    }
    if (takes) {
        coll_sched_copy(s, in, n, l, coll_at(got, self * n, l), n, l);
        for (int i = 1; i < p; i++)
            coll_sched_reduce(s, coll_at(got, (i - 1) * n, l), coll_at(got, i * n, l), n, l);
        coll_sched_copy(s, coll_at(got, (p - 1) * n, l), n, l, out, n, l);
    }
    coll_sched_round(s);
}

void coll_hier_scan(struct coll_hier_call *x)
{
    if (x->local->size > 1 && call(x, x->a))
        return;
    by_messages(x);
    coll_build_scan(x->s, x->local, x->a);
}

/* The lengths and then the offsets of all local ranks' runs, if n elements are divided into nrails
 * runs; ranks beyond these have length 0.  NULL: no memory. */
static int64_t *runs(struct coll_hier_call *x, int64_t n, int nrails)
{
    int64_t *v = coll_sched_keep(x->s, 2 * x->local->size * (int64_t)sizeof *v);
    for (int i = 0; v && i < x->local->size; i++) {
        int64_t at = i < nrails ? coll_cut(n, nrails, i) : n;
        v[i] = (i < nrails ? coll_cut(n, nrails, i + 1) : n) - at;
        v[x->local->size + i] = at;
    }
    return v;
}

void coll_hier_reduce_scatter(struct coll_hier_call *x, const void *in, void *out, int64_t n,
                              int nrails)
{
    coll_hier_reduce_runs(x, in, out, runs(x, n, nrails));
}

void coll_hier_reduce_runs(struct coll_hier_call *x, const void *in, void *out, const int64_t *v)
{
    struct coll_sched *s = x->s;
    const struct rt_layout *l = x->a->rtype;
    int size = x->local->size, self = x->local->rank;
    struct coll_args a = *x->a;
    a.kind = COLL_REDUCE_SCATTER;
    a.sbuf = in;
    a.rbuf = out;
    a.rcount = 0;
    a.rcounts = v;
    if (!v || call(x, &a))
        return;
    by_messages(x);
    /* Each run goes straight to its owner, which combines in the order of the ranks. */
    int64_t own = v[self];
    char *got = own ? coll_sched_tmp_elems(s, size * own, l) : NULL;
    for (int i = 0; i < size; i++) {
        if (i != self && own)
            coll_sched_recv(s, coll_at(got, i * own, l), own, l, i);
        if (i != self && v[i])
            coll_sched_send(s, coll_at(in, v[size + i], l), v[i], l, i);
    }
    coll_sched_round(s);
    if (own)
        coll_sched_copy(s, coll_at(in, v[size + self], l), own, l, coll_at(got, self * own, l), own,
                        l);
    for (int i = 1; own && i < size; i++)
        coll_sched_reduce(s, coll_at(got, (i - 1) * own, l), coll_at(got, i * own, l), own, l);
    if (own)
        coll_sched_copy(s, coll_at(got, (size - 1) * own, l), own, l, out, own, l);
    coll_sched_round(s);
}

/* Runs of all local ranks: this rank has its own, and the root, or in an allgatherv every rank,
 * gets all at their places. */
static void join(struct coll_hier_call *x, const struct coll_args *a)
{
    struct coll_sched *s = x->s;
    const struct rt_layout *l = a->rtype;
    const int64_t *len = a->rcounts, *at = a->rdispls;
    int size = x->local->size, self = x->local->rank;
    bool all = a->kind == COLL_ALLGATHERV, takes = all || self == a->root;
    if (size > 1 && call(x, a))
        return;
    by_messages(x);
    for (int i = 0; i < size; i++) {
        if (i != self && takes && len[i])
            coll_sched_recv(s, coll_at(a->rbuf, at[i], l), len[i], l, i);
        if (i != self && (all || i == a->root) && len[self])
            coll_sched_send(s, a->sbuf, a->scount, a->stype, i);
    }
    if (takes)
        coll_sched_copy(s, a->sbuf, a->scount, a->stype, coll_at(a->rbuf, at[self], l), len[self],
                        l);
    coll_sched_round(s);
}

static void join_runs(struct coll_hier_call *x, struct coll_args a, int64_t n, int nrails)
{
    int64_t *v = runs(x, n, nrails);
    if (!v)
        return;
    a.scount = v[x->local->rank];
    a.stype = a.rtype = x->a->rtype;
    a.rcounts = v;
    a.rdispls = v + x->local->size;
    join(x, &a);
}

void coll_hier_collect(struct coll_hier_call *x, const void *in, void *out, int64_t n, int nrails)
{
    join_runs(x, (struct coll_args){ .kind = COLL_ALLGATHERV, .sbuf = in, .rbuf = out }, n, nrails);
}

void coll_hier_gather_runs(struct coll_hier_call *x, const void *in, void *out, int64_t n,
                           int nrails, int root)
{
    join_runs(x, (struct coll_args){ .kind = COLL_GATHERV, .root = root, .sbuf = in, .rbuf = out },
              n, nrails);
}

void coll_hier_collect_blocks(struct coll_hier_call *x, const void *in, int64_t n,
                              const struct rt_layout *l, char *out, const int64_t *len,
                              const int64_t *at)
{
    join(x, &(struct coll_args){ .kind = COLL_ALLGATHERV,
                                 .sbuf = in,
                                 .scount = n,
                                 .stype = l,
                                 .rbuf = out,
                                 .rtype = &coll_bytes,
                                 .rcounts = len,
                                 .rdispls = at });
}

void coll_hier_gather(struct coll_hier_call *x, const void *in, int64_t n,
                      const struct rt_layout *l, char *out, int64_t nbytes, int root)
{
    struct coll_sched *s = x->s;
    int self = x->local->rank;
    struct coll_args a = { .kind = COLL_GATHER,
                           .root = root,
                           .sbuf = in,
                           .scount = n,
                           .stype = l,
                           .rbuf = out,
                           .rcount = nbytes,
                           .rtype = &coll_bytes };
    if (x->local->size > 1 && call(x, &a))
        return;
    by_messages(x);
    if (self != root)
        coll_sched_send(s, in, n, l, root);
    for (int i = 0; self == root && i < x->local->size; i++)
        if (i != self)
            coll_sched_recv(s, out + i * nbytes, nbytes, &coll_bytes, i);
    if (self == root && in != COLL_IN_PLACE)
        coll_sched_copy(s, in, n, l, out + self * nbytes, nbytes, &coll_bytes);
    coll_sched_round(s);
}

void coll_hier_scatter(struct coll_hier_call *x, const char *in, int64_t nbytes, void *out,
                       int64_t n, const struct rt_layout *l, int root)
{
    struct coll_sched *s = x->s;
    int self = x->local->rank;
    struct coll_args a = { .kind = COLL_SCATTER,
                           .root = root,
                           .sbuf = in,
                           .scount = nbytes,
                           .stype = &coll_bytes,
                           .rbuf = out,
                           .rcount = n,
                           .rtype = l };
    if (x->local->size > 1 && call(x, &a))
        return;
    by_messages(x);
    if (self != root)
        coll_sched_recv(s, out, n, l, root);
    for (int i = 0; self == root && i < x->local->size; i++)
        if (i != self)
            coll_sched_send(s, in + i * nbytes, nbytes, &coll_bytes, i);
    if (self == root && out != COLL_IN_PLACE)
        coll_sched_copy(s, in + self * nbytes, nbytes, &coll_bytes, out, n, l);
    coll_sched_round(s);
}

void coll_hier_scatter_runs(struct coll_hier_call *x, const void *in, void *out, const int64_t *v)
{
    struct coll_sched *s = x->s;
    const struct rt_layout *l = x->a->rtype;
    int size = x->local->size, self = x->local->rank;
    struct coll_args a = { .kind = COLL_SCATTERV,
                           .sbuf = in,
                           .scounts = v,
                           .sdispls = v + size,
                           .stype = l,
                           .rbuf = out,
                           .rcount = v[self],
                           .rtype = l };
    if (size > 1 && call(x, &a))
        return;
    by_messages(x);
    if (self != 0 && v[self])
        coll_sched_recv(s, out, v[self], l, 0);
    for (int i = 1; self == 0 && i < size; i++)
        if (v[i])
            coll_sched_send(s, coll_at(in, v[size + i], l), v[i], l, i);
    if (self == 0)
        coll_sched_copy(s, in, v[0], l, out, v[0], l);
    coll_sched_round(s);
}
