/* SPDX-License-Identifier: BSD-3-Clause */
/* node_linear: scatter(v) and gather(v) of more than two ranks with a core each.  The root and each
 * other rank, a leaf, pass one block, and no leaf waits for another leaf's data.
 *
 * A block moves in the first of these ways that its length allows; both its ranks know the length:
 *  - inline: in the line, before the line's epoch;
 *  - staged: through the leaf's place in a half, copied in and out;
 *  - between two halves of the leaves, since one core cannot copy all long blocks fast enough: the
 *    root copies the blocks of the leaves that follow it (by_root()), process_vm_readv or writev;
 *    each other leaf copies its own block.  The leaves do that one after another (is_first()):
 *    31 readers of one process at the same time take twice as long (table), presumably because
 *    they wait for each other where the kernel looks up the pages;
 *  - of the longest blocks all leaves copy their own at the same time: that is faster, with and
 *    without huge pages.
 *
 * A call takes two numbers.  Lines of the first: each leaf's to the root.  Lines of the second: the
 * root writes those of the leaves, one for each; this is the only case in which a rank writes
 * another rank's line.  Before that all ranks have finished the last call that used the slot.  A
 * leaf writes the slot again in a later call, when it has read the line.
 *
 * In an erroneous program a rank may expect another length than its peer sends.  The rank then
 * takes what the line describes, up to its own length.  A rank whose peer has left the call does
 * not wait for the peer's line.
 *
 * Cost: for a leaf two line transfers and one copy.  Means over the ranks and the slowest, us,
 * blocks of 64 KiB, 32 ranks of a mesh Xeon, as bare copies, in two runs: all leaves at once 195
 * and 228, one after another 105 and 198, the root alone 144 and 274, both 51 and 101; staged 95
 * and 171. */
#include <stdlib.h>
#include "coll/node/choose.h"
#include "coll/node/line.h"
#include "coll/sched.h"

/* What a line says. */
enum what { NONE, INLINE, STAGED, ADDRESS, IN_TURN, WILL_WRITE, MOVED };

struct letter {
    uint64_t what;
    union {
        struct {
            uint64_t at; /* of the block, or where it shall go; 0: nowhere */
            int64_t nbytes;
        };
        char data[COLL_NODE_LINE - sizeof(uint64_t)];
    };
};
_Static_assert(sizeof(struct letter) == COLL_NODE_LINE, "the payload of a line");

enum way { AS_LINE, AS_PIECE, BY_ROOT, BY_LEAF, AT_ONCE };

static bool scatters(const struct coll_args *a) { return coll_is(a->kind, COLL_IS_FROM_ROOT); }

/* The block that moves between the root and a leaf, as this rank's argument; what the leaf has as
 * its own for itself is not it. */
static struct coll_block block_of(const struct coll_team *t, const struct coll_args *a, int leaf)
{
    int peer = t->rank == a->root ? leaf : a->root;
    bool sends = (t->rank == a->root) == scatters(a);
    return sends ? coll_args_sent(t, a, peer) : coll_args_received(t, a, peer);
}

static int64_t place_nbytes(const struct coll_node *n)
{
    return (int64_t)n->half_len / n->team->size & ~(int64_t)(RT_CACHE_LINE - 1);
}

static char *place_of(const struct coll_node *n, int leaf)
{
    return coll_node_half(n, 0) + leaf * place_nbytes(n);
}

/* Whether the root copies the long block of a leaf. */
static bool by_root(const struct coll_team *t, const struct coll_args *a, int leaf)
{
    int after = leaf - a->root;
    return 2 * (after < 0 ? after + t->size : after) < t->size;
}

static enum way way_of(const struct coll_node *n, const struct coll_args *a, int leaf, int64_t len)
{
    int64_t staged = scatters(a) ? COLL_NODE_STAGED_SCATTER : COLL_NODE_STAGED_GATHER,
            place = place_nbytes(n);
    if (len <= (int64_t)sizeof(((struct letter *)0)->data))
        return AS_LINE;
    if (len <= (staged < place ? staged : place))
        return AS_PIECE;
    if (len > COLL_NODE_HALVES_MOST / n->team->size)
        return AT_ONCE;
    return by_root(n->team, a, leaf) ? BY_ROOT : BY_LEAF;
}

/* ---- lines ---- */

static struct letter *letter_of(const struct coll_node *n, uint64_t e, int leaf)
{
    return (struct letter *)(void *)coll_node_line(n, e, leaf)->data;
}

/* Shows that the letter of call number e, to or from `leaf`, is there; `reader` looks for it. */
static void send_letter(const struct coll_node *n, uint64_t e, int leaf, int reader, bool lost)
{
    uint64_t epoch = rt_unlikely(lost) ? e | COLL_NODE_POISON : e;
    /* the letter before the epoch */
    rt_store_release(&coll_node_line(n, e, leaf)->epoch, epoch);
    n->team->ops->shm_wake(n->team, reader);
}

/* The letter to or from `leaf`, from `writer`; NULL: not there yet.  A letter of `NONE`: the writer
 * has left the call without one. */
static const struct letter *wait_letter(const struct coll_node *n, struct coll_task *k, uint64_t e,
                                        int leaf, int writer)
{
    static const struct letter none = { .what = NONE };
    if (coll_node_line_there(n, e, leaf, &k->lost))
        return letter_of(n, e, leaf);
    if (!coll_node_at(n, writer, n->turn + 1, 1)) /* a further cache line */
        return NULL;
    return coll_node_line_there(n, e, leaf, &k->lost) ? letter_of(n, e, leaf) : &none;
}

/* ---- copies ---- */

static void lose(struct coll_task *k, int err)
{
    if (err < 0)
        coll_task_lose(k, err);
}

/* Writes a block as a letter with data, or to the leaf's place. */
static void write_short(struct coll_node *n, struct coll_block d, int64_t len, int leaf,
                        enum way way, struct letter *to)
{
    char *at = way == AS_LINE ? to->data : place_of(n, leaf);
    to->what = way == AS_LINE ? INLINE : STAGED;
    coll_piece_in(d.at, d.n, d.l, (struct coll_piece){ 0, len }, at);
}

/* Address of a block for other processes: packed, if it has gaps.  0: out of memory. */
static uint64_t give_block(struct coll_node *n, struct coll_task *k, struct coll_block d,
                           int64_t len, int64_t *used)
{
    if (d.l->contig)
        return (uint64_t)(uintptr_t)d.at;
    char *at = n->packed ? n->packed + *used : NULL;
    if (at)
        coll_piece_in(d.at, d.n, d.l, (struct coll_piece){ 0, len }, at);
    else
        lose(k, -RT_ENOMEM);
    *used += len;
    return (uint64_t)(uintptr_t)at;
}

/* Reads a block of another process. */
static void take_block(struct coll_node *n, struct coll_task *k, struct coll_block d, int64_t len,
                       int from, const struct letter *l)
{
    struct coll_team *t = n->team;
    len = l->nbytes < len ? l->nbytes : len;
    if (!l->at)
        return;
    if (d.l->contig) {
        lose(k, t->ops->peer_read(t, from, d.at, l->at, (size_t)len));
        return;
    }
    char *tmp = coll_node_scratch(n);
    if (!tmp)
        lose(k, -RT_ENOMEM);
    for (int64_t i = 0, part = (int64_t)n->half_len; tmp && i * part < len; i++) {
        struct coll_piece p = coll_piece_of(len, part, i);
        lose(k, t->ops->peer_read(t, from, tmp, l->at + (uint64_t)p.at, (size_t)p.len));
        coll_piece_out(d.at, d.n, d.l, p, tmp);
    }
}

/* Takes what a letter brings. */
static void take(struct coll_node *n, struct coll_task *k, struct coll_block d, int64_t len,
                 int leaf, int from, const struct letter *l)
{
    if (l->what == INLINE || l->what == STAGED) {
        int64_t most = l->what == INLINE ? (int64_t)sizeof l->data : place_nbytes(n);
        struct coll_piece p = { 0, len < most ? len : most };
        coll_piece_out(d.at, d.n, d.l, p, l->what == INLINE ? l->data : place_of(n, leaf));
    } else {
        take_block(n, k, d, len, from, l);
    }
}

/* Writes a block to where a letter wants it. */
static void put(struct coll_node *n, struct coll_task *k, const char *from, int64_t len, int to,
                const struct letter *l)
{
    struct coll_team *t = n->team;
    len = l->nbytes < len ? l->nbytes : len;
    if (from && l->at)
        lose(k, t->ops->peer_write(t, to, l->at, from, (size_t)len));
}

/* Whether it is this leaf's turn.  Leaves stand in a queue in the order in which they come here. */
static bool is_first(struct coll_node *n)
{
    const uint64_t e = n->turn + 1, ranks = ((uint64_t)1 << COLL_NODE_STEP_BITS) - 1;
    if (!n->queued) {
        uint64_t own = e << COLL_NODE_STEP_BITS | (uint64_t)n->team->rank;
        uint64_t last = rt_exchange(&n->head->queue, own);
        n->behind = last >> COLL_NODE_STEP_BITS == e ? (int)(last & ranks) : -1;
        n->queued = true;
    }
    return n->behind < 0 || coll_node_at(n, n->behind, e, 1);
}

/* The root's block for itself. */
static void copy_own(const struct coll_team *t, const struct coll_args *a)
{
    struct coll_block from = coll_args_sent(t, a, t->rank), to = coll_args_received(t, a, t->rank);
    if (from.l && to.l && from.at != to.at)
        coll_copy(from.at, from.n, from.l, to.at, to.n, to.l);
}

/* ---- the calls, in phases: n->step; each returns whether the rank has done all ---- */

/* Whether a root may write the lines of the leaves. */
static bool may_write_lines(struct coll_node *n, uint64_t e)
{
    return e <= COLL_NODE_SLOTS || coll_node_finished(n, e - COLL_NODE_SLOTS);
}

/* Whether all leaves whose long blocks move otherwise than by this root have left the call. */
static bool have_left(struct coll_node *n, const struct coll_args *a)
{
    const struct coll_team *t = n->team;
    for (; n->next < t->size; n->next++) {
        struct coll_block d = block_of(t, a, n->next);
        if (n->next != t->rank && way_of(n, a, n->next, coll_block_nbytes(&d)) > AS_PIECE &&
            !coll_node_at(n, n->next, n->turn + 1, 1))
            return false;
    }
    return true;
}

/* Whether a leaf of a gather copies its block to the root. */
static bool leaf_writes(enum way way, struct coll_block d) { return way >= BY_LEAF && d.l->contig; }

/* Whether the root of a scatter copies this block to the leaf. */
static bool root_writes(enum way way, struct coll_block d) { return way == BY_ROOT && d.l->contig; }

/* Memory for the long blocks of a scatter that have gaps. */
static char *room_to_pack(const struct coll_team *t, const struct coll_args *a)
{
    int64_t nbytes = 0;
    for (int leaf = 0; leaf < t->size; leaf++) {
        struct coll_block d = block_of(t, a, leaf);
        nbytes += d.l && !d.l->contig && leaf != t->rank ? coll_block_nbytes(&d) : 0;
    }
    return nbytes > 0 ? malloc((size_t)nbytes) : NULL;
}

/* Whether a root writes into the half.  Its own block is not a measure: in place, it has none. */
static bool stages(const struct coll_node *n, const struct coll_args *a)
{
    const int rank = n->team->rank;
    bool found = false;
    for (int leaf = 0; leaf < n->team->size && scatters(a) && !found; leaf++) {
        struct coll_block d = block_of(n->team, a, leaf);
        found = leaf != rank && way_of(n, a, leaf, coll_block_nbytes(&d)) == AS_PIECE;
    }
    return found;
}

/* The root's letters: of a scatter each leaf's block, or where it is; of a gather where the blocks
 * go that the leaves copy. */
static void send_letters(struct coll_node *n, struct coll_task *k, uint64_t e)
{
    const struct coll_args *a = &k->args;
    const struct coll_team *t = n->team;
    const bool out = scatters(a);
    int64_t used = 0;
    n->packed = out ? room_to_pack(t, a) : NULL;
    for (int i = 1; i < t->size; i++) {
        int leaf = (t->rank + i) % t->size;
        struct coll_block d = block_of(t, a, leaf);
        int64_t len = coll_block_nbytes(&d);
        enum way way = way_of(n, a, leaf, len);
        struct letter *l = letter_of(n, e, leaf);
        if (len <= 0 || (!out && !leaf_writes(way, d)))
            continue;
        if (way <= AS_PIECE) {
            write_short(n, d, len, leaf, way, l);
        } else {
            *l = (struct letter){ .at = give_block(n, k, d, len, &used), .nbytes = len };
            l->what = way == AT_ONCE ? ADDRESS : root_writes(way, d) ? WILL_WRITE : IN_TURN;
        }
        send_letter(n, e, leaf, leaf, out && k->lost);
    }
}

/* Copies a leaf's block to where it wants it. */
static void put_out(struct coll_node *n, struct coll_task *k, struct coll_block d, int leaf,
                    const struct letter *place)
{
    const uint64_t e = n->turn + 2;
    if (place->what == NONE)
        return;
    put(n, k, d.at, coll_block_nbytes(&d), leaf, place);
    if (k->lost)
        send_letter(n, e, leaf, leaf, true);
    /* pairs with the acquire in scatter_leaf() */
    rt_store_release(&letter_of(n, e, leaf)->what, (uint64_t)MOVED);
    n->team->ops->shm_wake(n->team, leaf);
}

/* Takes a leaf's block, unless the leaf copies it.  `writes`: a leaf with a long block does. */
static void take_in(struct coll_node *n, struct coll_task *k, struct coll_block d, int leaf,
                    const struct letter *l, bool writes)
{
    const uint64_t e = n->turn + 2;
    if (l->what == NONE || (l->what == ADDRESS && writes))
        return;
    take(n, k, d, coll_block_nbytes(&d), leaf, leaf, l);
    if (l->what != ADDRESS)
        return;
    letter_of(n, e, leaf)->what = MOVED;
    send_letter(n, e, leaf, leaf, false);
}

/* The root's copies: its half of a scatter's long blocks; what the leaves of a gather do not
 * copy. */
static bool serve(struct coll_node *n, struct coll_task *k)
{
    const struct coll_args *a = &k->args;
    const struct coll_team *t = n->team;
    const bool out = scatters(a);
    for (; n->next < t->size; n->next++) {
        int leaf = (t->rank + n->next) % t->size;
        struct coll_block d = block_of(t, a, leaf);
        int64_t len = coll_block_nbytes(&d);
        enum way way = way_of(n, a, leaf, len);
        if (leaf == t->rank || len <= 0 || (out && !root_writes(way, d)))
            continue;
        const struct letter *l = wait_letter(n, k, n->turn + 1, leaf, leaf);
        if (!l)
            return false;
        if (out)
            put_out(n, k, d, leaf, l);
        else
            take_in(n, k, d, leaf, l, leaf_writes(way, d));
    }
    return true;
}

static bool root_step(struct coll_node *n, struct coll_task *k, uint64_t e)
{
    if (n->step == 0) {
        if (!may_write_lines(n, e + 1) || (stages(n, &k->args) && !coll_node_half_free(n, 0)))
            return false;
        send_letters(n, k, e + 1);
        copy_own(n->team, &k->args);
        n->step = 1;
        n->next = 0;
    }
    if (n->step == 1) {
        if (!serve(n, k))
            return false;
        n->step = 2;
        n->next = 0;
    }
    return have_left(n, &k->args);
}

static bool scatter_leaf(struct coll_node *n, struct coll_task *k, uint64_t e)
{
    const struct coll_args *a = &k->args;
    const int rank = n->team->rank;
    struct coll_block d = block_of(n->team, a, rank);
    int64_t len = coll_block_nbytes(&d);
    const bool lands = way_of(n, a, rank, len) == BY_ROOT && d.l->contig;
    if (len <= 0)
        return true;
    if (n->step == 0) {
        if (lands && !coll_node_may_write(n, e, 0))
            return false;
        if (lands) {
            *letter_of(n, e, rank) = (struct letter){ .what = ADDRESS,
                                                      .at = (uint64_t)(uintptr_t)d.at,
                                                      .nbytes = len };
            send_letter(n, e, rank, a->root, false);
        }
        n->step = 1;
    }
    const struct letter *l = wait_letter(n, k, e + 1, rank, a->root);
    if (!l)
        return false;
    /* pairs with the release in put_out() */
    uint64_t what = rt_load_acquire(&l->what);
    if ((what == WILL_WRITE && lands) || (what == IN_TURN && !is_first(n)))
        return false;
    if (what == MOVED)
        coll_node_line_there(n, e + 1, rank, &k->lost);
    else if (what != NONE)
        take(n, k, d, len, rank, a->root, l);
    return true;
}

static bool gather_leaf(struct coll_node *n, struct coll_task *k, uint64_t e)
{
    const struct coll_args *a = &k->args;
    const int rank = n->team->rank;
    struct coll_block d = block_of(n->team, a, rank);
    int64_t len = coll_block_nbytes(&d), used = 0;
    enum way way = way_of(n, a, rank, len);
    if (len <= 0)
        return true;
    if (n->step == 0) {
        if ((way == AS_PIECE && !coll_node_half_free(n, 0)) || !coll_node_may_write(n, e, 0))
            return false;
        struct letter *l = letter_of(n, e, rank);
        if (way <= AS_PIECE) {
            write_short(n, d, len, rank, way, l);
        } else {
            n->packed = d.l->contig ? NULL : malloc((size_t)len);
            *l = (struct letter){ .what = ADDRESS,
                                  .at = give_block(n, k, d, len, &used),
                                  .nbytes = len };
        }
        send_letter(n, e, rank, a->root, k->lost);
        n->step = 1;
    }
    if (way <= AS_PIECE)
        return true;
    const struct letter *place = wait_letter(n, k, e + 1, rank, a->root);
    if (!place || (place->what == IN_TURN && !is_first(n)))
        return false;
    if (place->what == IN_TURN || place->what == ADDRESS)
        put(n, k, d.l->contig ? d.at : n->packed, len, a->root, place);
    return true;
}

bool coll_node_linear_is_short(const struct coll_node *n, const struct coll_task *k)
{
    const struct coll_args *a = &k->args;
    return coll_forms[a->kind].bytes == COLL_BYTES_BLOCK &&
           way_of(n, a, a->root, k->bytes) <= AS_PIECE;
}

int coll_node_linear_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    const struct coll_args *a = &k->args;
    if (!coll_node_my_turn(n, k))
        return 0;
    const uint64_t e = n->turn + 1;
    const bool root = k->team->rank == a->root;
    if (!(root ? root_step : scatters(a) ? scatter_leaf : gather_leaf)(n, k, e))
        return 0;
    free(n->packed);
    n->packed = NULL;
    n->queued = false;
    coll_node_leave_blocks(n, 1, true);
    return coll_node_end(n);
}
