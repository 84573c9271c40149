/* SPDX-License-Identifier: BSD-3-Clause */
/* The team under a communicator: how collective algorithms see it. */
#ifndef WM_COLL_TEAM_H
#define WM_COLL_TEAM_H

#include "mpi/base/comm.h"

/* The collective side of a communicator.  All members call init at the end of the
 * creation of a communicator, without the domain's lock; it may communicate.  For MPI_COMM_WORLD
 * and MPI_COMM_SELF in MPI_Init it must not wait for other processes.  Fini tolerates a team that
 * was never set up.  Returns MPI_SUCCESS or what wm_err() returned. */
int wm_coll_team_init(struct wm_comm *c);
/* Sets up the team without communication and without shared memory.  The caller may add shared
 * memory later if it has its own way to send the offset: rank 0 allocates a block
 * (wm_coll_team_block()) and sends its offset + 1 (other ranks, or no block: 0).  Then all ranks
 * attach the block (wm_coll_team_attach(): 0 or -RT_E...), or rank 0 frees it
 * (wm_coll_team_unblock()).  Under the domain's lock. */
void wm_coll_team_plain(struct wm_comm *c);
/* After wm_coll_team_plain() for a copy of `model`: the processes of several jobs share memory if
 * they do so there. */
void wm_coll_team_like(struct wm_comm *c, const struct wm_comm *model);
/* Whether all processes are of one job and share its node segment. */
bool wm_coll_team_in_node(const struct wm_comm *c);
/* Called after wm_coll_team_plain() for a team that gets shared memory later: sets up the teams of
 * the ranks on each host, if the ranks are on several hosts; the block then belongs to
 * coll_team_local().  Returns MPI_SUCCESS or what wm_err() returned. */
int wm_coll_team_split(struct wm_comm *c);
uint64_t wm_coll_team_block(struct wm_comm *c);
int wm_coll_team_attach(struct wm_comm *c, uint64_t block);
void wm_coll_team_unblock(struct wm_comm *c, uint64_t block);
void wm_coll_team_fini(struct wm_comm *c);

#endif
