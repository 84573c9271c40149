/* SPDX-License-Identifier: BSD-3-Clause */
/* Teams: shared memory, hosts, end. */
#ifndef COLL_START_TEAM_H
#define COLL_START_TEAM_H

#include "coll/coll.h"

/* Shared memory for a team on one node, or for the local team of a split team (`size` is then the
 * local team's).  Every rank prepares its whole team, which allocates private memory: 0 or
 * -RT_ENOMEM.  One rank gets coll_team_nbytes() zeroed bytes from shm_alloc and publishes the
 * offset to the others; every rank attaches its whole team.  Without such bytes every rank
 * unprepares it, and the team sends messages only.  No message is sent here.  coll_team_nbytes() is
 * 0 if a team of this size uses no shared memory.  The caller owns the block.  Rank 0's
 * coll_team_fini() frees what the team allocates later. */
size_t coll_team_nbytes(int size);
/* For rank 0 of a team: takes such a block from shm_alloc, with what only rank 0 may allocate;
 * SIZE_MAX: no memory.  Frees it again when no rank has attached. */
size_t coll_team_alloc(struct coll_team *t);
void coll_team_free(struct coll_team *t, size_t off);
int coll_team_prepare(struct coll_team *t);
void coll_team_attach(struct coll_team *t, size_t off);
void coll_team_unprepare(struct coll_team *t);
bool coll_team_attached(struct coll_team *t);
void coll_team_fini(struct coll_team *t);
/* Before coll_team_fini(), when the communicator is freed: releases all device memory that the team
 * keeps, while ops->dev_... may still be called. */
void coll_team_forget(struct coll_team *t);
/* Splits a team over several hosts.  `ranks` are the n ranks, ascending, that share this rank's
 * node segment.  0 or -RT_ENOMEM. */
int coll_team_split(struct coll_team *t, const int *ranks, int n);
/* The team of those ranks, to be attached to memory that they share; `t` itself if all ranks are on
 * one host. */
struct coll_team *coll_team_local(struct coll_team *t);
/* The ranks of coll_team_local() as ranks of `t`; NULL: they are the same. */
const int *coll_team_local_ranks(const struct coll_team *t);
/* A team of the same ranks, all on one host, for one persistent call: with shared memory and
 * numbers of its own, so its starts take no turn among the calls of `t`.  It is allocated, attached
 * and ended like `t`.  0 or -RT_ENOMEM. */
int coll_team_own(struct coll_team *own, const struct coll_team *t);
/* Call after the struct has been copied to another address. */
void coll_team_moved(struct coll_team *t);
/* Whether no other rank will access the team's shared memory: all have freed the team, which each
 * notes there last, or have died.  Check this before freeing it. */
bool coll_team_quiet(struct coll_team *t);
/* A rank, of those on this host, whose process has ended will not. */
void coll_team_died(struct coll_team *t, int rank);

#endif
