/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions (MPI-5.0 section 11.3).  A session lives as long as its handle and everything derived
 * from it: groups, and communicators made of them, hold a reference.  Where an object names its
 * session, NULL is the world model. */
#ifndef WM_CORE_SESSION_H
#define WM_CORE_SESSION_H

#include "mpi/core/mpi_int.h"

struct wm_bbuf;

struct wm_session {
    struct rt_obj obj;
    bool closed;          /* MPI_Session_finalize was called: the handle is stale */
    int thread_level;     /* the granted level */
    struct wm_errh *errh; /* referenced; changed under the lock of session.c */
    struct wm_bbuf *bbuf; /* MPI_Session_attach_buffer; under the domain's lock */
    char kinds[256];      /* granted memory allocation kinds (MPI-5.0 section 11.4.3) */
};

extern struct rt_slab wm_session_slab;

/* NULL for MPI_SESSION_NULL, stale and foreign handles. */
static inline struct wm_session *wm_session_get(MPI_Session h)
{
    struct wm_session *s = rt_slab_get(&wm_session_slab, (uintptr_t)h);
    return s && !rt_load_relaxed(&s->closed) ? s : NULL;
}
static inline MPI_Session wm_session_handle(const struct wm_session *s)
{
    return s ? (MPI_Session)(uintptr_t)s->obj.handle : MPI_SESSION_NULL;
}
void wm_session_ref(struct wm_session *s); /* no effect on NULL */
void wm_session_unref(struct wm_session *s);
/* The session's handler with a reference; NULL if the session is NULL or closed. */
struct wm_errh *wm_session_errh_ref(struct wm_session *s);

/* The value of mpi_memory_alloc_kinds for objects of this session; NULL: of the world model. */
const char *wm_session_kinds(const struct wm_session *s);
/* Those of the wanted kinds (NULL: none) that are supported, in text of `len` bytes; always
 * includes "mpi,system". */
void wm_memory_kinds(const char *wanted, char *text, size_t len);
/* Whether every kind in the list is supported here; true for an empty list. */
bool wm_memory_kinds_known(const char *list);

/* An error if the two objects descend from different sessions, or one from a session and one from
 * the world model: they must not be used in one call (MPI-5.0 section 11.3).  `what` names them:
 * "the groups". */
int wm_session_check(const struct wm_session *a, const struct wm_session *b, const char *what);

/* Releases what sessions share, when the library goes to rest: mpi/core/session_comm.c. */
void wm_session_rest(void);

#endif
