/* SPDX-License-Identifier: BSD-3-Clause */
/* Views, and the calls that move within them.  Bodies take the file's lock. */
#include "mpi/io/calls.h"
#include "mpi/io/view.h"
#include "mpi/api/bodies.h"
#include "mpi/base/comm.h"
#include "mpi/io/file.h"
#include "mpi/io/datarep.h"
#include "mpi/io/hints.h"
#include "mpi/io/shared.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The layout of the data in the file, if the view's representation is not that of memory. */
static int represent(struct wm_view *v)
{
    if (!wm_datarep_find(v->datarep, &v->rep))
        return wm_err(MPI_ERR_UNSUPPORTED_DATAREP,
                      "datarep is \"%.40s\", which is neither known nor registered", v->datarep);
    if (!v->rep)
        return MPI_SUCCESS;
    int err = wm_datarep_size(v->rep, v->etype, &v->esize);
    if (!err)
        err = wm_datarep_type(v->rep, v->filetype, &v->stored);
    if (!err)
        v->file = &v->stored->layout;
    return err;
}

static int create(MPI_Offset disp, struct wm_type *etype, struct wm_type *filetype,
                  const char *datarep, struct wm_view **out)
{
    struct wm_view *v = calloc(1, sizeof *v);
    if (!v)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a view");
    v->refs = 1;
    v->disp = disp;
    v->etype = etype;
    v->filetype = filetype;
    v->esize = etype->layout.size;
    v->file = &filetype->layout;
    snprintf(v->datarep, sizeof v->datarep, "%s", datarep);
    wm_type_ref(etype);
    wm_type_ref(filetype);
    int err = represent(v);
    rt_layout_facts(v->file, &v->facts);
    v->piece = INT64_MAX;
    if (err)
        wm_view_unref(v);
    else
        *out = v;
    return err;
}

int wm_view_default(struct wm_view **out)
{
    struct wm_type *byte = wm_type_get(MPI_BYTE);
    return create(0, byte, byte, "native", out);
}

void wm_view_ref(struct wm_view *v) { rt_fetch_add(&v->refs, 1); }

void wm_view_unref(struct wm_view *v)
{
    if (rt_fetch_add(&v->refs, -1) != 1)
        return;
    wm_type_unref(v->etype);
    wm_type_unref(v->filetype);
    if (v->stored)
        wm_type_unref(v->stored);
    free(v);
}

void wm_view_hull(const struct wm_view *v, int64_t pos, int64_t len, int64_t *from, int64_t *to)
{
    const struct rt_layout *l = v->file;
    if (v->facts.ordered) {
        *from = wm_view_offset(v, pos);
        *to = wm_view_offset(v, pos + len - 1) + 1;
    } else { /* of whole filetypes; their extent is not negative */
        *from = v->disp + pos / l->size * l->extent + l->true_lb;
        *to = v->disp + (pos + len - 1) / l->size * l->extent + l->true_lb + l->true_extent;
    }
}

int64_t wm_view_below(const struct wm_view *v, int64_t off)
{
    const struct rt_layout *l = v->file;
    off -= v->disp;
    if (off <= 0 || !l->size)
        return 0;
    if (v->facts.ordered)
        return rt_layout_below(l, off);
    int64_t whole = off - l->true_lb - l->true_extent; /* elements that end before */
    return whole < 0 || l->extent <= 0 ? 0 : (whole / l->extent + 1) * l->size;
}

/* ---- MPI_File_set_view ---- */

static int check_types(const struct wm_type *etype, const struct wm_type *filetype)
{
    const struct rt_layout *e = &etype->layout, *l = &filetype->layout;
    if (!e->size && l->size)
        return wm_err(MPI_ERR_TYPE, "the etype has no data, but the filetype has");
    if (e->size && l->size % e->size)
        return wm_err(MPI_ERR_TYPE,
                      "the filetype has %lld bytes of data, not whole etypes of %lld bytes",
                      (long long)l->size, (long long)e->size);
    if (l->size && (l->true_lb < 0 || l->extent < 0))
        return wm_err(MPI_ERR_TYPE, "the filetype has negative displacements");
    return MPI_SUCCESS;
}

static int check_disp(const struct wm_file *f, MPI_Offset disp)
{
    bool sequential = f->amode & MPI_MODE_SEQUENTIAL;
    if (sequential != (disp == MPI_DISPLACEMENT_CURRENT))
        return wm_err(MPI_ERR_ARG, sequential
                                       ? "disp must be MPI_DISPLACEMENT_CURRENT: the file was "
                                         "opened with MPI_MODE_SEQUENTIAL"
                                       : "disp is MPI_DISPLACEMENT_CURRENT, but the file was not "
                                         "opened with MPI_MODE_SEQUENTIAL");
    if (!sequential && disp < 0)
        return wm_err(MPI_ERR_ARG, "disp is %lld; it must not be negative", (long long)disp);
    return MPI_SUCCESS;
}

/* What must be the same on all ranks. */
static int64_t signature(struct wm_file *f, const struct wm_type *etype, const char *datarep,
                         const struct wm_info *info)
{
    wm_file_lock(f);
    uint64_t h = (uint64_t)wm_hints_check(f->hints, info);
    wm_file_unlock(f);
    h = (h ^ (uint64_t)etype->layout.extent) * 0x100000001b3ull;
    for (const char *s = datarep; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3ull; /* FNV-1a */
    return (int64_t)(h >> 2);
}

/* The byte of the file at the shared pointer.  The agreement also ensures that all ranks have read
 * the pointer before rank 0 resets it. */
static int current(struct wm_file *f, MPI_Offset *disp)
{
    int64_t at;
    int err = wm_shared_add(f, 0, &at);
    if (!err)
        *disp = wm_view_offset(f->view, at * f->view->esize);
    return wm_file_agree(f, err);
}

/* Agrees on the length of the ranks' pieces. */
static int compare(struct wm_file *f, struct wm_view *v)
{
    const struct rt_layout *l = v->file;
    v->piece = !l->size ? 0 : l->contig ? INT64_MAX : l->size / v->facts.nruns;
    return wm_file_max(f, &v->piece, 1);
}

int wm_api_file_set_view(struct wm_file *fh, MPI_Offset disp, struct wm_type *etype,
                         struct wm_type *filetype, const char *datarep, struct wm_info *info)
{
    struct wm_view *v = NULL;
    wm_file_enter(fh, WM_FILE_SET_VIEW);
    int err = check_disp(fh, disp);
    if (!err)
        err = check_types(etype, filetype);
    if (!err)
        err = create(disp, etype, filetype, datarep, &v);
    err = wm_file_same(
        fh, err, err ? 0 : signature(fh, etype, datarep, info),
        "the etype's extent, the data representation or a hint of collective buffering");
    if (!err && disp == MPI_DISPLACEMENT_CURRENT)
        err = current(fh, &v->disp);
    if (!err)
        err = compare(fh, v);
    if (!err)
        err = wm_shared_set(fh, MPI_SUCCESS, 0);
    if (err) {
        if (v)
            wm_view_unref(v);
        return err;
    }
    wm_file_lock(fh);
    struct wm_view *old = fh->view;
    fh->view = v;
    fh->pos = 0;
    err = wm_hints_read(fh->hints, info);
    wm_file_unlock(fh);
    wm_view_unref(old);
    return err;
}

/* A handle that the user may free, unless it is predefined. */
static int hand_out(struct wm_type *t, struct wm_type **out)
{
    if (!t->predefined)
        return wm_api_type_dup(t, out);
    *out = t;
    return MPI_SUCCESS;
}

int wm_api_file_get_view(struct wm_file *fh, MPI_Offset *disp, struct wm_type **etype,
                         struct wm_type **filetype, char *datarep)
{
    wm_file_lock(fh);
    struct wm_view *v = fh->view;
    wm_view_ref(v);
    wm_file_unlock(fh);
    int err = hand_out(v->etype, etype);
    if (!err)
        err = hand_out(v->filetype, filetype);
    if (!err) {
        *disp = v->disp;
        strcpy(datarep, v->datarep);
    }
    wm_view_unref(v);
    return err;
}

int wm_api_file_get_type_extent(struct wm_file *fh, struct wm_type *datatype, MPI_Count *extent)
{
    struct wm_type *stored = datatype;
    wm_file_lock(fh);
    const struct wm_datarep *rep = fh->view->rep;
    wm_file_unlock(fh);
    int err = rep ? wm_datarep_type(rep, datatype, &stored) : MPI_SUCCESS;
    if (err)
        return err;
    *extent = stored->layout.extent;
    if (rep)
        wm_type_unref(stored);
    return err;
}

/* ---- positions ---- */

/* Files opened with MPI_MODE_SEQUENTIAL have no positions but the shared pointer's. */
static int check_seekable(const struct wm_file *f)
{
    if (f->amode & MPI_MODE_SEQUENTIAL)
        return wm_err(MPI_ERR_UNSUPPORTED_OPERATION,
                      "the file was opened with MPI_MODE_SEQUENTIAL; only the calls with shared "
                      "file pointers are allowed");
    return MPI_SUCCESS;
}

/* The first etype that begins at or behind the end of the file, in etypes. */
static int end_of(const struct wm_file *f, int64_t *out)
{
    const struct wm_view *v = f->view;
    int64_t size = rt_io_size(f->fd);
    if (size < 0)
        return wm_file_err(f, (int)size, "could not get the size of");
    *out = v->esize ? (wm_view_below(v, size) + v->esize - 1) / v->esize : 0;
    return MPI_SUCCESS;
}

/* Where a seek from etype `from` leads, in etypes.  Under the file's lock. */
static int seek(struct wm_file *f, int64_t from, MPI_Offset offset, int whence, int64_t *out)
{
    int64_t base = 0, to;
    int err = MPI_SUCCESS;
    if (whence == MPI_SEEK_CUR)
        base = from;
    else if (whence == MPI_SEEK_END)
        err = end_of(f, &base);
    else if (whence != MPI_SEEK_SET)
        err = wm_err(MPI_ERR_ARG,
                     "whence is %d; it must be MPI_SEEK_SET, MPI_SEEK_CUR or "
                     "MPI_SEEK_END",
                     whence);
    if (!err && (__builtin_add_overflow(base, offset, &to) || to < 0))
        err = wm_err(MPI_ERR_ARG,
                     "the new position is %lld from %lld, before the begin of the view",
                     (long long)offset, (long long)base);
    if (!err)
        *out = to;
    return err;
}

int wm_api_file_seek(struct wm_file *fh, MPI_Offset offset, int whence)
{
    int err = check_seekable(fh);
    if (err)
        return err;
    wm_file_lock(fh);
    err = seek(fh, fh->pos, offset, whence, &fh->pos);
    wm_file_unlock(fh);
    return err;
}

int wm_api_file_get_position(struct wm_file *fh, MPI_Offset *offset)
{
    int err = check_seekable(fh);
    if (err)
        return err;
    wm_file_lock(fh);
    *offset = fh->pos;
    wm_file_unlock(fh);
    return MPI_SUCCESS;
}

int wm_api_file_get_byte_offset(struct wm_file *fh, MPI_Offset offset, MPI_Offset *disp)
{
    int err = check_seekable(fh);
    if (!err && offset < 0)
        err = wm_err(MPI_ERR_ARG, "offset is %lld; it must not be negative", (long long)offset);
    if (err)
        return err;
    wm_file_lock(fh);
    *disp = wm_view_offset(fh->view, offset * fh->view->esize);
    wm_file_unlock(fh);
    return MPI_SUCCESS;
}

/* ---- the shared pointer ---- */

int wm_api_file_get_position_shared(struct wm_file *fh, MPI_Offset *offset)
{
    int64_t at;
    int err = wm_shared_add(fh, 0, &at);
    if (!err)
        *offset = at;
    return err;
}

int wm_api_file_seek_shared(struct wm_file *fh, MPI_Offset offset, int whence)
{
    wm_file_enter(fh, WM_FILE_SEEK_SHARED);
    int64_t from = 0, to = 0;
    int err = MPI_SUCCESS;
    if (fh->amode & MPI_MODE_SEQUENTIAL)
        err = wm_err(MPI_ERR_UNSUPPORTED_OPERATION,
                     "the file was opened with MPI_MODE_SEQUENTIAL; it cannot be positioned");
    err = wm_file_same(fh, err, offset, "offset");
    if (!err)
        err = wm_file_same(fh, MPI_SUCCESS, whence, "whence");
    if (err)
        return err;
    if (!fh->comm->rank) {
        err = wm_shared_add(fh, 0, &from);
        wm_file_lock(fh);
        err = err ? err : seek(fh, from, offset, whence, &to);
        wm_file_unlock(fh);
    }
    return wm_shared_set(fh, err, to);
}
