/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows as objects: names, error handlers, attributes.  mpi/rma makes and uses them. */
#ifndef WM_CORE_WIN_H
#define WM_CORE_WIN_H

#include "mpi/base/mpi_int.h"

struct wm_attrs;
struct wm_comm;
struct wm_errh;
struct wm_rma;

struct wm_win {
    struct rt_obj obj;
    struct wm_errh *errh; /* referenced; wm_errh_set() changes it */
    struct wm_attrs *attrs;
    /* The predefined attributes (MPI-5.0 section 12.2.7), set when the window is made. */
    void *base;
    MPI_Aint nbytes;
    int disp_unit, flavor, model;
    struct wm_comm *comm; /* hidden duplicate of the user's communicator; owned */
    struct wm_rma *rma;   /* state of one-sided communication: mpi/rma/rma.h; owned */
    /* Of a window on a stream communicator: a hidden stream communicator, owned; and whether the
     * stream has passed all work. */
    struct wm_comm *stream;
    bool (*stream_idle)(struct wm_win *w);
    char name[MPI_MAX_OBJECT_NAME];
};

extern struct rt_slab wm_win_slab;

static inline struct wm_win *wm_win_get(MPI_Win h)
{
    return rt_slab_get(&wm_win_slab, (uintptr_t)h);
}
static inline MPI_Win wm_win_handle(const struct wm_win *w)
{
    return w ? (MPI_Win)(uintptr_t)w->obj.handle : MPI_WIN_NULL;
}

/* A window with the default error handler, without memory.  Returns MPI_SUCCESS or what wm_err()
 * returned. */
int wm_win_create(struct wm_win **out);
/* Deletes the window's attributes and frees it.  If a delete function fails, keeps the window and
 * returns the function's error code. */
int wm_win_destroy(struct wm_win *w);

#endif
