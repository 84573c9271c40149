/* SPDX-License-Identifier: BSD-3-Clause */
/* A data representation, for datarep.c and convert.c. */
#ifndef WM_IO_DATAREP_INT_H
#define WM_IO_DATAREP_INT_H

#include "mpi/io/datarep.h"

struct wm_datarep {
    char name[MPI_MAX_DATAREP_STRING];
    MPI_Datarep_extent_function *extent; /* NULL: external32 */
    void *extra;
    /* For reading and for writing, in one of two forms; NULL: the data are as in memory. */
    MPI_Datarep_conversion_function *fn[2];
    MPI_Datarep_conversion_function_c *fn_c[2];
    struct wm_datarep *next;
};

/* Bytes and basic elements in memory that the first *left bytes of some items in the file fill; an
 * element that is cut is left out.  *left becomes the number of bytes that follow the items, or 0
 * if the bytes end within them. */
struct wm_datarep_prefix {
    int64_t nbytes, nelems;
};
struct wm_datarep_prefix wm_datarep_prefix(const struct wm_datarep *d, const struct wm_type *t,
                                           int64_t items, int64_t *left);

#endif
