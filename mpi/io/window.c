/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of aggregators.  A bit for each unit says whether a rank has data there: holes are found
 * without sorting the pieces of the ranks, and pieces may overlap. */
#include "mpi/io/window.h"
#include <stdlib.h>
#include <string.h>

#define RUNS 64 /* listed at a time */

int wm_room_grow(struct wm_room *r, int64_t nbytes)
{
    if (nbytes <= r->size)
        return 0;
    int64_t size = nbytes > r->size * 2 ? nbytes : r->size * 2;
    char *p = realloc(r->p, (size_t)size);
    if (!p)
        return -RT_ENOMEM;
    *r = (struct wm_room){ p, size };
    return 0;
}

/* ---- pieces ---- */

/* True: `g` now includes the run. */
static bool extend(struct wm_pieces *g, int64_t off, int64_t len)
{
    if (!g->n) {
        *g = (struct wm_pieces){ off, len, 0, 1 };
    } else if (len != g->len) {
        return false;
    } else if (g->n == 1) {
        g->stride = off - g->off;
        g->n = 2;
    } else if (off == g->off + g->n * g->stride) {
        g->n++;
    } else {
        return false;
    }
    return true;
}

static int put(struct wm_room *out, int64_t *used, const struct wm_pieces *g)
{
    int err = wm_room_grow(out, *used + (int64_t)sizeof *g);
    if (err)
        return err;
    memcpy(out->p + *used, g, sizeof *g);
    *used += (int64_t)sizeof *g;
    return 0;
}

int wm_pieces_put(const struct wm_view *v, int64_t pos, int64_t len, struct wm_room *out,
                  int64_t *used)
{
    struct wm_pieces g = { .n = 0 };
    struct rt_run run[RUNS];
    int n, err;
    for (int64_t done = 0; done < len;) {
        done += rt_layout_runs(v->file, pos + done, len - done, run, RUNS, &n);
        for (int i = 0; i < n; i++) {
            if (extend(&g, v->disp + run[i].off, run[i].len))
                continue;
            err = put(out, used, &g);
            if (err)
                return err;
            g = (struct wm_pieces){ v->disp + run[i].off, run[i].len, 0, 1 };
        }
    }
    return g.n ? put(out, used, &g) : 0;
}

/* ---- marks ---- */

static uint64_t low_bits(int n) { return n < 64 ? (UINT64_C(1) << n) - 1 : ~UINT64_C(0); }

/* Bits of one word that are still to be set. */
struct pen {
    uint64_t *word, bits;
};

/* Other processes may set other bits of the same word. */
static void lift(struct pen *p)
{
    if (p->bits == ~UINT64_C(0))
        __atomic_store_n(p->word, p->bits, __ATOMIC_RELAXED);
    else if (p->bits)
        __atomic_fetch_or(p->word, p->bits, __ATOMIC_RELAXED);
    p->bits = 0;
}

static void mark(struct pen *p, uint64_t *m, int64_t from, int64_t len)
{
    while (len > 0) {
        int at = (int)(from % 64), n = len < 64 - at ? (int)len : 64 - at;
        if (p->word != &m[from / 64])
            lift(p);
        p->word = &m[from / 64];
        p->bits |= low_bits(n) << at;
        from += n;
        len -= n;
    }
}

/* The first bit from `at` on that is `set`; `len` if there is none. */
static int64_t find(const uint64_t *m, int64_t at, int64_t len, bool set)
{
    while (at < len) {
        uint64_t word = (set ? m[at / 64] : ~m[at / 64]) >> at % 64;
        if (word) {
            at += __builtin_ctzll(word);
            break;
        }
        at += 64 - at % 64;
    }
    return at < len ? at : len;
}

/* ---- windows ---- */

static int64_t marks_size(int64_t n) { return (n + 63) / 64 * (int64_t)sizeof(uint64_t); }

/* The same in bytes of the window. */
static int64_t seek(const struct wm_window *w, int64_t at, bool set)
{
    int shift = __builtin_ctzll((uint64_t)w->unit);
    return find(w->marks, at >> shift, (w->to - w->from) >> shift, set) << shift;
}

int wm_window_rooms(int64_t len, struct wm_room *image, struct wm_room *marks)
{
    int err = wm_room_grow(image, len);
    return err ? err : wm_room_grow(marks, marks_size(len));
}

void wm_window_clear(struct wm_window *w)
{
    memset(w->marks, 0, (size_t)marks_size((w->to - w->from) / w->unit));
}

/* Marks `len` bytes at `off` of the file; copies data unless NULL. */
static void put_piece(struct wm_window *w, struct pen *pen, int64_t off, int64_t len,
                      const char *data)
{
    int shift = __builtin_ctzll((uint64_t)w->unit);
    int64_t at = off - w->from;
    mark(pen, w->marks, at >> shift, len >> shift);
    if (data)
        memcpy(w->image + at, data, (size_t)len);
}

/* Returns the bytes before the end of the file. */
static int64_t get_piece(const struct wm_window *w, int64_t off, int64_t len, char *data)
{
    if (w->end < off + len)
        len = w->end > off ? w->end - off : 0;
    memcpy(data, w->image + (off - w->from), (size_t)len);
    return len;
}

void wm_window_put(struct wm_window *w, const struct wm_pieces *g, int64_t n, const char *data)
{
    struct pen pen = { NULL, 0 };
    for (int64_t k = 0; k < n; k++) {
        for (int64_t i = 0; i < g[k].n; i++) {
            put_piece(w, &pen, g[k].off + i * g[k].stride, g[k].len, data);
            data += data ? g[k].len : 0;
        }
    }
    lift(&pen);
}

int64_t wm_window_get(const struct wm_window *w, const struct wm_pieces *g, int64_t n, char *data)
{
    int64_t got = 0;
    for (int64_t k = 0; k < n; k++) {
        for (int64_t i = 0; i < g[k].n; i++) {
            int64_t len = get_piece(w, g[k].off + i * g[k].stride, g[k].len, data + got);
            got += len;
            if (len < g[k].len)
                return got;
        }
    }
    return got;
}

/* Where byte 0 of the view's filetype would be; the image has a part of it only. */
static char *origin_of(const struct wm_window *w, const struct wm_view *v)
{
    return (char *)((uintptr_t)w->image - (uintptr_t)(w->from - v->disp));
}

static void mark_view(struct wm_window *w, const struct wm_view *v, int64_t pos, int64_t len)
{
    struct pen pen = { NULL, 0 };
    struct rt_run run[RUNS];
    int n;
    for (int64_t done = 0; done < len;) {
        done += rt_layout_runs(v->file, pos + done, len - done, run, RUNS, &n);
        for (int i = 0; i < n; i++)
            put_piece(w, &pen, v->disp + run[i].off, run[i].len, NULL);
    }
    lift(&pen);
}

void wm_window_fill(struct wm_window *w, const struct wm_view *v, int64_t pos, int64_t len,
                    const char *data)
{
    mark_view(w, v, pos, len);
    if (len)
        rt_layout_unpack(v->file, INT64_MAX / v->file->size, origin_of(w, v), pos, data, len);
}

int64_t wm_window_before(const struct wm_window *w, const struct wm_view *v, int64_t pos,
                         int64_t len)
{
    int64_t before = w->end < w->to ? wm_view_below(v, w->end) - pos : len;
    return before < 0 ? 0 : before < len ? before : len;
}

int64_t wm_window_fetch(const struct wm_window *w, const struct wm_view *v, int64_t pos,
                        int64_t len, char *data)
{
    len = wm_window_before(w, v, pos, len);
    if (len)
        rt_layout_pack(v->file, INT64_MAX / v->file->size, origin_of(w, v), pos, data, len);
    return len;
}

int64_t wm_window_scatter(struct wm_window *w, const struct wm_view *v, int64_t pos, int64_t len,
                          char *data)
{
    int64_t at = w->from, got;
    wm_window_clear(w);
    mark_view(w, v, pos, len);
    for (int64_t done = 0; done < len;) {
        struct rt_run run[RUNS];
        struct iovec iov[2 * RUNS];
        int64_t first = at;
        int n, k = 0;
        rt_layout_runs(v->file, pos + done, len - done, run, RUNS, &n);
        for (int i = 0; i < n; i++) {
            int64_t off = v->disp + run[i].off;
            if (off > at)
                iov[k++] = (struct iovec){ w->image + (at - w->from), (size_t)(off - at) };
            iov[k++] = (struct iovec){ data + done, (size_t)run[i].len };
            done += run[i].len;
            at = off + run[i].len;
        }
        got = rt_io_readv(w->fd, iov, k, first);
        if (got < at - first)
            return got < 0 ? got : first + got - w->from;
    }
    got = rt_io_read(w->fd, w->image + (at - w->from), w->to - at, at);
    return got < 0 ? got : at + got - w->from;
}

bool wm_window_marked(const struct wm_window *w, const struct wm_view *v, int64_t pos, int64_t len)
{
    int shift = __builtin_ctzll((uint64_t)w->unit);
    struct rt_run run[RUNS];
    int n;
    for (int64_t done = 0; done < len;) {
        done += rt_layout_runs(v->file, pos + done, len - done, run, RUNS, &n);
        for (int i = 0; i < n; i++) {
            int64_t at = (v->disp + run[i].off - w->from) >> shift;
            int64_t end = at + (run[i].len >> shift);
            if (find(w->marks, at, end, true) < end)
                return true;
        }
    }
    return false;
}

/* Runs of marks. */
static int64_t count_runs(const struct wm_window *w)
{
    int64_t n = 0, nwords = ((w->to - w->from) / w->unit + 63) / 64;
    uint64_t before = 0; /* the last bit of the word before */
    for (int64_t i = 0; i < nwords; i++) {
        n += __builtin_popcountll(w->marks[i] & ~(w->marks[i] << 1 | before));
        before = w->marks[i] >> 63;
    }
    return n;
}

int wm_window_write(const struct wm_window *w)
{
    struct rt_io_pieces p = { w->fd, w->fs, w->from, w->to, w->high, false, NULL };
    int64_t len = w->to - w->from, at = seek(w, 0, true);
    int err = 0;
    rt_io_pieces_begin(&p, count_runs(w));
    while (at < len && !err) {
        int64_t end = seek(w, at, false);
        err = rt_io_pieces_put(&p, w->from + at, w->image + at, end - at);
        at = seek(w, end, true);
    }
    int last = rt_io_pieces_end(&p);
    return err ? err : last;
}

int wm_window_read(struct wm_window *w)
{
    int64_t len = w->to - w->from, at = seek(w, 0, true);
    while (at < len) {
        int64_t end = seek(w, at, false), next = seek(w, end, true);
        while (next < len && next - end < WM_IOP_GAP) {
            end = seek(w, next, false);
            next = seek(w, end, true);
        }
        int64_t got = rt_io_read(w->fd, w->image + at, end - at, w->from + at);
        if (got < 0)
            return (int)got;
        if (got < end - at) {
            w->end = w->from + at + got;
            break;
        }
        at = next;
    }
    return 0;
}
