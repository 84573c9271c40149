/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice between the two ways in which a long block moves between ranks with a core each: in
 * pieces through shared memory, or by one copy between processes. */
#ifndef COLL_NODE_PACE_H
#define COLL_NODE_PACE_H

#include "coll/node/node.h"

/* At a writer, when a call with a block of `bytes` bytes for another rank begins: sets n->way to
 * the way that is faster or that the reader wants, and measures the call unless the reader does.
 * Whether the block shall move directly. */
bool coll_node_pace_begin(struct coll_node *n, enum coll_kind kind, int64_t bytes);
/* At the only reader of such a call: measures it, if readers decide about it. */
void coll_node_pace_read(struct coll_node *n, enum coll_kind kind, int64_t bytes);
/* When that call ends; n->paced is set until then.  n->way: how the block has moved. */
void coll_node_pace_end(struct coll_node *n);

#endif
