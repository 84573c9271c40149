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

/* ---- of one rank ---- */

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

int wm_api_file_read_shared(struct wm_file *fh, void *buf, MPI_Count count,
                            struct wm_type *datatype, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_SHARED, 0, buf, count, datatype);
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

int wm_api_file_iread_shared(struct wm_file *fh, void *buf, MPI_Count count,
                             struct wm_type *datatype, MPI_Request *request)
{
    const struct wm_access a = access_of(fh, WM_SHARED, 0, buf, count, datatype);
    return wm_io_start(&a, request);
}

/* ---- of all ranks ---- */

int wm_api_file_read_at_all(struct wm_file *fh, MPI_Offset offset, void *buf, MPI_Count count,
                            struct wm_type *datatype, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_AT, offset, buf, count, datatype);
    return wm_io_run_all(&a, status);
}

int wm_api_file_read_all(struct wm_file *fh, void *buf, MPI_Count count, struct wm_type *datatype,
                         MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_OWN, 0, buf, count, datatype);
    return wm_io_run_all(&a, status);
}

int wm_api_file_read_ordered(struct wm_file *fh, void *buf, MPI_Count count,
                             struct wm_type *datatype, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_ORDERED, 0, buf, count, datatype);
    return wm_io_run_all(&a, status);
}

int wm_api_file_iread_at_all(struct wm_file *fh, MPI_Offset offset, void *buf, MPI_Count count,
                             struct wm_type *datatype, MPI_Request *request)
{
    const struct wm_access a = access_of(fh, WM_AT, offset, buf, count, datatype);
    return wm_io_start_all(&a, request);
}

int wm_api_file_iread_all(struct wm_file *fh, void *buf, MPI_Count count, struct wm_type *datatype,
                          MPI_Request *request)
{
    const struct wm_access a = access_of(fh, WM_OWN, 0, buf, count, datatype);
    return wm_io_start_all(&a, request);
}

/* ---- in two halves ---- */

int wm_api_file_read_at_all_begin(struct wm_file *fh, MPI_Offset offset, void *buf, MPI_Count count,
                                  struct wm_type *datatype)
{
    const struct wm_access a = access_of(fh, WM_AT, offset, buf, count, datatype);
    return wm_io_begin(&a);
}

int wm_api_file_read_at_all_end(struct wm_file *fh, void *buf, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_AT, 0, buf, 0, NULL);
    return wm_io_end(&a, status);
}

int wm_api_file_read_all_begin(struct wm_file *fh, void *buf, MPI_Count count,
                               struct wm_type *datatype)
{
    const struct wm_access a = access_of(fh, WM_OWN, 0, buf, count, datatype);
    return wm_io_begin(&a);
}

int wm_api_file_read_all_end(struct wm_file *fh, void *buf, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_OWN, 0, buf, 0, NULL);
    return wm_io_end(&a, status);
}

int wm_api_file_read_ordered_begin(struct wm_file *fh, void *buf, MPI_Count count,
                                   struct wm_type *datatype)
{
    const struct wm_access a = access_of(fh, WM_ORDERED, 0, buf, count, datatype);
    return wm_io_begin(&a);
}

int wm_api_file_read_ordered_end(struct wm_file *fh, void *buf, MPI_Status *status)
{
    const struct wm_access a = access_of(fh, WM_ORDERED, 0, buf, 0, NULL);
    return wm_io_end(&a, status);
}
