/* SPDX-License-Identifier: BSD-3-Clause */
/* node_block: larger collectives through blocks of shared memory, in pieces of a block, as a
 * pipeline of steps.
 *
 * reduce, allreduce: step s copies piece s of the input in, reduces this rank's slice of piece s -
 * 1 over all ranks, and copies the result of piece s - 2 out; before a step all ranks have done
 * the one before.  Pieces alternate between two halves.  Input half: piece s overwrites s - 2,
 * which all have reduced by step s - 1.  Result half: step s writes piece s - 1 over s - 3, which
 * all have copied out by step s - 1.  2 m/block + 2 synchronisations, each rank reads and writes
 * m/p for the reduction: best when ranks outnumber cores, where messages cost context switches.
 * After the last step nobody reads an input half any more, and the result halves are written again
 * only in a step 1, which all ranks reach by finishing this call first; so the next such call
 * waits for nothing.
 *
 * bcast: the root copies piece s in once all have taken s - 2 out.  Afterwards `block_busy` keeps
 * the root from writing its blocks before all have finished. */
#include "coll/node/node.h"

#include <string.h>
#include "coll/algo/algo.h"
#include "runtime/base/err.h"

static char *input_half(const struct coll_node *n, int rank, int64_t piece)
{
    return n->blocks + (2 * (size_t)rank + (piece & 1)) * n->block_len;
}

static char *result_half(const struct coll_node *n, int64_t piece)
{
    return input_half(n, n->team->size, piece);
}

/* Whether the ranks from n->next up to `to` have all done `steps` steps of call e. */
static bool all_at(struct coll_node *n, uint64_t e, int64_t steps, int to)
{
    uint64_t want = (e - 1) << COLL_NODE_STEP_BITS | (uint64_t)steps;
    for (; n->next < to; n->next++)
        if (rt_load_acquire(&n->prog[n->next].word) <
            want) /* pairs with the release in coll_node_publish() */
            return false;
    return true;
}

struct piece {
    int64_t at, len;
};

static struct piece piece_of(const struct coll_node *n, int64_t bytes, int64_t i)
{
    int64_t at = i * (int64_t)n->block_len, left = bytes - at;
    return (struct piece){ at, left < (int64_t)n->block_len ? left : (int64_t)n->block_len };
}

/* Moves a piece of the packed form between a user's buffer and shared memory. */
static void copy_in(const void *buf, int64_t n, const struct rt_layout *l, struct piece p, void *to)
{
    if (l->contig)
        memcpy(to, (const char *)buf + p.at, (size_t)p.len);
    else
        rt_layout_pack(l, n, buf, p.at, to, p.len);
}

static void copy_out(void *buf, int64_t n, const struct rt_layout *l, struct piece p,
                     const void *from)
{
    if (l->contig)
        memcpy((char *)buf + p.at, from, (size_t)p.len);
    else
        rt_layout_unpack(l, n, buf, p.at, from, p.len);
}

/* This rank's slice of a piece; slices are whole cache lines, so that no line has two writers. */
static struct piece slice_of(const struct coll_node *n, struct piece p)
{
    int size = n->team->size, rank = n->team->rank;
    int64_t lines = (p.len + RT_CACHE_LINE - 1) / RT_CACHE_LINE;
    int64_t lo = coll_cut(lines, size, rank) * RT_CACHE_LINE;
    int64_t hi = coll_cut(lines, size, rank + 1) * RT_CACHE_LINE;
    hi = hi < p.len ? hi : p.len;
    return (struct piece){ lo, hi > lo ? hi - lo : 0 };
}

/* Copies in what other ranks reduce; the own slice only when it cannot be read where it is. */
static void share_input(const struct coll_node *n, const struct coll_args *a, struct piece p,
                        int64_t i)
{
    const void *in = coll_input(a);
    char *half = input_half(n, n->team->rank, i);
    struct piece own = slice_of(n, p);
    if (!a->rtype->contig || own.len == 0) {
        copy_in(in, a->rcount, a->rtype, p, half);
        return;
    }
    int64_t after = own.at + own.len;
    copy_in(in, a->rcount, a->rtype, (struct piece){ p.at, own.at }, half);
    copy_in(in, a->rcount, a->rtype, (struct piece){ p.at + after, p.len - after }, half + after);
}

/* What this rank's slice of a rank's input is read from. */
static const char *slice_input(const struct coll_node *n, const struct coll_args *a, struct piece p,
                               int64_t i, int rank, int64_t lo)
{
    if (rank == n->team->rank && a->rtype->contig)
        return (const char *)coll_input(a) + p.at + lo;
    return input_half(n, rank, i) + lo;
}

static void reduce_slice(const struct coll_node *n, const struct coll_args *a, struct piece p,
                         int64_t i)
{
    struct piece own = slice_of(n, p);
    if (own.len == 0)
        return;
    rt_reduce_fn *fn = rt_reduce_find(a->op->code, a->rtype->elem);
    int64_t elems = own.len / rt_elem_nbytes(a->rtype->elem);
    char *out = result_half(n, i) + own.at;
    const char *acc = slice_input(n, a, p, i, 0, own.at);
    for (int r = 1; r < n->team->size; r++) {
        fn(acc, slice_input(n, a, p, i, r, own.at), out, elems);
        acc = out;
    }
}

static int reduce_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    const struct coll_args *a = &k->args;
    if (!coll_node_my_turn(n, k))
        return 0;
    uint64_t e = n->turn + 1;
    int64_t bytes = a->rcount * a->rtype->size,
            npieces = (bytes + (int64_t)n->block_len - 1) / (int64_t)n->block_len;
    if (n->step == 0) {
        int rc = coll_node_blocks(n);
        if (rc < 0)
            return coll_node_give_up(n, k);
        if (rc == 0 || !coll_node_finished(n, n->block_busy))
            return 0;
    }
    bool takes = a->kind == COLL_ALLREDUCE || n->team->rank == a->root;
    while (n->step < npieces + 2) {
        int64_t s = n->step;
        if (s > 0 && !all_at(n, e, s, n->team->size))
            return 0;
        if (s > 0 && s <= npieces)
            reduce_slice(n, a, piece_of(n, bytes, s - 1), s - 1);
        if (s < npieces)
            share_input(n, a, piece_of(n, bytes, s), s);
        n->step++;
        n->next = 0;
        /* The copy out below is covered by the next step's word, or by the end of the call. */
        if (s >= 2 && takes)
            copy_out(a->rbuf, a->rcount, a->rtype, piece_of(n, bytes, s - 2),
                     result_half(n, s - 2));
        if (s < npieces + 1)
            coll_node_publish(n, e, s + 1);
    }
    if (n->seen < e - 1)
        n->seen = e - 1;
    return coll_node_end(n);
}

static int start_reduce(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    (void)a;
    coll_node_begin(t->node, k);
    k->step = reduce_step;
    return 0;
}

static int bcast_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    const struct coll_args *a = &k->args;
    if (!coll_node_my_turn(n, k))
        return 0;
    uint64_t e = n->turn + 1;
    bool root = n->team->rank == a->root;
    int64_t bytes = a->rcount * a->rtype->size,
            npieces = (bytes + (int64_t)n->block_len - 1) / (int64_t)n->block_len;
    if (n->step == 0) {
        int rc = coll_node_blocks(n);
        if (rc < 0)
            return coll_node_give_up(n, k);
        if (rc == 0 || (root && !coll_node_finished(n, n->block_busy)))
            return 0;
    }
    for (; n->step < npieces; n->step++) {
        int64_t s = n->step;
        struct piece p = piece_of(n, bytes, s);
        char *half = input_half(n, a->root, s);
        if (root) {
            if (s >= 2 && !all_at(n, e, s - 1, n->team->size))
                return 0;
            copy_in(a->rbuf, a->rcount, a->rtype, p, half);
        } else {
            n->next = a->root;
            if (!all_at(n, e, s + 1, a->root + 1))
                return 0;
            copy_out(a->rbuf, a->rcount, a->rtype, p, half);
        }
        n->next = 0;
        coll_node_publish(n, e, s + 1);
    }
    if (root)
        n->block_busy = e;
    return coll_node_end(n);
}

static int start_bcast(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    (void)a;
    coll_node_begin(t->node, k);
    k->step = bcast_step;
    return 0;
}

#define REDUCE_NEEDS (COLL_NEED_ONE_NODE | COLL_NEED_BUILTIN_OP)

const struct coll_alg coll_node_block_algs[] = {
    { "node_block", "pieces through shared memory", COLL_BCAST, COLL_NEED_ONE_NODE, start_bcast },
    { "node_block", "every rank reduces a slice in shared memory", COLL_REDUCE, REDUCE_NEEDS,
      start_reduce },
    { "node_block", "every rank reduces a slice in shared memory", COLL_ALLREDUCE, REDUCE_NEEDS,
      start_reduce },
    { 0 },
};
