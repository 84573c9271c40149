/* SPDX-License-Identifier: BSD-3-Clause */
/* How calls wait, and what makes progress while a window has something that waits. */
#ifndef WM_RMA_PROGRESS_H
#define WM_RMA_PROGRESS_H

#include "mpi/rma/target.h"

void wm_rma_pump_need(struct wm_rma *r); /* something waits: makes the window a task */
/* At the end of a synchronisation call that may have found everything in memory: makes progress, in
 * case this process only makes such calls.  Always for origins that need messages, else once in a
 * few calls. */
void wm_rma_poll(struct wm_rma *r);
/* Waits until cond(r, t); MPI_SUCCESS or what wm_err() returned, if a process that takes part has
 * gone. */
typedef bool wm_rma_cond(const struct wm_rma *r, const struct wm_rma_target *t);
int wm_rma_wait(struct wm_rma *r, struct wm_rma_target *t, wm_rma_cond *cond);
/* The same where a process of this host makes the condition true by a store. */
int wm_rma_wait_near(struct wm_rma *r, struct wm_rma_target *t, wm_rma_cond *cond);
/* wm_rma_wait() until cond(arg). */
int wm_rma_until(struct wm_rma *r, bool (*cond)(void *arg), void *arg);
/* Until wm_rma_ready(). */
int wm_rma_await_ready(struct wm_rma *r, struct wm_rma_target *t);
/* Origins that have completed their access epoch since MPI_Win_post. */
uint32_t wm_rma_ncompleted(const struct wm_rma *r);
int wm_rma_dead(const struct wm_rma *r); /* the error class of that, with its text */

#endif
