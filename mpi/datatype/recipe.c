/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/datatype/make.h"
#include <stdlib.h>
void wm_type_recipe_free(struct wm_type_recipe *r)
{
    if (!r)
        return;
    for (int64_t i = 0; i < r->ntype; i++)
        wm_type_unref(r->types[i]);
    free(r);
}
