/* SPDX-License-Identifier: BSD-3-Clause */
/* node_flat: small collectives in one pass over shared memory.  Every rank that has data writes
 * them into its own line (or cell) and stores the epoch last; every rank that needs data reads the
 * lines of the ranks that have them.  The cost is one cache-line transfer per pair of ranks and no
 * messages: a + (p - 1) (line transfer).  If ranks outnumber cores, each rank has to run only once
 * per call, the least possible.  Best up to a page.  node.h shows why lines and cells can be
 * reused. */
#include "coll/node/choose.h"
#include "coll/node/line.h"
#include "coll/sched.h"
#include "runtime/base/copy.h"
#include "runtime/base/err.h"

/* This rank's part of a call: whether it writes, and the ranks for which it waits. */
struct part {
    bool writes;
    int from, to;
};

/* Bytes in a rank's line or cell: its contribution, or a block for each rank. */
static int64_t payload_of(const struct coll_team *t, struct coll_form f, int64_t bytes)
{
    return f.shape[COLL_SEND] == COLL_SIDE_ROW ? bytes * t->size : bytes;
}

bool coll_node_cell_fits(const struct coll_team *t, const struct coll_args *a, int64_t bytes)
{
    const struct coll_form f = coll_forms[a->kind];
    if (payload_of(t, f, bytes) > COLL_NODE_CELL)
        return false;
    return bytes * t->size <= COLL_NODE_REDUCE_TOTAL || !(f.traits & COLL_IS_REDUCTION) ||
           f.traits & COLL_IS_PREFIX || f.shape[COLL_SEND] == COLL_SIDE_CUT;
}

static struct part part_of(const struct coll_team *t, const struct coll_args *a, struct coll_form f)
{
    if (f.traits & COLL_IS_ROOTED) {
        const bool root = t->rank == a->root, from = f.traits & COLL_IS_FROM_ROOT;
        if (root == from)
            return (struct part){ true, 0, 0 };
        if (from)
            return (struct part){ false, a->root, a->root + 1 };
        /* the root's own block of a gather is not shared */
        return (struct part){ f.traits & COLL_IS_REDUCTION, 0, t->size };
    }
    if (f.shape[COLL_SEND] == COLL_SIDE_CUT && (a->rcounts ? a->rcounts[t->rank] : a->rcount) == 0)
        return (struct part){ true, 0, 0 }; /* a reduce_scatter with nothing for this rank */
    return (struct part){ true, 0, f.traits & COLL_IS_PREFIX ? t->rank : t->size };
}

/* Writes this rank's contribution. */
static void write_own(const struct coll_team *t, const struct coll_args *a, struct coll_form f,
                      int64_t payload, char *to)
{
    const uint8_t shape = f.shape[COLL_SEND];
    const bool received = shape == COLL_SIDE_NONE ||
                          (a->sbuf == COLL_IN_PLACE && !(f.traits & COLL_IS_REDUCTION));
    struct coll_block b = coll_args_side(a, received ? COLL_RECV : COLL_SEND);
    if (received && shape == COLL_SIDE_ONE)
        b.at = coll_at(b.at, t->rank * b.n, b.l);
    coll_node_pack(to, b.at, shape == COLL_SIDE_ROW ? b.n * t->size : payload / b.l->size, b.l);
}

struct source { /* of a combination: the payload from byte `at` on */
    const struct coll_node *n;
    uint64_t e;
    int64_t payload, at;
};

static inline const void *source_of(const void *arg, int rank)
{
    const struct source *s = arg;
    return coll_node_data(s->n, s->e, rank, s->payload) + s->at;
}

/* Combines `count` items at byte `at` of the payloads of ranks [0, nranks), in rank order, into
 * buf. */
static void combine(const struct coll_node *n, uint64_t e, const struct coll_args *a,
                    int64_t payload, int64_t at, int nranks, void *buf, int64_t count)
{
    _Alignas(RT_CACHE_LINE) char tmp[COLL_NODE_CELL];
    const struct source s = { n, e, payload, at };
    if (nranks == 1) {
        coll_node_unpack(source_of(&s, 0), buf, count, a->rtype);
        return;
    }
    char *acc = a->rtype->contig ? buf : tmp;
    coll_node_fold(a, source_of, &s, nranks, acc, count * a->rtype->size);
    if (acc != buf)
        coll_node_unpack(acc, buf, count, a->rtype);
}

/* Combines what this rank needs of the payloads of the first `nranks` ranks. */
static void read_sum(const struct coll_node *n, uint64_t e, const struct coll_args *a,
                     struct coll_form f, int nranks, int64_t payload)
{
    int64_t before = 0, own = a->rcount;
    if (f.traits & COLL_IS_PREFIX && !(f.traits & COLL_IS_EXCLUSIVE))
        nranks++; /* this rank's own is the last */
    if (f.shape[COLL_SEND] == COLL_SIDE_CUT) {
        before = coll_args_parts(a, n->team->rank) * a->rtype->size;
        own = a->rcounts ? a->rcounts[n->team->rank] : own;
    }
    if (nranks > 0)
        combine(n, e, a, payload, before, nranks, a->rbuf, own);
}

/* Copies this rank's data for itself from buffer to buffer, while the other ranks' lines are on
 * their way; in place it does nothing. */
static void copy_own(const struct coll_team *t, const struct coll_args *a, struct coll_form f)
{
    if (f.traits & COLL_IS_REDUCTION || f.shape[COLL_SEND] == COLL_SIDE_NONE ||
        (f.traits & COLL_IS_ROOTED && t->rank != a->root) || a->sbuf == COLL_IN_PLACE ||
        a->rbuf == COLL_IN_PLACE)
        return;
    struct coll_block from = { (char *)a->sbuf, a->scount, a->stype },
                      to = coll_args_side(a, COLL_RECV);
    if (f.shape[COLL_SEND] == COLL_SIDE_ROW)
        from.at = coll_at(from.at, t->rank * from.n, from.l);
    if (f.shape[COLL_RECV] == COLL_SIDE_ROW)
        to.at = coll_at(to.at, t->rank * to.n, to.l);
    int64_t len = from.n * from.l->size;
    if (from.l->contig && to.l->contig && len <= 64)
        rt_copy_small(to.at, from.at, (size_t)len);
    else
        coll_copy(from.at, from.n, from.l, to.at, to.n, to.l);
}

/* Copies out the blocks of the ranks waited for. */
static void read_blocks(const struct coll_node *n, uint64_t e, const struct coll_args *a,
                        struct coll_form f, const struct part *p, int64_t payload, int64_t bytes)
{
    const int rank = n->team->rank;
    const bool row = f.shape[COLL_RECV] == COLL_SIDE_ROW;
    const int64_t at = f.shape[COLL_SEND] == COLL_SIDE_ROW ? rank * bytes : 0;
    for (int i = p->from; i < p->to; i++)
        if (i != rank)
            coll_node_unpack(coll_node_data(n, e, i, payload) + at,
                             row ? coll_at(a->rbuf, i * a->rcount, a->rtype) : a->rbuf, a->rcount,
                             a->rtype);
}

/* Takes the result from the payloads of the ranks waited for. */
static void read_result(const struct coll_node *n, uint64_t e, const struct coll_args *a,
                        struct coll_form f, const struct part *p, int64_t bytes)
{
    int64_t payload = payload_of(n->team, f, bytes);
    if (payload == 0 || (f.traits & COLL_IS_TO_ROOT && n->team->rank != a->root))
        return;
    if (f.traits & COLL_IS_REDUCTION)
        read_sum(n, e, a, f, p->to, payload);
    else
        read_blocks(n, e, a, f, p, payload, bytes);
}

/* The writing part.  1: done; 0: not yet; -RT_ENOSPC: no memory for cells. */
static int publish(struct coll_node *n, const struct coll_task *k, struct coll_form f, uint64_t e,
                   const struct part *p, int64_t bytes)
{
    int64_t payload = payload_of(n->team, f, bytes);
    int rc = payload <= COLL_NODE_LINE ? 1 : coll_node_cells(n);
    if (rc <= 0 || !p->writes)
        return rc;
    if (!coll_node_may_write(n, e, payload <= COLL_NODE_LINE ? 0 : payload))
        return 0;
    if (payload)
        write_own(n->team, &k->args, f, payload, coll_node_data(n, e, n->team->rank, payload));
    coll_node_store_line(n, e, k->lost);
    /* without ranks to wait for, the end of the call wakes the readers at once */
    if (p->from < p->to)
        coll_node_wake(n);
    return 1;
}

static int flat_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    if (!coll_node_my_turn(n, k))
        return 0;
    const struct coll_form f = coll_forms[k->args.kind];
    uint64_t e = n->turn + 1;
    const int64_t bytes = k->bytes;
    struct part p = part_of(k->team, &k->args, f);
    if (n->step == 0) {
        int rc = publish(n, k, f, e, &p, bytes);
        if (rc < 0)
            return coll_node_give_up(n, k);
        if (rc == 0)
            return 0;
        n->step = 1;
        n->next = p.from;
        if (bytes)
            copy_own(k->team, &k->args, f);
    }
    for (; n->next < p.to; n->next++)
        if (n->next != k->team->rank && !coll_node_line_there(n, e, n->next, &k->lost))
            return 0;
    if (p.from == 0 && p.to == k->team->size)
        coll_node_all_started(n, e);
    read_result(n, e, &k->args, f, &p, bytes);
    return coll_node_end(n);
}

/* A barrier.  Its hub, args.root, is -1, or in a row of broadcasts (or scatters) and barriers the
 * root of the broadcast before.  A hub stores its line when it has seen all other lines, and the
 * other ranks wait for its line only.  So the root leaves first, and its next broadcast is there
 * when the other ranks look for it, and one line instead of all shows each of them that it may
 * leave: from some ranks on broadcast and barrier together are faster (HUB_MIN).  A row of
 * barriers would be slower with a hub. */
static int barrier_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    if (!coll_node_my_turn(n, k))
        return 0;
    const int rank = k->team->rank, hub = k->args.root;
    const bool one = hub >= 0 && rank != hub; /* the line of one rank shows all */
    const uint64_t e = n->turn + 1;
    if (n->step == 0) {
        if (!coll_node_may_write(n, e, 0))
            return 0;
        if (rank != hub) {
            coll_node_store_line(n, e, k->lost);
            coll_node_wake(n);
        }
        n->step = 1;
        n->next = one ? hub : 0;
    }
    for (const int to = one ? hub + 1 : k->team->size; n->next < to; n->next++)
        if (n->next != rank && !coll_node_line_there(n, e, n->next, &k->lost))
            return 0;
    if (rank == hub)
        coll_node_store_line(n, e, k->lost); /* the end of the call wakes the other ranks */
    coll_node_all_started(n, e);
    return coll_node_end(n);
}

int coll_node_flat_start(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    if (a->kind == COLL_BARRIER)
        k->args.root = t->node->hub;
    coll_node_begin(t->node, k);
    k->step = a->kind == COLL_BARRIER ? barrier_step : flat_step;
    return 0;
}

int coll_node_flat_step(struct coll_task *k)
{
    k->step = k->args.kind == COLL_BARRIER ? barrier_step : flat_step;
    return k->step(k);
}
