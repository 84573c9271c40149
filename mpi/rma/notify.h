/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifications of puts. */
#ifndef WM_RMA_NOTIFY_H
#define WM_RMA_NOTIFY_H

#include "mpi/rma/target.h"

/* struct wm_rma_args.note */
enum wm_rma_note_kind { WM_RMA_NOTE_HERE, WM_RMA_NOTE_ON_STREAM };
static inline int wm_rma_note_of(int number, enum wm_rma_note_kind kind)
{
    return 1 + 2 * number + (int)kind;
}
/* The data of a put are in the memory of the process with this control block: counts there. */
void wm_rma_notify(struct wm_rma_ctl *ctl, int note);
/* The same for a target of this host; wakes it. */
void wm_rma_notify_target(struct wm_rma *r, const struct wm_rma_target *t, int note);
/* Checks a number that the user gave.  MPI_SUCCESS or an error class. */
int wm_rma_note_check(const struct wm_rma *r, const char *arg, int number);
/* Notifications that have arrived at this process and have not been taken. */
uint32_t wm_rma_note_count(const struct wm_rma *r, int note);
/* Waits until `count` of them have arrived, and takes them; or takes them if they have arrived.
 * MPI_SUCCESS, or an error class if a process of the window has gone. */
int wm_rma_note_await(struct wm_rma *r, int note, uint32_t count);
int wm_rma_note_poll(struct wm_rma *r, int note, uint32_t count, bool *came);

#endif
