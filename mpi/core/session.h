/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be done with sessions (MPI-5.0 section 11.3). */
#ifndef WM_CORE_SESSION_H
#define WM_CORE_SESSION_H

#include "mpi/base/session.h"

void wm_session_ref(struct wm_session *s); /* no effect on NULL */
void wm_session_unref(struct wm_session *s);

/* The value of mpi_memory_alloc_kinds for objects of this session; NULL: of the world model. */
const char *wm_session_kinds(const struct wm_session *s);
/* Those of the wanted kinds (NULL: none) that are supported, in text of `len` bytes; always
 * includes "mpi,system". */
void wm_memory_kinds(const char *wanted, char *text, size_t len);
/* Whether every kind in the list is supported here; true for an empty list. */
bool wm_memory_kinds_known(const char *list);

/* MPI_ERR_SESSION if the two objects descend from different sessions, or one from a session and one
 * from the world model: they must not be used in one call (MPI-5.0 section 11.3); else MPI_SUCCESS.
 * `what` names them: "the groups". */
int wm_session_check(const struct wm_session *a, const struct wm_session *b, const char *what);

#endif
