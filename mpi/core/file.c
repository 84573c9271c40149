/* SPDX-License-Identifier: BSD-3-Clause */
/* Files as objects: their error handlers (MPI-5.0 sections 9.3 and 14.7).  Any thread. */
#include "mpi/core/file.h"
#include "mpi/api/bodies.h"
#include "mpi/core/errh.h"

struct rt_slab wm_file_slab = RT_SLAB(WM_FILE, "file", struct wm_file);
static struct wm_errh *initial; /* the handler of MPI_FILE_NULL; NULL: MPI_ERRORS_RETURN */

struct wm_errh *wm_file_errh_ref(struct wm_file *f)
{
    struct wm_errh *e = wm_errh_ref_of(f ? &f->errh : &initial);
    return e ? e : wm_errh_predefined[(uintptr_t)MPI_ERRORS_RETURN & 7];
}

int wm_api_file_set_errhandler(struct wm_file *file, struct wm_errh *errhandler)
{
    return wm_errh_set(file ? &file->errh : &initial, WM_ERRH_FILE, errhandler);
}

int wm_api_file_get_errhandler(struct wm_file *file, struct wm_errh **errhandler)
{
    *errhandler = wm_file_errh_ref(file);
    return MPI_SUCCESS;
}
