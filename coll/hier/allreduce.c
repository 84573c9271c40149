/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction to all ranks over several hosts.  N hosts, K shares; a, b of a message between hosts.
 *
 * hier: on each host to its lowest rank; among the lowest ranks recursive doubling or, with few
 * hosts, all to all; then to all ranks of each host.  log2(N) (a + m b), or a + (N - 1) m b.  Best
 * for small data; any operation if the ranks of each host are consecutive.
 *
 * hier_split: each rank of a host reduces its share, exchanges it with the ranks that have the same
 * share on the other hosts, and collects all shares.  Like rabenseifner: 2 log2(N) a + 2 m b / K
 * for each rank, on all links at a time.
 *
 * hier_ring: the same in chunks, in a pipeline.  In turn i a host reduces chunk i, the hosts pass
 * runs of up to 2 (N - 1) chunks round a ring, and chunk i - 2 (N - 1) - 1 is collected.  Work in
 * shared memory and messages of a turn progress together.  Best for large data.
 *
 * The number of shares is the number of ranks on the smallest host.  Every rank gets the same bits:
 * each element is combined once, or in the same order everywhere. */
#include "coll/algo/allreduce.h"
#include "coll/hier/hier.h"
#include "coll/hier/local.h"
#include "coll/sched.h"

#include "runtime/base/err.h"

/* Bytes of a share of a chunk: a message of the ring is an N-th part of it.  With more than
 * RING_NODES hosts the messages would be short and the rounds too many.  Where messages start
 * faster, smaller chunks would fill the pipeline earlier. */
#define RING_SHARE (256 * 1024)
#define RING_NODES 32
/* Shorter vectors go between hosts by recursive doubling: as in the row of rabenseifner in
 * coll/tune.def. */
#define HALVING_MIN 16384

/* The representatives of all hosts combine n elements at buf. */
static void combine(struct coll_hier_call *x, int rail, void *buf, int64_t n)
{
    const struct coll_args *a = x->a;
    struct coll_team *across = coll_hier_across(x, rail, -1);
    if (!across)
        return;
    if (across->size > 2 && coll_hier_direct(x->h, n * a->rtype->size))
        coll_hier_sum(x, across, buf, buf, n, -1);
    else if (a->op->commutes && across->size > 2 && n * a->rtype->size >= HALVING_MIN)
        coll_build_rabenseifner(x->s, across, buf, n, a->rtype);
    else
        coll_build_doubling(x->s, across, buf, n, a->rtype);
}

static int start_leaders(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_hier_call x;
    if (!coll_hier_begin(&x, t, a, k))
        return -RT_ENOMEM;
    coll_hier_reduce(&x, coll_input(a), a->rbuf, a->rcount, 0);
    coll_sched_round(x.s);
    if (x.local->rank == 0)
        combine(&x, 0, a->rbuf, a->rcount);
    coll_hier_bcast(&x, a->rbuf, a->rcount, a->rtype, 0);
    return coll_sched_go(x.s);
}

/* Elements of share i. */
static int64_t share_of(int64_t n, int nrails, int i)
{
    return i < nrails ? coll_cut(n, nrails, i + 1) - coll_cut(n, nrails, i) : 0;
}

static int start_split(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_hier_call x;
    int nrails = coll_hier_rails(t->hier);
    if (nrails == 1)
        return start_leaders(t, a, k);
    if (!coll_hier_begin(&x, t, a, k))
        return -RT_ENOMEM;
    int self = x.local->rank;
    int64_t own = share_of(a->rcount, nrails, self);
    void *share = own ? coll_sched_tmp_elems(x.s, own, a->rtype) : NULL;
    coll_hier_reduce_scatter(&x, coll_input(a), share, a->rcount, nrails);
    coll_sched_round(x.s);
    if (own)
        combine(&x, self, share, own);
    coll_hier_collect(&x, share, a->rbuf, a->rcount, nrails);
    return coll_sched_go(x.s);
}

/* The pipeline, and this rank's shares of the chunks. */
struct ring {
    struct coll_hier_call x;
    struct coll_team *across; /* NULL: this rank has no share */
    int nrails, rounds;       /* rounds of the ring */
    int64_t chunk, nchunks;   /* elements of a chunk; number of chunks */
    char *shares; /* of all chunks, one behind the other; with one share the user's buffer */
    char *got;    /* incoming runs, one for each chunk in progress */
    int64_t run;  /* elements of a run there */
};

static int64_t chunk_len(const struct ring *r, int64_t c)
{
    int64_t left = r->x.a->rcount - c * r->chunk;
    return left < r->chunk ? left : r->chunk;
}

static char *share_at(const struct ring *r, int64_t c)
{
    if (r->nrails == 1)
        return coll_at(r->x.a->rbuf, c * r->chunk, r->x.a->rtype);
    return coll_at(r->shares, c * share_of(r->chunk, r->nrails, r->x.local->rank), r->x.a->rtype);
}

static void add_up(struct ring *r, int64_t c)
{
    const struct coll_args *a = r->x.a;
    const char *in = coll_at(coll_input(a), c * r->chunk, a->rtype);
    if (r->nrails == 1)
        coll_hier_reduce(&r->x, in, share_at(r, c), chunk_len(r, c), 0);
    else
        coll_hier_reduce_scatter(&r->x, in, share_at(r, c), chunk_len(r, c), r->nrails);
}

static void hand_out(struct ring *r, int64_t c)
{
    const struct coll_args *a = r->x.a;
    char *out = coll_at(a->rbuf, c * r->chunk, a->rtype);
    if (r->nrails == 1)
        coll_hier_bcast(&r->x, out, chunk_len(r, c), a->rtype, 0);
    else
        coll_hier_collect(&r->x, share_at(r, c), out, chunk_len(r, c), r->nrails);
}

/* Round i of the ring for chunk c: half of the rounds combine, the others forward sums. */
static void pass(struct ring *r, int64_t c, int i)
{
    const struct rt_layout *l = r->x.a->rtype;
    struct coll_sched *s = r->x.s;
    int p = r->across->size, self = r->across->rank;
    int give = (self - i + 2 * p) % p, take = (self - i - 1 + 2 * p) % p;
    int64_t n = share_of(chunk_len(r, c), r->nrails, r->x.local->rank);
    int64_t g = coll_cut(n, p, give), t = coll_cut(n, p, take), t_n = coll_cut(n, p, take + 1) - t;
    char *to = coll_at(share_at(r, c), t, l), *got = coll_at(r->got, c % r->rounds * r->run, l);
    bool adds = i < p - 1;
    if (t_n)
        coll_sched_recv(s, adds ? got : to, t_n, l, (self - 1 + p) % p);
    if (coll_cut(n, p, give + 1) - g)
        coll_sched_send(s, coll_at(share_at(r, c), g, l), coll_cut(n, p, give + 1) - g, l,
                        (self + 1) % p);
    if (adds)
        coll_sched_reduce(s, got, to, t_n, l);
}

static bool ring_begin(struct ring *r, struct coll_team *t, const struct coll_args *a,
                       struct coll_task *k)
{
    if (!coll_hier_begin(&r->x, t, a, k))
        return false;
    int64_t share = RING_SHARE / a->rtype->size;
    r->nrails = coll_hier_rails(t->hier);
    r->rounds = 2 * (t->hier->nnodes - 1);
    r->chunk = (share > 0 ? share : 1) * r->nrails;
    r->nchunks = (a->rcount + r->chunk - 1) / r->chunk;
    r->across = NULL;
    r->shares = NULL;
    if (r->x.local->rank >= r->nrails)
        return true;
    r->across = coll_hier_across(&r->x, r->x.local->rank, -1);
    share = share_of(r->chunk, r->nrails, r->x.local->rank);
    r->run = coll_cut(share, t->hier->nnodes, 1); /* the first run is one of the longest */
    r->got = coll_sched_tmp_elems(r->x.s, r->run * r->rounds, a->rtype);
    if (r->nrails > 1)
        r->shares = coll_sched_tmp_elems(r->x.s, share * r->nchunks, a->rtype);
    return true;
}

static int start_ring(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct ring r;
    if (t->hier->nnodes > RING_NODES)
        return start_split(t, a, k);
    if (!ring_begin(&r, t, a, k))
        return -RT_ENOMEM;
    for (int64_t turn = 0; turn < r.nchunks + r.rounds + 1; turn++) {
        int64_t done = turn - r.rounds - 1;
        if (r.across)
            coll_sched_team(r.x.s, r.across);
        for (int64_t c = done + 1; r.across && c < turn && c < r.nchunks; c++)
            if (c >= 0)
                pass(&r, c, (int)(turn - 1 - c));
        if (turn < r.nchunks)
            add_up(&r, turn);
        if (done >= 0)
            hand_out(&r, done);
        coll_sched_round(r.x.s);
    }
    return coll_sched_go(r.x.s);
}

const struct coll_alg coll_hier_allreduce_algs[] = {
    { "hier", "on each host, then doubling among the hosts", COLL_ALLREDUCE,
      COLL_NEED_NODES | COLL_NEED_NODE_ORDER, start_leaders },
    { "hier_split", "on each host in shares, each among the hosts", COLL_ALLREDUCE,
      COLL_NEED_NODES | COLL_NEED_COMMUTES, start_split },
    { "hier_ring", "pipeline of chunks, in shares round a ring of hosts", COLL_ALLREDUCE,
      COLL_NEED_NODES | COLL_NEED_COMMUTES, start_ring },
    { 0 },
};
