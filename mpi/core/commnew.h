/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files that create communicators from communicators.  Functions that return int
 * return MPI_SUCCESS or what wm_err() returned. */
#ifndef WM_CORE_COMMNEW_H
#define WM_CORE_COMMNEW_H

#include "mpi/base/comm.h"

/* A communicator of `group` with the agreed id ctx[0].  If `remote` is not NULL: an
 * intercommunicator with ctx[0], and ctx[1] for its local side.  Gets the parent's error handler.
 * Collective over the new communicator.  Releases the ids on failure. */
int wm_comm_make(struct wm_comm *parent, struct wm_group *group, struct wm_group *remote,
                 const uint32_t *ctx, struct wm_comm **out);
/* Releases the agreed ids that this process does not use. */
void wm_comm_release_ids(struct wm_comm *parent, const uint32_t *ctx, int n);

/* Collective over the intracommunicator `parent`, blocking: creates a communicator for each of the
 * disjoint groups that its members name, with the parent's error handler.  NULL if this process is
 * in no group (`group` is NULL, or does not contain this process). */
int wm_comm_create_from(struct wm_comm *parent, struct wm_group *group, struct wm_comm **out);

#endif
