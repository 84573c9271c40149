/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of a collective access by ranks of one host, as a case of the two-phase exchange
 * (twophase.c).  The windows of the aggregators are in the node segment, and each rank copies its
 * data into them or out of them; no message carries data.
 *
 *   write   put meet [store] | put meet [store] | ... finish ended
 *   read    [load] meet | get [load] meet | ... get
 *
 * An aggregator has two windows, used in turn.  To write, the ranks mark the bytes that they put.
 * An aggregator enters the agreement `meet` of a round when it has written the window of the round
 * before, so after that agreement the ranks may fill that window again.  To read, it loads a window
 * whole, before the agreement of its round; a rank enters the next one when it has copied its data
 * out of the window.  After the last copy, the next operation begins with an agreement.
 *
 * An aggregator reads its own long pieces directly to user memory, by one call with the bytes
 * between them.  These bytes are missing in the window; the marks show which.  Another rank whose
 * view also has some of them reads its part of the window from the file.
 *
 * The agreement also carries the error of any rank.  Cost: one copy and one small reduction for
 * each round. */
#include "mpi/io/onehost.h"
#include "mpi/base/comm.h"
#include "mpi/coll/team.h"
#include "mpi/io/calls.h"
#include "mpi/io/hints.h"
#include "mpi/io/window.h"
#include "mpi/p2p/device.h"
#include "runtime/mem/segment.h"
#include <stdlib.h>
#include <string.h>

/* Windows that take more memory than this are private, and data go by messages. */
#define MOST (INT64_C(256) << 20)

/* An aggregator reads its pieces directly if their mean length is at least LONG: for a shorter
 * piece the vectors cost as much as the copy.  The pieces must have at least 1/SHARE of the window,
 * and a mark must stand for at least MARK bytes, so that marks cost little.  MB/s of 2 ranks, 8 MiB
 * each, ext4, three runs, without / with direct reads of 4 KiB pieces: 8463 / 11051, 10396 / 11415,
 * 8634 / 9580; of 1280 B pieces 7058 / 7214.  4 ranks, 4 KiB: 8322 / 8162. */
#define LONG 2048
#define SHARE 3
#define MARK 64

/* A block of the node segment: this, then two windows for each aggregator, each `cap` bytes, marks
 * to write, marks to read, and a tail.  All marks to write are 0 between operations. */
struct block {
    _Alignas(4096) int64_t cap, nbytes;
    int32_t users;  /* ranks that use it; the last frees it; atomic */
    int32_t common; /* several ranks have read the same bytes: no direct reads; atomic */
};

/* Of a window that has been read. */
struct tail {
    _Alignas(64) int64_t end; /* of the file */
    bool direct; /* the aggregator has read the marked bytes to user memory, not to the window */
};

struct wm_onehost {
    size_t off;          /* of the block; 0: none */
    bool stale;          /* after an error: there may be marks left */
    struct wm_room room; /* packed data of a window */
    int me;              /* the number of this aggregator, or -1 */
    int64_t round;
    int64_t end;           /* of a read: positions before the end of the file */
    struct wm_window work; /* for the job that writes or reads */
};

static struct block *block_of(const struct wm_onehost *o) { return rt_node_at(o->off); }

/* The image, the marks to write, the marks to read, the tail. */
static int64_t window_size(int64_t cap) { return cap + cap / 4 + (int64_t)sizeof(struct tail); }

/* ---- the block ---- */

static void leave(struct wm_onehost *o)
{
    struct block *b = block_of(o);
    if (o->off && __atomic_sub_fetch(&b->users, 1, __ATOMIC_ACQ_REL) == 0)
        rt_node_free(o->off, (size_t)b->nbytes);
    o->off = 0;
    o->stale = false;
}

int wm_onehost_open(struct wm_file *f)
{
    f->onehost = calloc(1, sizeof *f->onehost);
    return f->onehost ? 0 : -RT_ENOMEM;
}

void wm_onehost_free(struct wm_onehost *o)
{
    if (!o)
        return;
    leave(o);
    free(o->room.p);
    free(o);
}

int64_t wm_onehost_offer(const struct wm_cop *c)
{
    const struct wm_file *f = c->file;
    const struct wm_onehost *o = f->onehost;
    if (f->comm->rank || !wm_coll_team_in_node(f->comm))
        return 0;
    if (f->hints->window > MOST / (2 * c->plan.naggs))
        return 0;
    int64_t unit = 64 * 64, cap = (f->hints->window + unit - 1) / unit * unit;
    int64_t nbytes = (int64_t)sizeof(struct block) + 2 * c->plan.naggs * window_size(cap);
    if (o->off && !o->stale && block_of(o)->cap >= cap && block_of(o)->nbytes >= nbytes)
        return (int64_t)o->off;
    size_t off = rt_node_try_alloc((size_t)nbytes, true);
    if (off == SIZE_MAX)
        return 0;
    if (off % WM_ONEHOST_UNIT || off / WM_ONEHOST_UNIT > WM_FILE_FREE_MASK) {
        rt_node_free(off, (size_t)nbytes);
        return 0;
    }
    struct block *b = rt_node_at(off);
    *b = (struct block){ .cap = cap, .nbytes = nbytes, .users = f->comm->size };
    return (int64_t)off;
}

void wm_onehost_take(struct wm_file *f, int64_t offer)
{
    struct wm_onehost *o = f->onehost;
    if (o->off == (size_t)offer)
        return;
    leave(o);
    o->off = (size_t)offer;
}

/* ---- steps ---- */

/* The window of aggregator number i in this round; false: it has none. */
static bool window_of(const struct wm_cop *c, int i, struct wm_window *w)
{
    const struct wm_onehost *o = c->file->onehost;
    const struct block *b = block_of(o);
    int64_t from, to, nth = 2 * (int64_t)i + o->round % 2;
    wm_plan_window(&c->plan, i, o->round, &from, &to);
    char *image = (char *)rt_node_at(o->off) + sizeof *b + nth * window_size(b->cap);
    char *marks = image + b->cap + (c->write ? 0 : b->cap / 8);
    *w = (struct wm_window){ c->file->fd,  &c->file->fs, c->plan.high,
                             from,         to,           INT64_MAX,
                             c->plan.unit, image,        (uint64_t *)(void *)marks };
    return from < to;
}

static struct tail *tail_of(const struct wm_cop *c, const struct wm_window *w)
{
    const struct block *b = block_of(c->file->onehost);
    return (struct tail *)(void *)(w->image + window_size(b->cap) - sizeof(struct tail));
}

static bool is_flat(const struct wm_iop *op)
{
    return op->where.kind == WM_MEMORY_HOST && op->mem->contig;
}

/* This rank's data for a window: from user memory, or packed. */
static void put_one(struct wm_cop *c, struct wm_window *w)
{
    const struct wm_iop *op = c->op;
    int64_t pos, len = wm_iop_part(op, w->from, w->to, &pos);
    char *data = c->file->onehost->room.p;
    if (is_flat(op))
        data = op->buf + pos;
    else if (len && wm_cop_fail(c, WM_COP_COPY, wm_iop_pack(op, pos, data, len)))
        return;
    wm_window_fill(w, op->view, op->pos + pos, len, data);
}

/* Copies `len` bytes from position `pos` of the view, all in the window of aggregator `i`, to
 * `data`.  Returns the number of bytes before the end of the file, or -RT_E... */
static int64_t fetch(const struct wm_cop *c, const struct wm_window *w, int i, int64_t pos,
                     int64_t len, char *data)
{
    const struct wm_view *v = c->op->view;
    if (!tail_of(c, w)->direct)
        return wm_window_fetch(w, v, pos, len, data);
    if (i == c->file->onehost->me)
        return wm_window_before(w, v, pos, len);
    if (!wm_window_marked(w, v, pos, len))
        return wm_window_fetch(w, v, pos, len, data);
    __atomic_store_n(&block_of(c->file->onehost)->common, 1, __ATOMIC_RELAXED);
    return wm_iop_read(c->op, data, pos, len);
}

static void get_one(struct wm_cop *c, struct wm_window *w, int i)
{
    const struct wm_iop *op = c->op;
    struct wm_onehost *o = c->file->onehost;
    int64_t pos, len = wm_iop_part(op, w->from, w->to, &pos);
    bool flat = is_flat(op);
    char *data = flat ? op->buf + pos : o->room.p;
    w->end = tail_of(c, w)->end;
    int64_t got = fetch(c, w, i, op->pos + pos, len, data);
    if (got < 0) {
        wm_cop_fail(c, WM_COP_ALONE, (int)got);
        return;
    }
    if (got && !flat)
        wm_cop_fail(c, WM_COP_COPY, wm_iop_pack(op, pos, data, got));
    if (got < len && pos + got < o->end)
        o->end = pos + got;
}

/* Puts or gets this rank's data of a round. */
static void copy(struct wm_cop *c)
{
    struct wm_window w;
    for (int i = 0; i < c->plan.naggs && !c->err && c->op->nbytes; i++)
        if (window_of(c, i, &w) && c->write)
            put_one(c, &w);
        else if (w.from < w.to)
            get_one(c, &w, i);
}

static void ended(struct wm_cop *c)
{
    bool failed = wm_cop_agreed(c, (int)c->v[0]);
    c->file->onehost->stale = failed && c->write;
    if (c->op)
        c->op->moved = failed ? 0 : c->file->onehost->end;
    wm_cop_end(c);
}

static void finish(struct wm_cop *c) { wm_cop_agree(c, ended); }

/* Job: writes a window whose data are complete, and clears its marks. */
static int store(struct wm_cop *c)
{
    struct wm_window *w = &c->file->onehost->work;
    int rc = wm_window_write(w);
    wm_window_clear(w);
    return rc;
}

/* Whether an aggregator reads its `len` bytes of a window to user memory. */
static bool is_direct(const struct wm_cop *c, const struct wm_window *w, int64_t len)
{
    const struct wm_view *v = c->op->view;
    bool common = __atomic_load_n(&block_of(c->file->onehost)->common, __ATOMIC_RELAXED);
    return is_flat(c->op) && w->unit >= MARK && len >= (w->to - w->from) / SHARE && !common &&
           v->file->size >= v->facts.nruns * LONG;
}

/* Job: reads a window. */
static int load(struct wm_cop *c)
{
    struct wm_window *w = &c->file->onehost->work;
    struct tail *t = tail_of(c, w);
    int64_t pos = 0, len = c->op->nbytes ? wm_iop_part(c->op, w->from, w->to, &pos) : 0, got;
    t->direct = len && is_direct(c, w, len);
    if (t->direct)
        got = wm_window_scatter(w, c->op->view, c->op->pos + pos, len, c->op->buf + pos);
    else
        got = rt_io_read(w->fd, w->image, w->to - w->from, w->from);
    t->end = got < w->to - w->from ? w->from + got : INT64_MAX;
    return got < 0 ? (int)got : 0;
}

/* Runs the job of this round, if this rank has a window. */
static void work(struct wm_cop *c, int (*job)(struct wm_cop *c))
{
    struct wm_onehost *o = c->file->onehost;
    if (o->me < 0 || !window_of(c, o->me, &o->work))
        return;
    c->from = o->work.from;
    c->to = o->work.to;
    wm_cop_work(c, job, WM_COP_WINDOW, c->blocking);
}

static void meet(struct wm_cop *c);

static void put(struct wm_cop *c)
{
    copy(c);
    c->next = meet;
    c->join = true;
}

static void filled(struct wm_cop *c)
{
    struct wm_onehost *o = c->file->onehost;
    if (c->v[0]) {
        ended(c);
        return;
    }
    work(c, store);
    bool more = ++o->round < c->plan.rounds;
    c->next = more ? put : finish;
    c->join = !more;
}

static void loaded(struct wm_cop *c)
{
    struct wm_onehost *o = c->file->onehost;
    if (!c->v[0])
        copy(c);
    if (c->v[0] || ++o->round == c->plan.rounds) {
        ended(c);
        return;
    }
    work(c, load);
    c->next = meet;
    c->join = true;
}

static void meet(struct wm_cop *c) { wm_cop_agree(c, c->write ? filled : loaded); }

void wm_onehost_begin(struct wm_cop *c, int me)
{
    struct wm_onehost *o = c->file->onehost;
    o->me = me;
    o->round = 0;
    o->end = c->op ? c->op->nbytes : 0;
    if (c->op && !is_flat(c->op))
        wm_cop_fail(c, WM_COP_MEMORY, wm_room_grow(&o->room, c->plan.step));
    c->next = put;
    if (c->write)
        return;
    work(c, load);
    c->next = meet;
    c->join = true;
}
