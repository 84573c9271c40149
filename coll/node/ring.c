/* SPDX-License-Identifier: BSD-3-Clause */
/* node_block of broadcast and of an allreduce of two ranks, and node_root of reduce, for ranks with
 * a core each: pieces through rings in shared memory.
 *
 * A writer (the root of a broadcast, the other ranks of a reduction) has a ring in the half that
 * the call uses.  A rank has done step s when piece s is in the ring, or has been taken from it.
 *  - Before taking piece s: the writers have done s + 1 steps.
 *  - Before writing piece s, from s = slots on: the readers have done s + 1 - slots steps.
 *  - Before the first piece: all ranks have finished the last call that used the half (node.h).
 *
 * In an allreduce of two ranks each rank is writer and reader: in step s it writes its piece s,
 * publishes that, and then combines piece s - 1 of the other rank.  A writer leaves as soon as its
 * last piece is in the ring.  Reading another rank's progress word is a cache miss, so a rank goes
 * as far as the last value read has allowed.  A call begins in the ring where the last call ended:
 * a line that a reader still has in its private cache costs the writer an invalidation, and a ring
 * of 32 KiB is half as fast as one of 1 MiB.
 *
 * Cost: m b + (latency of a piece), where b is that of the slower copy.
 *
 * Two transfer modes: large calls of two ranks use the one whose pace is better (pace.c).  Each
 * writer decides alone; a reader reads the decision with the first step.  In an allreduce rank 0
 * decides; in their first step, before there are pieces, rank 0 publishes the mode and rank 1
 * whether it can use direct transfer.
 */
#include "coll/node/choose.h"
#include "coll/sched.h"
#include "runtime/base/err.h"

/* ---- which mode ---- */

/* The shortest call that may use direct transfer: of two ranks.  More readers of the same pages
 * wait for each other in the kernel.  A broadcast on 16 cores of a mesh Xeon, us through the ring
 * and directly, 4 / 8 / 16 ranks: 64 KiB 12 and 15 / 14 and 30 / 14 and 60, 1 MiB 153 and 373 / 185
 * and 833 / 198 and 1663. */
static int64_t direct_min(const struct coll_node *n, enum coll_kind kind)
{
    if (n->team->size > 2)
        return INT64_MAX;
    return kind == COLL_ALLREDUCE ? COLL_NODE_PACED_MIN : COLL_NODE_PACED_MIN_ROOTED;
}

/* At a writer, before its first piece: whether it uses direct transfer. */
static bool goes_directly(struct coll_node *n, const struct coll_args *a, int64_t bytes)
{
    n->way = COLL_NODE_STAGED;
    if (bytes < direct_min(n, a->kind) || !a->rtype->contig || !coll_node_all_read(n))
        return false;
    return coll_node_pace_begin(n, a->kind, bytes);
}

/* ---- pieces ---- */

struct flow {
    bool writes, takes;
    int from, to; /* the ranks for which this rank waits: its writers, or its readers */
    int64_t bytes, piece, npieces, slots;
    int64_t first; /* the step of a rank with its first piece */
};

static struct flow flow_of(const struct coll_node *n, const struct coll_args *a)
{
    bool bcast = a->kind == COLL_BCAST, root = n->team->rank == a->root;
    int64_t rows = bcast ? 1 : n->team->size, ring = (int64_t)n->half_len / rows;
    bool both = a->kind == COLL_ALLREDUCE;
    struct flow f = { .bytes = a->rcount * a->rtype->size };
    f.writes = both || root == bcast;
    f.takes = both || root != bcast;
    f.from = both || root ? 0 : a->root;
    f.to = both || root ? n->team->size : a->root + 1;
    f.first = both && f.bytes >= COLL_NODE_PACED_MIN;
    f.piece = f.bytes < COLL_NODE_RING_LONG ? COLL_NODE_RING_PIECE : COLL_NODE_RING_PIECE_LONG;
    while (f.piece > COLL_NODE_RING_PIECE_MIN && f.piece >= 2 * f.bytes)
        f.piece /= 2;
    f.npieces = coll_pieces(f.bytes, f.piece);
    int64_t most = COLL_NODE_RING_CALLS * (f.bytes > f.piece ? f.bytes : f.piece);
    most = most < COLL_NODE_RING ? most : COLL_NODE_RING;
    f.slots = (ring < most ? ring : most) / f.piece;
    return f;
}

/* The position of a call's first piece.  The length of a piece is a power of two, so no piece
 * crosses the ring's end. */
static uint64_t begins_at(const struct coll_node *n, const struct flow *f)
{
    return (n->ring_pos + (uint64_t)f->piece - 1) & ~((uint64_t)f->piece - 1);
}

static char *ring_at(const struct coll_node *n, const struct coll_args *a, const struct flow *f,
                     int writer, int64_t i)
{
    int64_t row = a->kind == COLL_BCAST ? 0 : writer, len = f->slots * f->piece;
    uint64_t at = begins_at(n, f) + (uint64_t)(i * f->piece);
    return coll_node_half(n, 0) + row * len + at % (uint64_t)len;
}

/* Whether all ranks for which this rank waits have done `steps` steps of call e. */
static bool have_done(struct coll_node *n, const struct flow *f, uint64_t e, int64_t steps)
{
    uint64_t least = UINT64_MAX, before = (e - 1) << COLL_NODE_STEP_BITS;
    if (n->plan.known >= steps)
        return true;
    for (int r = f->from; r < f->to; r++) {
        /* pairs with the release in coll_node_publish() */
        uint64_t w = r == n->team->rank ? least : rt_load_acquire(&n->prog[r].word);
        least = w < least ? w : least;
    }
    n->plan.known = least < before ? 0 : (int64_t)(least - before);
    return n->plan.known >= steps;
}

/* Copies piece i of this rank's data into its ring.  False: no room yet. */
static bool write_piece(struct coll_node *n, const struct coll_args *a, const struct flow *f,
                        uint64_t e, int64_t i)
{
    const void *from = a->kind == COLL_BCAST ? a->rbuf : coll_input(a);
    if (i == 0 ? !coll_node_half_free(n, 0)
               : i >= f->slots && !have_done(n, f, e, f->first + i + (f->takes ? 3 : 1) - f->slots))
        return false;
    if (i == 0) {
        /* the readers poll this cache line, so a store here costs two transfers of the line */
        if (n->prog[n->team->rank].direct[n->half])
            n->prog[n->team->rank].direct[n->half] = 0;
        if (rt_unlikely(n->poisoned))
            coll_node_poison(n, e);
    }
    coll_piece_in(from, a->rcount, a->rtype, coll_piece_of(f->bytes, f->piece, i),
                  ring_at(n, a, f, n->team->rank, i));
    return true;
}

/* Combines piece i of all ranks, in rank order. */
static void combine(const struct coll_node *n, const struct coll_args *a, const struct flow *f,
                    int64_t i)
{
    _Alignas(RT_CACHE_LINE) char packed[COLL_NODE_RING_PIECE_LONG], tmp[COLL_NODE_RING_PIECE_LONG];
    struct coll_piece p = coll_piece_of(f->bytes, f->piece, i);
    int rank = n->team->rank;
    bool contig = a->rtype->contig;
    const char *own = contig ? (const char *)coll_input(a) + p.at : packed;
    char *out = contig ? (char *)a->rbuf + p.at : tmp;
    rt_reduce_fn *fn = rt_reduce_find(a->op->code, a->rtype->elem);
    int64_t elems = p.len / rt_elem_nbytes(a->rtype->elem);
    const char *acc = rank == 0 ? own : ring_at(n, a, f, 0, i);

    if (!contig)
        coll_piece_in(coll_input(a), a->rcount, a->rtype, p, packed);
    for (int r = 1; r < n->team->size; r++) {
        char *to = own == out && r < rank ? tmp : out; /* in place, `own` is still to be read */
        fn(acc, r == rank ? own : ring_at(n, a, f, r, i), to, elems);
        acc = to;
    }
    if (!contig)
        coll_piece_out(a->rbuf, a->rcount, a->rtype, p, tmp);
}

/* Copies or combines piece i of the writers' data; all writers have published the piece. */
static void take_piece(struct coll_node *n, const struct coll_args *a, const struct flow *f,
                       uint64_t e, int64_t i)
{
    for (int r = f->from; i == 0 && r < f->to; r++)
        if (r != n->team->rank && rt_unlikely(coll_node_is_poisoned(n, r, e)))
            n->lost = -RT_EREMOTE;
    if (i == 0 && (n->team->size == 2 || f->to - f->from > 1))
        coll_node_all_started(n, e);
    if (a->kind == COLL_BCAST)
        coll_piece_out(a->rbuf, a->rcount, a->rtype, coll_piece_of(f->bytes, f->piece, i),
                       ring_at(n, a, f, a->root, i));
    else
        combine(n, a, f, i);
}

/* ---- a reduction that two ranks share ---- */

/* A large reduction of two ranks, with the result at one or both, where each rank can read the
 * other's memory.  The ranks take chunks of the vector by a counter in shared memory.  The rank
 * that takes a chunk reads the peer's operand, combines, and writes the result into the buffers of
 * the ranks that get it.  One rank takes chunks from the front and the other from the back, so in
 * every call a rank works on the same part of a buffer.  The root takes more chunks, because a
 * chunk costs it less.  Once a chunk is taken, the other rank does not access its operands, so
 * results may replace operands.
 *
 * Cost: about m (b + c) (x + 2) / (2 x + 2), where a chunk takes the root x times as long as its
 * peer; against m (b + c) if the root works alone. */

/* What each of the two ranks publishes at the beginning of the half. */
struct here {
    _Alignas(RT_CACHE_LINE) uint64_t in, out; /* addresses */
    int64_t nbytes;                           /* there; both alike but in erroneous programs */
    uint64_t next;                            /* of rank 0: chunks taken */
};

static struct here *here_of(const struct coll_node *n, int rank)
{
    return (struct here *)(void *)coll_node_half(n, 0) + rank;
}

/* Does step 1 of the call: publishes where this rank's operand and result are.  The rank may write
 * into the half. */
static void pair_give(struct coll_node *n, const struct coll_args *a, uint64_t e)
{
    *here_of(n, n->team->rank) = (struct here){ (uint64_t)(uintptr_t)coll_input(a),
                                                (uint64_t)(uintptr_t)a->rbuf,
                                                coll_args_bytes(n->team, a), 0 };
    coll_node_publish(n, e, 1);
}

struct work {
    struct coll_team *team;
    int64_t elem_nbytes;
    const char *in;    /* own operand */
    char *out;         /* place of the result; NULL: only the peer gets it */
    char *scratch;     /* memory for a chunk; NULL: the peer's operand may be read into `out` */
    uint64_t peer_in;  /* the peer's operand, in the peer's memory */
    uint64_t peer_out; /* place of the result in the peer's memory; 0: the peer does not get it */
    rt_reduce_fn *fn;
};

static int do_chunk(const struct work *w, int64_t at, int64_t len)
{
    struct coll_team *t = w->team;
    const int peer = !t->rank;
    char *got = w->scratch ? w->scratch : w->out + at;
    int err = t->ops->peer_read(t, peer, got, w->peer_in + (uint64_t)at, (size_t)len);
    if (err < 0)
        return err;
    const char *own = w->in + at;
    char *out = w->out ? w->out + at : got;
    w->fn(t->rank == 0 ? own : got, t->rank == 0 ? got : own, out, len / w->elem_nbytes);
    return w->peer_out ? t->ops->peer_write(t, peer, w->peer_out + (uint64_t)at, out, (size_t)len)
                       : 0;
}

/* When the other rank has done the same.  Returns when all chunks have been taken and this rank's
 * are done: 0 or -RT_E... */
static int pair_work(struct coll_node *n, const struct coll_args *a)
{
    struct coll_team *t = n->team;
    const bool both = a->kind == COLL_ALLREDUCE;
    const bool gets = both || t->rank == a->root, peer_gets = both || t->rank != a->root;
    const bool from_back = both ? t->rank == 1 : !gets; /* takes the last chunks first */
    const struct here *peer = here_of(n, !t->rank);
    struct work w = {
        .team = t,
        .elem_nbytes = rt_elem_nbytes(a->rtype->elem),
        .in = coll_input(a),
        .out = gets ? a->rbuf : NULL,
        .peer_in = peer->in,
        .peer_out = peer_gets ? peer->out : 0,
        .fn = rt_reduce_find(a->op->code, a->rtype->elem),
    };
    if ((!gets || w.in == w.out) && !(w.scratch = coll_node_scratch(n)))
        return -RT_ENOMEM;
    int64_t nbytes = coll_args_bytes(t, a);
    nbytes = nbytes < peer->nbytes ? nbytes : peer->nbytes;
    int64_t half = (nbytes / 2 + 4095) & ~(int64_t)4095,
            chunk = half < COLL_NODE_PAIR_CHUNK ? half : COLL_NODE_PAIR_CHUNK;
    int64_t nchunks = coll_pieces(nbytes, chunk);
    for (int64_t mine = 0;; mine++) {
        if ((int64_t)__atomic_fetch_add(&here_of(n, 0)->next, 1, __ATOMIC_RELAXED) >= nchunks)
            return 0;
        struct coll_piece c = coll_piece_of(nbytes, chunk, from_back ? nchunks - 1 - mine : mine);
        int err = do_chunk(&w, c.at, c.len);
        if (err < 0)
            return err;
    }
}

/* ---- steps ---- */

/* Step 1 of a rank that takes part in a direct reduction, or, in an allreduce, says that it cannot.
 * The rank may write into the half. */
static void give_mode(struct coll_node *n, const struct coll_args *a, uint64_t e, bool direct)
{
    n->prog[n->team->rank].direct[n->half] = direct;
    if (rt_unlikely(n->poisoned))
        coll_node_poison(n, e);
    pair_give(n, a, e);
}

/* An allreduce of two ranks uses direct transfer if rank 0 wants that and both ranks can.  Step 1
 * of each rank publishes this.  0: not yet; 1: rings; 2: direct. */
static int agree(struct coll_node *n, const struct coll_args *a, const struct flow *f, uint64_t e)
{
    int rank = n->team->rank;
    if (!n->plan.written) {
        if (!coll_node_half_free(n, 0))
            return 0;
        bool can = a->rtype->contig && coll_node_all_read(n);
        give_mode(n, a, e, rank == 0 ? goes_directly(n, a, f->bytes) : can);
        n->plan.written = true;
    }
    n->plan.known = 0;
    if (!have_done(n, f, e, 1))
        return 0;
    n->plan.written = false;
    bool direct = n->prog[rank].direct[n->half] && n->prog[!rank].direct[n->half];
    if (!direct)
        n->way = COLL_NODE_STAGED;
    return direct ? 2 : 1;
}

/* Before the first piece.  0: not yet; 1: rings; 2: direct. */
static int begin(struct coll_node *n, const struct coll_task *k, const struct flow *f, uint64_t e)
{
    if (f->bytes >= direct_min(n, k->args.kind))
        coll_node_all_read(n); /* publishes whether this rank can read: the writer needs it */
    n->one_half = true;
    n->poisoned = k->lost;
    if (f->npieces == 0)
        return 1;
    if (f->first)
        return agree(n, &k->args, f, e);
    if (f->writes)
        return n->paced || !goes_directly(n, &k->args, f->bytes) ? 1 : 2;
    if (f->bytes >= direct_min(n, k->args.kind))
        coll_node_pace_read(n, k->args.kind, f->bytes);
    n->plan.known = 0;
    if (!have_done(n, f, e, 1))
        return 0;
    int writer = f->from == n->team->rank ? f->from + 1 : f->from;
    n->way = n->prog[writer].direct[n->half] ? COLL_NODE_DIRECT : COLL_NODE_STAGED;
    return n->way == COLL_NODE_DIRECT ? 2 : 1; /* direct only with a single writer */
}

/* Moves the pieces of a rank that only writes, or only takes.  False: not all yet. */
static bool go_on(struct coll_node *n, const struct coll_args *a, const struct flow *f, uint64_t e)
{
    for (int64_t i; (i = n->step) < f->npieces;) {
        if (f->writes ? !write_piece(n, a, f, e, i) : !have_done(n, f, e, i + 1))
            return false;
        if (f->takes)
            take_piece(n, a, f, e, i);
        n->step = i + 1; /* the end of the call publishes the last step */
        if (n->step < f->npieces && (f->writes || (f->npieces > f->slots && i % 2)))
            coll_node_publish(n, e, n->step);
    }
    return true;
}

/* The same for a rank that does both: it takes piece i - 1 after piece i is in its ring. */
static bool exchange(struct coll_node *n, const struct coll_args *a, const struct flow *f,
                     uint64_t e)
{
    for (int64_t i; (i = n->step) <= f->npieces; n->step = i + 1) {
        if (i < f->npieces && !n->plan.reading) {
            if (!write_piece(n, a, f, e, i))
                return false;
            coll_node_publish(n, e, f->first + i + 1);
        }
        n->plan.reading = true;
        if (i > 0 && !have_done(n, f, e, f->first + i))
            return false;
        n->plan.reading = false;
        if (i > 0)
            take_piece(n, a, f, e, i - 1);
    }
    return true;
}

static int end(struct coll_node *n, struct coll_task *k, int64_t npieces)
{
    if (n->paced)
        coll_node_pace_end(n);
    if (rt_unlikely(n->lost))
        coll_task_lose(k, n->lost);
    n->lost = 0;
    n->one_half = false;
    coll_node_leave_blocks(n, npieces > 0, false);
    return coll_node_end(n);
}

/* A reduction that two ranks share.  Ranks of an allreduce have done the first step. */
static int pair_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    const struct coll_args *a = &k->args;
    const int peer = !n->team->rank;
    uint64_t e = n->turn + 1;
    if (n->step == 0) {
        if (!coll_node_half_free(n, 0))
            return 0;
        give_mode(n, a, e, true);
        n->step = 1;
    }
    if (n->step == 1) {
        if (!coll_node_at(n, peer, e, 1))
            return 0;
        const bool gets = a->kind == COLL_ALLREDUCE || a->root != peer;
        if (rt_unlikely(gets && coll_node_is_poisoned(n, peer, e)))
            n->lost = -RT_EREMOTE;
        n->plan.err = pair_work(n, a);
        n->step = 2;
        coll_node_publish(n, e, 2);
    }
    if (!coll_node_at(n, peer, e, 2))
        return 0;
    int err = n->plan.err;
    end(n, k, 1);
    return err < 0 ? err : 1;
}

/* Whether two ranks share this direct reduce; the root reads that with the first step. */
static bool shares(const struct coll_node *n, const struct coll_args *a, int64_t bytes)
{
    if (a->kind != COLL_REDUCE)
        return false;
    return n->team->rank == a->root ? n->prog[!a->root].direct[n->half] == 1
                                    : bytes >= COLL_NODE_PAIR_MIN;
}

/* Runs the call by direct transfer. */
static int go_direct(struct coll_task *k, int64_t bytes)
{
    struct coll_node *n = k->team->node;
    const bool both = k->args.kind == COLL_ALLREDUCE;
    n->step = both;
    k->step = both || shares(n, &k->args, bytes) ? pair_step : coll_node_move_step;
    return k->step(k);
}

int coll_node_ring_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    const struct coll_args *a = &k->args;
    if (!coll_node_my_turn(n, k))
        return 0;
    uint64_t e = n->turn + 1;
    struct flow f = flow_of(n, a);
    if (n->step == 0) {
        int rc = begin(n, k, &f, e);
        if (rc == 1 && f.writes)
            n->plan.known = 0;
        if (rc == 2)
            return go_direct(k, f.bytes);
        if (rc == 0)
            return 0;
    }
    if (f.writes && f.takes ? !exchange(n, a, &f, e) : !go_on(n, a, &f, e))
        return 0;
    n->ring_pos = begins_at(n, &f) + (uint64_t)(f.npieces * f.piece);
    int rc = end(n, k, f.npieces);
    coll_node_populate(n, (a->kind == COLL_BCAST ? 1 : n->team->size) * f.slots * f.piece);
    return rc;
}
