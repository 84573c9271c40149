/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/rma/checked.h"
#include <stdio.h>
#include "mpi/check/accesses.h"
#include "mpi/check/memory.h"
#include "mpi/check/uses.h"
#include "mpi/coll/check.h"
#include "mpi/rma/target.h"
#include "runtime/base/log.h"

static const char *name_of(const struct wm_win *w, char *buf, size_t len)
{
    snprintf(buf, len, w->name[0] ? "window \"%.60s\"" : "a window without a name", w->name);
    return buf;
}

static void use(struct wm_rma *r, const struct wm_rma_args *a, const struct wm_rma_side *s,
                bool writes, bool sealed)
{
    char win[80];
    if (!s->type || !s->count)
        return;
    check_memory(s->buf, s->count, &s->type->layout, writes);
    struct check_use u = { .owner = r,
                           .part = wm_rma_target(r, a->rank),
                           .at = { s->buf, s->count, &s->type->layout },
                           .writes = writes,
                           .lasts = true,
                           .sealed = sealed };
    snprintf(u.what, sizeof u.what, "%s rank %d of %s", a->what == WM_RMA_DO_GET ? "from" : "to",
             a->rank, name_of(r->win, win, sizeof win));
    check_use_begin(&u);
}

/* A derived datatype may be freed before the epoch ends; the buffer is then not watched. */
static bool lasts(const struct wm_rma_side *s) { return !s->type || s->type->predefined; }

/* ---- accesses in an epoch of fences ---- */

struct pieces {
    const struct wm_rma *r;
    int target;
    enum check_access_kind kind;
    int64_t at; /* of the element */
};

static void access_piece(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep)
{
    const struct pieces *p = arg;
    for (int64_t i = 0, at = p->at + off; i < nrep; i++, at += stride)
        wm_check_access(p->r->win->comm, p->target, (int)p->kind, at, at + len);
}

static void access_target(struct wm_rma *r, const struct wm_rma_args *a)
{
    const struct wm_rma_target *t = wm_rma_target(r, a->rank);
    const struct rt_layout *l = &a->target.type->layout;
    enum check_access_kind kind = a->what == WM_RMA_DO_GET   ? CHECK_GET
                                  : a->what == WM_RMA_DO_PUT ? CHECK_PUT
                                                             : CHECK_ACC;
    struct pieces p = { .r = r, .target = a->rank, .kind = kind };
    if (!t || !t->unit || !a->nbytes) /* unit 0: unknown, on another host */
        return;
    p.at = a->disp * t->unit;
    if (l->contig) {
        access_piece(&p, l->true_lb, a->nbytes, 0, 1);
        return;
    }
    for (int64_t i = 0; i < a->target.count; i++, p.at += l->extent)
        rt_layout_each(l, access_piece, &p);
}

/* A buffer of an operation in the window's memory of this process. */
static void access_own(const struct wm_rma *r, const struct wm_rma_side *s, bool writes)
{
    if (!s->type || !s->count || !s->type->layout.contig || !r->memory.base)
        return;
    int64_t low = s->buf + s->type->layout.true_lb - r->memory.base;
    if (low >= 0 && (uint64_t)low < r->memory.nbytes)
        wm_check_access(r->win->comm, r->comm->rank, writes ? CHECK_STORE : CHECK_LOAD, low,
                        low + s->count * s->type->layout.size);
}

void wm_rma_checked_op(struct wm_rma *r, const struct wm_rma_args *a, bool done)
{
    bool passive = r->epoch.access == WM_ACCESS_LOCK || r->epoch.access == WM_ACCESS_LOCK_ALL;
    r->epoch.mixed = r->epoch.mixed || (r->epoch.fenced && passive);
    if (r->epoch.access == WM_ACCESS_FENCE) {
        access_target(r, a);
        access_own(r, &a->origin, a->what == WM_RMA_DO_GET);
        access_own(r, &a->result, true);
    }
    if (a->on_device || !lasts(&a->origin) || !lasts(&a->result))
        return;
    bool gets = a->what == WM_RMA_DO_GET;
    use(r, a, &a->origin, gets, done || !gets);
    use(r, a, &a->result, true, done);
}

void wm_rma_checked_end(const struct wm_rma *r, const struct wm_rma_target *t)
{
    check_use_end(r, t, true);
}

/* By MPI-5.0 section 12.5.1 a fence begins an epoch if communication calls follow it and another
 * fence ends the epoch; a lock within the epoch is an error.  A fence that ends an epoch may have
 * no other purpose, so operations under a lock are reported only after a fence that ends none. */
int wm_rma_checked_fence(struct wm_rma *r, int assert)
{
    char name[80];
    bool precedes = !(assert &MPI_MODE_NOPRECEDE), mixed = r->epoch.mixed;
    if (!precedes && r->epoch.access == WM_ACCESS_FENCE)
        return wm_err(MPI_ERR_RMA_SYNC,
                      "argument 1 (assert) has MPI_MODE_NOPRECEDE, but this process has called "
                      "communication procedures since the last MPI_Win_fence");
    r->epoch.mixed = false;
    bool succeeds = !(assert &MPI_MODE_NOSUCCEED);
    r->epoch.fenced = succeeds && !r->epoch.begun;
    r->epoch.begun = succeeds;
    if (precedes && mixed)
        log_warn(MPI,
                 "WEFT_CHECK: operations under MPI_Win_lock or MPI_Win_lock_all on %s lie between "
                 "two MPI_Win_fence, to whose epoch they belong (MPI-5.0 section 12.5.1); give "
                 "MPI_MODE_NOSUCCEED to the first fence or MPI_MODE_NOPRECEDE to the second",
                 name_of(r->win, name, sizeof name));
    return MPI_SUCCESS;
}

void wm_rma_checked_memory(const struct wm_win *win, const void *base, size_t nbytes)
{
    char name[80], here[160];
    const char *why = check_memory_gone(base, nbytes);
    if (!why)
        return;
    struct check_place p = check_here();
    check_place_text(&p, here, sizeof here);
    if (!win)
        check_fail("rank %d: memory of the window: the buffer of %zu bytes at %p %s, in %s",
                   rt_boot.rank, nbytes, base, why, here);
    log_warn(MPI,
             "WEFT_CHECK: memory of the window: the buffer of %zu bytes at %p of %s %s, in %s; "
             "free the window first",
             nbytes, base, name_of(win, name, sizeof name), why, here);
}
