/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of move.c: how a call divides its blocks (move_plan.c), and small blocks of kinds whose
 * ranks know only their own lengths (move_small.c). */
#ifndef COLL_NODE_MOVE_H
#define COLL_NODE_MOVE_H

#include "coll/node/node.h"

/* Whether pieces of this call's blocks can be long enough to be worth a step each. */
bool coll_node_block_fits(const struct coll_team *t, const struct coll_args *a, int64_t bytes);
/* Fills n->plan. */
void coll_move_plan(struct coll_node *n, const struct coll_args *a);
/* If n->plan.follows: when rank 0 has done its first step, takes over its decision. */
void coll_move_follow(struct coll_node *n);
/* Piece i of the block of `from` for `to`. */
char *coll_move_stage(const struct coll_node *n, int from, int to, int64_t i);
/* Where this rank builds piece i of a sum that it cannot build in the user's buffer: in the spare
 * rows. */
char *coll_move_spare(const struct coll_node *n, enum coll_kind k, int64_t i);

/* Where a writer puts its block.  at 0: nowhere, the reader reads it. */
struct coll_move_place {
    uint64_t at;
    int64_t nbytes; /* room */
};

/* Whether one rank collects blocks: gather and gatherv. */
static inline bool coll_move_collects(enum coll_kind k)
{
    return coll_is(k, COLL_IS_TO_ROOT) && !coll_is(k, COLL_IS_REDUCTION);
}
static inline bool coll_move_adds(enum coll_kind k) { return coll_is(k, COLL_IS_REDUCTION); }
static inline int64_t coll_move_most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The block for rank `to`, and the place for the block of rank `from`; no block if it goes through
 * lines and cells. */
struct coll_block coll_move_out(const struct coll_team *t, const struct coll_args *a, int to);
struct coll_block coll_move_in(const struct coll_team *t, const struct coll_args *a, int from);
static inline int64_t coll_move_nbytes(struct coll_block b) { return coll_block_nbytes(&b); }

/* Kinds whose small blocks go through lines and cells: the v forms. */
static inline bool coll_move_has_small(enum coll_kind k)
{
    return coll_is_apart(k, COLL_SEND) || coll_is_apart(k, COLL_RECV);
}
/* Writes this rank's small blocks.  -RT_ENOSPC: no memory for cells; 0: not yet; 1: done. */
int coll_move_small_write(struct coll_node *n, const struct coll_args *a, uint64_t e);
/* Then reads the others'.  0: not yet; 1: large blocks remain; 2: none remains. */
int coll_move_small_read(struct coll_node *n, const struct coll_args *a, uint64_t e);

#endif
