/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared file pointer: one number of all ranks of a file, in etypes of the view, which all
 * ranks then have alike (MPI-5.0 section 14.4.4). */
#ifndef WM_IO_SHARED_H
#define WM_IO_SHARED_H

#include "mpi/io/file.h"

/* Collective; the pointer is at `at`.  The domain's lock is not held in any of these functions.
 * MPI_SUCCESS, or an error with its text: the same on all ranks. */
int wm_shared_open(struct wm_file *f, int64_t at);
int wm_shared_close(struct wm_file *f);
bool wm_shared_is_local(const struct wm_file *f); /* closing it waits for no other process */
/* Adds n etypes to the shared pointer, atomically; *old is its value before, in etypes.
 * Not collective. */
int wm_shared_add(struct wm_file *f, int64_t n, int64_t *old);
/* Rank 0 sets the pointer after all ranks have entered the call; collective.  `at` and `err` are
 * rank 0's.  Returns rank 0's error on all ranks. */
int wm_shared_set(struct wm_file *f, int err, int64_t at);
/* Adds the `n` of every rank in rank order; collective.  When any rank returns, the pointer
 * includes the `n` of all ranks. */
int wm_shared_ordered(struct wm_file *f, int64_t n, int64_t *at);

#endif
