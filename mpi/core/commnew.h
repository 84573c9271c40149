/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files that create communicators from communicators.  Functions that return int
 * return MPI_SUCCESS or what wm_err() returned. */
#ifndef WM_CORE_COMMNEW_H
#define WM_CORE_COMMNEW_H

#include "mpi/base/comm.h"

struct wm_ctx_search;
struct wm_exch;

/* Gives `c` the ids of an agreement; NULL: releases them.  Under the domain's lock. */
void wm_comm_take_ids(struct wm_comm *c, const struct wm_ctx_search *s, const uint32_t *ctx);

/* A communicator of `group`, complete but for its ids and its shared memory; no communication.  If
 * `remote` is not NULL: an intercommunicator.  `model`: a communicator of the same processes, or
 * NULL.  Gets the parent's error handler.  On failure *out is NULL. */
int wm_comm_prepare(struct wm_comm *parent, struct wm_group *group, struct wm_group *remote,
                    const struct wm_comm *model, struct wm_comm **out);
/* The same under the domain's lock, in the object *out of wm_comm_reserve(), which a failure leaves
 * without members. */
int wm_comm_prepare_in(struct wm_comm *parent, struct wm_group *group, struct wm_group *remote,
                       const struct wm_comm *model, struct wm_comm **out);
/* The same for a duplicate, with info, topology and attributes. */
int wm_comm_prepare_dup(struct wm_comm *comm, const struct wm_info *info, struct wm_comm **out);
/* Collective over the participants of `x`, blocking: completes `c`, which wm_comm_prepare() made;
 * frees it if a participant has failed, which s->err says.  c NULL: this process has failed, or is
 * not a member; *out is then NULL.  `whole`: all participants are members of one communicator.
 * wm_comm_agree_all(): over all processes of `parent`, also of an intercommunicator; sets
 * s->order. */
int wm_comm_agree(const struct wm_exch *x, struct wm_ctx_search *s, struct wm_comm *c, bool whole,
                  struct wm_comm **out);
int wm_comm_agree_all(struct wm_comm *parent, struct wm_ctx_search *s, struct wm_comm *c,
                      bool whole, struct wm_comm **out);

/* Collective over the intracommunicator `parent`, blocking: creates a communicator for each of the
 * disjoint groups that its members name, with the parent's error handler.  NULL if this process is
 * in no group (`group` is NULL, or does not contain this process).  `err`: this process has failed
 * already and takes part so that all fail. */
int wm_comm_create_from(struct wm_comm *parent, struct wm_group *group, int err,
                        struct wm_comm **out);
/* The same, with `s` filled in as for wm_ctx_find(). */
int wm_comm_create_checked(struct wm_comm *parent, struct wm_group *group, struct wm_ctx_search *s,
                           struct wm_comm **out);

#endif
