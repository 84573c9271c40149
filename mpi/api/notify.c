/* SPDX-License-Identifier: BSD-3-Clause */
/* MPIX_Put_notify, and the calls of the target that count its notifications: arguments.  The work
 * is done by mpi/rma/notify.c.  Any thread. */
#include "mpi/api/notify.h"
#include "mpi/api/bind.h"
#include "mpi/p2p/wait.h"
#include "mpi/rma/api.h"
#include "mpi/rma/notify.h"
#include "mpi/rma/progress.h"

struct wm_win *wm_put_win(MPI_Win h, const char *arg, const char *call, int *err)
{
    struct wm_win *w = NULL;
    if (rt_unlikely(!rt_load_relaxed(&wm_state.users)))
        *err = wm_bad_phase(call);
    else if (rt_unlikely(!(w = wm_win_get(h))))
        *err = wm_raise_win(NULL, wm_bad_win(arg, h), call);
    return w;
}

int wm_put_raise(struct wm_win *w, int err, const char *call)
{
    return rt_likely(!err) ? MPI_SUCCESS : wm_raise_win(w, err, call);
}

int wm_put_check(const struct wm_win *w, const struct wm_put *a)
{
    const struct wm_type *o = wm_type_get(a->origin_datatype);
    if (rt_unlikely(a->origin_count < 0))
        return wm_bad_count("argument 2 (origin_count)", a->origin_count);
    if (!wm_usable_type(o))
        return wm_bad_type("argument 3 (origin_datatype)", a->origin_datatype);
    if (rt_unlikely((unsigned)a->target_rank >= (unsigned)w->comm->size) &&
        a->target_rank != MPI_PROC_NULL)
        return wm_bad_rank("argument 4 (target_rank)", w->comm, a->target_rank);
    if (rt_unlikely(a->target_count < 0))
        return wm_bad_count("argument 6 (target_count)", a->target_count);
    if (!wm_usable_type(wm_type_get(a->target_datatype)))
        return wm_bad_type("argument 7 (target_datatype)", a->target_datatype);
    return wm_bad_address(a->origin_addr, a->origin_count, o)
               ? wm_bad_buffer("argument 1 (origin_addr)", a->origin_addr, o)
               : MPI_SUCCESS;
}

int wm_note_count_check(const char *arg, MPI_Count count)
{
    if (rt_likely(count >= 0 && count <= INT32_MAX))
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_COUNT, "%s: %lld notifications; give 0..%d", arg, (long long)count,
                  INT32_MAX);
}

static int put(const struct wm_put *a, int notification, MPI_Win win, const char *call)
{
    int err = MPI_SUCCESS;
    struct wm_win *w = wm_put_win(win, "argument 9 (win)", call, &err);
    if (!w)
        return err;
    err = wm_put_check(w, a);
    if (rt_likely(!err))
        err = wm_rma_note_check(w->rma, "argument 8 (notification)", notification);
    if (rt_likely(!err))
        err = wm_rma_put(a->origin_addr, a->origin_count, wm_type_get(a->origin_datatype),
                         a->target_rank, a->target_disp, a->target_count,
                         wm_type_get(a->target_datatype), w,
                         wm_rma_note_of(notification, WM_RMA_NOTE_HERE));
    return wm_put_raise(w, err, call);
}

WM_EXPORT int PMPIX_Put_notify(const void *origin_addr, int origin_count,
                               MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
                               int target_count, MPI_Datatype target_datatype, int notification,
                               MPI_Win win)
{
    return put(&(struct wm_put){ origin_addr, origin_count, origin_datatype, target_rank,
                                 target_disp, target_count, target_datatype },
               notification, win, "MPIX_Put_notify");
}
WM_WEAK(MPIX_Put_notify);

WM_EXPORT int PMPIX_Put_notify_c(const void *origin_addr, MPI_Count origin_count,
                                 MPI_Datatype origin_datatype, int target_rank,
                                 MPI_Aint target_disp, MPI_Count target_count,
                                 MPI_Datatype target_datatype, int notification, MPI_Win win)
{
    return put(&(struct wm_put){ origin_addr, origin_count, origin_datatype, target_rank,
                                 target_disp, target_count, target_datatype },
               notification, win, "MPIX_Put_notify_c");
}
WM_WEAK(MPIX_Put_notify_c);

/* The window of a call of the target, with the lock taken; NULL: *err is the result. */
static struct wm_rma *enter(int notification, MPI_Count count, MPI_Win win, const char *arg,
                            const char *call, int *err)
{
    struct wm_win *w = wm_put_win(win, arg, call, err);
    if (!w)
        return NULL;
    *err = wm_rma_note_check(w->rma, "argument 1 (notification)", notification);
    if (!*err)
        *err = wm_note_count_check("argument 2 (count)", count);
    if (*err) {
        *err = wm_raise_win(w, *err, call);
        return NULL;
    }
    rt_lock(&w->rma->dom->lock);
    return w->rma;
}

static int leave(struct wm_rma *r, int err, const char *call)
{
    rt_unlock(&r->dom->lock);
    return wm_put_raise(r->win, err, call);
}

WM_EXPORT int PMPIX_Notify_wait(int notification, MPI_Count count, MPI_Win win)
{
    static const char call[] = "MPIX_Notify_wait";
    int err = MPI_SUCCESS;
    struct wm_rma *r = enter(notification, count, win, "argument 3 (win)", call, &err);
    if (!r)
        return err;
    err = wm_rma_note_await(r, wm_rma_note_of(notification, WM_RMA_NOTE_HERE), (uint32_t)count);
    return leave(r, err, call);
}
WM_WEAK(MPIX_Notify_wait);

WM_EXPORT int PMPIX_Notify_test(int notification, MPI_Count count, int *flag, MPI_Win win)
{
    static const char call[] = "MPIX_Notify_test";
    int err = MPI_SUCCESS;
    bool came;
    struct wm_rma *r = enter(notification, count, win, "argument 4 (win)", call, &err);
    if (!r)
        return err;
    if (!flag)
        return leave(r, wm_bad_null("argument 3 (flag)", MPI_ERR_ARG), call);
    err = wm_rma_note_poll(r, wm_rma_note_of(notification, WM_RMA_NOTE_HERE), (uint32_t)count,
                           &came);
    *flag = came;
    err = leave(r, err, call);
    wm_domain_polled(came);
    return err;
}
WM_WEAK(MPIX_Notify_test);

WM_EXPORT int PMPIX_Notify_get(int notification, MPI_Count *count, MPI_Win win)
{
    static const char call[] = "MPIX_Notify_get";
    int err = MPI_SUCCESS;
    struct wm_rma *r = enter(notification, 0, win, "argument 3 (win)", call, &err);
    if (!r)
        return err;
    if (!count)
        return leave(r, wm_bad_null("argument 2 (count)", MPI_ERR_ARG), call);
    wm_rma_poll(r);
    *count = wm_rma_note_count(r, wm_rma_note_of(notification, WM_RMA_NOTE_HERE));
    return leave(r, MPI_SUCCESS, call);
}
WM_WEAK(MPIX_Notify_get);
