/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls through rings. */
#ifndef COLL_NODE_RING_H
#define COLL_NODE_RING_H

#include "coll/node/node.h"

int coll_node_ring_start(struct coll_team *t, const struct coll_args *a, struct coll_task *k);

#endif
