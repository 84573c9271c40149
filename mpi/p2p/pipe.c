/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipeline of parts.  Where the device packs by itself, packing and unpacking complete later;
 * elsewhere they are done at once.  One call of wm_pipe_step() begins each room at most once, which
 * bounds how long it holds the domain's lock. */
#include "mpi/p2p/pipe.h"
#include "mpi/p2p/pack_any.h"
#include "runtime/layout/pack_gpu.h"

static void packed(struct rt_gpu_op *op, int err)
{
    struct wm_slot *t = rt_container(op, struct wm_slot, op);
    t->busy = false;
    t->err = err;
}

static void pack_on_host(const struct wm_packing *m)
{
    if (m->pack)
        rt_layout_pack(m->l, m->count, m->user, m->pos, m->packed, m->len);
    else
        rt_layout_unpack(m->l, m->count, m->user, m->pos, m->packed, m->len);
}

static void pack_on_device(struct wm_slot *t)
{
    const struct wm_packing *m = &t->m;
    t->op.done = packed;
    t->busy = true;
    if (m->pack)
        rt_layout_gpu_pack(t->g, m->l, m->count, m->user, m->pos, m->packed, m->len, &t->op);
    else
        rt_layout_gpu_unpack(t->g, m->l, m->count, m->user, m->pos, m->packed, m->len, &t->op);
}

void wm_slot_pack(struct wm_slot *t)
{
    t->err = 0;
    if (t->memory == WM_MEMORY_HOST)
        pack_on_host(&t->m);
    else if (t->memory == WM_MEMORY_SCATTERED)
        t->err = wm_scattered_copy(&t->m);
    else if (t->by_device)
        pack_on_device(t);
    else
        t->err = wm_dev_move_now(t->g, &t->m);
}

void wm_pipe_fail(struct wm_pipe *p, int err)
{
    if (err < 0 && !p->err)
        p->err = err;
}

/* An error while data leave the user's buffer ends the pipeline. */
static void note(struct wm_pipe *p, const struct wm_slot *t, int err)
{
    wm_pipe_fail(p, err);
    p->halt = p->halt || (err < 0 && t->m.pack);
}

static void unpack(struct wm_pipe *p, struct wm_slot *t)
{
    t->state = WM_SLOT_ENDED;
    if (t->m.pack || t->in_place || p->err)
        return;
    t->state = WM_SLOT_UNPACKING;
    wm_slot_pack(t);
}

static void move(struct wm_pipe *p, struct wm_slot *t)
{
    int rc = p->ops->move(p, t);
    t->state = rc ? WM_SLOT_ENDED : WM_SLOT_MOVING;
    if (rc < 0) {
        note(p, t, rc);
        p->halt = true;
    } else if (rc) {
        unpack(p, t);
    }
}

static bool begin(struct wm_pipe *p)
{
    struct wm_slot *t = wm_pipe_part(p, p->running);
    char *room = p->rooms.room[t - p->slot];
    if (!p->ops->next(p, t))
        return false;
    p->running++;
    t->in_place = !room;
    t->by_device = p->rooms.by_device;
    t->m.packed = room ? room : t->m.user + t->m.pos;
    if (!t->m.pack) {
        move(p, t);
        return true;
    }
    t->state = WM_SLOT_PACKING;
    t->err = 0;
    if (room)
        wm_slot_pack(t);
    return true;
}

/* Whether the part is a step further. */
static bool advance(struct wm_pipe *p, struct wm_slot *t)
{
    int rc;
    if (t->state == WM_SLOT_ENDED || t->busy)
        return false;
    if (t->state == WM_SLOT_MOVING) {
        rc = p->ops->moved(p, t);
        if (!rc)
            return false;
        note(p, t, rc);
        unpack(p, t);
        return true;
    }
    note(p, t, t->err);
    if (t->state == WM_SLOT_PACKING && !p->halt)
        move(p, t);
    else
        t->state = WM_SLOT_ENDED;
    return true;
}

int wm_pipe_start(struct wm_pipe *p)
{
    int n = 0;
    while (p->running < p->rooms.n && !p->halt && begin(p))
        n++;
    return n;
}

int wm_pipe_step(struct wm_pipe *p)
{
    int n = 0;
    for (int i = 0; i < p->running; i++) {
        struct wm_slot *t = wm_pipe_part(p, i);
        while (advance(p, t))
            n++;
        if (t->state == WM_SLOT_PACKING) /* no part is moved before an older one */
            break;
    }
    while (p->running && p->slot[p->oldest].state == WM_SLOT_ENDED) {
        p->oldest = (p->oldest + 1) % p->rooms.n;
        p->running--;
        n++;
    }
    return n + wm_pipe_start(p);
}
