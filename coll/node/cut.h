/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions of which each rank receives its own block. */
#ifndef COLL_NODE_CUT_H
#define COLL_NODE_CUT_H

#include "coll/node/node.h"

extern const struct coll_alg coll_node_cut_algs[];

#endif
