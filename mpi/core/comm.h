/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating and freeing communicators.  Functions that return int return MPI_SUCCESS or what
 * wm_err() returned. */
#ifndef WM_CORE_COMM_H
#define WM_CORE_COMM_H

#include "mpi/base/comm.h"

/* Creates MPI_COMM_WORLD and MPI_COMM_SELF; called by MPI_Init after boot, node segment and domain
 * are up.  wm_comm_fini() releases them, except one that freed requests still use: wm_comm_rest()
 * releases that one when no message is in flight. */
int wm_comm_init(struct wm_domain *dom);
void wm_comm_fini(void);
void wm_comm_rest(void);
/* A new intracommunicator of `group` (reference taken) with context `ctx`; no communication. */
int wm_comm_create_local(struct wm_group *group, uint32_t ctx, struct wm_domain *dom,
                         struct wm_comm **out);
/* The same in the object *out of wm_comm_reserve(); NULL: in a new one. */
int wm_comm_fill_local(struct wm_group *group, uint32_t ctx, struct wm_domain *dom,
                       struct wm_comm **out);
/* An object with a handle whose content comes later: without members, until wm_comm_prepare_in() or
 * after wm_comm_clear(), which keeps the handle.  NULL, logged: no memory. */
struct wm_comm *wm_comm_reserve(struct wm_domain *dom);
void wm_comm_clear(struct wm_comm *c);
/* A new intercommunicator between `group` and `remote` (references taken) with context `ctx`, on
 * which both groups have agreed.  It is complete, including its collectives; no communication.
 * `local` is an intracommunicator of `group` with its own context (wm_comm_create_local() and
 * wm_coll_team_plain()). On success the new communicator owns `local`, on failure the caller
 * does.  In the object *out as in wm_comm_fill_local(). */
int wm_comm_create_inter(struct wm_group *group, struct wm_group *remote, uint32_t ctx,
                         struct wm_comm *local, struct wm_domain *dom, struct wm_comm **out);
/* Puts `c` on the lane `d`; NULL: it stays on lane 0.  `c` has its context already. */
void wm_comm_enter_lane(struct wm_comm *c, struct wm_domain *d);
/* Frees the parts of communicators on other lanes that nothing uses any more, with their references
 * to the communicators.  Under the lock of lane 0. */
void wm_comm_sweep_lanes(void);
/* Deletes a communicator's attributes, then drops its handle.  Bodies also call it when creation
 * fails half-way.  Keeps the communicator if a delete function fails. */
int wm_comm_free(struct wm_comm *comm);
/* Detaches a buffer for buffered sends after its messages have left, for freeing and finalizing. */
void wm_comm_detach_buffer(struct wm_comm *comm);
/* Gives `to` a copy of the topology of `from`, if it has one. */
int wm_comm_copy_topo(const struct wm_comm *from, struct wm_comm *to);
/* Stores the hints of `info` (NULL: none) that Weft knows. */
int wm_comm_set_info(struct wm_comm *comm, const struct wm_info *info);

/* Set by mpi/dynamic: called by MPI_Comm_disconnect before the communicator is freed, without the
 * domain's lock. */
extern void (*wm_comm_part)(const struct wm_comm *c);

#endif
