/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls whose contributions fit lines or cells. */
#ifndef COLL_NODE_FLAT_H
#define COLL_NODE_FLAT_H

#include "coll/node/node.h"

extern const struct coll_alg coll_node_flat_algs[];
/* Whether the contributions of this call fit lines or cells; bytes: coll_args_bytes(). */
bool coll_node_cell_fits(const struct coll_team *t, const struct coll_args *a, int64_t bytes);
/* Runs a call that another algorithm has started; returns as coll_task.step. */
int coll_node_flat_start(struct coll_team *t, const struct coll_args *a, struct coll_task *k);
int coll_node_flat_instead(struct coll_task *k);

#endif
