/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of targets on the shortest path (quick.h).  A row is made by the first operation of an
 * epoch on a target, and ends with the epoch.  The end of an epoch leaves the row's facts in place,
 * so that the next MPI_Win_lock of the target only opens it again. */
#include "mpi/rma/quick.h"
#include "mpi/op/op.h"
#include "mpi/rma/epoch.h"
#include "mpi/rma/target.h"
#include "runtime/base/cfg.h"
#include <string.h>

struct wm_rma_quick wm_rma_quick[WM_RMA_QUICK];
unsigned wm_rma_quick_calls;
struct wm_rma_change wm_rma_change[32][256];
uint8_t wm_rma_quick_size[256];

/* Not where device memory may be attached later, or WEFT_CHECK looks at each operation. */
static bool may_be_quick(const struct wm_rma *r, const struct wm_rma_target *t)
{
    return t->path == WM_PATH_DIRECT && r->win->flavor != MPI_WIN_FLAVOR_DYNAMIC && !cfg.check;
}

static int row_of(const struct wm_rma *r, const struct wm_rma_target *t)
{
    return (int)(wm_rma_quick_at((uintptr_t)wm_win_handle(r->win), t->rank) - wm_rma_quick);
}

static void shut(struct wm_rma_quick *q)
{
    rt_store_relaxed(&q->nbytes, 0u);
    rt_store_relaxed(&q->passive, false);
}

/* From here on the row has no target: other threads find that `win` differs. */
static void forget(int row)
{
    struct wm_rma_quick *q = &wm_rma_quick[row];
    if (q->rma)
        q->rma->targets.quick &= ~((uint64_t)1 << row);
    rt_store_relaxed(&q->win, (uintptr_t)0);
    shut(q);
    q->rma = NULL;
    q->t = NULL;
}

/* Before the first row.  Threads wait for the domain's lock, or find no row. */
static void fill_sizes(void)
{
    static bool filled;
    for (int i = 0; i < 256 && !filled; i++) {
        const struct wm_type *t = wm_type_predefined[i];
        if (t && t->layout.contig && t->layout.size > 0 && t->layout.size < 256)
            rt_store_relaxed(&wm_rma_quick_size[i], (uint8_t)t->layout.size);
    }
    filled = true;
}

/* False: other threads may be using the target that has the row now. */
static bool take(struct wm_rma *r, struct wm_rma_target *t, int row)
{
    struct wm_rma_quick *q = &wm_rma_quick[row];
    if (!may_be_quick(r, t) || (rt_threaded && q->t))
        return false;
    fill_sizes();
    forget(row);
    q->rank = t->rank;
    q->place = (struct wm_rma_place){ t->ptr, t->ctl, r->shared.ctl };
    q->unit = t->unit;
    q->rma = r;
    q->t = t;
    r->targets.quick |= (uint64_t)1 << row;
    rt_store_release(&q->win, (uintptr_t)wm_win_handle(r->win));
    return true;
}

void wm_rma_quick_open(struct wm_rma *r, struct wm_rma_target *t)
{
    int row = row_of(r, t);
    struct wm_rma_quick *q = &wm_rma_quick[row];
    bool passive = r->epoch.access == WM_ACCESS_LOCK || r->epoch.access == WM_ACCESS_LOCK_ALL;
    if (q->t != t && !take(r, t, row))
        return;
    rt_store_relaxed(&q->fences, rt_threaded || r->win->flavor == MPI_WIN_FLAVOR_SHARED);
    rt_store_relaxed(&q->stored, true); /* by the operation on the long path */
    rt_store_relaxed(&q->nbytes, t->nbytes);
    /* Without a helper, a flush makes progress for processes that need messages. */
    rt_store_relaxed(&q->passive, passive && (!r->service.serves || r->service.helped));
}

void wm_rma_quick_again(const struct wm_rma_quick *q)
{
    struct wm_rma *r = q->rma;
    struct wm_rma_target *t = q->t;
    if (rt_threaded || !t || !rt_list_empty(&t->queue) || !wm_rma_ready(r, t) ||
        wm_rma_may_with(r, WM_MOVE_OPERATION, t))
        return;
    wm_rma_quick_open(r, t);
}

void wm_rma_quick_close(const struct wm_rma *r, const struct wm_rma_target *t)
{
    struct wm_rma_quick *q = &wm_rma_quick[row_of(r, t)];
    if (q->t == t)
        shut(q);
}

void wm_rma_quick_close_all(const struct wm_rma *r)
{
    for (uint64_t rows = r->targets.quick; rows; rows &= rows - 1)
        shut(&wm_rma_quick[__builtin_ctzll(rows)]);
}

void wm_rma_quick_forget(const struct wm_rma *r)
{
    for (uint64_t rows = r->targets.quick; rows; rows &= rows - 1)
        forget(__builtin_ctzll(rows));
}

void wm_rma_quick_learn(const struct wm_op *o, const struct wm_type *t)
{
    uint32_t op = o->obj.handle, type = t->obj.handle;
    struct wm_rma_change *c = &wm_rma_change[op % 32][type % 256];
    if (rt_load_relaxed(&c->kernel) || !t->layout.contig || op / 32 != 1 || type / 256 != 2)
        return;
    uint32_t size = (uint32_t)t->layout.size, align = size & -size;
    enum rt_elem e = t->layout.elem;
    bool integer = e == RT_ELEM_I32 || e == RT_ELEM_U32 || e == RT_ELEM_I64 || e == RT_ELEM_U64;
    rt_store_relaxed(&c->size, size); /* threads may meet here, with the same values */
    rt_store_relaxed(&c->align, align < 16 ? align : 16);
    rt_store_relaxed(&c->adds, o->op.code == RT_OP_SUM && integer ? size : 0);
    rt_store_release(&c->kernel, rt_reduce_find(o->op.code, e));
}
