/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of a collective write by ranks of one host, as a case of the two-phase exchange
 * (twophase.c).  Each rank copies its data into the windows of all aggregators, which are in the
 * node segment, and marks the bytes; no message carries data.
 *
 *   put meet [store] | put meet [store] | ... finish ended
 *
 * An aggregator has two windows, used in turn.  It enters the agreement `meet` of a round when it
 * has written the window of the round before; so, behind that agreement, the ranks fill that window
 * again.  The agreement also carries the error of any rank.  Cost: one copy and one small reduction
 * for each round. */
#include "mpi/io/onehost.h"
#include "mpi/base/comm.h"
#include "mpi/coll/team.h"
#include "mpi/io/hints.h"
#include "mpi/io/window.h"
#include "mpi/p2p/device.h"
#include "runtime/mem/segment.h"
#include <stdlib.h>
#include <string.h>

/* Windows that take more memory than this are private, and data go by messages. */
#define MOST (INT64_C(256) << 20)

/* A block of the node segment: this, then two windows for each aggregator, each `cap` bytes and
 * their marks.  All marks are 0 between operations. */
struct block {
    _Alignas(4096) int64_t cap, nbytes;
    int32_t users; /* ranks that use it; the last frees it; atomic */
};

struct wm_onehost {
    size_t off;          /* of the block; 0: none */
    bool stale;          /* after an error: there may be marks left */
    struct wm_room room; /* lists of pieces, and packed data */
    int me;              /* the number of this aggregator, or -1 */
    int64_t round;
    struct wm_window stored; /* for the job that writes */
};

static struct block *block_of(const struct wm_onehost *o) { return rt_node_at(o->off); }

static int64_t window_size(int64_t cap) { return cap + cap / 8; }

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
    if (!c->write || f->comm->rank || !wm_coll_team_in_node(f->comm))
        return 0;
    if (f->hints->cb_buffer_size > MOST / (2 * c->plan.naggs))
        return 0;
    int64_t unit = 64 * 64, cap = (f->hints->cb_buffer_size + unit - 1) / unit * unit;
    int64_t nbytes = (int64_t)sizeof(struct block) + 2 * c->plan.naggs * window_size(cap);
    if (o->off && !o->stale && block_of(o)->cap >= cap && block_of(o)->nbytes >= nbytes)
        return (int64_t)o->off;
    size_t off = rt_node_try_alloc((size_t)nbytes);
    if (off == SIZE_MAX)
        return 0;
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
    *w = (struct wm_window){ c->file->fd, from,  to,
                             INT64_MAX,   image, (uint64_t *)(void *)(image + b->cap) };
    return from < to;
}

/* This rank's data for a window. */
static void put_one(struct wm_cop *c, struct wm_window *w)
{
    const struct wm_iop *op = c->op;
    struct wm_onehost *o = c->file->onehost;
    bool flat = op->where.kind == WM_MEMORY_HOST && op->mem->contig;
    int64_t used = 0, pos, len = wm_iop_part(op, w->from, w->to, &pos);
    int rc = wm_pieces_put(op->view, op->pos + pos, len, &o->room, &used);
    if (rc >= 0 && !flat)
        rc = wm_room_grow(&o->room, used + len);
    if (wm_cop_fail(c, WM_COP_MEMORY, rc))
        return;
    char *data = flat ? op->buf + pos : o->room.p + used;
    if (!flat && wm_cop_fail(c, WM_COP_COPY, wm_iop_pack(op, pos, data, len)))
        return;
    wm_window_put(w, (const struct wm_pieces *)(const void *)o->room.p,
                  used / (int64_t)sizeof(struct wm_pieces), data);
}

static void ended(struct wm_cop *c)
{
    bool failed = wm_cop_agreed(c);
    c->file->onehost->stale = failed;
    if (c->op)
        c->op->moved = failed ? 0 : c->op->nbytes;
    wm_cop_end(c);
}

static void finish(struct wm_cop *c) { wm_cop_agree(c, ended); }

/* Job: writes a window whose data are complete, and clears its marks. */
static int store(struct wm_cop *c)
{
    struct wm_window *w = &c->file->onehost->stored;
    int rc = wm_window_write(w);
    wm_window_clear(w);
    return rc;
}

static void meet(struct wm_cop *c);

static void put(struct wm_cop *c)
{
    struct wm_window w;
    for (int i = 0; i < c->plan.naggs && !c->err && c->op->nbytes; i++)
        if (window_of(c, i, &w))
            put_one(c, &w);
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
    if (o->me >= 0 && window_of(c, o->me, &o->stored)) {
        c->from = o->stored.from;
        c->to = o->stored.to;
        wm_cop_work(c, store, WM_COP_WINDOW, c->blocking);
    }
    bool more = ++o->round < c->plan.rounds;
    c->next = more ? put : finish;
    c->join = !more;
}

static void meet(struct wm_cop *c) { wm_cop_agree(c, filled); }

void wm_onehost_begin(struct wm_cop *c, int me)
{
    struct wm_onehost *o = c->file->onehost;
    o->me = me;
    o->round = 0;
    c->next = put;
}
