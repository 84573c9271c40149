/* SPDX-License-Identifier: BSD-3-Clause */
/* Gather to all ranks over several hosts, equal blocks or given counts.  The blocks of a host's
 * ranks are one block of the host, of m bytes; N hosts; a, b of a message between hosts.
 *
 * hier: first the ranks of a host exchange their blocks; then the lowest ranks exchange hosts'
 * blocks, all to all or, with many hosts, as in Bruck's algorithm, and distribute them on their
 * hosts.  a, or log2(N) a, and (N - 1) m b.  Best for small blocks.
 *
 * hier_ring: hosts' blocks travel round the ring of hosts; each is distributed on a host while the
 * next one arrives.  If all hosts have the same number of ranks, each rank forwards its share of
 * the block, else the lowest rank forwards the whole.  (N - 1) (a + m b).  Best for large blocks.
 *
 * All data are in packed form: in the user's buffer if the blocks lie there one behind the other in
 * the order of hosts, else in a temporary buffer.  A rank decides that alone. */
#include "coll/hier/hier.h"
#include "coll/hier/local.h"
#include "coll/sched.h"

#include "runtime/base/err.h"

struct gather {
    struct coll_hier_call x;
    char *all;     /* packed blocks, host by host */
    bool direct;   /* `all` is the user's buffer */
    int64_t *len;  /* bytes, in the order of hosts: of each rank, */
    int64_t *at;   /* from the beginning of its host's block, */
    int64_t *node; /* of all hosts before each host, and last of all hosts */
    int first;     /* lowest rank of this host, in that order */
};

static int64_t count_of(const struct coll_args *a, int rank)
{
    return a->rcounts ? a->rcounts[rank] : a->rcount;
}

static char *place_of(const struct coll_args *a, int rank)
{
    return coll_args_block(a, COLL_RECV, rank).at;
}

/* Whether the user's buffer is the packed form. */
static bool is_dense(const struct coll_hier *h, const struct coll_args *a, int size)
{
    if (h->order || !a->rtype->contig)
        return false;
    for (int r = 0; a->rdispls && r + 1 < size; r++)
        if (a->rdispls[r + 1] != a->rdispls[r] + a->rcounts[r])
            return false;
    return true;
}

/* Ranks in the order of hosts. */
static int in_order(const struct coll_hier *h, int i) { return h->order ? h->order[i] : i; }

static bool begin(struct gather *g, struct coll_team *t, const struct coll_args *a,
                  struct coll_task *k)
{
    if (!coll_hier_begin(&g->x, t, a, k))
        return false;
    const struct coll_hier *h = g->x.h;
    int64_t n = 2 * (int64_t)t->size + h->nnodes + 1, total = 0;
    int64_t *v = coll_sched_keep(g->x.s, n * (int64_t)sizeof *v);
    if (!v)
        return true;
    g->len = v;
    g->at = v + t->size;
    g->node = v + 2 * t->size;
    for (int i = 0; i < h->nnodes; i++) {
        g->node[i] = total;
        for (int j = h->start[i]; j < h->start[i + 1]; j++) {
            g->at[j] = total - g->node[i];
            total += g->len[j] = count_of(a, in_order(h, j)) * a->rtype->size;
        }
    }
    g->node[h->nnodes] = total;
    g->first = h->start[h->node];
    g->direct = is_dense(h, a, t->size);
    g->all = g->direct ? place_of(a, 0) : coll_sched_tmp(g->x.s, total);
    return true;
}

/* The ranks of this host collect the parts of a host's block.  Each has its own part, in place or,
 * of this host's block, in the send buffer. */
static void collect(struct gather *g, int node, const void *own, int64_t n,
                    const struct rt_layout *l)
{
    int first = g->x.h->start[node];
    coll_hier_collect_blocks(&g->x, own, n, l, g->all + g->node[node], g->len + first,
                             g->at + first);
}

static void collect_own(struct gather *g)
{
    const struct coll_args *a = g->x.a;
    int rank = g->x.h->up->rank, node = g->x.h->node;
    if (a->sbuf != COLL_IN_PLACE)
        collect(g, node, a->sbuf, a->scount, a->stype);
    else if (g->direct)
        collect(g, node, place_of(a, rank), count_of(a, rank) * a->rtype->size, &coll_bytes);
    else
        collect(g, node, place_of(a, rank), count_of(a, rank), a->rtype);
    coll_sched_round(g->x.s);
}

static int finish(struct gather *g)
{
    const struct coll_args *a = g->x.a;
    const struct coll_hier *h = g->x.h;
    coll_sched_round(g->x.s);
    for (int i = 0; !g->direct && i < h->nnodes; i++)
        for (int j = h->start[i]; j < h->start[i + 1]; j++) {
            int rank = in_order(h, j);
            coll_sched_copy(g->x.s, g->all + g->node[i] + g->at[j], g->len[j], &coll_bytes,
                            place_of(a, rank), count_of(a, rank), a->rtype);
        }
    return coll_sched_go(g->x.s);
}

/* Bytes of the blocks of n hosts from `from` on, cyclically. */
static int64_t bytes_from(const struct gather *g, int from, int n)
{
    int nodes = g->x.h->nnodes, to = from + n;
    if (to <= nodes)
        return g->node[to] - g->node[from];
    return g->node[nodes] - g->node[from] + g->node[to - nodes];
}

static void send_to_all(struct gather *g, const struct coll_team *across)
{
    int p = across->size, self = across->rank;
    for (int i = 1; i < p; i++) {
        int from = (self + i) % p;
        coll_sched_recv(g->x.s, g->all + g->node[from], bytes_from(g, from, 1), &coll_bytes, from);
        coll_sched_send(g->x.s, g->all + g->node[self], bytes_from(g, self, 1), &coll_bytes,
                        (self - i + p) % p);
    }
    coll_sched_round(g->x.s);
}

/* tmp: the blocks of this host, of the next host, ... */
static void exchange(struct gather *g, const struct coll_team *across)
{
    struct coll_sched *s = g->x.s;
    int p = across->size, self = across->rank;
    char *tmp = coll_sched_tmp(s, g->node[p]);
    int64_t own = bytes_from(g, self, 1);
    coll_sched_copy(s, g->all + g->node[self], own, &coll_bytes, tmp, own, &coll_bytes);
    coll_sched_round(s);
    for (int have = 1; have < p; have *= 2) {
        int more = have < p - have ? have : p - have, from = (self + have) % p;
        coll_sched_recv(s, tmp + bytes_from(g, self, have), bytes_from(g, from, more), &coll_bytes,
                        from);
        coll_sched_send(s, tmp, bytes_from(g, self, more), &coll_bytes, (self - have + p) % p);
        coll_sched_round(s);
    }
    for (int i = 1; i < p; i++) {
        int node = (self + i) % p;
        int64_t len = bytes_from(g, node, 1);
        coll_sched_copy(s, tmp + bytes_from(g, self, i), len, &coll_bytes, g->all + g->node[node],
                        len, &coll_bytes);
    }
    coll_sched_round(s);
}

static int start_leaders(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct gather g = { 0 };
    if (!begin(&g, t, a, k))
        return -RT_ENOMEM;
    if (!g.len)
        return coll_sched_go(g.x.s);
    collect_own(&g);
    struct coll_team *across = g.x.local->rank == 0 ? coll_hier_across(&g.x, 0, -1) : NULL;
    if (across && coll_hier_few(g.x.h))
        send_to_all(&g, across);
    else if (across)
        exchange(&g, across);
    /* This host's block, which all its ranks have, is included: one call is better than two. */
    coll_hier_bcast(&g.x, g.all, g.node[g.x.h->nnodes], &coll_bytes, 0);
    return finish(&g);
}

static int start_ring(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct gather g = { 0 };
    if (!begin(&g, t, a, k))
        return -RT_ENOMEM;
    if (!g.len)
        return coll_sched_go(g.x.s);
    const struct coll_hier *h = g.x.h;
    int p = h->nnodes, self = h->node, rank = g.x.local->rank;
    bool shares = h->most == h->least;
    struct coll_team *across = shares || rank == 0 ? coll_hier_across(&g.x, rank, -1) : NULL;
    collect_own(&g);
    /* Receives and forwards a host's block, and distributes the block received before. */
    for (int i = 0; i < p; i++) {
        int give = (self - i + p) % p, take = (self - i - 1 + 2 * p) % p;
        if (across && i < p - 1) {
            int gj = h->start[give] + rank, tj = h->start[take] + rank;
            coll_sched_team(g.x.s, across);
            coll_sched_recv(g.x.s, g.all + g.node[take] + (shares ? g.at[tj] : 0),
                            shares ? g.len[tj] : bytes_from(&g, take, 1), &coll_bytes,
                            (self - 1 + p) % p);
            coll_sched_send(g.x.s, g.all + g.node[give] + (shares ? g.at[gj] : 0),
                            shares ? g.len[gj] : bytes_from(&g, give, 1), &coll_bytes,
                            (self + 1) % p);
        }
        if (i > 0 && shares) {
            int j = h->start[give] + rank;
            collect(&g, give, g.all + g.node[give] + g.at[j], g.len[j], &coll_bytes);
        } else if (i > 0) {
            coll_hier_bcast(&g.x, g.all + g.node[give], bytes_from(&g, give, 1), &coll_bytes, 0);
        }
        coll_sched_round(g.x.s);
    }
    return finish(&g);
}

#define HIER(kind) \
    { \
        "hier", "on each host, then among the hosts", kind, COLL_NEED_NODES, start_leaders \
    }
#define RING(kind) \
    { \
        "hier_ring", "hosts' blocks round a ring of hosts", kind, COLL_NEED_NODES, start_ring \
    }

const struct coll_alg coll_hier_allgather_algs[] = {
    HIER(COLL_ALLGATHER), RING(COLL_ALLGATHER), HIER(COLL_ALLGATHERV), RING(COLL_ALLGATHERV), { 0 },
};
