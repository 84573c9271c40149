/* SPDX-License-Identifier: BSD-3-Clause */
/* node_block for kinds in which blocks move, or one rank reduces what it needs: larger collectives
 * in pieces through the halves of shared memory.  All kinds use the same loop.  Kinds differ in
 * which rank has a block for which rank (coll/args.h), and in whether incoming blocks are stored or
 * added.
 *
 * Step s of a rank: it copies piece s of its blocks in, then takes piece s - 1 of the other ranks'
 * blocks out.  Pieces alternate between the two halves.
 *  - Before it takes piece s - 1 of a rank's block out: that rank has done s steps.
 *  - Before it copies piece s in, from s = 2 on: all readers of its blocks have done s steps, and
 *    so have taken out piece s - 2, whose place piece s takes.
 *  - Before the first piece in each half: all ranks have finished the last call that used the half
 *    (node.h).
 *
 * A rank that has no more to copy in or out leaves the call; its progress word then counts as any
 * number of steps.  So ranks need not know each other's lengths; only a reader must know its
 * writer's.  No rank waits at the end: pieces that were copied in stay until all ranks have
 * finished the call.
 *
 * Cost: m / piece + 1 synchronisations with the ranks with which a rank exchanges data; every byte
 * is copied twice, between cores through a cache.  With a core for each rank pieces are small, so
 * that the two copies run at the same time and in a private cache.  If ranks outnumber cores,
 * pieces are as large as fits, because each step costs every rank a turn on its core.
 *
 * Swaps.  For the same reason, if ranks that outnumber the cores have blocks for each other, two
 * ranks share two places, one in each half, so that pieces are more than twice as long.  Piece s of
 * the lower rank lies in the half of its number, that of the higher rank in the other.  In step s a
 * rank takes piece s - 1 of each other rank out and puts its piece s for that rank in the same
 * place.  It first waits until the other rank has done s steps: that rank has then taken piece s -
 * 2 out of this place and put its own piece s - 1 in.  The first step uses both halves.
 *
 * Direct transfer.  Where the system lets processes read each other's memory, a rank whose blocks
 * are large and contiguous writes their addresses in place of the first pieces, and the readers
 * copy once, by process_vm_readv, without a shared cache.  Two cores that share no cache pass 2
 * GB/s through shared memory and 13 GB/s directly; two cores that share one 10 to 20 GB/s and 13
 * GB/s (Zen 5).  Each writer decides alone, for each call; between two ranks by the pace of both
 * ways (pace.c), and if both are writers, rank 0 decides for both.  A reader reads the decision
 * with the writer's first step, before that half of the writer's can be used again, and keeps it.
 * Such a writer stays in the call until its readers have done the step in which they read.  In
 * rooted calls readers publish where their data shall be put, and the writer copies a part
 * (reader_share()): with two ranks both copy; in a long gather or gatherv of more ranks than cores
 * each rank writes its own block, so no rank waits for the root to read; then the row of the root
 * has no data and holds an address for each writer.  `land` and this row are written again only in
 * a call that uses the half again, and that call waits until all ranks have finished this one.
 *
 * Small blocks of kinds whose ranks know only their own lengths go through the writer's line or
 * cell (node.h), which its readers share evenly.  The length alone decides, and both ranks of a
 * block know its length, so the reader knows where to look.  A call without large blocks costs one
 * line transfer, needs no plan and uses no half.  Every rank writes its line before it waits for
 * anything in the call.
 *
 * A half is divided into rows, one for each writer, and columns: one for each reader if blocks
 * differ by reader, else one.  Reductions have further rows, in which a reader builds results that
 * cannot be built in the user's buffer.  Only that reader accesses such a row, and only in a step
 * in which the blocks that it adds lie in the same half. */
#include "coll/node/choose.h"
#include "coll/node/move.h"

#include <stdlib.h>
#include <string.h>
#include "coll/sched.h"
#include "runtime/base/copy.h"
#include "runtime/base/err.h"

/* ---- the parts of a step ---- */

static void stage_in(const struct coll_node *n, struct coll_block d, int to, int64_t i)
{
    struct coll_piece pc = coll_piece_of(coll_move_nbytes(d), n->plan.piece, i);
    if (pc.len > 0)
        coll_piece_in(d.at, d.n, d.l, pc, coll_move_stage(n, n->team->rank, to, i));
}

static bool has_own(const struct coll_task *k)
{
    return !coll_move_adds(k->args.kind) &&
           coll_move_nbytes(coll_move_out(k->team, &k->args, k->team->rank)) > 0;
}

/* Copies at most `most` bytes of this rank's data for itself: small data while the other ranks'
 * lines are on their way, or in each step a piece while its input is in the cache, and at the end
 * the rest. */
static void copy_part(struct coll_node *n, const struct coll_args *a, int64_t most)
{
    struct coll_node_plan *p = &n->plan;
    int rank = n->team->rank;
    struct coll_block from = coll_args_sent(n->team, a, rank),
                      to = coll_args_received(n->team, a, rank);
    int64_t left = coll_move_nbytes(from) - p->own_copied;
    p->own_done = coll_move_adds(a->kind) || !from.l || !to.l || left <= most;
    if (coll_move_adds(a->kind) || !from.l || !to.l || left <= 0)
        return;
    if (!from.l->contig || !to.l->contig) { /* in one piece; large data not before the first step */
        p->own_done = p->own_done || p->piece;
        if (p->own_done)
            coll_copy(from.at, from.n, from.l, to.at, to.n, to.l);
        return;
    }
    int64_t len = left < most ? left : most;
    if (left <= 64)
        rt_copy_small(to.at + p->own_copied, from.at + p->own_copied, (size_t)left);
    else if (from.at != to.at)
        memcpy(to.at + p->own_copied, from.at + p->own_copied, (size_t)len);
    p->own_copied += len;
}

static inline void copy_own(struct coll_node *n, const struct coll_args *a, int64_t most)
{
    if (!n->plan.own_done && (!coll_is(a->kind, COLL_IS_ROOTED) || n->team->rank == a->root))
        copy_part(n, a, most);
}

static void give_address(const struct coll_node *n, int row, int to, const void *p)
{
    uint64_t at = (uint64_t)(uintptr_t)p;
    memcpy(coll_move_stage(n, row, to, 0), &at, sizeof at);
}

/* The root publishes the place of each rank's block in its own row, which carries no data. */
static void give_places(const struct coll_node *n, const struct coll_args *a)
{
    struct coll_move_place *to = (void *)coll_move_stage(n, n->team->rank, 0, 0);
    for (int from = 0; from < n->team->size; from++) {
        struct coll_block d = coll_move_in(n->team, a, from);
        to[from].at = d.l && d.l->contig ? (uint64_t)(uintptr_t)d.at : 0;
        to[from].nbytes = coll_move_nbytes(d);
    }
}

/* Writes how this rank's blocks move: as addresses or as data; and where others may put data for
 * this rank. */
static void write_mode(struct coll_node *n, const struct coll_args *a, uint64_t e)
{
    const struct coll_node_plan *p = &n->plan;
    const struct coll_team *t = n->team;
    struct coll_node_prog *own = &n->prog[t->rank];
    own->direct[n->half] = !p->direct ? 0 : p->share < 2 ? 1 : COLL_NODE_READER_ALONE;
    if (rt_unlikely(n->poisoned))
        coll_node_poison(n, e);
    if (p->lands) {
        struct coll_block d = coll_move_in(t, a, t->rank == a->root ? !a->root : a->root);
        if (coll_move_collects(a->kind))
            give_places(n, a);
        else {
            int64_t len = coll_move_nbytes(d);
            own->land[n->half] = d.l->contig ? (uint64_t)(uintptr_t)d.at : 0;
            own->room[n->half] = len < COLL_NODE_ROOM_MAX ? (uint32_t)len : COLL_NODE_ROOM_MAX;
        }
        if (!p->direct)
            coll_node_publish(n, e, 1);
    }
    if (!p->direct)
        return;
    for (int to = 0; to < t->size; to++) {
        const char *at = coll_move_out(t, a, to).at;
        if (to != t->rank && at)
            give_address(n, t->rank, to, at);
    }
    coll_node_publish(n, e, 1);
}

/* Copies piece s in for all readers.  False: not yet. */
static bool write_piece(struct coll_node *n, const struct coll_args *a, uint64_t e, int64_t s)
{
    const struct coll_node_plan *p = &n->plan;
    const struct coll_team *t = n->team;
    bool own = p->own_staged && s < p->in_pieces, gives = s < p->out_pieces;
    if (!gives && !own && !(s == 0 && p->lands))
        return true;
    if (s < 2 && !coll_node_half_free(n, s))
        return false;
    if (s == 0)
        write_mode(n, a, e);
    for (; s >= 2 && n->next < t->size; n->next++)
        if (n->next != t->rank && coll_move_nbytes(coll_move_out(t, a, n->next)) &&
            !coll_node_at(n, n->next, e, s))
            return false;
    gives = gives && !p->direct;
    if (p->cols == 1) {
        int to = own ? t->rank : p->reader;
        if (own || gives)
            stage_in(n, coll_move_out(t, a, to), to, s);
        return true;
    }
    for (int i = own ? 0 : 1; i < (gives ? t->size : 1); i++) {
        int to = (t->rank + i) % t->size;
        stage_in(n, coll_move_out(t, a, to), to, s);
    }
    return true;
}

/* Call it with a rank's first piece. */
static void note_poison(struct coll_node *n, int from, uint64_t e)
{
    if (rt_unlikely(coll_node_is_poisoned(n, from, e)))
        n->lost = -RT_EREMOTE;
}

/* Step s of a call that swaps.  False: not yet done for all ranks. */
static bool swap_pieces(struct coll_node *n, const struct coll_args *a, uint64_t e, int64_t s)
{
    const struct coll_team *t = n->team;
    int64_t len = n->plan.piece;
    if (s == 0 && (!coll_node_half_free(n, 0) || !coll_node_half_free(n, 1)))
        return false;
    if (s == 0)
        write_mode(n, a, e);
    for (; n->next < t->size - 1; n->next++) {
        int rank = t->rank, other = (rank + 1 + n->next) % t->size;
        struct coll_block in = coll_move_in(t, a, other), out = coll_move_out(t, a, other);
        struct coll_piece taken = coll_piece_of(coll_move_nbytes(in), len, s - 1);
        bool takes = s > 0 && taken.len > 0, puts = coll_move_nbytes(out) > s * len;
        if ((takes || (s > 1 && puts)) && !coll_node_at(n, other, e, s))
            return false;
        if (takes && s == 1)
            note_poison(n, other, e);
        if (takes)
            coll_piece_out(in.at, in.n, in.l, taken, coll_move_stage(n, other, rank, s - 1));
        if (puts)
            stage_in(n, out, other, s);
    }
    return true;
}

/* ---- copies between processes ---- */

/* The reader's share, in whole pages. */
static int64_t pulled_bytes(const struct coll_node_plan *p, int64_t len)
{
    return p->share == 2 ? len : p->share == 0 ? 0 : (len / 2) & ~(int64_t)4095;
}

static uint64_t address_of(const struct coll_node *n, int from)
{
    uint64_t at;
    memcpy(&at, coll_move_stage(n, from, n->team->rank, 0), sizeof at);
    return at;
}

static void pull(struct coll_node *n, int from, void *to, uint64_t at, int64_t len)
{
    int err = len > 0 ? n->team->ops->peer_read(n->team, from, to, at, (size_t)len) : 0;
    if (err < 0)
        n->plan.err = err;
}

/* Private memory for data that cannot be read into their final place. */
static char *scratch(struct coll_node *n)
{
    char *p = coll_node_scratch(n);
    if (!p)
        n->plan.err = -RT_ENOMEM;
    return p;
}

/* Bytes at the place where a reader wants this rank's block.  Less than the block in erroneous
 * programs only. */
static int64_t room_of(const struct coll_node *n, int reader)
{
    uint32_t room = n->prog[reader].room[n->half];
    return room < COLL_NODE_ROOM_MAX ? room : INT64_MAX;
}

/* That place; at 0: the reader reads the block. */
static struct coll_move_place place_at(const struct coll_node *n, enum coll_kind k, int reader)
{
    const struct coll_move_place *to = (const void *)coll_move_stage(n, reader, 0, 0);
    if (coll_move_collects(k))
        return to[n->team->rank];
    return (struct coll_move_place){ n->prog[reader].land[n->half], room_of(n, reader) };
}

/* Writes the writer's share into the readers' buffers.  False: a reader has not published its
 * address yet. */
static bool push(struct coll_node *n, const struct coll_args *a, uint64_t e)
{
    struct coll_node_plan *p = &n->plan;
    struct coll_team *t = n->team;
    for (; n->next < t->size; n->next++) {
        struct coll_block d = coll_move_out(t, a, n->next);
        int64_t len = coll_move_nbytes(d), skip = pulled_bytes(p, len);
        if (n->next == t->rank || len == 0)
            continue;
        if (!coll_node_at(n, n->next, e, 1))
            return false;
        struct coll_move_place to = place_at(n, a->kind, n->next);
        if (!to.at)
            continue;
        p->pushed = true;
        len = to.nbytes < len ? to.nbytes : len; /* the reader expects less: an erroneous program */
        if (len <= skip)
            continue;
        int err = t->ops->peer_write(t, n->next, to.at + (uint64_t)skip, d.at + skip,
                                     (size_t)(len - skip));
        if (err < 0)
            p->err = err;
    }
    return true;
}

/* Whether all ranks to which this rank gave addresses have read; until then the user's data must
 * not change. */
static bool all_have_read(struct coll_node *n, const struct coll_args *a, uint64_t e)
{
    bool adds = coll_move_adds(a->kind);
    if (n->plan.share == 0 && n->plan.pushed)
        return true;
    for (; n->next < n->team->size; n->next++) {
        int64_t len = coll_move_nbytes(coll_move_out(n->team, a, n->next));
        int64_t steps = adds ? coll_pieces(len, n->plan.piece) + 1 : 2;
        if (n->next != n->team->rank && len > 0 && !coll_node_at(n, n->next, e, steps))
            return false;
    }
    return true;
}

/* Reads the whole block of a rank that has given its address.  False: that rank has not copied its
 * share yet. */
static bool read_direct(struct coll_node *n, int from, struct coll_block d, uint64_t e)
{
    struct coll_node_plan *p = &n->plan;
    int64_t len = coll_move_nbytes(d);
    uint64_t at = address_of(n, from);
    if (!d.l->contig) {
        char *tmp = scratch(n);
        for (int64_t i = 0; tmp && i * p->piece < len; i++) {
            struct coll_piece pc = coll_piece_of(len, p->piece, i);
            pull(n, from, tmp, at + (uint64_t)pc.at, pc.len);
            coll_piece_out(d.at, d.n, d.l, pc, tmp);
        }
        return true;
    }
    if (!p->pulled)
        pull(n, from, d.at, at, pulled_bytes(p, len));
    p->pulled = true;
    if (p->share < 2 && !coll_node_at(n, from, e, 2))
        return false;
    p->pulled = false;
    return true;
}

struct source { /* of a sum: piece i, from byte `at` of the block */
    const struct coll_node *n;
    const struct coll_args *a;
    int64_t i, at;
};

/* The data of a rank that gives no address. */
static const void *source_of(const void *arg, int from)
{
    const struct source *s = arg;
    if (from == s->n->team->rank && !s->n->plan.own_staged)
        return coll_move_out(s->n->team, s->a, from).at + s->at;
    return coll_move_stage(s->n, from, s->n->team->rank, s->i);
}

/* Whether the pieces of all ranks are added at once, when the last one is there; with two ranks
 * there is only one sum. */
static bool adds_at_end(const struct coll_node *n, const struct coll_args *a)
{
    return n->team->size > 2 && rt_reduce_is_wide(a->op->code, (enum rt_elem)a->rtype->elem);
}

static void add_all(struct coll_node *n, const struct coll_args *a, struct coll_block d,
                    struct coll_piece pc, int64_t i)
{
    struct coll_node_plan *p = &n->plan;
    const struct source s = { n, a, i, pc.at };
    enum rt_elem elem = (enum rt_elem)d.l->elem;
    char *out = d.l->contig ? d.at + pc.at : coll_move_spare(n, a->kind, i);
    rt_reduce_wide(a->op->code, elem, source_of, &s, p->nsources, out,
                   pc.len / rt_elem_nbytes(elem));
    p->acc = out;
}

/* Piece i of a rank that gives its address; with it come the next pieces.  They are read into the
 * result's place, if no input is there. */
static const char *pulled_piece(struct coll_node *n, int from, struct coll_block d,
                                struct coll_piece pc, int64_t i, char *out)
{
    struct coll_node_plan *p = &n->plan;
    int64_t batch = coll_move_most(1, COLL_NODE_PULL / p->piece),
            left = coll_move_nbytes(d) - pc.at;
    bool lands = d.l->contig && !p->own_staged && p->acc != out;
    char *to = lands ? out : scratch(n);
    if (to && i % batch == 0)
        pull(n, from, to, address_of(n, from) + (uint64_t)pc.at,
             left < batch * p->piece ? left : batch * p->piece);
    return to && !lands ? to + i % batch * p->piece : to;
}

/* Adds piece i of one rank, in rank order. */
static void add_piece(struct coll_node *n, const struct coll_args *a, int from, struct coll_block d,
                      struct coll_piece pc, int64_t i)
{
    struct coll_node_plan *p = &n->plan;
    const char *in = source_of(&(struct source){ n, a, i, pc.at }, from);
    char *out = d.l->contig ? d.at + pc.at : coll_move_spare(n, a->kind, i);
    if (adds_at_end(n, a)) {
        p->nsources++; /* ranks from 0 on */
        p->acc = in;
        return;
    }
    if (from != n->team->rank && n->direct[from])
        in = pulled_piece(n, from, d, pc, i, out);
    if (!in)
        return;
    if (!p->acc) {
        p->acc = in;
        return;
    }
    rt_reduce_find(a->op->code, d.l->elem)(p->acc, in, out, pc.len / rt_elem_nbytes(d.l->elem));
    p->acc = out;
}

/* Takes piece i of all other ranks' blocks out.  False: not all are there yet. */
static bool read_piece(struct coll_node *n, const struct coll_args *a, uint64_t e, int64_t i)
{
    struct coll_node_plan *p = &n->plan;
    int rank = n->team->rank, size = n->team->size;
    bool adds = coll_move_adds(a->kind);
    for (; n->next < size; n->next++) {
        int from = adds ? n->next : (rank + 1 + n->next) % size;
        if (from == rank && !adds)
            continue;
        struct coll_block d = coll_move_in(n->team, a, from);
        struct coll_piece pc = coll_piece_of(coll_move_nbytes(d), p->piece, i);
        if (pc.len <= 0)
            continue;
        bool direct = n->direct[from] && i > 0;
        if (from != rank && !direct && !coll_node_at(n, from, e, i + 1))
            return false;
        /* Valid with the first piece only: when its last piece is taken out here, the rank may be
         * in a later call. */
        if (i == 0) {
            n->direct[from] = direct = from != rank && n->prog[from].direct[n->half];
            if (from != rank && !p->out_pieces)
                n->way = direct ? COLL_NODE_DIRECT : COLL_NODE_STAGED; /* for the pace */
            /* the block is shorter than expected here: an erroneous program */
            if (p->share == 1 && n->prog[from].direct[n->half] == COLL_NODE_READER_ALONE)
                p->share = 2;
            note_poison(n, from, e);
        }
        p->any_direct = p->any_direct || direct;
        p->any_staged = p->any_staged || !direct;
        if (adds)
            add_piece(n, a, from, d, pc, i);
        else if (direct && i == 0 && !read_direct(n, from, d, e))
            return false;
        else if (!direct)
            coll_piece_out(d.at, d.n, d.l, pc, coll_move_stage(n, from, rank, i));
    }
    if (!adds && !p->any_staged) { /* all blocks have come at once */
        p->in_pieces = 1;
        p->steps = coll_move_most(p->out_pieces, 2);
    }
    if (p->acc) {
        struct coll_block d = { a->rbuf, coll_move_in(n->team, a, 0).n, a->rtype };
        struct coll_piece pc = coll_piece_of(coll_move_nbytes(d), p->piece, i);
        if (p->nsources > 1)
            add_all(n, a, d, pc, i);
        p->nsources = 0;
        if (p->acc != d.at + pc.at || !d.l->contig)
            coll_piece_out(d.at, d.n, d.l, pc, p->acc);
        p->acc = NULL;
    }
    return true;
}

/* Whether another rank may wait for this rank's step s.  A writer that gave its address waits for
 * the last step only. */
static bool worth_publishing(const struct coll_node *n, int64_t s)
{
    const struct coll_node_plan *p = &n->plan;
    bool by_piece = n->team->size > 2 || !p->any_direct;
    return (s < p->out_pieces && !(p->direct && s == 0)) ||
           (by_piece && s >= 1 && s + 1 < p->in_pieces) || s == 1 || s == p->in_pieces ||
           (s == 0 && p->leads);
}

static int move_end(struct coll_node *n, struct coll_task *k)
{
    enum coll_kind kind = k->args.kind;
    /* If every rank reads from every other rank, the last step shows that all ranks have finished
     * with the half that does not hold the last piece. */
    bool only_last = kind == COLL_ALLGATHER || kind == COLL_ALLTOALL ||
                     kind == COLL_REDUCE_SCATTER_BLOCK;
    only_last = only_last && !n->plan.direct && !n->plan.any_direct;
    int err = n->plan.err;
    if (n->plan.lands && !coll_move_collects(kind)) /* else a root that sends more would find it */
        n->prog[n->team->rank].land[n->half] = 0;
    coll_node_leave_blocks(n, n->plan.pieces, only_last);
    n->plan.piece = 0;
    n->plan.own_copied = 0;
    n->plan.own_done = false;
    n->one_half = false;
    if (n->paced)
        coll_node_pace_end(n);
    if (rt_unlikely(n->lost))
        coll_task_lose(k, n->lost);
    n->lost = 0;
    coll_node_end(n);
    coll_node_populate(n, n->plan.cycle);
    return err < 0 ? err : 1;
}

/* Until there is a plan.  -RT_ENOSPC: no memory, so the call must use messages; 0: not yet; 1:
 * planned; 2: no plan needed, all blocks went through lines and cells. */
static int prepare(struct coll_node *n, const struct coll_args *a, uint64_t e)
{
    int rc = 1;
    if (coll_move_has_small(a->kind)) {
        if (!n->plan.written) {
            rc = coll_move_small_write(n, a, e);
            if (rc <= 0)
                return rc;
            copy_own(n, a, COLL_NODE_CELL);
        }
        rc = coll_move_small_read(n, a, e);
    }
    if (rc == 2) {
        n->plan.err = 0;
        n->plan.pieces = -1;
        n->plan.cycle = 0;
        copy_own(n, a, INT64_MAX);
    }
    if (rc == 1)
        coll_move_plan(n, a);
    return rc;
}

int coll_node_move_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    struct coll_node_plan *p = &n->plan;
    if (!coll_node_my_turn(n, k))
        return 0;
    uint64_t e = n->turn + 1;
    n->poisoned = k->lost;
    if (!p->piece) {
        int rc = prepare(n, &k->args, e);
        if (rc <= 0)
            return rc < 0 ? coll_node_give_up(n, k) : 0;
        if (rc == 2) {
            n->plan.direct = n->plan.any_direct = false;
            return move_end(n, k);
        }
    }
    if (p->follows) {
        if (!coll_node_at(n, 0, e, 1)) {
            copy_own(n, &k->args, p->piece);
            return 0;
        }
        coll_move_follow(n);
    }
    while (n->step < p->steps) {
        int64_t s = n->step;
        if (!p->reading) {
            if (!(p->swaps ? swap_pieces : write_piece)(n, &k->args, e, s))
                return 0;
            if (s == 0 && p->out_pieces > 0 && !p->direct && has_own(k))
                coll_node_publish(n, e, 1); /* the readers can begin before what follows */
            copy_own(n, &k->args, p->piece);
            p->reading = true;
            n->next = 0;
        }
        if (s == 1 && p->direct && p->share < 2 && !push(n, &k->args, e))
            return 0;
        if (s > 0 && !p->swaps && !read_piece(n, &k->args, e, s - 1))
            return 0;
        if (s == 1 && p->reads_all)
            coll_node_all_started(n, e);
        p->reading = false;
        n->next = 0;
        n->step++;
        if ((n->step < p->steps || p->direct) && worth_publishing(n, s))
            coll_node_publish(n, e, s + 1);
    }
    copy_own(n, &k->args, INT64_MAX);
    if (p->direct && !all_have_read(n, &k->args, e))
        return 0;
    return move_end(n, k);
}
