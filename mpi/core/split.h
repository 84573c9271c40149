/* SPDX-License-Identifier: BSD-3-Clause */
/* Splitting a communicator by color and key. */
#ifndef WM_CORE_SPLIT_H
#define WM_CORE_SPLIT_H

#include "mpi/base/comm.h"

/* What one process contributes to a split.  Processes with the same color form a communicator,
 * ordered by key, then by old rank.  Color -1: this process is in no new communicator. */
struct wm_split {
    int64_t color;
    int key;
    uint64_t check; /* as in struct wm_ctx_search */
    /* A resource type to store in the info of the new communicator and in `info`; NULL: none. */
    const char *resource;
    struct wm_info *info;
};
/* Collective over `comm`.  *out is NULL for a process that has color -1 or no process on the other
 * side of an intercommunicator.  `err`: this process has failed already and notifies the others.
 * Returns MPI_SUCCESS or what wm_err() returned. */
int wm_comm_split(struct wm_comm *comm, const struct wm_split *s, int err, struct wm_comm **out);

#endif
