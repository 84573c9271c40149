/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks in control blocks. */
#ifndef WM_RMA_LOCK_H
#define WM_RMA_LOCK_H

#include "mpi/rma/rma.h"

/* Starts to acquire; true: held now.  False: the task of the window continues. */
bool wm_rma_want(struct wm_rma *r, struct wm_rma_want *w, enum wm_want_kind kind,
                 struct wm_rma_ctl *ctl);
/* The same for a lock of a target that no process holds in the other mode.  False: nothing has been
 * acquired. */
bool wm_rma_want_now(struct wm_rma *r, struct wm_rma_want *w, enum wm_want_kind kind,
                     struct wm_rma_ctl *ctl);
/* wm_rma_want() for the caller's own epoch: looks for a few microseconds first whether the lock is
 * released, unless ranks outnumber cores. */
bool wm_rma_want_soon(struct wm_rma *r, struct wm_rma_want *w, enum wm_want_kind kind,
                      struct wm_rma_ctl *ctl);
/* Continues without waiting; true: held now. */
bool wm_rma_want_step(struct wm_rma *r, struct wm_rma_want *w);
/* Stores to the target's memory are ordered before the release. */
void wm_rma_release(struct wm_rma *r, struct wm_rma_want *w);

#endif
