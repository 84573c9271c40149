/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a block or cyclically distributed array that one process holds (MPI-5.0
 * section 5.1.4).  Any thread. */
#include "mpi/datatype/make.h"
#include "mpi/api/bodies.h"
#include "mpi/datatype/recipe.h"
#include <stdlib.h>

/* One dimension: what this process has of it. */
struct dim {
    int64_t gsize;
    int64_t block, first; /* elements in a block, first element of the first block */
    int64_t whole, rest;  /* blocks that are complete, elements in one more */
    int64_t cycle;        /* elements from the start of a block to that of the next */
};

static int darg_of(int i, int dist, int darg, int64_t gsize, int psize, int64_t *block)
{
    bool dflt = darg == MPI_DISTRIBUTE_DFLT_DARG;
    if (!dflt && darg < 1 && dist != MPI_DISTRIBUTE_NONE)
        return wm_err(MPI_ERR_ARG,
                      "array_of_dargs[%d] is %d; it must be positive or MPI_DISTRIBUTE_DFLT_DARG",
                      i, darg);
    if (dist == MPI_DISTRIBUTE_NONE) {
        if (psize != 1)
            return wm_err(MPI_ERR_ARG,
                          "array_of_psizes[%d] is %d; it must be 1 where the dimension is not "
                          "distributed (MPI_DISTRIBUTE_NONE)",
                          i, psize);
        *block = gsize;
    } else if (dist == MPI_DISTRIBUTE_BLOCK) {
        *block = dflt ? (gsize - 1) / psize + 1 : darg;
        if (*block < (gsize - 1) / psize + 1)
            return wm_err(MPI_ERR_ARG,
                          "array_of_dargs[%d] is %d; blocks of this length on %d processes do not "
                          "cover the %lld elements",
                          i, darg, psize, (long long)gsize);
    } else if (dist == MPI_DISTRIBUTE_CYCLIC) {
        *block = dflt ? 1 : darg;
    } else {
        return wm_err(MPI_ERR_ARG,
                      "array_of_distribs[%d] is %d, which is none of the MPI_DISTRIBUTE_ constants",
                      i, dist);
    }
    return MPI_SUCCESS;
}

/* The share of the process at coordinate `at` of `psize`. */
static int settle(struct dim *d, int64_t gsize, int psize, int at)
{
    d->gsize = gsize;
    if (__builtin_mul_overflow(d->block, at, &d->first) ||
        __builtin_mul_overflow(d->block, psize, &d->cycle))
        return wm_type_layout_err(-RT_EINVAL);
    int64_t left = d->first < gsize ? gsize - d->first : 0;
    d->whole = left / d->cycle;
    d->rest = left % d->cycle;
    if (d->rest >= d->block) {
        d->whole++;
        d->rest = 0;
    }
    return MPI_SUCCESS;
}

/* Replaces *l, one element of the dimension, by this process's elements; `step` bytes lie between
 * elements. */
static int distribute(struct rt_layout *l, const struct dim *d, int64_t step)
{
    struct rt_layout one, blocks, all;
    int64_t cycle, at;
    if (__builtin_mul_overflow(d->cycle, step, &cycle) ||
        __builtin_mul_overflow(d->whole, cycle, &at))
        return -RT_EINVAL;
    int err = rt_layout_resized(&one, 0, step, l);
    if (err)
        return err;
    err = rt_layout_vector(&blocks, d->whole, d->block, cycle, &one);
    if (!err) {
        err = rt_layout_struct(&all, 2, (const int64_t[]){ 1, d->rest }, (const int64_t[]){ 0, at },
                               (const struct rt_layout *const[]){ &blocks, &one }, false);
        rt_layout_fini(&blocks);
    }
    rt_layout_fini(&one);
    if (err)
        return err;
    rt_layout_fini(l);
    *l = all;
    return 0;
}

/* dims[]: the fastest first. */
static int darray_layout(struct rt_layout *out, int ndims, const struct dim *dims,
                         const struct rt_layout *old)
{
    struct rt_layout l, moved;
    const struct rt_layout *one = &l;
    int64_t step = old->extent, at = 0, shift;
    int err = rt_layout_dup(&l, old);
    if (err)
        return err;
    for (int i = 0; i < ndims && !err; i++) {
        err = distribute(&l, &dims[i], step);
        if (!err && (__builtin_mul_overflow(dims[i].first, step, &shift) ||
                     __builtin_add_overflow(at, shift, &at) ||
                     __builtin_mul_overflow(step, dims[i].gsize, &step)))
            err = -RT_EINVAL;
    }
    if (!err)
        err = rt_layout_struct(&moved, 1, (const int64_t[]){ 1 }, &at, &one, true);
    rt_layout_fini(&l);
    if (!err) {
        err = rt_layout_resized(out, 0, step, &moved); /* the extent is that of the whole array */
        rt_layout_fini(&moved);
    }
    return err;
}

struct darray {
    int size, rank, ndims, order;
    const int *distribs, *dargs, *psizes;
    int64_t *gsizes;
    struct dim *dims;
    int *tail; /* distribs, dargs, psizes, order: for the recipe */
};

static int check_grid(const struct darray *a)
{
    int64_t n = 1;
    if (a->size < 1 || a->rank < 0 || a->rank >= a->size)
        return wm_err(MPI_ERR_ARG, "rank %d of %d processes: size must be positive, rank below it",
                      a->rank, a->size);
    if (a->order != MPI_ORDER_C && a->order != MPI_ORDER_FORTRAN)
        return wm_err(MPI_ERR_ARG, "order is %d; it must be MPI_ORDER_C or MPI_ORDER_FORTRAN",
                      a->order);
    for (int i = 0; i < a->ndims; i++) {
        if (a->gsizes[i] < 1)
            return wm_err(MPI_ERR_ARG, "array_of_gsizes[%d] is %lld; it must be at least 1", i,
                          (long long)a->gsizes[i]);
        if (a->psizes[i] < 1)
            return wm_err(MPI_ERR_ARG, "array_of_psizes[%d] is %d; it must be at least 1", i,
                          a->psizes[i]);
        if (__builtin_mul_overflow(n, a->psizes[i], &n))
            n = 0;
    }
    if (n != a->size)
        return wm_err(MPI_ERR_ARG, "array_of_psizes makes a grid of %lld processes, size is %d",
                      (long long)n, a->size);
    return MPI_SUCCESS;
}

static int darray_dims(struct darray *a)
{
    int rest = a->rank, err = check_grid(a);
    for (int i = a->ndims - 1; i >= 0 && !err; i--) { /* the grid of processes is in C order */
        struct dim *d = &a->dims[a->order == MPI_ORDER_C ? a->ndims - 1 - i : i];
        err = darg_of(i, a->distribs[i], a->dargs[i], a->gsizes[i], a->psizes[i], &d->block);
        if (!err)
            err = settle(d, a->gsizes[i], a->psizes[i], rest % a->psizes[i]);
        rest /= a->psizes[i];
    }
    for (int i = 0; i < a->ndims && !err; i++) {
        a->tail[i] = a->distribs[i];
        a->tail[a->ndims + i] = a->dargs[i];
        a->tail[2 * a->ndims + i] = a->psizes[i];
    }
    a->tail[3 * a->ndims] = a->order;
    return err;
}

static int darray_create(struct darray *a, struct wm_type *oldtype, struct wm_type **newtype)
{
    struct rt_layout l;
    int err = darray_dims(a);
    if (err)
        return err;
    err = darray_layout(&l, a->ndims, a->dims, &oldtype->layout);
    if (err)
        return wm_type_layout_err(err);
    return wm_type_create(
        &l, MPI_COMBINER_DARRAY,
        &(struct wm_type_args){ .head = (const int[]){ a->size, a->rank, a->ndims },
                                .nhead = 3,
                                .count = a->gsizes,
                                .ncount = a->ndims,
                                .tail = a->tail,
                                .ntail = 3 * (int64_t)a->ndims + 1,
                                .type = &oldtype,
                                .ntype = 1 },
        newtype);
}

int wm_api_type_create_darray(int size, int rank, int ndims, struct wm_counts array_of_gsizes,
                              const int array_of_distribs[], const int array_of_dargs[],
                              const int array_of_psizes[], int order, struct wm_type *oldtype,
                              struct wm_type **newtype)
{
    if (ndims < 1)
        return wm_err(MPI_ERR_ARG, "ndims is %d; it must be at least 1", ndims);
    if (oldtype->absent)
        return wm_err(MPI_ERR_TYPE, "%s is not supported by this library", oldtype->name);
    size_t n = (size_t)ndims;
    struct darray a = { size,
                        rank,
                        ndims,
                        order,
                        array_of_distribs,
                        array_of_dargs,
                        array_of_psizes,
                        malloc(n * sizeof *a.gsizes),
                        malloc(n * sizeof *a.dims),
                        malloc((3 * n + 1) * sizeof *a.tail) };
    int err = MPI_SUCCESS;
    if (!a.gsizes || !a.dims || !a.tail)
        err = wm_err(MPI_ERR_NO_MEM, "no memory for %d dimensions", ndims);
    for (int i = 0; i < ndims && !err; i++)
        a.gsizes[i] = array_of_gsizes.wide ? ((const MPI_Count *)array_of_gsizes.v)[i]
                                           : ((const int *)array_of_gsizes.v)[i];
    if (!err)
        err = darray_create(&a, oldtype, newtype);
    free(a.gsizes);
    free(a.dims);
    free(a.tail);
    return err;
}
