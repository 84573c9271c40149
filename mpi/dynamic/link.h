/* SPDX-License-Identifier: BSD-3-Clause */
/* Two groups of processes that share nothing yet but a connection between their roots become an
 * intercommunicator. */
#ifndef WM_DYNAMIC_LINK_H
#define WM_DYNAMIC_LINK_H

#include "mpi/base/comm.h"

/* How the root gets the connection; returns MPI_SUCCESS or what wm_err() returned. */
struct wm_dial {
    int (*dial)(const struct wm_dial *how, int *fd);
    bool accepts; /* this side is the first of the two; the other side is not */
    const char *name;
    int (*stop)(void *arg);
    void *arg;
    int fd;
    int limit_s; /* to wait for the other side, if it is not 0 */
};

/* Collective over the intracommunicator `comm`; `how` counts at the root.  Closes the connection.
 * Without the domain's lock.  MPI_SUCCESS or what wm_err() returned. */
int wm_link(struct wm_comm *comm, int root, const struct wm_dial *how, struct wm_comm **out);

/* Accepts one MPI_Comm_connect in this way.  `stop` is called now and then at the root while it
 * waits; a value other than MPI_SUCCESS, which wm_err() returned, ends the wait at all ranks with
 * that error.  May be NULL. */
int wm_dyn_accept(const char *name, int root, struct wm_comm *comm, int (*stop)(void *arg),
                  void *arg, struct wm_comm **out);

/* part.c: forgets the processes that have ended of jobs that no communicator but `except` connects
 * to.  Under the domain's lock. */
void wm_part_sweep(const struct wm_comm *except);

#endif
