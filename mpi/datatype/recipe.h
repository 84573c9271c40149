/* SPDX-License-Identifier: BSD-3-Clause */
/* The record of how a derived datatype was made. */
#ifndef WM_DATATYPE_RECIPE_H
#define WM_DATATYPE_RECIPE_H

#include "mpi/datatype/type.h"

/* Arguments of a constructor as MPI_Type_get_contents returns them (MPI-5.0 section 5.1.13).  Of a
 * type made by a _c procedure, counts and addresses all are in `counts`. */
struct wm_type_recipe {
    int64_t nint, naddr, ncount, ntype;
    int *ints; /* all arrays lie behind the struct, in one allocation */
    MPI_Aint *addrs;
    MPI_Count *counts;
    struct wm_type **types; /* referenced */
};

/* The arguments of a constructor: counts, addresses and types; `head` and `tail` are the integers
 * before and after the counts that are int also in the _c form. */
struct wm_type_args {
    const int *head, *tail;
    const int64_t *count, *addr;
    struct wm_type *const *type;
    int64_t nhead, ntail, ncount, naddr, ntype;
};

/* A copy of the arguments with references to the types; NULL: no memory. */
struct wm_type_recipe *wm_type_recipe_create(const struct wm_type_args *a);
void wm_type_recipe_free(struct wm_type_recipe *r);

#endif
