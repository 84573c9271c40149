/* SPDX-License-Identifier: BSD-3-Clause */
/* Error handlers as objects (MPI-5.0 section 9.3). */
#ifndef WM_CORE_ERRH_H
#define WM_CORE_ERRH_H

#include "mpi/base/mpi_int.h"

enum wm_errh_kind {
    WM_ERRH_FATAL,
    WM_ERRH_ABORT,
    WM_ERRH_RETURN,
    WM_ERRH_COMM,
    WM_ERRH_WIN,
    WM_ERRH_FILE,
    WM_ERRH_SESSION
};

struct wm_errh {
    struct rt_obj obj;
    enum wm_errh_kind kind;
    union {
        MPI_Comm_errhandler_function *comm;
        MPI_Win_errhandler_function *win;
        MPI_File_errhandler_function *file;
        MPI_Session_errhandler_function *session;
    } fn;
    MPIX_Errhandler_function_x
        *extra; /* MPIX_Errhandler_set_x: called with `state` instead of fn */
    MPIX_Destructor_function *destroy; /* of `state`; NULL: none */
    void *state;
};

extern struct rt_slab wm_errh_slab;
extern struct wm_errh *wm_errh_predefined[8]; /* index handle & 7: null, are_fatal, abort, return */

static inline struct wm_errh *wm_errh_get(MPI_Errhandler h)
{
    uintptr_t v = (uintptr_t)h;
    if (v < WM_PREDEFINED_MAX)
        return (v & ~7u) == 0x140 ? wm_errh_predefined[v & 7] : NULL;
    return rt_slab_get(&wm_errh_slab, v);
}
MPI_Errhandler wm_errh_handle(const struct wm_errh *e);
void wm_errh_ref(struct wm_errh *e);
void wm_errh_unref(struct wm_errh *e);
/* An object's handler, the member at `place`, with a reference, which keeps the handler alive if
 * another thread, or the handler itself, sets another one.  NULL if the member is NULL. */
struct wm_errh *wm_errh_ref_of(struct wm_errh *const *place);
/* Replaces an object's handler.  MPI_ERR_ARG if `e` was made for objects of another kind. */
int wm_errh_set(struct wm_errh **place, enum wm_errh_kind kind, struct wm_errh *e);
/* The same check alone. */
int wm_errh_check(const struct wm_errh *e, enum wm_errh_kind kind);
/* The initial handler of MPI_COMM_WORLD and MPI_COMM_SELF, also called while neither exists
 * (MPI-5.0 section 9.3): the setting initial_errhandler. */
struct wm_errh *wm_errh_initial(void);

#endif
