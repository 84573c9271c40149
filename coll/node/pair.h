/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface of pair.c, for ring.c. */
#ifndef COLL_NODE_PAIR_H
#define COLL_NODE_PAIR_H

#include "coll/node/node.h"

/* Does step 1 of the call: publishes where this rank's operand and result are.  The rank may write
 * into the half. */
void coll_node_pair_give(struct coll_node *n, const struct coll_args *a, uint64_t e);
/* When the other rank has done the same.  Returns when all chunks have been taken and this rank's
 * are done: 0 or -RT_E... */
int coll_node_pair_work(struct coll_node *n, const struct coll_args *a);

#endif
