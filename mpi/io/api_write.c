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

/* ---- of one rank ---- */

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

int wm_api_file_write_shared(struct wm_file *fh, const void *buf, MPI_Count count,
                             struct wm_type *datatype, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_SHARED, 0, buf, count, datatype);
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

int wm_api_file_iwrite_shared(struct wm_file *fh, const void *buf, MPI_Count count,
                              struct wm_type *datatype, MPI_Request *request)
{
    const struct wm_access a = access_of(fh, WM_SHARED, 0, buf, count, datatype);
    return wm_io_start(&a, request);
}

/* ---- of all ranks ---- */

int wm_api_file_write_at_all(struct wm_file *fh, MPI_Offset offset, const void *buf,
                             MPI_Count count, struct wm_type *datatype, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_AT, offset, buf, count, datatype);
    return wm_io_run_all(&a, status);
}

int wm_api_file_write_all(struct wm_file *fh, const void *buf, MPI_Count count,
                          struct wm_type *datatype, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_OWN, 0, buf, count, datatype);
    return wm_io_run_all(&a, status);
}

int wm_api_file_write_ordered(struct wm_file *fh, const void *buf, MPI_Count count,
                              struct wm_type *datatype, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_ORDERED, 0, buf, count, datatype);
    return wm_io_run_all(&a, status);
}

int wm_api_file_iwrite_at_all(struct wm_file *fh, MPI_Offset offset, const void *buf,
                              MPI_Count count, struct wm_type *datatype, MPI_Request *request)
{
    const struct wm_access a = access_of(fh, WM_AT, offset, buf, count, datatype);
    return wm_io_start_all(&a, request);
}

int wm_api_file_iwrite_all(struct wm_file *fh, const void *buf, MPI_Count count,
                           struct wm_type *datatype, MPI_Request *request)
{
    const struct wm_access a = access_of(fh, WM_OWN, 0, buf, count, datatype);
    return wm_io_start_all(&a, request);
}

/* ---- in two halves ---- */

int wm_api_file_write_at_all_begin(struct wm_file *fh, MPI_Offset offset, const void *buf,
                                   MPI_Count count, struct wm_type *datatype)
{
    const struct wm_access a = access_of(fh, WM_AT, offset, buf, count, datatype);
    return wm_io_begin(&a);
}

int wm_api_file_write_at_all_end(struct wm_file *fh, const void *buf, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_AT, 0, buf, 0, NULL);
    return wm_io_end(&a, status);
}

int wm_api_file_write_all_begin(struct wm_file *fh, const void *buf, MPI_Count count,
                                struct wm_type *datatype)
{
    const struct wm_access a = access_of(fh, WM_OWN, 0, buf, count, datatype);
    return wm_io_begin(&a);
}

int wm_api_file_write_all_end(struct wm_file *fh, const void *buf, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_OWN, 0, buf, 0, NULL);
    return wm_io_end(&a, status);
}

int wm_api_file_write_ordered_begin(struct wm_file *fh, const void *buf, MPI_Count count,
                                    struct wm_type *datatype)
{
    const struct wm_access a = access_of(fh, WM_ORDERED, 0, buf, count, datatype);
    return wm_io_begin(&a);
}

int wm_api_file_write_ordered_end(struct wm_file *fh, const void *buf, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_ORDERED, 0, buf, 0, NULL);
    return wm_io_end(&a, status);
}
