/* SPDX-License-Identifier: BSD-3-Clause */
/* The constructors of derived datatypes (MPI-5.0 sections 5.1.2 to 5.1.7).  Each turns its
 * arguments into a layout, then wm_type_create() settles bounds and alignment and keeps the
 * arguments.  Any thread. */
#include "mpi/datatype/make.h"
#include "mpi/api/bodies.h"
#include "mpi/base/attr.h"
#include "mpi/datatype/recipe.h"
#include <stdlib.h>
#include <string.h>

int wm_type_layout_err(int rt_err)
{
    if (rt_err == -RT_ENOMEM)
        return wm_err(MPI_ERR_NO_MEM, "no memory for the datatype's list of blocks");
    return wm_err(
        MPI_ERR_ARG,
        "the datatype would reach farther than 63 bits can address, or have more than 10^9 blocks");
}

/* Blocks that a structure holds: all constructors but MPI_Type_create_struct have one old type. */
static int64_t block_count(int combiner, const struct wm_type_args *a, int64_t i)
{
    return combiner == MPI_COMBINER_STRUCT ? a->count[1 + i] : 1;
}

/* Bounds as the typemap's markers and its alignment demand (MPI-5.0 sections 5.1.6 and 5.1.7): an
 * old type with bounds of its own fixes them alone, otherwise the extent is padded to the strictest
 * alignment. */
static int settle_bounds(struct wm_type *t, const struct wm_type_args *a, int combiner)
{
    struct rt_layout *l = &t->layout;
    int64_t lb = 0, ub = 0, extent = l->extent;
    bool set = false, all_set = true;
    t->align = 1;
    for (int64_t i = 0; i < a->ntype; i++) {
        const struct wm_type *old = a->type[i];
        int64_t n = block_count(combiner, a, i);
        if (!n)
            continue;
        t->align = old->align > t->align ? old->align : t->align;
        if (!old->bounds_set) {
            all_set = false;
            continue;
        }
        if (combiner == MPI_COMBINER_STRUCT) {
            int64_t span = (n - 1) * old->layout.extent, at = a->addr[i] + old->layout.lb;
            int64_t low = at + (span < 0 ? span : 0),
                    high = at + old->layout.extent + (span > 0 ? span : 0);
            lb = !set || low < lb ? low : lb;
            ub = !set || high > ub ? high : ub;
        }
        set = true;
    }
    if (combiner == MPI_COMBINER_RESIZED || combiner == MPI_COMBINER_SUBARRAY ||
        combiner == MPI_COMBINER_DARRAY) {
        t->bounds_set = true; /* the constructor itself gave them to the layout */
        return 0;
    }
    t->bounds_set = set;
    if (!set) {
        lb = l->lb;
        int64_t over = extent % t->align;
        if (over && __builtin_add_overflow(extent, t->align - over, &extent))
            return -RT_EINVAL;
    } else if (all_set || combiner != MPI_COMBINER_STRUCT) {
        return 0; /* the layout has combined nothing but set bounds */
    } else {
        extent = ub - lb;
    }
    if (lb == l->lb && extent == l->extent)
        return 0;
    struct rt_layout moved;
    int err = rt_layout_resized(&moved, lb, extent, l);
    if (err)
        return err;
    rt_layout_fini(l);
    *l = moved;
    return 0;
}

/* Basic elements in one item, and the one basic type if there is only one. */
static void settle_elements(struct wm_type *t, const struct wm_type_args *a, int combiner)
{
    bool first = true;
    for (int64_t i = 0; i < a->ntype; i++) {
        struct wm_type *old = a->type[i];
        int64_t n = block_count(combiner, a, i);
        if (!n || !old->layout.size)
            continue;
        t->basic = first || t->basic == old->basic ? old->basic : NULL;
        first = false;
        if (combiner == MPI_COMBINER_STRUCT)
            t->nelems += n * old->nelems;
        else
            t->nelems = t->layout.size / old->layout.size * old->nelems;
    }
}

int wm_type_create(struct rt_layout *l, int combiner, const struct wm_type_args *a,
                   struct wm_type **out)
{
    struct wm_type *t = rt_slab_alloc(&wm_type_slab);
    if (!t) {
        rt_layout_fini(l);
        return wm_err(MPI_ERR_NO_MEM, "no memory for another datatype");
    }
    t->handles = 1;
    t->layout = *l;
    t->combiner = combiner;
    t->recipe = wm_type_recipe_create(a);
    int err = t->recipe ? settle_bounds(t, a, combiner) : -RT_ENOMEM;
    if (err) {
        wm_type_unref(t);
        return wm_type_layout_err(err);
    }
    settle_elements(t, a, combiner);
    *out = t;
    return MPI_SUCCESS;
}

static int check_old(const struct wm_type *t)
{
    if (t->absent)
        return wm_err(MPI_ERR_TYPE,
                      "%s is not supported by this library (MPI_Type_size gives MPI_UNDEFINED)",
                      t->name);
    return MPI_SUCCESS;
}

int wm_api_type_contiguous(MPI_Count count, struct wm_type *oldtype, struct wm_type **newtype)
{
    struct rt_layout l;
    int err = check_old(oldtype);
    if (err)
        return err;
    err = rt_layout_vector(&l, count, 1, oldtype->layout.extent, &oldtype->layout);
    if (err)
        return wm_type_layout_err(err);
    return wm_type_create(
        &l, MPI_COMBINER_CONTIGUOUS,
        &(struct wm_type_args){ .count = &count, .ncount = 1, .type = &oldtype, .ntype = 1 },
        newtype);
}

int wm_api_type_vector(MPI_Count count, MPI_Count blocklength, MPI_Count stride,
                       struct wm_type *oldtype, struct wm_type **newtype)
{
    struct rt_layout l;
    int64_t step;
    int err = check_old(oldtype);
    if (err)
        return err;
    err = __builtin_mul_overflow(stride, oldtype->layout.extent, &step)
              ? -RT_EINVAL
              : rt_layout_vector(&l, count, blocklength, step, &oldtype->layout);
    if (err)
        return wm_type_layout_err(err);
    return wm_type_create(
        &l, MPI_COMBINER_VECTOR,
        &(struct wm_type_args){ .count = (int64_t[]){ count, blocklength, stride },
                                .ncount = 3,
                                .type = &oldtype,
                                .ntype = 1 },
        newtype);
}

int wm_api_type_create_hvector(MPI_Count count, MPI_Count blocklength, MPI_Count stride,
                               struct wm_type *oldtype, struct wm_type **newtype)
{
    struct rt_layout l;
    int err = check_old(oldtype);
    if (err)
        return err;
    err = rt_layout_vector(&l, count, blocklength, stride, &oldtype->layout);
    if (err)
        return wm_type_layout_err(err);
    return wm_type_create(&l, MPI_COMBINER_HVECTOR,
                          &(struct wm_type_args){ .count = (int64_t[]){ count, blocklength },
                                                  .ncount = 2,
                                                  .addr = &stride,
                                                  .naddr = 1,
                                                  .type = &oldtype,
                                                  .ntype = 1 },
                          newtype);
}

int wm_api_type_create_resized(struct wm_type *oldtype, MPI_Count lb, MPI_Count extent,
                               struct wm_type **newtype)
{
    struct rt_layout l;
    int err = check_old(oldtype);
    if (err)
        return err;
    err = rt_layout_resized(&l, lb, extent, &oldtype->layout);
    if (err)
        return wm_type_layout_err(err);
    return wm_type_create(
        &l, MPI_COMBINER_RESIZED,
        &(struct wm_type_args){
            .addr = (int64_t[]){ lb, extent }, .naddr = 2, .type = &oldtype, .ntype = 1 },
        newtype);
}

int wm_api_type_dup(struct wm_type *oldtype, struct wm_type **newtype)
{
    struct rt_layout l;
    struct wm_type *t = NULL;
    int err = check_old(oldtype);
    if (err)
        return err;
    err = rt_layout_dup(&l, &oldtype->layout);
    if (err)
        return wm_type_layout_err(err);
    err = wm_type_create(&l, MPI_COMBINER_DUP,
                         &(struct wm_type_args){ .type = &oldtype, .ntype = 1 }, &t);
    if (err)
        return err;
    t->committed = oldtype->committed;
    err = wm_attrs_copy(oldtype->attrs, wm_type_handle(oldtype), &t->attrs, wm_type_handle(t));
    if (err)
        wm_type_unref(t);
    else
        *newtype = t;
    return err;
}

/* The indexed family and struct as one: blocks of blen[i] items at disp[i], counts for the recipe
 * in order. */
struct blocks {
    int64_t n;
    int64_t *count; /* n, then blen[n] (or one for all), then for MPI_Type_indexed the displacements
                       in items */
    int64_t ncount;
    int64_t *blen, *disp;  /* bytes */
    struct wm_type **type; /* one, or n for struct */
    int64_t ntype;
};

static int blocks_init(struct blocks *b, int64_t n, int64_t ntype)
{
    memset(b, 0, sizeof *b);
    b->n = n;
    b->ntype = ntype;
    if ((uint64_t)n < SIZE_MAX / 64) {
        b->count = malloc((size_t)(2 * n + 2) * sizeof *b->count);
        b->blen = malloc((size_t)(n + 1) * sizeof *b->blen);
        b->disp = malloc((size_t)(n + 1) * sizeof *b->disp);
        b->type = malloc((size_t)(ntype + 1) * sizeof *b->type);
    }
    if (!b->count || !b->blen || !b->disp || !b->type)
        return wm_err(MPI_ERR_NO_MEM, "no memory for %lld blocks", (long long)n);
    b->count[b->ncount++] = n;
    return MPI_SUCCESS;
}

static void blocks_fini(struct blocks *b)
{
    free(b->count);
    free(b->blen);
    free(b->disp);
    free(b->type);
}

static int blocks_lengths(struct blocks *b, struct wm_counts lengths)
{
    for (int64_t i = 0; i < b->n; i++) {
        b->blen[i] = lengths.wide ? ((const MPI_Count *)lengths.v)[i] : ((const int *)lengths.v)[i];
        if (b->blen[i] < 0)
            return wm_err(MPI_ERR_ARG,
                          "array_of_blocklengths[%lld] is %lld; it must not be negative",
                          (long long)i, (long long)b->blen[i]);
        b->count[b->ncount++] = b->blen[i];
    }
    return MPI_SUCCESS;
}

static void blocks_same_length(struct blocks *b, int64_t blocklength)
{
    b->count[b->ncount++] = blocklength;
    for (int64_t i = 0; i < b->n; i++)
        b->blen[i] = blocklength;
}

static int64_t displ(struct wm_displs d, int64_t i)
{
    return d.wide ? ((const MPI_Aint *)d.v)[i] : ((const int *)d.v)[i];
}

/* Displacements in items of the old type. */
static int blocks_items(struct blocks *b, struct wm_displs displs)
{
    for (int64_t i = 0; i < b->n; i++) {
        int64_t d = displ(displs, i);
        b->count[b->ncount++] = d;
        if (__builtin_mul_overflow(d, b->type[0]->layout.extent, &b->disp[i]))
            return wm_type_layout_err(-RT_EINVAL);
    }
    return MPI_SUCCESS;
}

static void blocks_bytes(struct blocks *b, struct wm_displs displs)
{
    for (int64_t i = 0; i < b->n; i++)
        b->disp[i] = displ(displs, i);
}

static int blocks_finish(struct blocks *b, int err, int combiner, bool in_bytes,
                         struct wm_type **newtype)
{
    struct rt_layout l;
    const struct rt_layout **layouts = NULL;
    if (!err) {
        layouts = malloc((size_t)(b->ntype + 1) * sizeof *layouts);
        err = layouts ? MPI_SUCCESS
                      : wm_err(MPI_ERR_NO_MEM, "no memory for %lld datatypes", (long long)b->ntype);
    }
    if (!err) {
        for (int64_t i = 0; i < b->ntype; i++)
            layouts[i] = &b->type[i]->layout;
        int rt = rt_layout_struct(&l, b->n, b->blen, b->disp, layouts,
                                  combiner != MPI_COMBINER_STRUCT);
        err = rt ? wm_type_layout_err(rt) : MPI_SUCCESS;
    }
    if (!err)
        err = wm_type_create(&l, combiner,
                             &(struct wm_type_args){ .count = b->count,
                                                     .ncount = b->ncount,
                                                     .addr = b->disp,
                                                     .naddr = in_bytes ? b->n : 0,
                                                     .type = b->type,
                                                     .ntype = b->ntype },
                             newtype);
    free(layouts);
    blocks_fini(b);
    return err;
}

static int blocks_of_one(struct blocks *b, int64_t n, struct wm_type *oldtype)
{
    int err = blocks_init(b, n, 1);
    if (!err) {
        b->type[0] = oldtype;
        err = check_old(oldtype);
    }
    return err;
}

int wm_api_type_indexed(MPI_Count count, struct wm_counts array_of_blocklengths,
                        struct wm_displs array_of_displacements, struct wm_type *oldtype,
                        struct wm_type **newtype)
{
    struct blocks b;
    int err = blocks_of_one(&b, count, oldtype);
    if (!err)
        err = blocks_lengths(&b, array_of_blocklengths);
    if (!err)
        err = blocks_items(&b, array_of_displacements);
    return blocks_finish(&b, err, MPI_COMBINER_INDEXED, false, newtype);
}

int wm_api_type_create_hindexed(MPI_Count count, struct wm_counts array_of_blocklengths,
                                struct wm_displs array_of_displacements, struct wm_type *oldtype,
                                struct wm_type **newtype)
{
    struct blocks b;
    int err = blocks_of_one(&b, count, oldtype);
    if (!err)
        err = blocks_lengths(&b, array_of_blocklengths);
    if (!err)
        blocks_bytes(&b, array_of_displacements);
    return blocks_finish(&b, err, MPI_COMBINER_HINDEXED, true, newtype);
}

int wm_api_type_create_indexed_block(MPI_Count count, MPI_Count blocklength,
                                     struct wm_displs array_of_displacements,
                                     struct wm_type *oldtype, struct wm_type **newtype)
{
    struct blocks b;
    int err = blocks_of_one(&b, count, oldtype);
    if (!err) {
        blocks_same_length(&b, blocklength);
        err = blocks_items(&b, array_of_displacements);
    }
    return blocks_finish(&b, err, MPI_COMBINER_INDEXED_BLOCK, false, newtype);
}

int wm_api_type_create_hindexed_block(MPI_Count count, MPI_Count blocklength,
                                      struct wm_displs array_of_displacements,
                                      struct wm_type *oldtype, struct wm_type **newtype)
{
    struct blocks b;
    int err = blocks_of_one(&b, count, oldtype);
    if (!err) {
        blocks_same_length(&b, blocklength);
        blocks_bytes(&b, array_of_displacements);
    }
    return blocks_finish(&b, err, MPI_COMBINER_HINDEXED_BLOCK, true, newtype);
}

int wm_api_type_create_struct(MPI_Count count, struct wm_counts array_of_blocklengths,
                              struct wm_displs array_of_displacements,
                              const MPI_Datatype array_of_types[], struct wm_type **newtype)
{
    struct blocks b;
    int err = blocks_init(&b, count, count);
    for (int64_t i = 0; i < count && !err; i++) {
        b.type[i] = wm_type_get(array_of_types[i]);
        err = b.type[i] ? check_old(b.type[i])
                        : wm_err(MPI_ERR_TYPE, "array_of_types[%lld] is no datatype", (long long)i);
    }
    if (!err)
        err = blocks_lengths(&b, array_of_blocklengths);
    if (!err)
        blocks_bytes(&b, array_of_displacements);
    return blocks_finish(&b, err, MPI_COMBINER_STRUCT, true, newtype);
}
