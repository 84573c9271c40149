/* SPDX-License-Identifier: BSD-3-Clause */
/* Files as objects: queries, and agreement of the ranks of a file.  Error handlers are in
 * mpi/core/file.c. */
#include "mpi/io/file.h"
#include "mpi/api/bodies.h"
#include "mpi/coll/alive.h"
#include "mpi/core/comm.h"
#include "mpi/core/group.h"
#include "mpi/io/calls.h"
#include "mpi/op/op.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/err.h"
#include <string.h>

void wm_file_lock(struct wm_file *f) { rt_lock(&f->comm->dom->lock); }
void wm_file_unlock(struct wm_file *f) { rt_unlock(&f->comm->dom->lock); }

int wm_file_err(const struct wm_file *f, int rt_err, const char *what)
{
    return wm_err_rt(rt_err, "%s file %s", what, f->name);
}

/* ---- agreement ---- */

_Static_assert(WM_FILE_NUMBERS == WM_ALIVE_NUMBERS, "wm_alive_numbers() takes them");

void wm_file_lose(struct wm_file *f)
{
    if (!f->dead)
        wm_alive_notify(f->comm);
    f->dead = true;
}

static bool is_idle(void *file) { return !((struct wm_file *)file)->cops; }

/* Waits for all collective operations.  0, or -RT_EPEER: a process of the file has died. */
static int drain(struct wm_file *f)
{
    if (!f->dead && f->cops && wm_alive_until(f->comm, is_idle, f, WM_WHAT_CALL) < 0)
        wm_file_lose(f);
    return f->dead ? -RT_EPEER : 0;
}

int wm_file_numbers(struct wm_file *f, struct coll_args *a, int64_t *v, int n)
{
    a->rtype = &wm_type_get(MPI_INT64_T)->layout;
    a->mem = RT_MEM_HOST;
    wm_file_lock(f);
    int rc = drain(f);
    if (!rc)
        rc = wm_alive_numbers(f->comm, a, f->numbers, v, n);
    if (rc == -RT_EPEER)
        wm_file_lose(f);
    wm_file_unlock(f);
    if (rc == -RT_ENOMEM || rc == -RT_ENOSPC)
        rt_boot_abort(1,
                      rc == -RT_ENOMEM
                          ? "out of memory for an agreement of the processes of a file; the "
                            "others would wait"
                          : "no shared memory for messages of an agreement of the processes of a "
                            "file; the others would wait");
    return rc < 0 ? wm_err_rt(rc, "the %d processes of file %s could not agree", f->comm->size,
                              f->name)
                  : MPI_SUCCESS;
}

/* An opening, in which no rank can be in another call, needs all numbers for itself. */
int wm_file_max(struct wm_file *f, int64_t *v, int n)
{
    struct coll_args a = { .kind = COLL_ALLREDUCE,
                           .sbuf = COLL_IN_PLACE,
                           .op = &wm_op_get(MPI_MAX)->op };
    int64_t id = wm_file_call_id(f), all[WM_FILE_NUMBERS] = { id, -id };
    int err = wm_file_together(f);
    if (err || WM_FILE_IDS + n > WM_FILE_NUMBERS)
        return err ? err : wm_file_numbers(f, &a, v, n);
    memcpy(all + WM_FILE_IDS, v, (size_t)n * sizeof *v);
    err = wm_file_numbers(f, &a, all, WM_FILE_NUMBERS);
    if (!err && wm_file_calls_differ(all))
        err = wm_file_calls_error(f, id, all);
    if (!err)
        memcpy(v, all + WM_FILE_IDS, (size_t)n * sizeof *v);
    return err;
}

int wm_file_same_max(struct wm_file *f, int err, int64_t value, const char *what, int64_t *more,
                     int n)
{
    int64_t v[3 + WM_FILE_MORE] = { err, value, -value };
    for (int i = 0; i < n; i++)
        v[3 + i] = more[i];
    int rc = wm_file_max(f, v, 3 + n);
    if (rc || err)
        return rc ? rc : err; /* `err` with the text of this process */
    if (v[0])
        return wm_err((int)v[0], "another process of the file reports this error");
    if (v[1] != -v[2])
        return wm_err(MPI_ERR_NOT_SAME, "%s differs among the processes: here %lld, largest %lld",
                      what, (long long)value, (long long)v[1]);
    for (int i = 0; i < n; i++)
        more[i] = v[3 + i];
    return MPI_SUCCESS;
}

int wm_file_same(struct wm_file *f, int err, int64_t value, const char *what)
{
    return wm_file_same_max(f, err, value, what, NULL, 0);
}

int wm_file_agree(struct wm_file *f, int err) { return wm_file_same(f, err, 0, ""); }

/* ---- queries ---- */

int wm_api_file_get_group(struct wm_file *fh, struct wm_group **group)
{
    wm_group_ref(fh->comm->group);
    *group = fh->comm->group;
    return MPI_SUCCESS;
}

int wm_api_file_get_amode(struct wm_file *fh, int *amode)
{
    *amode = fh->amode;
    return MPI_SUCCESS;
}
