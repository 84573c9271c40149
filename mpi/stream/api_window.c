/* SPDX-License-Identifier: BSD-3-Clause */
/* The enqueued one-sided calls of the API: arguments are checked as in the calls after which they
 * are named.  Any thread. */
#include "mpi/api/bind.h"
#include "mpi/api/notify.h"
#include "mpi/rma/api.h"
#include "mpi/rma/notify.h"
#include "mpi/stream/stream.h"

/* number: of the notification; -1: none. */
static int put(const struct wm_put *a, int number, MPI_Win win, const char *arg, const char *call)
{
    struct wm_rma_args op;
    int err = MPI_SUCCESS;
    struct wm_win *w = wm_put_win(win, arg, call, &err);
    if (!w)
        return err;
    err = wm_put_check(w, a);
    if (!err) {
        wm_rma_put_args(&op, a->origin_addr, a->origin_count, wm_type_get(a->origin_datatype),
                        a->target_rank, a->target_disp, a->target_count,
                        wm_type_get(a->target_datatype));
        err = wm_xstream_put(w, &op, number);
    }
    return wm_put_raise(w, err, call);
}

static int put_notify(const struct wm_put *a, int notification, MPI_Win win, const char *call)
{
    int err = MPI_SUCCESS;
    struct wm_win *w = wm_put_win(win, "argument 9 (win)", call, &err);
    if (!w)
        return err;
    err = wm_rma_note_check(w->rma, "argument 8 (notification)", notification);
    return err ? wm_put_raise(w, err, call) : put(a, notification, win, "", call);
}

WM_EXPORT int PMPIX_Put_enqueue(const void *origin_addr, int origin_count,
                                MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
                                int target_count, MPI_Datatype target_datatype, MPI_Win win)
{
    return put(&(struct wm_put){ origin_addr, origin_count, origin_datatype, target_rank,
                                 target_disp, target_count, target_datatype },
               -1, win, "argument 8 (win)", "MPIX_Put_enqueue");
}
WM_WEAK(MPIX_Put_enqueue);

WM_EXPORT int PMPIX_Put_enqueue_c(const void *origin_addr, MPI_Count origin_count,
                                  MPI_Datatype origin_datatype, int target_rank,
                                  MPI_Aint target_disp, MPI_Count target_count,
                                  MPI_Datatype target_datatype, MPI_Win win)
{
    return put(&(struct wm_put){ origin_addr, origin_count, origin_datatype, target_rank,
                                 target_disp, target_count, target_datatype },
               -1, win, "argument 8 (win)", "MPIX_Put_enqueue_c");
}
WM_WEAK(MPIX_Put_enqueue_c);

WM_EXPORT int PMPIX_Put_notify_enqueue(const void *origin_addr, int origin_count,
                                       MPI_Datatype origin_datatype, int target_rank,
                                       MPI_Aint target_disp, int target_count,
                                       MPI_Datatype target_datatype, int notification, MPI_Win win)
{
    return put_notify(&(struct wm_put){ origin_addr, origin_count, origin_datatype, target_rank,
                                        target_disp, target_count, target_datatype },
                      notification, win, "MPIX_Put_notify_enqueue");
}
WM_WEAK(MPIX_Put_notify_enqueue);

WM_EXPORT int PMPIX_Put_notify_enqueue_c(const void *origin_addr, MPI_Count origin_count,
                                         MPI_Datatype origin_datatype, int target_rank,
                                         MPI_Aint target_disp, MPI_Count target_count,
                                         MPI_Datatype target_datatype, int notification,
                                         MPI_Win win)
{
    return put_notify(&(struct wm_put){ origin_addr, origin_count, origin_datatype, target_rank,
                                        target_disp, target_count, target_datatype },
                      notification, win, "MPIX_Put_notify_enqueue_c");
}
WM_WEAK(MPIX_Put_notify_enqueue_c);

WM_EXPORT int PMPIX_Notify_wait_enqueue(int notification, MPI_Count count, MPI_Win win)
{
    static const char call[] = "MPIX_Notify_wait_enqueue";
    int err = MPI_SUCCESS;
    struct wm_win *w = wm_put_win(win, "argument 3 (win)", call, &err);
    if (!w)
        return err;
    err = wm_rma_note_check(w->rma, "argument 1 (notification)", notification);
    if (!err)
        err = wm_note_count_check("argument 2 (count)", count);
    if (!err)
        err = wm_xstream_notify_wait(w, notification, (uint32_t)count);
    return wm_put_raise(w, err, call);
}
WM_WEAK(MPIX_Notify_wait_enqueue);

WM_EXPORT int PMPIX_Win_flush_enqueue(int rank, MPI_Win win)
{
    static const char call[] = "MPIX_Win_flush_enqueue";
    int err = MPI_SUCCESS;
    struct wm_win *w = wm_put_win(win, "argument 2 (win)", call, &err);
    if (!w)
        return err;
    if ((unsigned)rank >= (unsigned)w->comm->size && rank != MPI_PROC_NULL)
        err = wm_bad_rank("argument 1 (rank)", w->comm, rank);
    else
        err = wm_xstream_flush(w, rank);
    return wm_put_raise(w, err, call);
}
WM_WEAK(MPIX_Win_flush_enqueue);
