/* SPDX-License-Identifier: BSD-3-Clause */
/* Small blocks of kinds whose ranks know only their own lengths. */
#ifndef COLL_NODE_MOVE_SMALL_H
#define COLL_NODE_MOVE_SMALL_H

#include "coll/node/node.h"

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
