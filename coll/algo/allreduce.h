/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction to all ranks. */
#ifndef COLL_ALGO_ALLREDUCE_H
#define COLL_ALGO_ALLREDUCE_H

#include "coll/sched.h"

/* Reduction of n elements at buf to all ranks, in place: recursive doubling; or recursive halving
 * and doubling, for operations that commute. */
void coll_build_doubling(struct coll_sched *s, const struct coll_team *t, void *buf, int64_t n,
                         const struct rt_layout *l);
void coll_build_rabenseifner(struct coll_sched *s, const struct coll_team *t, void *buf, int64_t n,
                             const struct rt_layout *l);

#endif
