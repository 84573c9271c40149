/* SPDX-License-Identifier: BSD-3-Clause */
/* Complete exchange. */
#ifndef COLL_ALGO_ALLTOALL_H
#define COLL_ALGO_ALLTOALL_H

#include "coll/sched.h"

/* In place: a packed copy of the receive buffer's blocks, in the order in which they are sent: to
 * rank + 1, rank + 2, ...; without the block for this rank.  Ends the round. */
char *coll_build_set_aside(struct coll_sched *s, const struct coll_team *t,
                           const struct coll_args *a);

#endif
