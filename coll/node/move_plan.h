/* SPDX-License-Identifier: BSD-3-Clause */
/* How a call of move.c divides its blocks. */
#ifndef COLL_NODE_MOVE_PLAN_H
#define COLL_NODE_MOVE_PLAN_H

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
static inline int64_t coll_move_most(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
