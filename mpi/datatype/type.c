/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes as objects: life, size, bounds and names (MPI-5.0 sections 5.1.5 to 5.1.9).  Any
 * thread; references are atomic and layouts never change once built. */
#include "mpi/datatype/make.h"
#include "mpi/api/bodies.h"
#include "mpi/base/attr.h"
#include "mpi/datatype/recipe.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rt_slab wm_type_slab = RT_SLAB(WM_TYPE, "datatype", struct wm_type);

MPI_Datatype wm_type_handle(const struct wm_type *t)
{
    return t ? (MPI_Datatype)(uintptr_t)t->obj.handle : MPI_DATATYPE_NULL;
}

void wm_type_ref(struct wm_type *t)
{
    if (!t->predefined)
        rt_fetch_add(&t->obj.refs, 1);
}

void wm_type_unref(struct wm_type *t)
{
    if (!t || t->predefined || rt_fetch_add(&t->obj.refs, -1) != 1)
        return;
    wm_type_recipe_free(t->recipe);
    rt_layout_fini(&t->layout);
    rt_slab_free(&wm_type_slab, t);
}

int wm_api_type_commit(struct wm_type *datatype)
{
    datatype->committed = true; /* the layout was flattened by the constructor */
    return MPI_SUCCESS;
}

int wm_api_type_free(struct wm_type *datatype)
{
    if (datatype->predefined)
        return wm_err(MPI_ERR_TYPE, "%s is predefined and cannot be freed", datatype->name);
    /* MPI_Type_get_contents gives further handles of one datatype. */
    if (rt_fetch_add(&datatype->handles, -1) == 1) {
        int err = wm_attrs_delete_all(&datatype->attrs, wm_type_handle(datatype));
        if (err) {
            rt_fetch_add(&datatype->handles, 1);
            return err;
        }
    }
    wm_type_unref(datatype);
    return MPI_SUCCESS;
}

int wm_api_type_size(struct wm_type *datatype, MPI_Count *size)
{
    *size = datatype->absent ? MPI_UNDEFINED : datatype->layout.size;
    return MPI_SUCCESS;
}

int wm_api_type_get_extent(struct wm_type *datatype, MPI_Count *lb, MPI_Count *extent)
{
    *lb = datatype->absent ? MPI_UNDEFINED : datatype->layout.lb;
    *extent = datatype->absent ? MPI_UNDEFINED : datatype->layout.extent;
    return MPI_SUCCESS;
}

int wm_api_type_get_true_extent(struct wm_type *datatype, MPI_Count *true_lb,
                                MPI_Count *true_extent)
{
    *true_lb = datatype->absent ? MPI_UNDEFINED : datatype->layout.true_lb;
    *true_extent = datatype->absent ? MPI_UNDEFINED : datatype->layout.true_extent;
    return MPI_SUCCESS;
}

int wm_api_type_set_name(struct wm_type *datatype, const char *type_name)
{
    snprintf(datatype->name, sizeof datatype->name, "%s",
             type_name); /* cut to the standard's length */
    return MPI_SUCCESS;
}

int wm_api_type_get_name(struct wm_type *datatype, char *type_name, int *resultlen)
{
    /* The null handle has a name too (MPI-5.0 section 7.8). */
    *resultlen = (int)strlen(strcpy(type_name, datatype ? datatype->name : "MPI_DATATYPE_NULL"));
    return MPI_SUCCESS;
}
