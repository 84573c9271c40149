/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of coll/: choice and start of algorithms. */
#ifndef COLL_START_H
#define COLL_START_H

#include "coll/coll.h"

/* Starts the task anew with the best algorithm that needs no shared memory; the same on every rank.
 */
int coll_start_messages(struct coll_task *k);
/* The algorithm for a team between two groups. */
const struct coll_alg *coll_inter_alg(enum coll_kind kind);
/* coll_select() for a team that has, or pretends to lack, shared memory. */
const struct coll_alg *coll_choose(const struct coll_team *t, const struct coll_args *a,
                                   bool has_node, const char **why);

#endif
