/* SPDX-License-Identifier: BSD-3-Clause */
/* Data representations of files other than that of memory (MPI-5.0 section 14.5): "external32" and
 * those of MPI_Register_datarep.  "native" and "internal" are the representation of memory, and
 * have no object here. */
#ifndef WM_IO_DATAREP_H
#define WM_IO_DATAREP_H

#include "mpi/datatype/type.h"

struct wm_datarep {
    char name[MPI_MAX_DATAREP_STRING];
    MPI_Datarep_extent_function *extent; /* NULL: external32 */
    void *extra;
    /* For reading and for writing, in one of two forms; NULL: the data are as in memory. */
    MPI_Datarep_conversion_function *fn[2];
    MPI_Datarep_conversion_function_c *fn_c[2];
    struct wm_datarep *next;
};

/* False: there is no such representation.  *out is NULL for that of memory. */
bool wm_datarep_find(const char *name, const struct wm_datarep **out);
/* Bytes of the data of one item in the file.  MPI_SUCCESS, or what wm_err() or a user's function
 * returned. */
int wm_datarep_size(const struct wm_datarep *d, const struct wm_type *t, int64_t *nbytes);
/* The datatype of the same constructors over types of bytes, each as long as its basic type is in
 * the file: where the data of `t` are in the file.  The caller releases it with wm_type_unref().
 * Errors as wm_datarep_size(). */
int wm_datarep_type(const struct wm_datarep *d, struct wm_type *t, struct wm_type **out);

/* Bytes and basic elements in memory that the first *left bytes of some items in the file fill; an
 * element that is cut is left out.  *left becomes the number of bytes that follow the items, or 0
 * if the bytes end within them. */
struct wm_datarep_prefix {
    int64_t nbytes, nelems;
};
struct wm_datarep_prefix wm_datarep_prefix(const struct wm_datarep *d, const struct wm_type *t,
                                           int64_t items, int64_t *left);

#endif
