/* SPDX-License-Identifier: BSD-3-Clause */
/* The team under a communicator: how collective algorithms see it. */
#ifndef WM_COLL_TEAM_H
#define WM_COLL_TEAM_H

#include "mpi/base/comm.h"

/* The collective side of a new communicator is made in two steps.  prepare: before the processes
 * agree on a context id, without communication; allocates all private memory, so that a process
 * without memory fails while it can still notify the others.  `model`: a communicator of the same
 * processes, or NULL.  share: collective over the complete communicator, without the domain's lock;
 * waits.  Both return MPI_SUCCESS or what wm_err() returned.  Fini tolerates a team that was never
 * set up. */
int wm_coll_team_prepare(struct wm_comm *c, const struct wm_comm *model);
int wm_coll_team_share(struct wm_comm *c);
/* In place of both for MPI_COMM_WORLD and MPI_COMM_SELF in MPI_Init: waits for no other process. */
int wm_coll_team_own(struct wm_comm *c);

/* In place of share, if the caller has its own way to send the place of the shared memory: rank 0
 * allocates a block (wm_coll_team_block()) and sends its offset + 1 (other ranks, or no block: 0).
 * Then all ranks attach the block (wm_coll_team_attach()), or rank 0 frees it
 * (wm_coll_team_unblock()).  Under the domain's lock. */
uint64_t wm_coll_team_block(struct wm_comm *c);
void wm_coll_team_attach(struct wm_comm *c, uint64_t block);
void wm_coll_team_unblock(struct wm_comm *c, uint64_t block);
/* Between prepare and an agreement without share: private memory that share would have allocated;
 * the processes of several jobs then share none.  MPI_SUCCESS or what wm_err() returned. */
int wm_coll_team_no_share(struct wm_comm *c);
/* Whether all processes of the communicator share one such block, whose place may travel with the
 * agreement on the context id. */
bool wm_coll_team_in_agreement(struct wm_comm *c);

/* Sets up a team without shared memory, also later. */
void wm_coll_team_plain(struct wm_comm *c);
/* After wm_coll_team_plain() for a copy of `model`: the processes of several jobs share memory if
 * they do so there. */
void wm_coll_team_like(struct wm_comm *c, const struct wm_comm *model);
/* Whether all processes are of one job and share its node segment. */
bool wm_coll_team_in_node(const struct wm_comm *c);
void wm_coll_team_fini(struct wm_comm *c);

/* Shared memory of its own for a persistent call.  may_own: whether the communicator's calls can
 * have some; the same on all ranks.  make: a team without shared memory, or NULL: no memory; rank 0
 * has allocated a block, *block (others: 0) is its offset + 1, to be attached by
 * coll_team_attach().  end: tolerates that.  Of lane 0, under its lock. */
bool wm_coll_team_may_own(struct wm_comm *c);
struct coll_team *wm_coll_team_own_make(struct wm_comm *c, uint64_t *block);
void wm_coll_team_own_end(struct coll_team *own);

#endif
