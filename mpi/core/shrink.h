/* SPDX-License-Identifier: BSD-3-Clause */
/* MPIX_Comm_shrink and MPIX_Comm_ishrink. */
#ifndef WM_CORE_SHRINK_H
#define WM_CORE_SHRINK_H

#include "mpi/base/comm.h"

/* Collective over the living members of `comm`, which may be revoked; blocking: a communicator of
 * those that no member knows to be dead.  MPI_SUCCESS or what wm_err() returned, the same in all
 * processes.  Takes the domain's lock. */
int wm_comm_shrink(struct wm_comm *comm, struct wm_comm **out);
/* The same as a request; *out gets its members when the request completes. */
int wm_comm_ishrink(struct wm_comm *comm, struct wm_comm **out, MPI_Request *request);

#endif
