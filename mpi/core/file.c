/* SPDX-License-Identifier: BSD-3-Clause */
/* Files as objects: their error handlers (MPI-5.0 sections 9.3 and 14.7).  Any thread. */
#include "mpi/core/file.h"
#include "mpi/api/bodies.h"
#include "mpi/core/errh.h"
#include <pthread.h>

struct rt_slab wm_file_slab = RT_SLAB(WM_FILE, "file", struct wm_file);
static struct wm_errh *initial; /* the handler of MPI_FILE_NULL; NULL: MPI_ERRORS_RETURN */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct wm_errh *wm_file_errh_ref(struct wm_file *f)
{
    pthread_mutex_lock(&mutex);
    struct wm_errh *e = f ? f->errh : initial;
    e = e ? e : wm_errh_predefined[(uintptr_t)MPI_ERRORS_RETURN & 7];
    wm_errh_ref(e);
    pthread_mutex_unlock(&mutex);
    return e;
}

int wm_api_file_set_errhandler(struct wm_file *file, struct wm_errh *errhandler)
{
    struct wm_errh **place = file ? &file->errh : &initial;
    if (errhandler->kind == WM_ERRH_COMM || errhandler->kind == WM_ERRH_WIN ||
        errhandler->kind == WM_ERRH_SESSION)
        return wm_err(MPI_ERR_ARG,
                      "the error handler was made for another class of object, not for files");
    wm_errh_ref(errhandler);
    pthread_mutex_lock(&mutex);
    struct wm_errh *old = *place;
    *place = errhandler;
    pthread_mutex_unlock(&mutex);
    if (old)
        wm_errh_unref(old);
    return MPI_SUCCESS;
}

int wm_api_file_get_errhandler(struct wm_file *file, struct wm_errh **errhandler)
{
    *errhandler = wm_file_errh_ref(file);
    return MPI_SUCCESS;
}
