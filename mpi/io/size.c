/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes, atomic mode, and what makes data safe: MPI-5.0 sections 14.2.4 to 14.2.6 and 14.6.1.  Rank
 * 0 changes the size once all ranks have called. */
#include "coll/start/team.h"
#include "mpi/api/bodies.h"
#include "mpi/base/comm.h"
#include "mpi/io/calls.h"
#include "mpi/io/file.h"

static int check_size(const struct wm_file *f, MPI_Offset size)
{
    if (size < 0)
        return wm_err(MPI_ERR_ARG, "size is %lld; it must not be negative", (long long)size);
    if (f->amode & MPI_MODE_SEQUENTIAL)
        return wm_err(MPI_ERR_UNSUPPORTED_OPERATION,
                      "the file was opened with MPI_MODE_SEQUENTIAL");
    if (f->amode & MPI_MODE_RDONLY)
        return wm_err(MPI_ERR_READ_ONLY, "the file was opened with MPI_MODE_RDONLY");
    return MPI_SUCCESS;
}

/* Rank 0 changes the size; all ranks return its result. */
static int change(struct wm_file *f, MPI_Offset size, int (*how)(int fd, int64_t nbytes),
                  const char *what)
{
    int err = wm_file_same(f, check_size(f, size), size, "size");
    if (err)
        return err;
    int rc = f->comm->rank ? 0 : how(f->fd, size);
    return wm_file_agree(f, rc < 0 ? wm_file_err(f, rc, what) : MPI_SUCCESS);
}

int wm_api_file_set_size(struct wm_file *fh, MPI_Offset size)
{
    wm_file_enter(fh, WM_FILE_SET_SIZE);
    return change(fh, size, rt_io_truncate, "could not set the size of");
}

int wm_api_file_preallocate(struct wm_file *fh, MPI_Offset size)
{
    wm_file_enter(fh, WM_FILE_PREALLOCATE);
    return change(fh, size, rt_io_preallocate, "could not preallocate");
}

int wm_api_file_get_size(struct wm_file *fh, MPI_Offset *size)
{
    int64_t n = rt_io_size(fh->fd);
    if (n < 0)
        return wm_file_err(fh, (int)n, "could not get the size of");
    *size = n;
    return MPI_SUCCESS;
}

/* A host has one cache of the file: one rank writes it back once all have written to it. */
int wm_api_file_sync(struct wm_file *fh)
{
    wm_file_enter(fh, WM_FILE_SYNC);
    int err = wm_file_agree(fh, MPI_SUCCESS);
    if (err)
        return err;
    int rc = coll_team_local(&fh->comm->team)->rank == 0 ? rt_io_sync(fh->fd) : 0;
    return wm_file_agree(fh, rc < 0 ? wm_file_err(fh, rc, "could not write back") : MPI_SUCCESS);
}

int wm_api_file_set_atomicity(struct wm_file *fh, int flag)
{
    wm_file_enter(fh, WM_FILE_SET_ATOMICITY);
    int rc = flag ? rt_io_can_lock(fh->fd, !(fh->amode & MPI_MODE_RDONLY)) : 0, err = MPI_SUCCESS;
    if (rc < 0)
        err = wm_err_rt(rc,
                        "atomic mode needs locks, which file system %s of file %s does not have",
                        fh->fs.name, fh->name);
    err = wm_file_same(fh, err, flag != 0, "flag");
    if (!err)
        fh->atomic = flag != 0;
    return err;
}

int wm_api_file_get_atomicity(struct wm_file *fh, int *flag)
{
    *flag = fh->atomic;
    return MPI_SUCCESS;
}
