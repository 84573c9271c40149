/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of several jobs that meet (MPI-5.0 section 11.9): accept and connect, for the
 * MPI procedures and for those that start processes. */
#ifndef WM_DYNAMIC_DYNAMIC_H
#define WM_DYNAMIC_DYNAMIC_H

#include "mpi/base/comm.h"

/* Collective over the intracommunicator `comm`; name and stop count at `root` only.  Accepts one
 * MPI_Comm_connect.  `stop` is called now and then at the root while it waits; a value other than
 * MPI_SUCCESS, which wm_err() returned, ends the wait at all ranks with that error.  May be NULL.
 * Without the domain's lock.  Return MPI_SUCCESS or what wm_err() returned. */
int wm_dyn_accept(const char *name, int root, struct wm_comm *comm, int (*stop)(void *arg),
                  void *arg, struct wm_comm **out);
/* The other side.  Waits for the accept at most cfg.connect_s. */
int wm_dyn_connect(const char *name, int root, struct wm_comm *comm, struct wm_comm **out);

#endif
