/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files that create communicators from communicators. */
#ifndef WM_CORE_COMMNEW_H
#define WM_CORE_COMMNEW_H

#include "mpi/core/comm.h"

/* A communicator of `group` with the agreed id ctx[0].  If `remote` is not NULL: an
 * intercommunicator with ctx[0], and ctx[1] for its local side.  Gets the parent's error handler.
 * Collective over the new communicator.  Releases the ids on failure. */
int wm_comm_make(struct wm_comm *parent, struct wm_group *group, struct wm_group *remote,
                 const uint32_t *ctx, struct wm_comm **out);
/* Releases the agreed ids that this process does not use. */
void wm_comm_release_ids(struct wm_comm *parent, const uint32_t *ctx, int n);

/* What one process contributes to a split.  Processes with the same color form a communicator,
 * ordered by key, then by old rank.  Color -1: this process is in no new communicator. */
struct wm_split {
    int64_t color;
    int key;
    uint64_t check; /* as in struct wm_ctx_search */
};
/* Collective over `comm`.  *out is NULL for a process that has color -1 or no process on the other
 * side of an intercommunicator.  `err`: this process has failed already and notifies the others. */
int wm_comm_split(struct wm_comm *comm, const struct wm_split *s, int err, struct wm_comm **out);

#endif
