/* SPDX-License-Identifier: BSD-3-Clause */
/* Making intercommunicators. */
#ifndef WM_CORE_INTER_H
#define WM_CORE_INTER_H

#include "mpi/core/comm.h"

/* What MPI_Intercomm_create does (MPI-5.0 section 7.6.2): collective over `local`, and `leader` (a
 * rank of it) meets the other group's leader, rank `peer_leader` of `peer`, which only the two
 * leaders have.  `tag` >= 0 is the same at both leaders and distinguishes calls over one `peer`.
 * Agrees on the contexts among both groups and makes the intercommunicator with the default error
 * handler.  A failure that only one process sees is reported by all.  Without the domain's lock;
 * waits.  MPI_SUCCESS or what wm_err() returned. */
int wm_inter_connect(struct wm_comm *local, int leader, struct wm_comm *peer, int peer_leader,
                     int tag, struct wm_comm **out);

#endif
