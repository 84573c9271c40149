/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the ranks of a team are, and teams of some ranks. */
#ifndef COLL_HIER_TEAM_H
#define COLL_HIER_TEAM_H

#include "coll/hier/hier.h"

/* Gives `t` the local team of `ranks`: n ranks, ascending, that share this rank's node segment.  0
 * or -RT_ENOMEM. */
int coll_hier_create(struct coll_team *t, const int *ranks, int n);
void coll_hier_destroy(struct coll_hier *h);
/* Finds the hosts of all ranks; the same result on all.  0; -RT_ENOMEM: call it again; -RT_EBOOT:
 * the launcher's map is wrong, logged. */
int coll_hier_map(struct coll_hier *h);
/* The host of a rank. */
int coll_hier_node(const struct coll_hier *h, int rank);

#endif
