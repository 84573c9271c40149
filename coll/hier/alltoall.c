/* SPDX-License-Identifier: BSD-3-Clause */
/* Complete exchange over several hosts.  N hosts, L ranks on each, m bytes for a pair of ranks; a,
 * b of a message between hosts.
 *
 * hier: the lowest rank of each host gathers all that the ranks of the host send; the hosts
 * exchange one message each; the received blocks are scattered.  (N - 1) (a + L L m b).  Best for
 * small blocks, where it saves messages: (N - 1) a host in place of (N - 1) L L.
 *
 * hier_pairs: blocks for ranks on other hosts go straight to them, with a window of messages in
 * progress at a time; meanwhile blocks of this host go through shared memory.  (N - 1) L (a + m b).
 * Also for given counts and types. */
#include "coll/algo/alltoall.h"
#include "coll/hier/hier.h"
#include "coll/hier/local.h"
#include "coll/hier/team.h"
#include "coll/sched.h"

#include "runtime/base/err.h"

/* Exchanges in progress at once: for large blocks as in algo/alltoall.c; for small blocks more, up
 * to this number of bytes or exchanges.  Each rank may choose alone: all take their partners in the
 * same order, so that the rank that is furthest behind waits for no other rank.  On a slow network
 * more exchanges would hide more of the latency. */
#define WINDOW 8
#define WINDOW_BYTES (64 << 10)
#define WINDOW_MOST 64
/* Bytes.  A lowest rank needs three times this memory; beyond it every rank sends its own
 * blocks. */
#define GATHERED_MAX (4 << 20)

/* ---- hier ---- */

struct exchange {
    struct coll_hier_call x;
    int64_t block; /* bytes for a pair of ranks */
    /* At the lowest rank: messages by host, and the blocks of all ranks by local rank: first
     * those to send, then those received. */
    char *out, *in, *whole;
    struct rt_blocks *piece; /* of a block */
};

/* Blocks that are `extent` bytes apart. */
static const struct rt_layout *apart(struct exchange *e, int64_t extent)
{
    struct rt_layout *l = coll_sched_keep(e->x.s, sizeof *l);
    if (l)
        *l = (struct rt_layout){
            .size = e->block, .extent = extent, .true_extent = e->block, .blocks = e->piece
        };
    return l;
}

static void make_piece(struct exchange *e)
{
    static const int64_t zero[1];
    e->piece = coll_sched_keep(e->x.s, sizeof *e->piece);
    if (e->piece)
        *e->piece = (struct rt_blocks){
            .n = 1, .size = e->block, .high = e->block, .piece = e->block, .off = zero
        };
}

/* Bytes of the messages to all hosts before one: the number of this host's ranks times the number
 * of theirs. */
static int64_t message_at(const struct exchange *e, int node)
{
    return (int64_t)e->x.h->start[node] * e->x.local->size * e->block;
}

/* Blocks by local source, then by destination, become messages: by host, destination, source. */
static void pack(struct exchange *e, int size)
{
    const struct coll_hier *h = e->x.h;
    int here = e->x.local->size;
    const struct rt_layout *by_source = apart(e, size * e->block);
    for (int i = 0; by_source && i < h->nnodes; i++)
        for (int j = 0; j < coll_hier_count(h, i); j++)
            coll_sched_copy(e->x.s, e->whole + coll_hier_rank(h, i, j) * e->block, here, by_source,
                            e->out + message_at(e, i) + j * here * e->block, here * e->block,
                            &coll_bytes);
    coll_sched_round(e->x.s);
}

/* Messages, by local destination and then source, become blocks by destination and source. */
static void unpack(struct exchange *e, int size)
{
    const struct coll_hier *h = e->x.h;
    int here = e->x.local->size;
    const struct rt_layout *by_target = apart(e, size * e->block);
    for (int i = 0; by_target && i < h->nnodes; i++) {
        int there = coll_hier_count(h, i);
        const char *from = i == h->node ? e->out : e->in;
        const struct rt_layout *in_message = apart(e, there * e->block);
        for (int j = 0; in_message && j < there; j++)
            coll_sched_copy(e->x.s, from + message_at(e, i) + j * e->block, here, in_message,
                            e->whole + coll_hier_rank(h, i, j) * e->block, here, by_target);
    }
    coll_sched_round(e->x.s);
}

/* ---- hier_pairs ---- */

/* The blocks of the ranks of this host, as a call among them: in bytes from the beginnings of the
 * buffers, with types, which supports all forms. */
static bool local_call(struct coll_hier_call *x)
{
    const struct coll_args *a = x->a;
    int n = x->local->size;
    bool in_place = a->sbuf == COLL_IN_PLACE;
    int64_t *v = coll_sched_keep(x->s, 4 * n * (int64_t)sizeof *v);
    const struct rt_layout **types = coll_sched_keep(x->s, 2 * n * (int64_t)sizeof *types);
    if (!v || !types)
        return true;
    for (int i = 0; i < n; i++) {
        int rank = x->h->local.ranks[i];
        struct coll_block to = coll_args_block(a, COLL_RECV, rank),
                          from = in_place ? to : coll_args_block(a, COLL_SEND, rank);
        v[i] = from.n;
        v[n + i] = in_place ? 0 : from.at - (const char *)a->sbuf;
        v[2 * n + i] = to.n;
        v[3 * n + i] = to.at - (char *)a->rbuf;
        types[i] = from.l;
        types[n + i] = to.l;
    }
    struct coll_args c = { .kind = COLL_ALLTOALLW,
                           .sbuf = a->sbuf,
                           .rbuf = a->rbuf,
                           .scounts = v,
                           .sdispls = v + n,
                           .rcounts = v + 2 * n,
                           .rdispls = v + 3 * n,
                           .stypes = types,
                           .rtypes = types + n };
    return x->shared && n > 1 && coll_sched_call(x->s, x->local, &c);
}

static bool is_here(const struct coll_hier_call *x, int rank)
{
    return coll_hier_node(x->h, rank) == x->h->node;
}

static int start_pairs(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_hier_call x;
    if (!coll_hier_begin(&x, t, a, k))
        return -RT_ENOMEM;
    int p = t->size, under_way = 0;
    int64_t nbytes = 0;
    bool in_place = a->sbuf == COLL_IN_PLACE;
    enum coll_side source = in_place ? COLL_RECV : COLL_SEND;
    char *old = in_place ? coll_build_set_aside(x.s, t, a) : NULL;
    bool called = local_call(&x);
    if (!called && !in_place) {
        struct coll_block from = coll_args_block(a, COLL_SEND, t->rank),
                          to = coll_args_block(a, COLL_RECV, t->rank);
        coll_sched_copy(x.s, from.at, from.n, from.l, to.at, to.n, to.l);
    }
    for (int i = 1; i < p; i++) {
        int dst = (t->rank + i) % p, src = (t->rank - i + p) % p;
        struct coll_block from = coll_args_block(a, source, dst),
                          to = coll_args_block(a, COLL_RECV, src);
        int64_t give = coll_block_nbytes(&from), take = coll_block_nbytes(&to);
        bool sends = !called || !is_here(&x, dst), receives = !called || !is_here(&x, src);
        if (receives)
            coll_sched_recv(x.s, to.at, to.n, to.l, src);
        if (in_place) {
            if (sends)
                coll_sched_send(x.s, old, give, &coll_bytes, dst);
            old += give;
        } else if (sends) {
            coll_sched_send(x.s, from.at, from.n, from.l, dst);
        }
        under_way += sends || receives;
        nbytes += (sends ? give : 0) + (receives ? take : 0);
        if (under_way >= WINDOW && (nbytes > WINDOW_BYTES || under_way == WINDOW_MOST)) {
            coll_sched_round(x.s);
            nbytes = under_way = 0;
        }
    }
    return coll_sched_go(x.s);
}

/* ---- the start of hier, which may have too many bytes to gather ---- */

static int start_leaders(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct exchange e = { 0 };
    if (a->rcount * a->rtype->size * t->size * t->hier->most > GATHERED_MAX)
        return start_pairs(t, a, k);
    if (!coll_hier_begin(&e.x, t, a, k))
        return -RT_ENOMEM;
    bool leads = e.x.local->rank == 0, in_place = a->sbuf == COLL_IN_PLACE;
    int64_t n = t->size * (in_place ? a->rcount : a->scount);
    e.block = a->rcount * a->rtype->size;
    int64_t all = t->size * e.x.local->size * e.block;
    make_piece(&e);
    if (leads) {
        e.whole = coll_sched_tmp(e.x.s, all);
        e.out = coll_sched_tmp(e.x.s, all);
        e.in = coll_sched_tmp(e.x.s, all);
    }
    coll_hier_gather(&e.x, in_place ? a->rbuf : a->sbuf, n, in_place ? a->rtype : a->stype, e.whole,
                     t->size * e.block, 0);
    coll_sched_round(e.x.s);
    struct coll_team *across = leads ? coll_hier_across(&e.x, 0, -1) : NULL;
    if (leads)
        pack(&e, t->size);
    for (int i = 1; across && i < across->size; i++) {
        int to = (across->rank + i) % across->size,
            from = (across->rank - i + across->size) % across->size;
        coll_sched_recv(e.x.s, e.in + message_at(&e, from),
                        message_at(&e, from + 1) - message_at(&e, from), &coll_bytes, from);
        coll_sched_send(e.x.s, e.out + message_at(&e, to),
                        message_at(&e, to + 1) - message_at(&e, to), &coll_bytes, to);
    }
    coll_sched_round(e.x.s);
    if (leads)
        unpack(&e, t->size);
    coll_hier_scatter(&e.x, e.whole, t->size * e.block, a->rbuf, t->size * a->rcount, a->rtype, 0);
    return coll_sched_go(e.x.s);
}

#define PAIRS(kind) \
    { \
        "hier_pairs", "in shared memory on each host, messages between", kind, COLL_NEED_NODES, \
            start_pairs \
    }

const struct coll_alg coll_hier_alltoall_algs[] = {
    { "hier", "one message for each pair of hosts", COLL_ALLTOALL, COLL_NEED_NODES, start_leaders },
    PAIRS(COLL_ALLTOALL),
    PAIRS(COLL_ALLTOALLV),
    PAIRS(COLL_ALLTOALLW),
    { 0 },
};
