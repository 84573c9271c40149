/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening, closing and deleting files (MPI-5.0 section 14.2).  The ranks agree once on a context of
 * their own; the same messages carry what rank 0 found when it opened the file, wrong arguments of
 * any rank, and a checksum of the access modes.  Then all others open the file, and all agree on
 * the result.  A file that may be new is created by rank 0 between the two, which takes a third
 * agreement. */
#include "mpi/io/calls.h"
#include "mpi/io/open.h"
#include "mpi/api/bodies.h"
#include "mpi/core/commnew.h"
#include "mpi/core/ctx.h"
#include "mpi/core/comm.h"
#include "mpi/coll/alive.h"
#include "mpi/core/errh.h"
#include "mpi/core/helper.h"
#include "mpi/ft/revoke.h"
#include "mpi/io/cop.h"
#include "mpi/io/file.h"
#include "mpi/io/hints.h"
#include "mpi/io/onehost.h"
#include "mpi/io/shared.h"
#include "mpi/io/twophase.h"
#include "mpi/io/view.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define ACCESS (MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR)
#define MODES \
    (ACCESS | MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_UNIQUE_OPEN | \
     MPI_MODE_SEQUENTIAL | MPI_MODE_APPEND)

static int check_amode(int amode)
{
    int access = amode & ACCESS;
    if (amode & ~MODES)
        return wm_err(MPI_ERR_AMODE, "amode has the unknown bits 0x%x", (unsigned)(amode & ~MODES));
    if (access != MPI_MODE_RDONLY && access != MPI_MODE_WRONLY && access != MPI_MODE_RDWR)
        return wm_err(MPI_ERR_AMODE, "amode must have exactly one of MPI_MODE_RDONLY, "
                                     "MPI_MODE_WRONLY and MPI_MODE_RDWR");
    if (access == MPI_MODE_RDONLY && amode & (MPI_MODE_CREATE | MPI_MODE_EXCL))
        return wm_err(MPI_ERR_AMODE,
                      "MPI_MODE_CREATE and MPI_MODE_EXCL do not go with MPI_MODE_RDONLY");
    if (access == MPI_MODE_RDWR && amode & MPI_MODE_SEQUENTIAL)
        return wm_err(MPI_ERR_AMODE, "MPI_MODE_SEQUENTIAL does not go with MPI_MODE_RDWR");
    return MPI_SUCCESS;
}

/* The name without ROMIO's prefix of a file system and a colon: runtime/io detects the file system
 * itself. */
static const char *bare_name(const char *name)
{
    static const char *const prefixes[] = { "ufs:",  "nfs:",   "xfs:",   "lustre:",
                                            "gpfs:", "panfs:", "pvfs2:", "testfs:" };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
            return name + strlen(prefixes[i]);
    return name;
}

/* The file without view, communicator and descriptor. */
static int create_object(const char *filename, int amode, const struct wm_info *info,
                         struct wm_file **out)
{
    struct wm_file *f = rt_slab_alloc(&wm_file_slab);
    if (!f)
        return wm_err(MPI_ERR_NO_MEM, "no memory for another file");
    f->fd = -1;
    f->amode = amode;
    pthread_mutex_init(&f->mutex, NULL);
    f->name = strdup(bare_name(filename));
    f->hints = wm_hints_create();
    f->numbers = calloc(1, sizeof *f->numbers);
    f->joint = malloc(sizeof *f->joint);
    f->errh = wm_file_errh_ref(NULL);
    bool fits = f->name && f->hints && f->numbers && f->joint && wm_onehost_open(f) >= 0;
    int err = fits ? wm_hints_read(f->hints, info)
                   : wm_err(MPI_ERR_NO_MEM, "no memory for another file");
    if (!err)
        err = wm_view_default(&f->view);
    *out = f;
    return err;
}

static void destroy_object(struct wm_file *f)
{
    rt_io_gds_close(&f->gds);
    if (f->fd >= 0)
        rt_io_close(f->fd);
    wm_errh_unref(f->errh);
    wm_hints_free(f->hints);
    if (f->view)
        wm_view_unref(f->view);
    wm_exchange_free(f->exchange);
    wm_onehost_free(f->onehost);
    free(f->spare);
    if (!f->dead) {
        free(f->joint);
        free(f->numbers);
    }
    free(f->name);
    pthread_mutex_destroy(&f->mutex);
    rt_slab_free(&wm_file_slab, f);
}

void wm_file_ref(struct wm_file *f) { f->obj.refs++; }

void wm_file_unref(struct wm_file *f)
{
    if (--f->obj.refs)
        return;
    f->comm->file = NULL;
    wm_comm_unref(f->comm);
    destroy_object(f);
}

/* A descriptor, or -RT_E... */
static int try_open(const struct wm_file *f, bool first, int flags)
{
    mode_t perm = f->hints->file_perm >= 0 ? (mode_t)f->hints->file_perm : 0666;
    if (first && f->amode & MPI_MODE_EXCL)
        flags |= O_EXCL;
    return first && f->amode & MPI_MODE_CREATE
               ? rt_io_create(f->name, flags, perm, &f->hints->stripes)
               : rt_io_open(f->name, flags, perm);
}

/* A file that is only written is open for reading too, if that is permitted: only such a descriptor
 * can be mapped (runtime/io/pieces.c). */
static int open_fd(struct wm_file *f, bool first)
{
    f->fd = try_open(f, first, f->amode & MPI_MODE_RDONLY ? O_RDONLY : O_RDWR);
    if (f->fd == -RT_EACCESS && f->amode & MPI_MODE_WRONLY)
        f->fd = try_open(f, first, O_WRONLY);
    return f->fd < 0 ? wm_file_err(f, f->fd, "could not open") : MPI_SUCCESS;
}

/* Makes the file's communicator, and agrees on errors so far: the class of any rank's becomes that
 * of all. */
static int agree(struct wm_comm *comm, int err, int amode, struct wm_comm **out)
{
    uint64_t mine = (uint64_t)(unsigned)amode * 0x9e3779b97f4a7c15ull + 1;
    struct wm_ctx_search s = { .err = err };
    /* Rank 0 adds as many terms as the others subtract. */
    s.check = comm->rank ? 0 - mine : (uint64_t)(comm->size - 1) * mine;
    int rc = wm_comm_create_checked(comm, comm->group, &s, out);
    if (err)
        return err; /* with the text of this rank */
    if (rc == MPI_ERR_GROUP)
        return wm_err(MPI_ERR_NOT_SAME, "amode differs among the processes; here it is 0x%x",
                      (unsigned)amode);
    return rc;
}

/* A checksum that must be the same on all ranks.  It has the hints by which the ranks decide
 * together and, if all ranks are on one host, the numbers of the file and its device: names may be
 * spelled differently, but must mean one file.  Hosts may number one file differently. */
static int64_t identity(const struct wm_file *f)
{
    struct stat st;
    uint64_t hints = (uint64_t)wm_hints_check(f->hints, NULL);
    if (!f->comm->team.one_node || rt_io_sys->stat(f->fd, &st) < 0)
        return (int64_t)(hints >> 1);
    return (int64_t)(((uint64_t)st.st_ino * 0x9e3779b97f4a7c15ull ^ (uint64_t)st.st_dev ^ hints) >>
                     2);
}

/* The last agreement of an opening.  The ranks divide the file by the same units, also if hosts
 * have mounted the file system differently. */
static int agree_on_file(struct wm_file *f, int err)
{
    struct rt_io_fs *fs = &f->fs;
    int64_t units[WM_FILE_MORE] = { fs->block, fs->stripes.nbytes, fs->stripes.n };
    err = wm_file_same_max(f, err, err ? 0 : identity(f),
                           "the file behind the name or a hint of collective buffering", units,
                           WM_FILE_MORE);
    fs->block = units[0];
    fs->stripes = (struct rt_io_stripes){ units[1], (int)units[2] };
    return err;
}

/* Rank 0 creates a file only after all ranks have begun to open it: each may have deleted the old
 * one just before. */
static int create(struct wm_file *f)
{
    return wm_file_agree(f, f->comm->rank ? MPI_SUCCESS : open_fd(f, true));
}

/* The rest, once all ranks know that rank 0 has opened the file. */
static int complete(struct wm_file *f)
{
    int err = f->amode & MPI_MODE_CREATE ? create(f) : MPI_SUCCESS;
    if (err)
        return err;
    err = f->comm->rank ? open_fd(f, false) : MPI_SUCCESS;
    if (!err) {
        rt_io_fs_look(f->fd, &f->fs);
        int64_t end = f->amode & MPI_MODE_APPEND ? rt_io_size(f->fd) : 0;
        if (end < 0)
            err = wm_file_err(f, (int)end, "could not get the size of");
        f->pos = end;
    }
    err = agree_on_file(f, err);
    return err ? err : wm_shared_open(f, f->pos);
}

/* A process has died while the file was opened: a task of the domain still uses the communicator.
 * True: it has ended.  Without --ft the job ends soon. */
static bool end_calls(struct wm_file *f)
{
    if (!cfg.ft || !wm_shared_is_local(f))
        return false;
    wm_file_lock(f);
    wm_ft_end_calls(f->comm);
    if (f->numbers->stays)
        wm_domain_wait(f->comm->dom, &f->numbers->task.req);
    wm_file_unlock(f);
    f->dead = false;
    return true;
}

int wm_api_file_open(struct wm_comm *comm, const char *filename, int amode, struct wm_info *info,
                     struct wm_file **fh)
{
    struct wm_file *f = NULL;
    struct wm_comm *own;
    if (comm->inter)
        return wm_err(MPI_ERR_COMM, "files are opened by the processes of an intracommunicator");
    int err = check_amode(amode);
    if (!err)
        err = create_object(filename, amode, info, &f);
    if (!err && comm->rank == 0 && !(amode & MPI_MODE_CREATE))
        err = open_fd(f, true);
    err = agree(comm, err, amode, &own);
    if (err) {
        if (f)
            destroy_object(f);
        return err;
    }
    f->comm = own;
    own->no_handle = true;
    own->file = f;
    own->notices = own->ctx;
    err = complete(f);
    if (f->dead && !end_calls(f))
        return err;
    if (err) {
        wm_shared_close(f);
        f->comm->file = NULL;
        wm_comm_free(f->comm);
        destroy_object(f);
        return err;
    }
    *fh = f;
    return MPI_SUCCESS;
}

/* A job of a split access still uses the descriptor, whose number another file might get. */
static int close_fd(struct wm_file *f)
{
    if (f->split.request)
        return wm_err(MPI_ERR_IO, "a split collective access of the file has not been ended");
    rt_io_gds_close(&f->gds);
    int rc = f->fd < 0 ? 0 : rt_io_close(f->fd); /* -1: an earlier attempt failed on another rank */
    f->fd = -1;
    return rc < 0 ? wm_file_err(f, rc, "could not close") : MPI_SUCCESS;
}

/* All ranks close the file before any returns: programs then read by other means what was written,
 * or open the file anew and truncate it, which must not cut short what another rank is reading. */
int wm_api_file_close(struct wm_file *fh)
{
    wm_file_enter(fh, WM_FILE_CLOSE);
    int err = close_fd(fh);
    err = wm_file_agree(fh, err); /* all have closed it */
    if (fh->amode & MPI_MODE_DELETE_ON_CLOSE) {
        int gone = fh->comm->rank || err ? 0 : rt_io_unlink(fh->name);
        if (gone < 0 && gone != -RT_ENOFILE) /* another process may have deleted it */
            err = wm_file_err(fh, gone, "could not delete");
        err = wm_file_agree(fh, err);
    }
    int left = fh->dead || fh->apart ? MPI_SUCCESS : wm_shared_close(fh); /* waits for the others */
    err = err ? err : left;
    if (err) /* the object stays: its error handler is called */
        return err;
    wm_helper_leave(WM_CLIENT_FILE, &fh->helped);
    struct wm_comm *c = fh->comm;
    rt_lock(&c->dom->lock);
    wm_file_unref(fh);
    rt_unlock(&c->dom->lock);
    return MPI_SUCCESS;
}

int wm_api_file_delete(const char *filename, struct wm_info *info)
{
    (void)info;
    int err = rt_io_unlink(bare_name(filename));
    return err < 0 ? wm_err_rt(err, "could not delete file %s", filename) : MPI_SUCCESS;
}
