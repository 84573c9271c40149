/* SPDX-License-Identifier: BSD-3-Clause */
/* Scatters and gathers between the root and each other rank. */
#ifndef COLL_NODE_LINEAR_H
#define COLL_NODE_LINEAR_H

#include "coll/node/node.h"

extern const struct coll_alg coll_node_linear_algs[];

#endif
