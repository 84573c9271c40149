/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals among all ranks, without data. */
#ifndef COLL_ALGO_BARRIER_H
#define COLL_ALGO_BARRIER_H

#include "coll/sched.h"

/* Rounds of empty messages after which each rank has a message, direct or relayed, of each other
 * one; and a tree up which all notify rank 0 that they are here, whose last round is left open. */
void coll_build_dissemination(struct coll_sched *s, const struct coll_team *t);
void coll_build_arrive(struct coll_sched *s, const struct coll_team *t);

#endif
