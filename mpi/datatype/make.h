/* SPDX-License-Identifier: BSD-3-Clause */
/* Making derived datatypes, and the record of how they were made. */
#ifndef WM_DATATYPE_MAKE_H
#define WM_DATATYPE_MAKE_H

#include "mpi/datatype/type.h"

/* Arguments of a constructor in the order in which MPI_Type_get_contents returns them (MPI-5.0 section 5.1.13). */
struct wm_type_recipe {
    int64_t nint, naddr, ncount, ntype;
    int *ints;                    /* all arrays lie behind the struct, in one allocation */
    MPI_Aint *addrs;
    MPI_Count *counts;            /* arguments that do not fit in an int or were MPI_Count only */
    struct wm_type **types;       /* referenced */
};
void wm_type_recipe_free(struct wm_type_recipe *r);

#endif
