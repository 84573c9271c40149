/* SPDX-License-Identifier: BSD-3-Clause */
/* The access of one rank.  Three ways between user memory of the host and file:
 *   contiguous memory   each run of the file is one call;
 *   coarse memory       each run of the file is a call with a vector of the runs of memory;
 *   fine memory         data are packed into an image, or unpacked from it.
 * iop.c has the calls for the file.
 *
 * No state but buffers; job threads run this beside the program.  Only atomic mode takes locks: an
 * access then locks the file from its first to its last byte. */
#include "mpi/io/indep.h"
#include "mpi/io/convert.h"
#include "mpi/io/device.h"
#include <stdlib.h>

#define RUNS 64 /* listed at a time */

/* The buffers of the file, if no other operation has them; NULL: no memory. */
static struct wm_rooms *take_rooms(struct wm_file *f)
{
    struct wm_rooms *r = __atomic_exchange_n(&f->spare, NULL, __ATOMIC_ACQUIRE);
    return r ? r : malloc(sizeof *r);
}

static void give_rooms(struct wm_file *f, struct wm_rooms *r)
{
    free(__atomic_exchange_n(&f->spare, r, __ATOMIC_ACQ_REL));
}

/* Whether the first runs from `pos` on are long. */
static bool is_coarse(const struct rt_layout *l, int64_t pos, int64_t len)
{
    struct rt_run run[RUNS];
    int n;
    int64_t got = rt_layout_runs(l, pos, len, run, RUNS, &n);
    return got / n >= WM_IOP_COARSE;
}

/* One run of the file, with a vector of runs of memory. */
static int64_t move_vector(const struct wm_iop *op, int64_t off, int64_t at, int64_t len)
{
    struct rt_run run[RUNS];
    struct iovec iov[RUNS];
    int64_t done = 0;
    while (done < len) {
        int n;
        int64_t want = rt_layout_runs(op->mem, at + done, len - done, run, RUNS, &n);
        for (int i = 0; i < n; i++)
            iov[i] = (struct iovec){ (void *)((uintptr_t)op->buf + (uintptr_t)run[i].off),
                                     (size_t)run[i].len };
        int64_t got = op->write ? rt_io_writev(op->file->fd, iov, n, off + done)
                                : rt_io_readv(op->file->fd, iov, n, off + done);
        if (got < 0)
            return got;
        done += op->write ? want : got;
        if (!op->write && got < want)
            break;
    }
    return done;
}

static int by_vectors(struct wm_iop *op)
{
    const struct wm_view *v = op->view;
    struct rt_run run[RUNS];
    while (op->moved < op->nbytes) {
        int n;
        rt_layout_runs(v->file, op->pos + op->moved, op->nbytes - op->moved, run, RUNS, &n);
        for (int i = 0; i < n; i++) {
            int64_t got = move_vector(op, v->disp + run[i].off, op->moved, run[i].len);
            if (got < 0)
                return (int)got;
            op->moved += got;
            if (got < run[i].len)
                return 0;
        }
    }
    return 0;
}

static int by_images(struct wm_iop *op, struct wm_rooms *r)
{
    while (op->moved < op->nbytes) {
        int64_t rest = op->nbytes - op->moved, n = rest < WM_IOP_IMAGE ? rest : WM_IOP_IMAGE;
        if (op->write)
            rt_layout_pack(op->mem, op->count, op->buf, op->moved, r->image, n);
        int64_t got = wm_iop_move(op, r, r->image, op->pos + op->moved, n);
        if (got < 0)
            return (int)got;
        if (!op->write)
            rt_layout_unpack(op->mem, op->count, op->buf, op->moved, r->image, got);
        op->moved += got;
        if (got < n)
            break;
    }
    return 0;
}

static int with_rooms(struct wm_iop *op, bool device)
{
    struct wm_rooms *r = take_rooms(op->file);
    if (!r)
        return -RT_ENOMEM;
    int err = 0;
    if (device) {
        err = wm_device_run(op, r);
    } else if (op->mem->contig) {
        int64_t got = wm_iop_move(op, r, op->buf, op->pos, op->nbytes);
        err = got < 0 ? (int)got : 0;
        op->moved = got < 0 ? 0 : got;
    } else {
        err = by_images(op, r);
    }
    give_rooms(op->file, r);
    return err;
}

static int run(struct wm_iop *op)
{
    const struct wm_view *v = op->view;
    if (v->rep)
        return wm_convert_run(op);
    if (op->where.kind != WM_MEMORY_HOST)
        return with_rooms(op, true);
    if (op->mem->contig && (op->write || !wm_iop_sieves(v, op->pos, op->nbytes))) {
        int64_t got = wm_iop_move(op, NULL, op->buf, op->pos, op->nbytes);
        op->moved = got < 0 ? 0 : got;
        return got < 0 ? (int)got : 0;
    }
    if (!op->mem->contig && is_coarse(op->mem, 0, op->nbytes) &&
        (v->file->contig || is_coarse(v->file, op->pos, op->nbytes)))
        return by_vectors(op);
    return with_rooms(op, false);
}

/* The mutex is for the accesses of this process, which share the descriptor and so the lock. */
static int run_alone(struct wm_iop *op)
{
    struct wm_file *f = op->file;
    int64_t from, to;
    wm_view_hull(op->view, op->pos, op->nbytes, &from, &to);
    pthread_mutex_lock(&f->mutex);
    int err = rt_io_lock(f->fd, op->write, from, to - from);
    if (!err) {
        err = run(op);
        int left = rt_io_unlock(f->fd, from, to - from);
        err = err ? err : left;
    }
    pthread_mutex_unlock(&f->mutex);
    return err;
}

int wm_indep_run(struct wm_iop *op)
{
    op->moved = 0;
    if (!op->nbytes)
        return 0;
    return op->file->atomic ? run_alone(op) : run(op);
}
