/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating intercommunicators. */
#ifndef WM_CORE_INTER_H
#define WM_CORE_INTER_H

#include "mpi/coll/exch.h"

/* What MPI_Intercomm_create does (MPI-5.0 section 7.6.2).  Collective over `local`.  Rank `leader`
 * of `local` exchanges messages with the other group's leader, rank `peer_leader` of `peer`; only
 * the two leaders have `peer`.  `tag` >= 0 is the same at both leaders and distinguishes calls over
 * the same `peer`.  Agrees on the contexts among both groups and creates the intercommunicator with
 * the error handler of `local`.  All processes report a failure that a single process detects.
 * Without the domain's lock; waits.  Returns MPI_SUCCESS or what wm_err() returned. */
int wm_inter_connect(struct wm_comm *local, int leader, struct wm_comm *peer, int peer_leader,
                     int tag, struct wm_comm **out);

/* Called by all processes of both groups, if processes of the two groups have not met: they get
 * each other's cards (runtime/boot/jobs.h).  x: as in wm_inter_connect(), x->across at the leaders.
 * Without the domain's lock.  Returns MPI_SUCCESS or what wm_err() returned.  NULL: not possible.
 */
extern int (*wm_inter_meet)(const struct wm_exch *x);

#endif
