/* SPDX-License-Identifier: BSD-3-Clause */
/* Access to files, for the bodies and bindings of the calls. */
#ifndef WM_IO_OP_H
#define WM_IO_OP_H

#include "mpi/core/file.h"

/* What a call of the API says. */
enum wm_where { WM_AT, WM_OWN, WM_SHARED, WM_ORDERED }; /* explicit offset; file pointers */
struct wm_access {
    struct wm_file *file;
    bool write;
    enum wm_where where;
    MPI_Offset offset; /* WM_AT: in etypes */
    void *buf;
    MPI_Count count;
    struct wm_type *type;
};

/* Blocking, and as a request, by one rank.  These calls and those of all ranks return MPI_SUCCESS,
 * or an error class with its text. */
int wm_io_run(const struct wm_access *a, MPI_Status *status);
int wm_io_start(const struct wm_access *a, MPI_Request *request);
/* The same by all ranks of the file, and in two halves. */
int wm_io_run_all(const struct wm_access *a, MPI_Status *status);
int wm_io_start_all(const struct wm_access *a, MPI_Request *request);
int wm_io_begin(const struct wm_access *a);
int wm_io_end(const struct wm_access *a, MPI_Status *status);

/* Takes part in the agreement of a collective access whose arguments the binding of this rank
 * refuses, so that the other ranks do not wait for it: they get the class of `err`.  `f` may be
 * NULL.  Returns err.  LATER: a nonblocking call, or the first half of a split one. */
enum { WM_REFUSE_WRITE = 1, WM_REFUSE_ORDERED = 2, WM_REFUSE_LATER = 4 };
int wm_io_refuse(struct wm_file *f, unsigned flags, int err);

#endif
