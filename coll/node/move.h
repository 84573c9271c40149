/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls in which blocks move in pieces, or one rank reduces what it needs. */
#ifndef COLL_NODE_MOVE_H
#define COLL_NODE_MOVE_H

#include "coll/node/node.h"

extern const struct coll_alg coll_node_move_algs[];
/* Runs a call that another algorithm has started; returns as coll_task.step. */
int coll_node_move_instead(struct coll_task *k);

#endif
