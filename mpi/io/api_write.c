/* SPDX-License-Identifier: BSD-3-Clause */
/* The bodies of the calls that write. */
#include "mpi/api/bodies.h"
#include "mpi/io/op.h"

static struct wm_access access_of(struct wm_file *f, enum wm_where where, MPI_Offset offset,
                                  const void *buf, MPI_Count count, struct wm_type *type)
{
    return (struct wm_access){ .file = f,
                               .write = true,
                               .where = where,
                               .offset = offset,
                               .buf = (void *)(uintptr_t)buf,
                               .count = count,
                               .type = type };
}

int wm_api_file_write_at(struct wm_file *fh, MPI_Offset offset, const void *buf, MPI_Count count,
                         struct wm_type *datatype, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_AT, offset, buf, count, datatype);
    return wm_io_run(&a, status);
}

int wm_api_file_write(struct wm_file *fh, const void *buf, MPI_Count count,
                      struct wm_type *datatype, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_OWN, 0, buf, count, datatype);
    return wm_io_run(&a, status);
}

int wm_api_file_iwrite_at(struct wm_file *fh, MPI_Offset offset, const void *buf, MPI_Count count,
                          struct wm_type *datatype, MPI_Request *request)
{
    const struct wm_access a = access_of(fh, WM_AT, offset, buf, count, datatype);
    return wm_io_start(&a, request);
}

int wm_api_file_iwrite(struct wm_file *fh, const void *buf, MPI_Count count,
                       struct wm_type *datatype, MPI_Request *request)
{
    const struct wm_access a = access_of(fh, WM_OWN, 0, buf, count, datatype);
    return wm_io_start(&a, request);
}
