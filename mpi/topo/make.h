/* SPDX-License-Identifier: BSD-3-Clause */
/* What the calls that make a communicator with a topology share. */
#ifndef WM_TOPO_MAKE_H
#define WM_TOPO_MAKE_H

#include "mpi/base/comm.h"
#include "mpi/topo/topo.h"

/* Data that all members exchange before anything is made. */
struct wm_topo_vote {
    uint64_t print;   /* in: of the arguments that must be the same everywhere */
    uint64_t balance; /* in: this process's part; out: the sum */
    int64_t total;    /* as balance */
};

/* MPI_ERR_COMM for an intercommunicator: topologies are for intracommunicators only. */
int wm_topo_intra(const struct wm_comm *comm);
/* Adds n numbers to a fingerprint; it starts as 0. */
uint64_t wm_topo_print(uint64_t print, int n, const int v[]);
/* Collective over `comm`, blocking: `err` is what this process's own checks found.  When one of the
 * processes found something, or their arguments differ, all of them get an error.  MPI_SUCCESS or
 * an error class. */
int wm_topo_agree(struct wm_comm *comm, int err, struct wm_topo_vote *vote);
/* Collective over `parent`, blocking: a communicator of the n processes with the ranks order[] in
 * `parent`, or of the first n ranks if `order` is NULL.  *out is NULL in all other processes.  The
 * function takes over `t`, and frees it in a process that gets no communicator.  `err`: this
 * process has failed; it takes part so that all processes fail.  MPI_SUCCESS or an error class. */
int wm_topo_make(struct wm_comm *parent, int n, const int order[], struct wm_topo *t, int err,
                 struct wm_comm **out);

/* Writes the sources and destinations of the process with this rank into a grid or graph. */
void wm_topo_locate(struct wm_topo *t, int rank);
/* Neighbours of node `rank` of a grid or graph, MPI_PROC_NULL for missing ones; returns how many.
 * `out` has room for 2 * ndims, or all edges of the node. */
int wm_topo_neighbors(const struct wm_topo *t, int rank, int out[]);

/* MPI_ERR_TOPOLOGY unless the communicator has a topology of this kind. */
int wm_topo_need(const struct wm_comm *comm, int kind);

#endif
