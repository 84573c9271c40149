/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of the puts that the standard does not have, shared with the enqueued ones of
 * mpi/stream. */
#ifndef WM_API_NOTIFY_H
#define WM_API_NOTIFY_H

#include "mpi/core/win.h"
#include "mpi/datatype/type.h"

struct wm_put { /* as the user gave them */
    const void *origin_addr;
    MPI_Count origin_count;
    MPI_Datatype origin_datatype;
    int target_rank;
    MPI_Aint target_disp;
    MPI_Count target_count;
    MPI_Datatype target_datatype;
};

/* MPI_SUCCESS or an error class. */
int wm_put_check(const struct wm_win *w, const struct wm_put *a);
/* The window; NULL: *err is the result of the call. */
struct wm_win *wm_put_win(MPI_Win h, const char *arg, const char *call, int *err);
/* Calls the error handler if `err` is an error; returns the result of the call. */
int wm_put_raise(struct wm_win *w, int err, const char *call);
/* A number of notifications to wait for; 0 or more. */
int wm_note_count_check(const char *arg, MPI_Count count);

#endif
