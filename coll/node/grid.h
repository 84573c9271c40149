/* SPDX-License-Identifier: BSD-3-Clause */
/* Small calls of many ranks. */
#ifndef COLL_NODE_GRID_H
#define COLL_NODE_GRID_H

#include "coll/node/node.h"

extern const struct coll_alg coll_node_grid_algs[];

#endif
