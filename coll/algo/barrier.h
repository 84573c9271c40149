/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals among all ranks, without data. */
#ifndef COLL_ALGO_BARRIER_H
#define COLL_ALGO_BARRIER_H

#include "coll/sched.h"

/* coll_build_dissemination: rounds of empty messages, after which each rank has been notified,
 * directly or by relay, by each other rank.  coll_build_arrive: all ranks notify rank 0, up a tree,
 * that they have arrived; its last round is left open. */
void coll_build_dissemination(struct coll_sched *s, const struct coll_team *t);
void coll_build_arrive(struct coll_sched *s, const struct coll_team *t);

#endif
