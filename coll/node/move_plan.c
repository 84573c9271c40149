/* SPDX-License-Identifier: BSD-3-Clause */
/* How a call of move.c divides its blocks, and which blocks move directly. */

#include "coll/node/move.h"
#include "coll/node/choose.h"

#define NEVER (INT64_MAX / 2)
struct shape {
    int rows, cols, spare; /* spare: rows for results */
};

/* Rows: one for each writer; columns: one for each reader if blocks differ by reader. */
static struct shape shape_of(enum coll_kind k, int size)
{
    return (struct shape){ .rows = coll_is(k, COLL_IS_FROM_ROOT) ? 1 : size,
                           .cols = coll_shape(k, COLL_SEND) > COLL_SIDE_ONE ? size : 1,
                           .spare = coll_is(k, COLL_IS_PREFIX) ? size : coll_move_adds(k) };
}

/* Pieces of equal length that share a half. */
static int64_t places_of(enum coll_kind k, int size)
{
    struct shape sh = shape_of(k, size);
    return (sh.rows + sh.spare) * (int64_t)sh.cols;
}

static int64_t longest_piece(enum coll_kind k, int size, bool swaps)
{
    int64_t places = swaps ? size * (size - 1) / 2 : places_of(k, size);
    return (int64_t)coll_node_half_len(size) / places & ~(int64_t)(RT_CACHE_LINE - 1);
}

/* A call without data is half of a barrier among the ranks of a host (coll/hier/local.c).  The
 * algorithms that move blocks would not wait for the other ranks. */
static bool is_signal(const struct coll_args *a, int64_t bytes)
{
    return bytes == 0 && (a->kind == COLL_BCAST || a->kind == COLL_GATHER);
}

bool coll_node_block_fits(const struct coll_team *t, const struct coll_args *a, int64_t bytes)
{
    return places_of(a->kind, t->size) * COLL_NODE_MOVE_PIECE_MIN <=
               (int64_t)coll_node_half_len(t->size) &&
           !is_signal(a, bytes);
}

/* Longest piece of two ranks with a core each.  Where one rank writes and the other reads, two
 * pieces at least, so that both copy at the same time. */
static int64_t pair_piece(const struct coll_team *t, const struct coll_args *a)
{
    if (!coll_is(a->kind, COLL_IS_ROOTED))
        return COLL_NODE_MOVE_PIECE_TWO;
    int64_t len = coll_move_nbytes(coll_move_out(t, a, !t->rank)) +
                  coll_move_nbytes(coll_move_in(t, a, !t->rank));
    int64_t piece = COLL_NODE_MOVE_PIECE;
    while (piece < COLL_NODE_MOVE_PIECE_TWO && 4 * piece <= len)
        piece *= 2;
    return piece;
}

/* Number of pieces of the whole call, computed from facts that all ranks know; -1 if these are not
 * enough. */
static int64_t pieces_of(const struct coll_team *t, const struct coll_args *a, int64_t piece)
{
    enum coll_measure known = (enum coll_measure)coll_forms[a->kind].bytes;
    if (known == COLL_BYTES_UNKNOWN || known == COLL_BYTES_MEAN || a->rcounts)
        return -1;
    if (known == COLL_BYTES_SUM)
        return coll_pieces(a->rcount * a->rtype->size, piece);
    return coll_pieces(coll_args_bytes(t, a), piece);
}

/* Whether each rank may have long blocks for each other one, and the longest pieces are best.  8
 * ranks on 2 cores (Zen 5), alltoall of blocks of 1 MiB, time over that with a place for each
 * direction in each half: 0.83; 64 KiB 0.75; 4 ranks, 1 MiB 0.87. */
static bool swaps(const struct coll_node *n, const struct coll_args *a)
{
    int size = n->team->size;
    return n->crowded && size > 2 && coll_shape(a->kind, COLL_SEND) >= COLL_SIDE_ROW &&
           coll_shape(a->kind, COLL_RECV) >= COLL_SIDE_ROW &&
           pieces_of(n->team, a, longest_piece(a->kind, size, false)) != 1;
}

static int64_t least_each(int64_t piece)
{
    int64_t least = COLL_NODE_EACH_PIECES * piece + 1;
    return least < COLL_NODE_EACH_MIN ? least : COLL_NODE_EACH_MIN;
}

/* The shortest block that moves directly. */
static int64_t direct_min(const struct coll_node *n, enum coll_kind k)
{
    struct shape sh = shape_of(k, n->team->size);
    if (n->crowded && coll_is(k, COLL_IS_ROOTED) && (sh.rows > 1 || sh.cols > 1) &&
        !coll_move_adds(k))
        return (sh.rows > 1 ? COLL_NODE_GATHER_CROWDED_MIN : COLL_NODE_SCATTER_CROWDED_MIN) /
               n->team->size;
    if (n->crowded)
        return NEVER;
    if (n->team->size == 2)
        return COLL_NODE_PACED_MIN_TWO;
    if (sh.rows > 2 && sh.cols > 1)
        return least_each(longest_piece(k, n->team->size, false));
    return COLL_NODE_PACED_MIN;
}

/* Whether this rank gives its readers addresses. */
static bool gives_addresses(struct coll_node *n, const struct coll_args *a)
{
    const struct coll_team *t = n->team;
    bool large = false;
    struct shape sh = shape_of(a->kind, t->size);
    int64_t least = direct_min(n, a->kind);
    /* With more than two ranks a reduction would lose the cores that copy in at the same time. */
    if (coll_move_adds(a->kind) && t->size > 2)
        return false;
    if (sh.rows > 1 && sh.cols > 1 && a->sbuf == COLL_IN_PLACE)
        return false; /* incoming data would overwrite data not yet read */
    for (int i = 0; i < t->size; i++) {
        struct coll_block d = coll_move_out(t, a, i);
        if (i == t->rank || coll_move_nbytes(d) == 0)
            continue;
        if (!d.l->contig)
            return false;
        large = large || coll_move_nbytes(d) >= least;
    }
    return large;
}

/* The reader's share of data that moves directly: 2: all, 1: half, 0: nothing.  Writer and reader
 * both copy, if they are two ranks with a core each and the block is not short; if many writers
 * have one reader, each writer copies its own data. */
static int reader_share(const struct coll_node *n, enum coll_kind k, int64_t most)
{
    int size = n->team->size;
    bool room = n->plan.piece >= size * (int64_t)sizeof(struct coll_move_place);
    if (coll_is(k, COLL_IS_ROOTED) && !coll_move_adds(k) && size == 2 && !n->crowded)
        return most < COLL_NODE_SHARED_MIN ? 2 : 1;
    return coll_move_collects(k) && room ? 0 : 2;
}

/* The longest block for this rank (block_of: coll_move_in), or of this rank for another one
 * (coll_move_out). */
static int64_t longest(const struct coll_team *t, const struct coll_args *a,
                       struct coll_block (*block_of)(const struct coll_team *,
                                                     const struct coll_args *, int))
{
    int64_t most = 0;
    for (int i = 0; i < t->size; i++)
        if (i != t->rank)
            most = coll_move_most(most, coll_move_nbytes(block_of(t, a, i)));
    return most;
}

/* This rank's blocks move directly. */
static void go_directly(struct coll_node_plan *p)
{
    p->direct = true;
    p->out_pieces = 1;
    p->steps = coll_move_most(p->share < 2 ? 2 : 1, p->in_pieces ? p->in_pieces + 1 : 0);
}

/* Between two ranks the pace decides about blocks that could move directly, each way `most`
 * bytes.  Where both have such a block for the other, rank 0 decides for both: a call in which one
 * streams and the other does not is slower than either way.  (Broadcasts and reduces that come here
 * have been decided in ring.c.) */
static bool decides(struct coll_node *n, const struct coll_args *a, int64_t most, bool takes)
{
    if (n->team->size > 2 || a->kind == COLL_REDUCE || a->kind == COLL_BCAST)
        return true;
    n->plan.follows = n->team->rank == 1 && takes;
    return !n->plan.follows && coll_node_pace_begin(n, a->kind, most);
}

static void plan_direct(struct coll_node *n, const struct coll_args *a)
{
    struct coll_node_plan *p = &n->plan;
    const struct coll_team *t = n->team;
    int64_t least = direct_min(n, a->kind);
    int64_t in = longest(t, a, coll_move_in),
            most = coll_move_most(in, longest(t, a, coll_move_out));
    p->share = reader_share(n, a->kind, most);
    bool takes = in >= least, direct = false; /* takes: this rank's buffer can take a long block */
    if (most >= least && coll_node_all_read(n))
        direct = p->out_pieces > 0 && gives_addresses(n, a);
    if (p->in_pieces && !p->out_pieces && most >= least && !n->crowded)
        coll_node_pace_read(n, a->kind, most);
    if (t->size == 2 && !n->crowded && most >= least)
        p->cycle = p->places * p->rows * p->cols * p->piece;
    p->lands = p->share < 2 && takes;
    p->leads = t->size == 2 && t->rank == 0 && takes && !coll_is(a->kind, COLL_IS_ROOTED);
    if (direct && decides(n, a, most, takes))
        go_directly(p);
}

void coll_move_follow(struct coll_node *n)
{
    n->plan.follows = false;
    if (n->prog[0].direct[n->half])
        go_directly(&n->plan);
}

void coll_move_plan(struct coll_node *n, const struct coll_args *a)
{
    const struct coll_team *t = n->team;
    struct shape sh = shape_of(a->kind, t->size);
    struct coll_node_plan *p = &n->plan;
    bool in_turn = swaps(n, a);
    int64_t piece = longest_piece(a->kind, t->size, in_turn), own = 0;
    int nread = 0;
    *p = (struct coll_node_plan){ .cols = sh.cols,
                                  .one_writer = sh.rows == 1,
                                  .own_copied = p->own_copied,
                                  .own_done = p->own_done,
                                  .swaps = in_turn };
    int64_t most = n->crowded ? piece : t->size == 2 ? pair_piece(t, a) : COLL_NODE_MOVE_PIECE;
    p->piece = piece < most ? piece : most;
    p->rows = sh.rows + sh.spare;
    p->places = coll_move_most(1, COLL_NODE_MOVE_CYCLE / (p->rows * p->cols * p->piece));
    for (int i = 0; i < t->size; i++) {
        int64_t out = coll_pieces(coll_move_nbytes(coll_move_out(t, a, i)), p->piece),
                in = coll_pieces(coll_move_nbytes(coll_move_in(t, a, i)), p->piece);
        if (i == t->rank) {
            own = coll_move_adds(a->kind) ? in : 0;
            continue;
        }
        if (out)
            p->reader = i;
        p->out_pieces = coll_move_most(p->out_pieces, out);
        p->in_pieces = coll_move_most(p->in_pieces, in);
        nread += in > 0;
    }
    p->reads_all = nread == t->size - 1;
    p->in_pieces = coll_move_most(p->in_pieces, own);
    p->steps = coll_move_most(p->out_pieces, p->in_pieces ? p->in_pieces + 1 : 0);
    p->pieces = n->one_half ? 1 : in_turn ? -1 : pieces_of(t, a, p->piece);
    /* In place, results may overwrite this rank's input before it is read. */
    p->own_staged = own && coll_move_nbytes(coll_move_out(t, a, t->rank)) &&
                    (!a->rtype->contig || (a->sbuf == COLL_IN_PLACE && t->rank > 0));
    plan_direct(n, a);
}

char *coll_move_stage(const struct coll_node *n, int from, int to, int64_t i)
{
    const struct coll_node_plan *p = &n->plan;
    if (p->swaps) {
        int low = from < to ? from : to, high = from < to ? to : from;
        return coll_node_half(n, i + (from > to)) + (high * (high - 1) / 2 + low) * p->piece;
    }
    int64_t row = p->one_writer ? 0 : from, col = p->cols > 1 ? to : 0;
    int64_t place = ((int64_t)n->turn + i / 2) % p->places;
    return coll_node_half(n, i) + ((place * p->rows + row) * p->cols + col) * p->piece;
}

char *coll_move_spare(const struct coll_node *n, enum coll_kind k, int64_t i)
{
    int rank = n->team->rank, size = n->team->size;
    bool own_row = coll_is(k, COLL_IS_PREFIX);
    return coll_move_stage(n, own_row ? size + rank : size, rank, i);
}
