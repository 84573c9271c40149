/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows as objects: creation, names, error handlers (MPI-5.0 sections 7.8 and 9.3); their
 * attributes are in attr.c.  Any thread. */
#include "mpi/core/win.h"
#include "mpi/api/bodies.h"
#include "mpi/base/attr.h"
#include "mpi/core/errh.h"
#include <stdio.h>
#include <string.h>

struct rt_slab wm_win_slab = RT_SLAB(WM_WIN, "window", struct wm_win);

int wm_win_create(struct wm_win **out)
{
    struct wm_win *w = rt_slab_alloc(&wm_win_slab);
    if (!w)
        return wm_err(MPI_ERR_NO_MEM, "no memory for another window");
    w->errh = wm_errh_predefined[(uintptr_t)MPI_ERRORS_ARE_FATAL & 7];
    w->disp_unit = 1;
    *out = w;
    return MPI_SUCCESS;
}

int wm_win_destroy(struct wm_win *w)
{
    int err = wm_attrs_delete_all(&w->attrs, wm_win_handle(w));
    if (err)
        return err;
    wm_errh_unref(w->errh);
    rt_slab_free(&wm_win_slab, w);
    return MPI_SUCCESS;
}

int wm_api_win_set_errhandler(struct wm_win *win, struct wm_errh *errhandler)
{
    return wm_errh_set(&win->errh, WM_ERRH_WIN, errhandler);
}

int wm_api_win_get_errhandler(struct wm_win *win, struct wm_errh **errhandler)
{
    *errhandler = wm_errh_ref_of(&win->errh);
    return MPI_SUCCESS;
}

int wm_api_win_set_name(struct wm_win *win, const char *name)
{
    /* Cut to the standard's length (MPI-5.0 section 7.8). */
    snprintf(win->name, sizeof win->name, "%s", name);
    return MPI_SUCCESS;
}

int wm_api_win_get_name(struct wm_win *win, char *name, int *resultlen)
{
    strcpy(name, win ? win->name : "MPI_WIN_NULL");
    *resultlen = (int)strlen(name);
    return MPI_SUCCESS;
}
