/* SPDX-License-Identifier: BSD-3-Clause */
/* MPIX_Comm_shrink. */
#ifndef WM_CORE_SHRINK_H
#define WM_CORE_SHRINK_H

#include "mpi/base/comm.h"

/* Collective over the living members of `comm`, which may be revoked; blocking: a communicator of
 * those that no member knows to be dead.  MPI_SUCCESS or what wm_err() returned, the same in all
 * processes.  Takes the domain's lock. */
int wm_comm_shrink(struct wm_comm *comm, struct wm_comm **out);

#endif
