/* SPDX-License-Identifier: BSD-3-Clause */
/* Making derived datatypes. */
#ifndef WM_DATATYPE_MAKE_H
#define WM_DATATYPE_MAKE_H

#include "mpi/datatype/recipe.h"

/* A datatype around a layout, which it takes over, also on failure.  MPI_SUCCESS or what wm_err()
 * returned. */
int wm_type_create(struct rt_layout *l, int combiner, const struct wm_type_args *a,
                   struct wm_type **out);
/* What rt_layout_* returned, as an error of the call. */
int wm_type_layout_err(int rt_err);

#endif
