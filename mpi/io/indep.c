/* SPDX-License-Identifier: BSD-3-Clause */
/* The access of one rank.  Three ways between user memory and file:
 *   contiguous memory   each run of the file is one call;
 *   coarse memory       each run of the file is a call with a vector of the runs of memory;
 *   fine memory         data are packed into an image of IMAGE bytes, or unpacked from it.
 * Short runs are read with the gaps between them if those are shorter than GAP, up to SIEVE bytes
 * at once (data sieving), and the runs are copied out.  Writing never touches a byte that is not
 * the user's: other ranks, handles and jobs may be writing there.  Short runs close together go
 * by a mapping of the file (runtime/io/pieces.c), any other is a call.
 *
 * No state but buffers; job threads run this beside the program.  Only atomic mode takes locks: an
 * access then locks the file from its first to its last byte. */
#include "mpi/io/datarep.h"
#include "mpi/p2p/device.h"
#include <stdlib.h>

#define IMAGE (1 << 20)
#define SIEVE (1 << 20)
#define COARSE \
    4096 /* bytes of a run from which a call or a vector of its own is cheaper than a copy */
#define GAP 4096 /* reading a gap of fewer bytes is cheaper than another call */
#define RUNS 64  /* listed at a time */

struct wm_rooms {
    char image[IMAGE], sieve[SIEVE];
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The buffers of the file, if no other operation has them; NULL: no memory. */
static struct wm_rooms *take_rooms(struct wm_file *f)
{
    struct wm_rooms *r = __atomic_exchange_n(&f->spare, NULL, __ATOMIC_ACQUIRE);
    return r ? r : malloc(sizeof *r);
}

static void give_rooms(struct wm_file *f, struct wm_rooms *r)
{
    free(__atomic_exchange_n(&f->spare, r, __ATOMIC_RELEASE));
}

void wm_indep_limits(struct wm_indep_limits *out)
{
    *out = (struct wm_indep_limits){
        .coarse = COARSE, .sieve = SIEVE, .gap = GAP, .storage = WM_STORAGE_LEAST
    };
}

char *wm_rooms_image(struct wm_rooms *r, int64_t *len)
{
    *len = IMAGE;
    return r->image;
}

/* Whether the first runs from `pos` on are long. */
static bool is_coarse(const struct rt_layout *l, int64_t pos, int64_t len)
{
    struct rt_run run[RUNS];
    int n;
    int64_t got = rt_layout_runs(l, pos, len, run, RUNS, &n);
    return got / n >= COARSE;
}

/* True: the first runs are short and most gaps between them, too. */
static bool worth_sieving(const struct wm_view *v, int64_t pos, int64_t len)
{
    struct rt_run run[RUNS];
    int n;
    if (v->file->contig || !v->facts.ordered)
        return false;
    int64_t got = rt_layout_runs(v->file, pos, len, run, RUNS, &n);
    int64_t hull = run[n - 1].off + run[n - 1].len - run[0].off;
    return n > 1 && got / n < COARSE && (hull - got) / (n - 1) < GAP;
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
    return got / n < COARSE ? len / (got / n) : 0;
}

/* One call for a run of the file. */
static int64_t move_run(const struct wm_iop *op, char *image, int64_t off, int64_t len)
{
    if (!op->write)
        return rt_io_read(op->file->fd, image, len, off);
    int err = rt_io_write(op->file->fd, image, len, off);
    return err < 0 ? err : len;
}

int64_t wm_indep_read(const struct wm_iop *op, char *image, int64_t pos, int64_t len)
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
            if (off - to >= GAP) {
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
        int64_t n = least(len - done, wm_view_below(v, off + SIEVE) - at);
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

int64_t wm_indep_move(const struct wm_iop *op, struct wm_rooms *r, char *image, int64_t pos,
                      int64_t len)
{
    if (op->view->file->contig)
        return move_run(op, image, op->view->disp + pos, len);
    if (!op->write && r && worth_sieving(op->view, pos, len))
        return sieve(op, r, image, pos, len);
    return op->write ? write_runs(op, image, pos, len) : wm_indep_read(op, image, pos, len);
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
        int64_t n = least(op->nbytes - op->moved, IMAGE);
        if (op->write)
            rt_layout_pack(op->mem, op->count, op->buf, op->moved, r->image, n);
        int64_t got = wm_indep_move(op, r, r->image, op->pos + op->moved, n);
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
        err = wm_indep_device(op, r);
    } else if (op->mem->contig) {
        int64_t got = wm_indep_move(op, r, op->buf, op->pos, op->nbytes);
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
        return wm_datarep_run(op);
    if (op->where.kind != WM_MEMORY_HOST)
        return with_rooms(op, true);
    if (op->mem->contig && (op->write || !worth_sieving(v, op->pos, op->nbytes))) {
        int64_t got = wm_indep_move(op, NULL, op->buf, op->pos, op->nbytes);
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
