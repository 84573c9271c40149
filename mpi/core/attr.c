/* SPDX-License-Identifier: BSD-3-Clause */
/* The procedures of attribute caching (MPI-5.0 section 7.7), and the predefined attributes.  Any
 * thread. */
#include "mpi/base/attr.h"
#include "mpi/api/bodies.h"
#include "mpi/base/comm.h"
#include "mpi/core/errcode.h"
#include "mpi/core/win.h"
#include "mpi/datatype/type.h"
#include <limits.h>

/* Attributes that the library sets on every communicator of the world model, and MPI_TAG_UB alone
 * on those of sessions (MPI-5.0 section 9.1.2): a pointer to an int that stays valid. */
static int *predefined_attr(const struct wm_comm *comm, int keyval)
{
    static int tag_ub = INT_MAX, host = MPI_PROC_NULL, io = MPI_ANY_SOURCE, wtime_is_global, appnum,
               universe;
    if (comm->session && keyval != MPI_TAG_UB)
        return NULL;
    switch (keyval) {
    case MPI_TAG_UB:
        return &tag_ub;
    case MPI_HOST:
        return &host;
    case MPI_IO:
        return &io;
    case MPI_WTIME_IS_GLOBAL:
        wtime_is_global = rt_boot.local_size == rt_boot.size; /* one host, one CLOCK_MONOTONIC */
        return &wtime_is_global;
    case MPI_APPNUM:
        appnum = rt_boot.appnum;
        return appnum >= 0 && !rt_boot.singleton ? &appnum : NULL;
    case MPI_UNIVERSE_SIZE:
        universe = rt_boot.universe_size;
        return universe > 0 ? &universe : NULL;
    case MPI_LASTUSEDCODE:
        return wm_err_lastusedcode();
    default:
        return NULL;
    }
}

int wm_api_comm_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *del,
                              int *keyval, void *extra)
{
    return wm_keyval_create(WM_ATTR_COMM, (uintptr_t)copy, (uintptr_t)del, keyval, extra);
}

int wm_api_comm_free_keyval(int *keyval) { return wm_keyval_free(WM_ATTR_COMM, keyval); }

int wm_api_comm_set_attr(struct wm_comm *comm, int keyval, void *value)
{
    return wm_attr_set(WM_ATTR_COMM, &comm->attrs, wm_comm_handle(comm), keyval, value);
}

int wm_api_comm_get_attr(struct wm_comm *comm, int keyval, void *value, int *flag)
{
    if (keyval >= MPI_TAG_UB && keyval <= MPI_UNIVERSE_SIZE) {
        int *p = predefined_attr(comm, keyval);
        *flag = p != NULL;
        if (p)
            *(void **)value = wm_attr_language(keyval) ? (void *)(intptr_t)*p : p;
        return MPI_SUCCESS;
    }
    return wm_attr_get(WM_ATTR_COMM, comm->attrs, keyval, value, flag);
}

int wm_api_comm_delete_attr(struct wm_comm *comm, int keyval)
{
    return wm_attr_delete(WM_ATTR_COMM, &comm->attrs, wm_comm_handle(comm), keyval);
}

int wm_api_type_create_keyval(MPI_Type_copy_attr_function *copy, MPI_Type_delete_attr_function *del,
                              int *keyval, void *extra)
{
    return wm_keyval_create(WM_ATTR_TYPE, (uintptr_t)copy, (uintptr_t)del, keyval, extra);
}

int wm_api_type_free_keyval(int *keyval) { return wm_keyval_free(WM_ATTR_TYPE, keyval); }

int wm_api_type_set_attr(struct wm_type *type, int keyval, void *value)
{
    return wm_attr_set(WM_ATTR_TYPE, &type->attrs, wm_type_handle(type), keyval, value);
}

int wm_api_type_get_attr(struct wm_type *type, int keyval, void *value, int *flag)
{
    return wm_attr_get(WM_ATTR_TYPE, type->attrs, keyval, value, flag);
}

int wm_api_type_delete_attr(struct wm_type *type, int keyval)
{
    return wm_attr_delete(WM_ATTR_TYPE, &type->attrs, wm_type_handle(type), keyval);
}

int wm_api_win_create_keyval(MPI_Win_copy_attr_function *copy, MPI_Win_delete_attr_function *del,
                             int *keyval, void *extra)
{
    return wm_keyval_create(WM_ATTR_WIN, (uintptr_t)copy, (uintptr_t)del, keyval, extra);
}

int wm_api_win_free_keyval(int *keyval) { return wm_keyval_free(WM_ATTR_WIN, keyval); }

int wm_api_win_set_attr(struct wm_win *win, int keyval, void *value)
{
    return wm_attr_set(WM_ATTR_WIN, &win->attrs, wm_win_handle(win), keyval, value);
}

/* A predefined attribute of a window: MPI_WIN_BASE is the address itself, the others are pointers
 * to their value, and the value itself in Fortran (MPI-5.0 section 12.2.7). */
static void *window_attr(struct wm_win *win, int keyval)
{
    bool fortran = wm_attr_language(keyval) != MPIX_ATTR_C;
    if (keyval == MPI_WIN_BASE)
        return win->base;
    if (keyval == MPI_WIN_SIZE)
        return fortran ? (void *)win->nbytes : (void *)&win->nbytes;
    int *p = keyval == MPI_WIN_DISP_UNIT       ? &win->disp_unit
             : keyval == MPI_WIN_CREATE_FLAVOR ? &win->flavor
                                               : &win->model;
    return fortran ? (void *)(intptr_t)*p : (void *)p;
}

int wm_api_win_get_attr(struct wm_win *win, int keyval, void *value, int *flag)
{
    if (keyval < MPI_WIN_BASE || keyval > MPI_WIN_MODEL)
        return wm_attr_get(WM_ATTR_WIN, win->attrs, keyval, value, flag);
    *(void **)value = window_attr(win, keyval);
    *flag = true;
    return MPI_SUCCESS;
}

int wm_api_win_delete_attr(struct wm_win *win, int keyval)
{
    return wm_attr_delete(WM_ATTR_WIN, &win->attrs, wm_win_handle(win), keyval);
}
