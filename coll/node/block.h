/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions of which each rank reduces a slice. */
#ifndef COLL_NODE_BLOCK_H
#define COLL_NODE_BLOCK_H

#include "coll/node/node.h"

extern const struct coll_alg coll_node_block_algs[];
/* Runs a call that another algorithm has started; returns as coll_task.step. */
int coll_node_block_instead(struct coll_task *k);

#endif
