/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice between the two ways in which a long block moves between ranks with a core each: in
 * pieces through shared memory, or by one copy between processes. */
#ifndef COLL_NODE_PACE_H
#define COLL_NODE_PACE_H

#include "coll/node/node.h"

/* Bytes.  From this length on the pace decides, on every machine. */
#define COLL_NODE_PACED_MIN (64 << 10)
/* The same of blocks between two ranks (move.c).  Two cores of one L3 (Zen 3) pass 16 KiB through
 * shared memory in half the time of a copy between processes; two of a mesh Xeon take, in us
 * through shared memory and directly: an alltoall of 8 KiB 1.9 and 1.8, of 32 KiB 5.9 and 3.2; a
 * gather of 8 KiB 1.5 and 1.1, of 32 KiB 3.2 and 2.7. */
#define COLL_NODE_PACED_MIN_TWO (8 << 10)

/* At a writer, when a call with a block of `bytes` bytes for another rank begins: sets n->way to
 * the way that is faster or that the reader wants, and measures the call unless the reader does.
 * Whether the block shall move directly. */
bool coll_node_pace_begin(struct coll_node *n, enum coll_kind kind, int64_t bytes);
/* At the only reader of such a call: measures it, if readers decide about it. */
void coll_node_pace_read(struct coll_node *n, enum coll_kind kind, int64_t bytes);
/* When that call ends; n->paced is set until then.  n->way: how the block has moved. */
void coll_node_pace_end(struct coll_node *n);

#endif
