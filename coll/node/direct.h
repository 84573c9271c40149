/* SPDX-License-Identifier: BSD-3-Clause */
/* Long reductions out of the ranks' own buffers. */
#ifndef COLL_NODE_DIRECT_H
#define COLL_NODE_DIRECT_H

#include "coll/node/node.h"

extern const struct coll_alg coll_node_direct_algs[];

#endif
