/* SPDX-License-Identifier: BSD-3-Clause */
/* Split collective access (MPI-5.0 section 14.4.5): the first half starts a nonblocking operation,
 * the second half waits for it.  A file has at most one. */
#include "mpi/api/bodies.h"
#include "mpi/io/op.h"
#include "mpi/p2p/api_wait.h"

int wm_io_begin(const struct wm_access *a)
{
    MPI_Request r;
    int err = wm_io_start_all(a, &r);
    if (!err)
        a->file->split = (struct wm_split){ r, a->buf, (int)a->where, a->write };
    return err;
}

int wm_io_end(const struct wm_access *a, MPI_Status *status)
{
    struct wm_split *s = &a->file->split;
    if (!s->request || s->where != (int)a->where || s->write != a->write)
        return wm_err(MPI_ERR_IO, s->request
                                      ? "the split collective access in progress was begun by "
                                        "another kind of call"
                                      : "no split collective access of the file has been begun");
    if (s->buf != a->buf)
        return wm_err(MPI_ERR_ARG, "buf is not the buffer that the access was begun with");
    MPI_Request r = s->request;
    s->request = 0;
    return wm_req_wait_handle(r, status);
}
