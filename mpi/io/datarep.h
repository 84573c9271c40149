/* SPDX-License-Identifier: BSD-3-Clause */
/* Data representations of files other than that of memory (MPI-5.0 section 14.5): "external32" and
 * those of MPI_Register_datarep.  "native" and "internal" are the representation of memory, and
 * have no object here. */
#ifndef WM_IO_DATAREP_H
#define WM_IO_DATAREP_H

#include "mpi/io/op.h"

struct wm_datarep;

/* False: there is no such representation.  *out is NULL for that of memory. */
bool wm_datarep_find(const char *name, const struct wm_datarep **out);
/* Bytes of the data of one item in the file.  MPI_SUCCESS, or what wm_err() or a user's function
 * returned. */
int wm_datarep_size(const struct wm_datarep *d, const struct wm_type *t, int64_t *nbytes);
/* The datatype of the same constructors over types of bytes, each as long as its basic type is in
 * the file: where the data of `t` are in the file.  The caller releases it with wm_type_unref().
 * Errors as wm_datarep_size(). */
int wm_datarep_type(const struct wm_datarep *d, struct wm_type *t, struct wm_type **out);
/* Carries out an operation on a view with a representation, as wm_indep_run(); sets op->moved to
 * bytes of memory.  By the thread that called MPI only: user functions are called. */
int wm_datarep_run(struct wm_iop *op);

#endif
