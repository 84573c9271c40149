/* SPDX-License-Identifier: BSD-3-Clause */
/* Interfaces between move.c, which runs the calls, and its parts: large blocks (move_data.c), small
 * blocks (move_small.c), the plan (move_plan.c). */
#ifndef COLL_NODE_MOVE_H
#define COLL_NODE_MOVE_H

#include "coll/node/node.h"

struct coll_move_data { /* a block in a user's buffer; no block: `l` is NULL */
    char *at;
    int64_t n;
    const struct rt_layout *l;
};

static inline int64_t coll_move_nbytes(struct coll_move_data d)
{
    return d.l ? d.n * d.l->size : 0;
}

static inline bool coll_move_sums(enum coll_kind k)
{
    return k == COLL_REDUCE || k == COLL_REDUCE_SCATTER || k == COLL_REDUCE_SCATTER_BLOCK ||
           k == COLL_SCAN || k == COLL_EXSCAN;
}

static inline struct coll_move_data coll_move_whole(const void *buf, int64_t n,
                                                    const struct rt_layout *l)
{
    return (struct coll_move_data){ (char *)buf, n, l };
}

static inline int64_t coll_move_most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Block i of the receive side of a call of any kind. */
struct coll_move_data coll_move_recv_block(const struct coll_args *a, int i);
/* The block that this rank has for rank `to`; for its own rank: the block that it copies, or adds,
 * without shared memory. */
struct coll_move_data coll_move_sent(const struct coll_team *t, const struct coll_args *a, int to);
/* The place for the block that rank `from` has for this rank, or the data to which it is added. */
struct coll_move_data coll_move_received(const struct coll_team *t, const struct coll_args *a,
                                         int from);
/* The same, but no block if the block goes through lines and cells. */
struct coll_move_data coll_move_out(const struct coll_team *t, const struct coll_args *a, int to);
struct coll_move_data coll_move_in(const struct coll_team *t, const struct coll_args *a, int from);

/* Kinds whose small blocks go through lines and cells: one block for all readers, or one for each
 * reader. */
static inline bool coll_move_has_small(enum coll_kind k)
{
    return k == COLL_GATHERV || k == COLL_ALLGATHERV || k == COLL_SCATTERV || k == COLL_ALLTOALLV ||
           k == COLL_ALLTOALLW;
}
static inline bool coll_move_one_block(enum coll_kind k)
{
    return k == COLL_GATHERV || k == COLL_ALLGATHERV;
}
/* Whether a block of that length is small; writer and reader get the same answer. */
static inline bool coll_move_is_small(const struct coll_node *n, enum coll_kind k, int64_t len)
{
    int64_t most = coll_move_one_block(k) ? COLL_NODE_CELL : n->cell_part;
    return len <= most && most > 0 && coll_move_has_small(k);
}
/* < 0: the call is passed to messages; 0: not yet; 1: large blocks remain; 2: none remains. */
int coll_move_small_step(struct coll_node *n, const struct coll_args *a, uint64_t e);

/* Fills n->plan. */
void coll_move_plan(struct coll_node *n, const struct coll_args *a);
/* Piece i of the block of `from` for `to`. */
char *coll_move_stage(const struct coll_node *n, int from, int to, int64_t i);
/* Where this rank builds piece i of a sum that it cannot build in the user's buffer: in the spare
 * rows. */
char *coll_move_spare(const struct coll_node *n, enum coll_kind k, int64_t i);

#endif
