/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions of which each rank reduces a slice. */
#ifndef COLL_NODE_BLOCK_H
#define COLL_NODE_BLOCK_H

#include "coll/node/node.h"
#include "coll/sched.h"

/* A call in steps: before a step, all ranks have done the step before it; before step 0, all have
 * finished the last call that used the half. */
struct coll_node_steps {
    void (*work)(struct coll_node *n, struct coll_task *k, const void *plan, int64_t step);
    const void *plan;  /* for work() */
    int64_t npieces;   /* each moves the call to the other half; the same on all ranks */
    int64_t nsteps;    /* of this rank */
    bool leaves_early; /* before all ranks have done the step before their last one */
};
/* Goes as far as the other ranks allow; returns as coll_task.step. */
int coll_node_go_in_step(struct coll_node *n, struct coll_task *k, const struct coll_node_steps *p);
/* Call it when all ranks have done a step in which blocks may have become poisoned. */
void coll_node_note_poison(const struct coll_node *n, struct coll_task *k);

/* This rank's slice of a piece.  Slices are whole cache lines, so no line has two writers. */
static inline struct coll_piece coll_node_slice(const struct coll_node *n, struct coll_piece p)
{
    int size = n->team->size, rank = n->team->rank;
    int64_t lines = (p.len + RT_CACHE_LINE - 1) / RT_CACHE_LINE;
    int64_t lo = coll_cut(lines, size, rank) * RT_CACHE_LINE;
    int64_t hi = coll_cut(lines, size, rank + 1) * RT_CACHE_LINE;
    hi = hi < p.len ? hi : p.len;
    return (struct coll_piece){ lo, hi > lo ? hi - lo : 0 };
}

/* Asks for `len` bytes of all ranks' input, in turn from this rank on, because they are combined in
 * rank order, by all ranks at the same time: the core that has one rank's lines would serve all
 * others.  With coll_node_take_result(), allreduce of 16 ranks (mesh Xeon), us without and with: 4
 * KiB 5.8 and 5.7, 16 KiB 15 and 11, 64 KiB 42 and 32; 32 ranks, 32 KiB 32 and 25, 128 KiB 94 and
 * 91, 1 MiB 589 and 541. */
static inline void coll_node_ask(const struct coll_node *n, rt_reduce_source_fn *source,
                                 const void *arg, int64_t len)
{
    for (int j = 1, size = n->team->size; j < size && !n->crowded; j++) {
        const char *from = source(arg, (n->team->rank + j) % size);
        for (int64_t at = 0; at < len; at += RT_CACHE_LINE)
            __builtin_prefetch(from + at);
    }
}

/* Copies a piece's result out, from behind this rank's slice on and around, so that the ranks do
 * not all read the slice of the same rank.  32 ranks of a mesh Xeon: see block.c. */
static inline void coll_node_take_result(const struct coll_node *n, const struct coll_args *a,
                                         struct coll_piece p, const char *from)
{
    struct coll_piece own = coll_node_slice(n, p);
    int64_t at = own.len > 0 ? own.at + own.len : p.len;
    if (at < p.len)
        coll_piece_out(a->rbuf, a->rcount, a->rtype, (struct coll_piece){ p.at + at, p.len - at },
                       from + at);
    coll_piece_out(a->rbuf, a->rcount, a->rtype, (struct coll_piece){ p.at, at }, from);
}

#endif
