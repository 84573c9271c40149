/* SPDX-License-Identifier: BSD-3-Clause */
/* node_direct: long allreduce, reduce and reduce_scatter of ranks with a core each.  As in block.c
 * every rank reduces a slice, but it reads the slice out of the other ranks' own buffers
 * (process_vm_readv): no rank copies its input into shared memory, where it would be read once.
 *
 * Step 0 publishes the address of the input.  Step s reduces this rank's slice of piece s - 1 into
 * the half of that piece, and copies the result of piece s - 2 out.  Before a step, all ranks have
 * done the step before it.  So the result of piece s - 1 overwrites that of piece s - 3, which all
 * ranks have copied out; in place, the result of piece s - 2 overwrites input that all ranks have
 * read; and after the last step no rank reads this rank's input.
 *
 * A rank reads its slices in turn, from its own rank on, so that few ranks read from the same rank
 * at the same time; it combines them in rank order, from private memory.  A rank that cannot read
 * a slice poisons the call: node.h.
 *
 * In a reduce_scatter the slice is the rank's block, and the result its buffer.
 *
 * Cost: m / piece + 2 synchronisations.  A rank reads m, and m as the result. */
#include <stdlib.h>
#include "coll/node/block.h"
#include "coll/node/choose.h"
#include "coll/node/line.h"
#include "coll/sched.h"

struct source { /* of a slice of `len` bytes */
    const char *all, *own;
    int64_t len;
    int rank; /* whose slice is at `own` */
};

static const void *source_of(const void *arg, int rank)
{
    const struct source *s = arg;
    return rank == s->rank ? s->own : s->all + rank * s->len;
}

static void lose(struct coll_node *n, struct coll_task *k, int err)
{
    coll_task_lose(k, err);
    coll_node_poison(n, n->turn + 1);
}

/* The packed form of this rank's input; NULL: out of memory. */
static const char *packed_input(struct coll_node *n, const struct coll_args *a, int64_t bytes)
{
    if (a->rtype->contig)
        return coll_input(a);
    n->packed = malloc((size_t)bytes);
    if (n->packed)
        coll_node_pack(n->packed, coll_input(a), bytes / a->rtype->size, a->rtype);
    return n->packed;
}

/* Step 0. */
static void give_input(struct coll_node *n, struct coll_task *k, int64_t bytes)
{
    const char *in = bytes ? packed_input(n, &k->args, bytes) : NULL;
    if (bytes && !in)
        lose(n, k, -RT_ENOMEM);
    n->prog[n->team->rank].land[n->half] = (uint64_t)(uintptr_t)in;
}

/* In the last step: all ranks have read the input. */
static void take_back(struct coll_node *n)
{
    n->prog[n->team->rank].land[n->half] = 0;
    free(n->packed);
    n->packed = NULL;
}

/* Reduces `len` bytes at byte `at` of all ranks' packed inputs; size * len: at most a half. */
static void reduce_at(struct coll_node *n, struct coll_task *k, int64_t at, int64_t len, char *out)
{
    struct coll_team *t = n->team;
    char *all = coll_node_scratch(n);
    int err = all ? 0 : -RT_ENOMEM;
    for (int j = 1; j < t->size && !err && len; j++) {
        int from = (t->rank + j) % t->size;
        uint64_t in = n->prog[from].land[n->half];
        err = in ? t->ops->peer_read(t, from, all + from * len, in + (uint64_t)at, (size_t)len)
                 : -RT_EREMOTE;
    }
    if (err < 0) {
        lose(n, k, err);
        return;
    }
    const char *own = (const char *)(uintptr_t)n->prog[t->rank].land[n->half];
    const struct source s = { all, own + at, len, t->rank };
    if (len)
        coll_node_fold(&k->args, source_of, &s, t->size, out, len);
}

static void reduce_slice(struct coll_node *n, struct coll_task *k, struct coll_piece p, int64_t i)
{
    struct coll_piece own = coll_node_slice(n, p);
    reduce_at(n, k, p.at + own.at, own.len, coll_node_half(n, i) + own.at);
}

static void work(struct coll_node *n, struct coll_task *k, const void *plan, int64_t s)
{
    const struct coll_args *a = &k->args;
    const int64_t bytes = a->rcount * a->rtype->size,
                  npieces = coll_pieces(bytes, COLL_NODE_DIRECT_PIECE);
    (void)plan;
    if (s == 0)
        give_input(n, k, bytes);
    if (s > 1)
        coll_node_note_poison(n, k);
    if (s > 0 && s <= npieces)
        reduce_slice(n, k, coll_piece_of(bytes, COLL_NODE_DIRECT_PIECE, s - 1), s - 1);
    if (s >= 2 && (a->kind == COLL_ALLREDUCE || n->team->rank == a->root))
        coll_node_take_result(n, a, coll_piece_of(bytes, COLL_NODE_DIRECT_PIECE, s - 2),
                              coll_node_half(n, s - 2));
    if (s == npieces + 1)
        take_back(n);
}

int coll_node_direct_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    if (!coll_node_my_turn(n, k))
        return 0;
    const int64_t npieces = coll_pieces(k->args.rcount * k->args.rtype->size,
                                        COLL_NODE_DIRECT_PIECE);
    return coll_node_go_in_step(
        n, k, &(struct coll_node_steps){ .work = work, .npieces = npieces, .nsteps = npieces + 2 });
}

/* ---- reduce_scatter: this rank's slice is its block ---- */

/* Reduces this rank's block, part by part, each as long as the scratch memory allows. */
static void reduce_block(struct coll_node *n, struct coll_task *k, char *out)
{
    const struct coll_args *a = &k->args;
    const int rank = n->team->rank;
    const int64_t at = coll_args_parts(a, rank) * a->rtype->size,
                  len = (a->rcounts ? a->rcounts[rank] : a->rcount) * a->rtype->size,
                  part = (int64_t)n->half_len / n->team->size & ~(int64_t)(RT_CACHE_LINE - 1);
    for (int64_t i = 0; i < coll_pieces(len, part) && out; i++) {
        struct coll_piece p = coll_piece_of(len, part, i);
        reduce_at(n, k, at + p.at, p.len, out + p.at);
    }
}

/* Step 1 reduces the block; in step 2 all ranks have read this rank's input.  In place, and where
 * the type has gaps, the result waits for that. */
static void own_work(struct coll_node *n, struct coll_task *k, const void *plan, int64_t s)
{
    const struct coll_args *a = &k->args;
    const int64_t count = a->rcounts ? a->rcounts[n->team->rank] : a->rcount;
    const bool waits = a->sbuf == COLL_IN_PLACE || !a->rtype->contig;
    (void)plan;
    if (s == 0) {
        give_input(n, k, coll_args_bytes(k->team, a));
    } else if (s == 1) {
        if (waits && count && !(n->result = malloc((size_t)(count * a->rtype->size))))
            lose(n, k, -RT_ENOMEM);
        reduce_block(n, k, waits ? n->result : a->rbuf);
    } else {
        if (n->result)
            coll_node_unpack(n->result, a->rbuf, count, a->rtype);
        free(n->result);
        n->result = NULL;
        take_back(n);
    }
}

int coll_node_own_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    if (!coll_node_my_turn(n, k))
        return 0;
    return coll_node_go_in_step(
        n, k, &(struct coll_node_steps){ .work = own_work, .npieces = 1, .nsteps = 3 });
}
