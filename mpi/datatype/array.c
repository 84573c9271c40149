/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes for parts of multidimensional arrays, and the predefined types that fit a description
 * (MPI-5.0 sections 5.1.3, 5.1.4 and 19.1.5).  Any thread. */
#include "mpi/datatype/make.h"
#include "mpi/api/bodies.h"
#include "mpi/datatype/recipe.h"
#include <stdlib.h>

static int64_t count_at(struct wm_counts c, int i)
{
    return c.wide ? ((const MPI_Count *)c.v)[i] : ((const int *)c.v)[i];
}

static int check_dim(int i, int64_t size, int64_t sub, int64_t start)
{
    if (size < 1)
        return wm_err(MPI_ERR_ARG, "array_of_sizes[%d] is %lld; it must be at least 1", i,
                      (long long)size);
    if (sub < 1 || sub > size)
        return wm_err(MPI_ERR_ARG, "array_of_subsizes[%d] is %lld; it must be in 1..%lld", i,
                      (long long)sub, (long long)size);
    if (start < 0 || start > size - sub)
        return wm_err(MPI_ERR_ARG, "array_of_starts[%d] is %lld; it must be in 0..%lld", i,
                      (long long)start, (long long)(size - sub));
    return MPI_SUCCESS;
}

/* Replaces *l by `n` of it, `step` bytes apart. */
static int repeat(struct rt_layout *l, int64_t n, int64_t step)
{
    struct rt_layout more;
    int err = rt_layout_vector(&more, n, 1, step, l);
    if (!err) {
        rt_layout_fini(l);
        *l = more;
    }
    return err;
}

/* dims[]: size, subsize, start of each dimension, the fastest first. */
static int subarray_layout(struct rt_layout *l, int ndims, const int64_t (*dims)[3],
                           const struct rt_layout *old)
{
    struct rt_layout moved;
    int64_t step = old->extent, at = 0, shift;
    int err = rt_layout_dup(l, old);
    if (err)
        return err;
    for (int d = 0; d < ndims && !err; d++) {
        err = repeat(l, dims[d][1], step);
        if (!err && (__builtin_mul_overflow(dims[d][2], step, &shift) ||
                     __builtin_add_overflow(at, shift, &at) ||
                     __builtin_mul_overflow(step, dims[d][0], &step)))
            err = -RT_EINVAL;
    }
    if (!err) {
        const struct rt_layout *one = l;
        err = rt_layout_struct(&moved, 1, (const int64_t[]){ 1 }, &at, &one, true);
    }
    if (!err) {
        rt_layout_fini(l);
        err = rt_layout_resized(l, 0, step, &moved); /* the extent is that of the whole array */
        rt_layout_fini(&moved);
    } else {
        rt_layout_fini(l);
    }
    return err;
}

int wm_api_type_create_subarray(int ndims, struct wm_counts array_of_sizes,
                                struct wm_counts array_of_subsizes,
                                struct wm_counts array_of_starts, int order,
                                struct wm_type *oldtype, struct wm_type **newtype)
{
    if (ndims < 1)
        return wm_err(MPI_ERR_ARG, "ndims is %d; it must be at least 1", ndims);
    if (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN)
        return wm_err(MPI_ERR_ARG, "order is %d; it must be MPI_ORDER_C or MPI_ORDER_FORTRAN",
                      order);
    if (oldtype->absent)
        return wm_err(MPI_ERR_TYPE, "%s is not supported by this library", oldtype->name);
    int64_t(*dims)[3] = malloc((size_t)ndims * sizeof *dims),
    *count = malloc(3 * (size_t)ndims * sizeof *count);
    struct rt_layout l;
    int err = dims && count ? MPI_SUCCESS
                            : wm_err(MPI_ERR_NO_MEM, "no memory for %d dimensions", ndims);
    for (int i = 0; i < ndims && !err; i++) {
        int64_t *d = dims[order == MPI_ORDER_C ? ndims - 1 - i : i];
        count[i] = d[0] = count_at(array_of_sizes, i);
        count[ndims + i] = d[1] = count_at(array_of_subsizes, i);
        count[2 * ndims + i] = d[2] = count_at(array_of_starts, i);
        err = check_dim(i, d[0], d[1], d[2]);
    }
    if (!err) {
        int rt = subarray_layout(&l, ndims, (const int64_t(*)[3])dims, &oldtype->layout);
        err = rt ? wm_type_layout_err(rt) : MPI_SUCCESS;
    }
    if (!err)
        err = wm_type_create(&l, MPI_COMBINER_SUBARRAY,
                             &(struct wm_type_args){ .head = &ndims,
                                                     .nhead = 1,
                                                     .count = count,
                                                     .ncount = 3 * (int64_t)ndims,
                                                     .tail = &order,
                                                     .ntail = 1,
                                                     .type = &oldtype,
                                                     .ntype = 1 },
                             newtype);
    free(dims);
    free(count);
    return err;
}

int wm_api_type_match_size(int typeclass, int size, struct wm_type **datatype)
{
    static const MPI_Datatype integers[] = { MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8,
                                             MPI_INTEGER16 };
    static const MPI_Datatype reals[] = { MPI_REAL2, MPI_REAL4, MPI_REAL8, MPI_REAL16 };
    static const MPI_Datatype complexes[] = { MPI_COMPLEX4, MPI_COMPLEX8, MPI_COMPLEX16,
                                              MPI_COMPLEX32 };
    const MPI_Datatype *list = integers;
    size_t n = sizeof integers / sizeof *integers;
    if (typeclass == MPI_TYPECLASS_REAL) {
        list = reals;
        n = sizeof reals / sizeof *reals;
    } else if (typeclass == MPI_TYPECLASS_COMPLEX) {
        list = complexes;
        n = sizeof complexes / sizeof *complexes;
    } else if (typeclass != MPI_TYPECLASS_INTEGER) {
        return wm_err(MPI_ERR_ARG, "typeclass is %d, which is none of the MPI_TYPECLASS_ constants",
                      typeclass);
    }
    for (size_t i = 0; i < n; i++) {
        if (size > 0 && wm_type_get(list[i])->layout.size == size) {
            *datatype = wm_type_get(list[i]);
            return MPI_SUCCESS;
        }
    }
    return wm_err(MPI_ERR_ARG, "there is no type of this class with %d bytes", size);
}

int wm_api_type_get_value_index(struct wm_type *value_type, struct wm_type *index_type,
                                struct wm_type **pair_type)
{
    static const MPI_Datatype known[][3] = {
        { MPI_FLOAT, MPI_INT, MPI_FLOAT_INT },
        { MPI_DOUBLE, MPI_INT, MPI_DOUBLE_INT },
        { MPI_LONG, MPI_INT, MPI_LONG_INT },
        { MPI_INT, MPI_INT, MPI_2INT },
        { MPI_SHORT, MPI_INT, MPI_SHORT_INT },
        { MPI_LONG_DOUBLE, MPI_INT, MPI_LONG_DOUBLE_INT },
        { MPI_REAL, MPI_REAL, MPI_2REAL },
        { MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_2DOUBLE_PRECISION },
        { MPI_INTEGER, MPI_INTEGER, MPI_2INTEGER },
    };
    *pair_type = NULL; /* no such pair: MPI_DATATYPE_NULL (MPI-5.0 section 6.9.4) */
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (value_type == wm_type_get(known[i][0]) && index_type == wm_type_get(known[i][1]))
            *pair_type = wm_type_get(known[i][2]);
    return MPI_SUCCESS;
}
