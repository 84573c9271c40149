/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions of which each rank reduces a slice. */
#ifndef COLL_NODE_BLOCK_H
#define COLL_NODE_BLOCK_H

#include "coll/node/node.h"
#include "coll/sched.h"

extern const struct coll_alg coll_node_block_algs[];
/* Runs a call that another algorithm has started; returns as coll_task.step. */
int coll_node_block_instead(struct coll_task *k);

/* Whether all ranks have done `steps` steps of call e; n->next is 0 at first. */
static inline bool coll_node_all_at(struct coll_node *n, uint64_t e, int64_t steps)
{
    for (; n->next < n->team->size; n->next++)
        if (!coll_node_at(n, n->next, e, steps))
            return false;
    return true;
}

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
