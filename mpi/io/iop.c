/* SPDX-License-Identifier: BSD-3-Clause */
/* The two halves of the way of an operation's data: between the file and contiguous memory of the
 * host, the image, and between the image and user memory.  Short runs are read with the gaps
 * between them if those are short (data sieving), and the runs are copied out.  Writing never
 * touches a byte that is not the user's: other ranks, handles and jobs may be writing there.  Short
 * runs close together go by a mapping of the file (runtime/io/pieces.c), any other is a call.
 *
 * No state but buffers; job threads run this beside the program. */
#include "mpi/io/iop.h"
#include "mpi/p2p/pack_any.h"

#define RUNS 64 /* listed at a time */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

int wm_iop_error(const struct wm_iop *op, int rt_err)
{
    if (rt_err == -RT_EADDR)
        return wm_dev_fault();
    return wm_err_rt(rt_err, "could not %s %lld bytes at offset %lld of file %s",
                     op->write ? "write" : "read", (long long)op->nbytes,
                     (long long)wm_view_offset(op->view, op->pos), op->file->name);
}

/* A device is reached by calls under the domain's lock: another thread may make them only if locks
 * are on.  Functions of the user are called by the user's threads. */
bool wm_iop_may_be_a_job(const struct wm_iop *op)
{
    return !op->view->rep && (op->where.kind == WM_MEMORY_HOST || rt_threaded);
}

/* ---- the file ---- */

bool wm_iop_sieves(const struct wm_view *v, int64_t pos, int64_t len)
{
    struct rt_run run[RUNS];
    int n;
    if (v->file->contig || !v->facts.ordered)
        return false;
    int64_t got = rt_layout_runs(v->file, pos, len, run, RUNS, &n);
    int64_t hull = run[n - 1].off + run[n - 1].len - run[0].off;
    return n > 1 && got / n < WM_IOP_COARSE && (hull - got) / (n - 1) < WM_IOP_GAP;
}

/* About how many runs there are, if the first are like the others; 0: they are long, or they go
 * back and forth. */
static int64_t count_short(const struct wm_view *v, int64_t pos, int64_t len)
{
    struct rt_run run[RUNS];
    int n;
    if (v->file->contig || !v->facts.ordered)
        return 0;
    int64_t got = rt_layout_runs(v->file, pos, len, run, RUNS, &n);
    return got / n < WM_IOP_COARSE ? len / (got / n) : 0;
}

/* One call for a run of the file. */
static int64_t move_run(const struct wm_iop *op, char *image, int64_t off, int64_t len)
{
    if (!op->write)
        return rt_io_read(op->file->fd, image, len, off);
    int err = rt_io_write(op->file->fd, image, len, off);
    return err < 0 ? err : len;
}

int64_t wm_iop_read(const struct wm_iop *op, char *image, int64_t pos, int64_t len)
{
    const struct wm_view *v = op->view;
    struct rt_run run[RUNS];
    int64_t done = 0;
    while (done < len) {
        int n;
        rt_layout_runs(v->file, pos + done, len - done, run, RUNS, &n);
        for (int i = 0; i < n; i++) {
            int64_t got = rt_io_read(op->file->fd, image + done, run[i].len, v->disp + run[i].off);
            if (got < 0)
                return got;
            done += got;
            if (got < run[i].len)
                return done; /* the end of the file */
        }
    }
    return done;
}

static int64_t write_runs(const struct wm_iop *op, const char *image, int64_t pos, int64_t len)
{
    const struct wm_view *v = op->view;
    struct rt_io_pieces p = { .fd = op->file->fd, .fs = &op->file->fs, .packed = true };
    struct rt_run run[RUNS];
    int64_t done = 0, first;
    int err = 0;
    wm_view_hull(v, pos, len, &p.from, &p.to);
    wm_view_hull(v, op->pos, op->nbytes, &first, &p.end);
    p.end = p.end > p.to ? p.end : p.to;
    rt_io_pieces_begin(&p, count_short(v, pos, len));
    while (done < len && !err) {
        int n;
        rt_layout_runs(v->file, pos + done, len - done, run, RUNS, &n);
        for (int i = 0; i < n && !err; i++) {
            err = rt_io_pieces_put(&p, v->disp + run[i].off, image + done, run[i].len);
            done += run[i].len;
        }
    }
    int last = rt_io_pieces_end(&p);
    return err ? err : last ? last : len;
}

/* Reads [from, to) of the file to `image`.  Returns how many positions of the view lie before the
 * end of the file; INT64_MAX: the file has the whole range. */
static int64_t read_hull(const struct wm_iop *op, char *image, int64_t from, int64_t to)
{
    int64_t got = rt_io_read(op->file->fd, image, to - from, from);
    if (got < 0)
        return got;
    return got < to - from ? wm_view_below(op->view, from + got) : INT64_MAX;
}

/* Reads the runs of positions [pos, pos + len) and the short gaps between them to where they are in
 * r->sieve, which begins with offset `origin` of the file.  Returns the positions read. */
static int64_t read_hulls(const struct wm_iop *op, struct wm_rooms *r, int64_t origin, int64_t pos,
                          int64_t len)
{
    const struct wm_view *v = op->view;
    struct rt_run run[RUNS];
    int64_t done = 0, from = origin, to = origin, end = INT64_MAX; /* the hull that grows */
    while (done < len) {
        int n;
        int64_t sum = rt_layout_runs(v->file, pos + done, len - done, run, RUNS, &n);
        for (int i = 0; i < n; i++) {
            int64_t off = v->disp + run[i].off;
            if (off - to >= WM_IOP_GAP) {
                end = read_hull(op, r->sieve + (from - origin), from, to);
                if (end < INT64_MAX)
                    return end < 0 ? end : end - pos;
                from = off;
            }
            to = off + run[i].len;
        }
        done += sum;
    }
    end = read_hull(op, r->sieve + (from - origin), from, to);
    return end < 0 ? end : least(end - pos, len);
}

/* Reads through r->sieve. */
static int64_t sieve(const struct wm_iop *op, struct wm_rooms *r, char *image, int64_t pos,
                     int64_t len)
{
    const struct wm_view *v = op->view;
    int64_t done = 0;
    while (done < len) {
        int64_t at = pos + done, off = wm_view_offset(v, at);
        int64_t n = least(len - done, wm_view_below(v, off + WM_IOP_SIEVE) - at);
        int64_t have = read_hulls(op, r, off, at, n);
        if (have < 0)
            return have;
        const char *origin = (char *)((uintptr_t)r->sieve - (uintptr_t)(off - v->disp));
        rt_layout_pack(v->file, INT64_MAX / v->file->size, origin, at, image + done, have);
        done += have;
        if (have < n)
            break;
    }
    return done;
}

int64_t wm_iop_move(const struct wm_iop *op, struct wm_rooms *r, char *image, int64_t pos,
                    int64_t len)
{
    if (op->view->file->contig)
        return move_run(op, image, op->view->disp + pos, len);
    if (!op->write && r && wm_iop_sieves(op->view, pos, len))
        return sieve(op, r, image, pos, len);
    return op->write ? write_runs(op, image, pos, len) : wm_iop_read(op, image, pos, len);
}

/* ---- parts, for aggregators ---- */

static int64_t clip(int64_t n, int64_t most) { return n < 0 ? 0 : n > most ? most : n; }

int64_t wm_iop_part(const struct wm_iop *op, int64_t from, int64_t to, int64_t *pos)
{
    *pos = clip(wm_view_below(op->view, from) - op->pos, op->nbytes);
    return clip(wm_view_below(op->view, to) - op->pos, op->nbytes) - *pos;
}

int wm_iop_pack(const struct wm_iop *op, int64_t pos, char *packed, int64_t len)
{
    return wm_move(&op->where, &(struct wm_packing){ op->mem, op->count, op->buf, pos, packed, len,
                                                     op->write });
}
