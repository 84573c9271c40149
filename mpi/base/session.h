/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions as objects (MPI-5.0 section 11.3).  A session lives as long as its handle and everything
 * derived from it: groups, and communicators made of them, hold a reference.  Where an object names
 * its session, NULL is the world model. */
#ifndef WM_BASE_SESSION_H
#define WM_BASE_SESSION_H

#include "mpi/base/mpi_int.h"

struct wm_bbuf;

struct wm_session {
    struct rt_obj obj;
    bool closed;          /* MPI_Session_finalize was called: the handle is stale */
    int thread_level;     /* the granted level */
    struct wm_errh *errh; /* referenced; wm_errh_set() changes it */
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

#endif
