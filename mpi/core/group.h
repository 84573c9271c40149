/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups inside mpi/: creation, comparison and search.  Functions that return int return
 * MPI_SUCCESS or what wm_err() returned. */
#ifndef WM_CORE_GROUP_H
#define WM_CORE_GROUP_H

#include "mpi/base/comm.h"

/* A group of `n` processes; takes ownership of `procs` (malloc'ed), also on failure. n 0 gives
 * MPI_GROUP_EMPTY. */
int wm_group_create(struct rt_proc *procs, int n, struct wm_group **out);
/* A group of n >= 1 consecutive processes from `first` on. */
int wm_group_create_run(struct rt_proc first, int n, struct wm_group **out);
/* Copies the members to `to`, in the order of their ranks. */
void wm_group_list(const struct wm_group *g, struct rt_proc *to);
/* Sets the session from which a new group was derived, before any other code has the group;
 * communicators made of the group descend from that session too. MPI_GROUP_EMPTY has no
 * session. */
void wm_group_set_session(struct wm_group *g, struct wm_session *s);
void wm_group_ref(struct wm_group *g);
void wm_group_unref(struct wm_group *g);

/* *result: MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL. */
int wm_group_compare(const struct wm_group *a, const struct wm_group *b, int *result);
/* Translates ranks of `from` into ranks of `to`; MPI_UNDEFINED where the process is not in `to`. */
int wm_group_translate(const struct wm_group *from, int n, const int ranks[],
                       const struct wm_group *to, int out[]);
/* Whether every process of `small` is in `big`; `*missing` is the first rank of `small` that is
 * not. Out of memory gives false, too, and leaves `*missing` unchanged. */
bool wm_group_contains(const struct wm_group *big, const struct wm_group *small, int *missing);

#endif
