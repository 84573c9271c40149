/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of mpi/io share about a file. */
#ifndef WM_IO_FILE_H
#define WM_IO_FILE_H

#include "coll/coll.h"
#include "mpi/core/file.h"

/* The domain's lock, under which the fields are used. */
void wm_file_lock(struct wm_file *f);
void wm_file_unlock(struct wm_file *f);
/* A process of the file has died, or this one cannot take part in a collective call: sets f->dead
 * and notifies the others.  Under the lock. */
void wm_file_lose(struct wm_file *f);
/* The error of an engine function, with the file's name: "could not write to FILE: ...". */
int wm_file_err(const struct wm_file *f, int rt_err, const char *what);
/* A blocking collective on the file's communicator whose only buffer is v[n], n <=
 * WM_ALIVE_NUMBERS, after the operations in progress.  MPI_SUCCESS, or the error.  After
 * MPI_ERR_PROC_ABORTED, a process of the file has died: f->dead is set, and later calls fail at
 * once. */
int wm_file_numbers(struct wm_file *f, struct coll_args *a, int64_t *v, int n);
/* Replaces each of n numbers by the largest that a rank of the file passes; blocking.  MPI_SUCCESS,
 * the error of the messages, or MPI_ERR_NOT_SAME on all ranks if they are in different calls. */
int wm_file_max(struct wm_file *f, int64_t *v, int n);
/* The largest of the errors that the ranks pass, on all ranks; blocking.  `err`: 0, or the MPI
 * error class of this rank.  Returns the class, with a text if this rank has none. */
int wm_file_agree(struct wm_file *f, int err);
/* wm_file_same() that also agrees on the largest of each of n numbers, n <= WM_FILE_MORE. */
#define WM_FILE_MORE 3
int wm_file_same_max(struct wm_file *f, int err, int64_t value, const char *what, int64_t *more,
                     int n);
/* MPI_ERR_NOT_SAME on all ranks if they pass different values; else wm_file_agree(). */
int wm_file_same(struct wm_file *f, int err, int64_t value, const char *what);

#endif
