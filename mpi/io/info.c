/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_File_get_info and MPI_File_set_info.  The fields of the hints: under the file's lock. */
#include "mpi/api/bodies.h"
#include "mpi/base/comm.h"
#include "mpi/io/calls.h"
#include "mpi/io/file.h"
#include "mpi/io/hints.h"
#include "mpi/io/plan.h"
#include <stdio.h>

static int put_number(struct wm_info *out, const char *key, int64_t v)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)v);
    return wm_info_put(out, key, text);
}

static const char *choice_text(enum wm_choice3 c)
{
    return c == WM_ENABLE ? "enable" : c == WM_DISABLE ? "disable" : "automatic";
}

/* What is in use, over what the user has set. */
static int in_use(const struct wm_file *f, struct wm_info *out)
{
    const struct wm_hints *h = f->hints;
    int naggs;
    wm_plan_aggregators(f, &naggs);
    int err = wm_info_put(out, "filename", f->name);
    if (!err)
        err = wm_info_put(out, "romio_cb_read", choice_text(h->cb_read));
    if (!err)
        err = wm_info_put(out, "romio_cb_write", choice_text(h->cb_write));
    if (!err)
        err = wm_info_put(out, "romio_filesystem_type", f->fs.name);
    if (!err)
        err = put_number(out, "cb_buffer_size", h->window);
    if (!err)
        err = put_number(out, "cb_nodes", naggs);
    if (!err)
        err = put_number(out, "nb_proc", f->comm->size);
    if (!err && f->fs.stripes.nbytes)
        err = put_number(out, "striping_unit", f->fs.stripes.nbytes);
    if (!err && f->fs.stripes.n)
        err = put_number(out, "striping_factor", f->fs.stripes.n);
    return err;
}

int wm_api_file_get_info(struct wm_file *fh, struct wm_info **info_used)
{
    struct wm_info *out = NULL;
    wm_file_lock(fh);
    int err = fh->hints->given ? wm_info_dup(fh->hints->given, &out) : wm_info_create(&out);
    if (!err)
        err = in_use(fh, out);
    wm_file_unlock(fh);
    if (err)
        wm_info_destroy(out);
    else
        *info_used = out;
    return err;
}

int wm_api_file_set_info(struct wm_file *fh, struct wm_info *info)
{
    wm_file_enter(fh, WM_FILE_SET_INFO);
    wm_file_lock(fh);
    int64_t check = wm_hints_check(fh->hints, info);
    wm_file_unlock(fh);
    int err = wm_file_same(fh, MPI_SUCCESS, check, "a hint of collective buffering");
    if (err)
        return err;
    wm_file_lock(fh);
    err = wm_hints_read(fh->hints, info);
    wm_file_unlock(fh);
    return err;
}
