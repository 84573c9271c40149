/* SPDX-License-Identifier: BSD-3-Clause */
/* The bodies of the calls that read. */
#include "mpi/api/bodies.h"
#include "mpi/io/op.h"

static struct wm_access access_of(struct wm_file *f, enum wm_where where, MPI_Offset offset,
                                  void *buf, MPI_Count count, struct wm_type *type)
{
    return (struct wm_access){ .file = f,
                               .write = false,
                               .where = where,
                               .offset = offset,
                               .buf = buf,
                               .count = count,
                               .type = type };
}

int wm_api_file_read_at(struct wm_file *fh, MPI_Offset offset, void *buf, MPI_Count count,
                        struct wm_type *datatype, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_AT, offset, buf, count, datatype);
    return wm_io_run(&a, status);
}

int wm_api_file_read(struct wm_file *fh, void *buf, MPI_Count count, struct wm_type *datatype,
                     MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_OWN, 0, buf, count, datatype);
    return wm_io_run(&a, status);
}

int wm_api_file_iread_at(struct wm_file *fh, MPI_Offset offset, void *buf, MPI_Count count,
                         struct wm_type *datatype, MPI_Request *request)
{
    const struct wm_access a = access_of(fh, WM_AT, offset, buf, count, datatype);
    return wm_io_start(&a, request);
}

int wm_api_file_iread(struct wm_file *fh, void *buf, MPI_Count count, struct wm_type *datatype,
                      MPI_Request *request)
{
    const struct wm_access a = access_of(fh, WM_OWN, 0, buf, count, datatype);
    return wm_io_start(&a, request);
}
