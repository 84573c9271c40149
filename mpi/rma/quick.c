/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of targets on the shortest path (quick.h).  A row is made by the first operation of an
 * epoch on a target, and ends with the epoch.  The end of an epoch leaves the row's facts in place,
 * so that the next MPI_Win_lock of the target only opens it again. */
#include "mpi/rma/quick.h"
#include "mpi/rma/rma.h"
#include <string.h>

struct wm_rma_quick wm_rma_quick[WM_RMA_QUICK];
unsigned wm_rma_quick_calls;
struct wm_rma_change wm_rma_change[32][256];

/* Not where a flush has to make progress, and not where device memory may be attached later. */
static bool may_be_quick(const struct wm_rma *r, const struct wm_rma_target *t)
{
    return t->path == WM_PATH_DIRECT && r->win->flavor != MPI_WIN_FLAVOR_DYNAMIC && !r->serves;
}

void wm_rma_quick_open(struct wm_rma *r, struct wm_rma_target *t)
{
    uintptr_t win = (uintptr_t)wm_win_handle(r->win);
    struct wm_rma_quick *q = wm_rma_quick_at(win, t->rank);
    if (rt_threaded)
        return;
    if (q->t != t) {
        if (!may_be_quick(r, t))
            return;
        *q = (struct wm_rma_quick){ .win = win,
                                    .rank = t->rank,
                                    .ptr = t->ptr,
                                    .unit = t->unit,
                                    .ctl = t->ctl,
                                    .rma = r,
                                    .t = t };
    }
    q->nbytes = t->nbytes;
    q->passive = r->access == WM_ACCESS_LOCK || r->access == WM_ACCESS_LOCK_ALL;
}

static void shut(struct wm_rma_quick *q)
{
    q->nbytes = 0;
    q->passive = false;
}

void wm_rma_quick_close(const struct wm_rma *r, const struct wm_rma_target *t)
{
    struct wm_rma_quick *q = wm_rma_quick_at((uintptr_t)wm_win_handle(r->win), t->rank);
    if (q->t == t)
        shut(q);
}

void wm_rma_quick_close_all(const struct wm_rma *r)
{
    for (int i = 0; i < WM_RMA_QUICK; i++)
        if (wm_rma_quick[i].rma == r)
            shut(&wm_rma_quick[i]);
}

void wm_rma_quick_forget(const struct wm_rma *r)
{
    for (int i = 0; i < WM_RMA_QUICK; i++)
        if (wm_rma_quick[i].rma == r)
            memset(&wm_rma_quick[i], 0, sizeof wm_rma_quick[i]);
}

void wm_rma_quick_learn(const struct wm_op *o, const struct wm_type *t)
{
    uint32_t op = o->obj.handle, type = t->obj.handle;
    struct wm_rma_change *c = &wm_rma_change[op % 32][type % 256];
    if (rt_threaded || c->kernel || !t->layout.contig || op / 32 != 1 || type / 256 != 2)
        return;
    uint32_t size = (uint32_t)t->layout.size, align = size & -size;
    enum rt_elem e = t->layout.elem;
    bool integer = e == RT_ELEM_I32 || e == RT_ELEM_U32 || e == RT_ELEM_I64 || e == RT_ELEM_U64;
    c->size = size;
    c->align = align < 16 ? align : 16;
    c->adds = o->op.code == RT_OP_SUM && integer ? size : 0;
    c->kernel = rt_reduce_find(o->op.code, e);
}
