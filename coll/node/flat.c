/* SPDX-License-Identifier: BSD-3-Clause */
/* node_flat: small collectives in one pass over shared memory.  Every rank that has data writes
 * them into its own line (or cell) and stores the epoch last; every rank that needs data reads the
 * lines of the ranks that have them.  The cost is one cache-line transfer per pair of ranks and no
 * messages: a + (p - 1) (line transfer).  If ranks outnumber cores, each rank has to run only once
 * per call, the least possible.  Best up to a page.  node.h shows why lines and cells can be
 * reused. */
#include "coll/node/node.h"

#include <string.h>
#include "coll/sched.h"
#include "runtime/base/copy.h"
#include "runtime/base/err.h"

/* In allreduce and reduce one rank reads all ranks' bytes.  Beyond this sum, splitting the work
 * (node_block) is worth its second synchronisation. */
#define REDUCE_TOTAL (64 * 1024)

/* This rank's part of a call: the bytes that it writes, and the ranks for which it waits. */
struct part {
    int64_t put;
    bool writes;
    int from, to;
};

bool coll_node_cell_fits(const struct coll_team *t, const struct coll_args *a, int64_t bytes)
{
    switch (a->kind) {
    case COLL_SCATTER:
    case COLL_ALLTOALL:
        return bytes * t->size <= COLL_NODE_CELL;
    case COLL_REDUCE:
    case COLL_ALLREDUCE:
        return bytes <= COLL_NODE_CELL && bytes * t->size <= REDUCE_TOTAL;
    default:
        return bytes <= COLL_NODE_CELL;
    }
}

static struct part part_of(const struct coll_team *t, const struct coll_args *a, int64_t bytes)
{
    bool root = t->rank == a->root;
    struct part all = { bytes, true, 0, t->size };
    switch (a->kind) {
    case COLL_BCAST:
        return root ? (struct part){ bytes, true, 0, 0 }
                    : (struct part){ bytes, false, a->root, a->root + 1 };
    case COLL_SCATTER:
        return root ? (struct part){ bytes * t->size, true, 0, 0 }
                    : (struct part){ bytes, false, a->root, a->root + 1 };
    case COLL_GATHER:
        all.writes = false; /* the root's own block is not shared */
        return root ? all : (struct part){ bytes, true, 0, 0 };
    case COLL_REDUCE:
        return root ? all : (struct part){ bytes, true, 0, 0 };
    case COLL_SCAN:
    case COLL_EXSCAN:
        return (struct part){ bytes, true, 0, t->rank };
    case COLL_ALLTOALL:
        all.put = bytes * t->size;
        return all;
    default:
        return all;
    }
}

/* Bytes in a rank's line or cell; for scatter and alltoall a block for each rank. */
static int64_t payload_of(const struct coll_team *t, const struct coll_args *a, int64_t bytes)
{
    return a->kind == COLL_SCATTER || a->kind == COLL_ALLTOALL ? bytes * t->size : bytes;
}

static struct coll_node_line *line_of(const struct coll_node *n, uint64_t e, int rank)
{
    return &n->lines[e % COLL_NODE_SLOTS * (unsigned)n->team->size + (unsigned)rank];
}

/* Payload of a rank in call e. */
static char *data_of(const struct coll_node *n, uint64_t e, int rank, int64_t payload)
{
    if (payload <= COLL_NODE_LINE)
        return line_of(n, e, rank)->data;
    return n->cells + ((size_t)rank * COLL_NODE_SLOTS + e % COLL_NODE_SLOTS) * COLL_NODE_CELL;
}

static void pack(char *to, const void *buf, int64_t n, const struct rt_layout *l)
{
    int64_t len = n * l->size;
    if (l->contig && len <= 64)
        rt_copy_small(to, buf, (size_t)len);
    else
        coll_copy(buf, n, l, to, len, &coll_bytes);
}

static void unpack(const char *from, void *buf, int64_t n, const struct rt_layout *l)
{
    int64_t len = n * l->size;
    if (l->contig && len <= 64)
        rt_copy_small(buf, from, (size_t)len);
    else
        coll_copy(from, len, &coll_bytes, buf, n, l);
}

static void write_own(const struct coll_team *t, const struct coll_args *a, char *to)
{
    switch (a->kind) {
    case COLL_BARRIER:
        break;
    case COLL_BCAST:
        pack(to, a->rbuf, a->rcount, a->rtype);
        break;
    case COLL_SCATTER:
        pack(to, a->sbuf, t->size * a->scount, a->stype);
        break;
    case COLL_GATHER:
    case COLL_ALLGATHER:
        if (a->sbuf == COLL_IN_PLACE)
            pack(to, coll_at(a->rbuf, t->rank * a->rcount, a->rtype), a->rcount, a->rtype);
        else
            pack(to, a->sbuf, a->scount, a->stype);
        break;
    case COLL_ALLTOALL:
        if (a->sbuf == COLL_IN_PLACE)
            pack(to, a->rbuf, t->size * a->rcount, a->rtype);
        else
            pack(to, a->sbuf, t->size * a->scount, a->stype);
        break;
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTER_BLOCK:
        pack(to, coll_input(a), coll_args_bytes(t, a) / a->rtype->size, a->rtype);
        break;
    default:
        pack(to, coll_input(a), a->rcount, a->rtype);
        break;
    }
}

struct source { /* of a combination: the payload from byte `at` on */
    const struct coll_node *n;
    uint64_t e;
    int64_t payload, at;
};

static const void *source_of(const void *arg, int rank)
{
    const struct source *s = arg;
    return data_of(s->n, s->e, rank, s->payload) + s->at;
}

/* Combines `count` items at byte `at` of the payloads of ranks [0, nranks), in rank order, into
 * buf. */
static void combine(const struct coll_node *n, uint64_t e, const struct coll_args *a,
                    int64_t payload, int64_t at, int nranks, void *buf, int64_t count)
{
    _Alignas(RT_CACHE_LINE) char tmp[COLL_NODE_CELL];
    rt_reduce_fn *fn = rt_reduce_find(a->op->code, a->rtype->elem);
    char *acc = a->rtype->contig ? buf : tmp;
    int64_t len = count * a->rtype->size, elems = len / rt_elem_nbytes(a->rtype->elem);
    const char *first = data_of(n, e, 0, payload) + at;
    if (nranks == 1)
        memcpy(acc, first, (size_t)len);
    if (nranks > 2 && rt_reduce_is_wide(a->op->code, (enum rt_elem)a->rtype->elem)) {
        const struct source s = { n, e, payload, at };
        rt_reduce_wide(a->op->code, (enum rt_elem)a->rtype->elem, source_of, &s, nranks, acc,
                       elems);
        nranks = 0;
    }
    for (int i = 1; i < nranks; i++) {
        fn(first, data_of(n, e, i, payload) + at, acc, elems);
        first = acc;
    }
    if (acc != buf)
        unpack(acc, buf, count, a->rtype);
}

static void read_scattered(const struct coll_node *n, uint64_t e, const struct coll_args *a,
                           int64_t payload)
{
    int rank = n->team->rank;
    int64_t before = rank * a->rcount, own = a->rcount;
    if (a->kind == COLL_REDUCE_SCATTER) {
        before = 0;
        for (int i = 0; i < rank; i++)
            before += a->rcounts[i];
        own = a->rcounts[rank];
    }
    combine(n, e, a, payload, before * a->rtype->size, n->team->size, a->rbuf, own);
}

static void read_scan(const struct coll_node *n, uint64_t e, const struct coll_args *a,
                      int64_t payload)
{
    int nranks = n->team->rank + (a->kind == COLL_SCAN);
    if (nranks > 0)
        combine(n, e, a, payload, 0, nranks, a->rbuf, a->rcount);
}

/* Copies this rank's data for itself from buffer to buffer; in place it does nothing. */
static void copy_own(const struct coll_team *t, const struct coll_args *a)
{
    bool parts = a->kind == COLL_SCATTER || a->kind == COLL_ALLTOALL;
    if (a->sbuf == COLL_IN_PLACE || a->rbuf == COLL_IN_PLACE)
        return;
    const char *from = coll_at(a->sbuf, parts ? t->rank * a->scount : 0, a->stype);
    char *to = coll_at(a->rbuf, a->kind == COLL_SCATTER ? 0 : t->rank * a->rcount, a->rtype);
    int64_t len = a->scount * a->stype->size;
    if (a->stype->contig && a->rtype->contig && len <= 64)
        rt_copy_small(to, from, (size_t)len);
    else
        coll_copy(from, a->scount, a->stype, to, a->rcount, a->rtype);
}

/* Takes the result from the payloads of the ranks waited for. */
static void read_result(const struct coll_node *n, uint64_t e, const struct coll_args *a,
                        int64_t bytes)
{
    const struct coll_team *t = n->team;
    int64_t payload = payload_of(t, a, bytes);
    switch (a->kind) {
    case COLL_BCAST:
        if (t->rank != a->root)
            unpack(data_of(n, e, a->root, payload), a->rbuf, a->rcount, a->rtype);
        break;
    case COLL_SCATTER:
        if (t->rank == a->root)
            copy_own(t, a);
        else
            unpack(data_of(n, e, a->root, payload) + t->rank * bytes, a->rbuf, a->rcount, a->rtype);
        break;
    case COLL_REDUCE:
        if (t->rank == a->root)
            combine(n, e, a, payload, 0, t->size, a->rbuf, a->rcount);
        break;
    case COLL_ALLREDUCE:
        combine(n, e, a, payload, 0, t->size, a->rbuf, a->rcount);
        break;
    case COLL_GATHER:
    case COLL_ALLGATHER:
    case COLL_ALLTOALL:
        if (a->kind == COLL_GATHER && t->rank != a->root)
            break;
        for (int i = 0; i < t->size; i++) {
            const char *from = data_of(n, e, i, payload);
            if (i != t->rank)
                unpack(from + (a->kind == COLL_ALLTOALL ? t->rank * bytes : 0),
                       coll_at(a->rbuf, i * a->rcount, a->rtype), a->rcount, a->rtype);
        }
        copy_own(t, a);
        break;
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTER_BLOCK:
        read_scattered(n, e, a, payload);
        break;
    case COLL_SCAN:
    case COLL_EXSCAN:
        read_scan(n, e, a, payload);
        break;
    default:
        break;
    }
}

/* The writing part.  1: done; 0: not yet; < 0: its memory is refused. */
static int tell(struct coll_node *n, const struct coll_task *k, uint64_t e, const struct part *p,
                int64_t bytes)
{
    int64_t payload = payload_of(n->team, &k->args, bytes);
    int rc = payload <= COLL_NODE_LINE ? 1 : coll_node_cells(n);
    if (rc <= 0 || !p->writes)
        return rc;
    uint64_t *wrote = &n->wrote[e % COLL_NODE_SLOTS];
    if (!coll_node_finished(n, *wrote))
        return 0;
    *wrote = e;
    write_own(n->team, &k->args, data_of(n, e, n->team->rank, payload));
    uint64_t epoch = rt_unlikely(k->lost) ? e | COLL_NODE_VOID : e;
    rt_store_release(&line_of(n, e, n->team->rank)->epoch, epoch); /* payload before epoch */
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
    uint64_t e = n->turn + 1;
    if (n->step == 0)
        n->bytes = k->args.kind == COLL_BARRIER ? 0 : coll_args_bytes(k->team, &k->args);
    int64_t bytes = n->bytes;
    struct part p = part_of(k->team, &k->args, bytes);
    if (n->step == 0) {
        int rc = tell(n, k, e, &p, bytes);
        if (rc < 0)
            return coll_node_give_up(n, k);
        if (rc == 0)
            return 0;
        n->step = 1;
        n->next = p.from;
    }
    for (; n->next < p.to; n->next++) {
        if (n->next == k->team->rank)
            continue;
        /* pairs with the release store of the epoch */
        uint64_t epoch = rt_load_acquire(&line_of(n, e, n->next)->epoch);
        if (epoch != e && !coll_node_has_told(epoch, e, &k->lost))
            return 0;
    }
    if (p.from == 0 && p.to == k->team->size && n->seen < e - 1)
        n->seen = e - 1; /* all have started e, so all have finished e - 1 */
    read_result(n, e, &k->args, bytes);
    return coll_node_end(n);
}

static int start_flat(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    (void)a;
    coll_node_begin(t->node, k);
    k->step = flat_step;
    return 0;
}

int coll_node_flat_instead(struct coll_task *k)
{
    k->step = flat_step;
    return flat_step(k);
}

#define FLAT(kind, more) \
    { \
        "node_flat", "one pass over cache lines in shared memory", kind, \
            COLL_NEED_ONE_NODE | COLL_NEED_CELL | (more), start_flat \
    }

const struct coll_alg coll_node_flat_algs[] = {
    FLAT(COLL_BARRIER, 0),
    FLAT(COLL_BCAST, 0),
    FLAT(COLL_REDUCE, COLL_NEED_BUILTIN_OP),
    FLAT(COLL_ALLREDUCE, COLL_NEED_BUILTIN_OP),
    FLAT(COLL_GATHER, 0),
    FLAT(COLL_SCATTER, 0),
    FLAT(COLL_ALLGATHER, 0),
    FLAT(COLL_ALLTOALL, 0),
    FLAT(COLL_REDUCE_SCATTER, COLL_NEED_BUILTIN_OP),
    FLAT(COLL_REDUCE_SCATTER_BLOCK, COLL_NEED_BUILTIN_OP),
    FLAT(COLL_SCAN, COLL_NEED_BUILTIN_OP),
    FLAT(COLL_EXSCAN, COLL_NEED_BUILTIN_OP),
    { 0 },
};
