/* SPDX-License-Identifier: BSD-3-Clause */
/* The data representations, and what datatypes look like in them. */
#include "mpi/io/datarep.h"
#include "mpi/api/bodies.h"
#include "mpi/datatype/recipe.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct wm_datarep external32 = { .name = "external32" };

/* The registered ones, never removed: views point to them.  Writers under the mutex. */
static struct wm_datarep *registered;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

bool wm_datarep_find(const char *name, const struct wm_datarep **out)
{
    const struct wm_datarep *d = NULL;
    *out = NULL;
    if (!strcmp(name, "native") || !strcmp(name, "internal"))
        return true;
    if (!strcmp(name, "external32"))
        d = &external32;
    for (const struct wm_datarep *r = rt_load_acquire(&registered); r && !d; r = r->next)
        d = strcmp(r->name, name) ? NULL : r;
    *out = d;
    return d;
}

static int enter(struct wm_datarep *new)
{
    const struct wm_datarep *old;
    pthread_mutex_lock(&mutex);
    bool twice = wm_datarep_find(new->name, &old);
    new->next = registered;
    if (!twice)
        rt_store_release(&registered, new); /* its members before the pointer */
    pthread_mutex_unlock(&mutex);
    return twice ? wm_err(MPI_ERR_DUP_DATAREP, "the data representation \"%s\" exists already",
                          new->name)
                 : MPI_SUCCESS;
}

static int add(const char *name, const struct wm_datarep *from)
{
    if (!*name || strlen(name) >= MPI_MAX_DATAREP_STRING)
        return wm_err(MPI_ERR_ARG, "datarep has %zu characters; it must have 1 to %d", strlen(name),
                      MPI_MAX_DATAREP_STRING - 1);
    struct wm_datarep *d = malloc(sizeof *d);
    if (!d)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a data representation");
    *d = *from;
    strcpy(d->name, name);
    int err = enter(d);
    if (err)
        free(d);
    return err;
}

int wm_api_register_datarep(const char *datarep,
                            MPI_Datarep_conversion_function *read_conversion_fn,
                            MPI_Datarep_conversion_function *write_conversion_fn,
                            MPI_Datarep_extent_function *dtype_file_extent_fn, void *extra_state)
{
    const struct wm_datarep d = { .extent = dtype_file_extent_fn,
                                  .extra = extra_state,
                                  .fn = { read_conversion_fn, write_conversion_fn } };
    return add(datarep, &d);
}

int wm_api_register_datarep_c(const char *datarep,
                              MPI_Datarep_conversion_function_c *read_conversion_fn,
                              MPI_Datarep_conversion_function_c *write_conversion_fn,
                              MPI_Datarep_extent_function *dtype_file_extent_fn, void *extra_state)
{
    const struct wm_datarep d = { .extent = dtype_file_extent_fn,
                                  .extra = extra_state,
                                  .fn_c = { read_conversion_fn, write_conversion_fn } };
    return add(datarep, &d);
}

/* ---- sizes ---- */

/* Bytes of a basic type in the file. */
static int basic_size(const struct wm_datarep *d, const struct wm_type *t, int64_t *nbytes)
{
    MPI_Aint extent = 0;
    if (d == &external32)
        return wm_api_pack_external_size(d->name, 1, (struct wm_type *)(uintptr_t)t, nbytes);
    int err = d->extent(wm_type_handle(t), &extent, d->extra);
    if (err)
        return wm_err(err, "the extent function of data representation \"%s\" failed for %s",
                      d->name, t->name);
    if (extent <= 0)
        return wm_err(MPI_ERR_CONVERSION,
                      "the extent function of data representation \"%s\" gave %lld bytes for %s",
                      d->name, (long long)extent, t->name);
    *nbytes = extent;
    return MPI_SUCCESS;
}

/* Items of the i-th type of a structure. */
static int64_t block_items(const struct wm_type_recipe *r, int64_t i)
{
    return r->ncount ? r->counts[1 + i] : r->ints[1 + i];
}

static int too_long(void)
{
    return wm_err(MPI_ERR_COUNT, "the data of a datatype are more than 63 bits can count");
}

static int times(int64_t a, int64_t b, int64_t *out)
{
    return __builtin_mul_overflow(a, b, out) ? too_long() : MPI_SUCCESS;
}

int wm_datarep_size(const struct wm_datarep *d, const struct wm_type *t, int64_t *nbytes)
{
    const struct wm_type_recipe *r = t->recipe;
    int64_t part = 0, sum = 0;
    int err = MPI_SUCCESS;
    *nbytes = 0;
    if (!t->layout.size)
        return err;
    if (t->basic || t->combiner != MPI_COMBINER_STRUCT) {
        const struct wm_type *old = t->basic ? t->basic : r->types[0];
        err = t->basic ? basic_size(d, old, &part) : wm_datarep_size(d, old, &part);
        return err ? err : times(part, t->layout.size / old->layout.size, nbytes);
    }
    for (int64_t i = 0; i < r->ntype && !err; i++) {
        err = wm_datarep_size(d, r->types[i], &part);
        err = err ? err : times(part, block_items(r, i), &part);
        if (!err && __builtin_add_overflow(sum, part, &sum))
            err = too_long();
    }
    *nbytes = sum;
    return err;
}

struct wm_datarep_prefix wm_datarep_prefix(const struct wm_datarep *d, const struct wm_type *t,
                                           int64_t items, int64_t *left)
{
    const struct wm_type_recipe *r = t->recipe;
    struct wm_datarep_prefix sum = { 0, 0 };
    int64_t per;
    if (!t->layout.size || !items || *left <= 0)
        return sum;
    if (t->basic) {
        int64_t n = items * (t->layout.size / t->basic->layout.size), k;
        if (basic_size(d, t->basic, &per))
            return sum;
        k = *left / per < n ? *left / per : n;
        *left = k < n ? 0 : *left - k * per;
        return (struct wm_datarep_prefix){ k * t->basic->layout.size, k * t->basic->nelems };
    }
    if (t->combiner != MPI_COMBINER_STRUCT)
        return wm_datarep_prefix(d, r->types[0],
                                 items * (t->layout.size / r->types[0]->layout.size), left);
    for (int64_t k = 0; k<items && * left> 0; k++)
        for (int64_t i = 0; i<r->ntype && * left> 0; i++) {
            struct wm_datarep_prefix p = wm_datarep_prefix(d, r->types[i], block_items(r, i), left);
            sum.nbytes += p.nbytes;
            sum.nelems += p.nelems;
        }
    return sum;
}

/* ---- datatypes in the file ---- */

static struct wm_counts counts_at(const struct wm_type_recipe *r, int64_t head, int64_t i)
{
    return r->ncount ? (struct wm_counts){ r->counts + i, true }
                     : (struct wm_counts){ r->ints + head + i, false };
}

static int64_t count_at(const struct wm_type_recipe *r, int i)
{
    return wm_count_at(counts_at(r, 0, 0), i);
}

/* Displacements in items, which follow `i` counts; in bytes, which follow all n counts. */
static struct wm_displs items_at(const struct wm_type_recipe *r, int64_t i)
{
    struct wm_counts c = counts_at(r, 0, i);
    return (struct wm_displs){ c.v, c.wide };
}
static const MPI_Aint *bytes_at(const struct wm_type_recipe *r, int64_t n)
{
    return r->ncount ? (const MPI_Aint *)(r->counts + n) : r->addrs;
}

/* A structure's types in the file. */
static int make_struct(const struct wm_datarep *d, const struct wm_type_recipe *r,
                       struct wm_type **out)
{
    int64_t n = r->ntype, made = 0;
    struct wm_type **types = calloc((size_t)n + 1, sizeof *types);
    MPI_Datatype *handles = calloc((size_t)n + 1, sizeof *handles);
    int err = types && handles ? MPI_SUCCESS : wm_err(MPI_ERR_NO_MEM, "no memory for a view");
    while (made < n && !err) {
        err = wm_datarep_type(d, r->types[made], &types[made]);
        if (!err)
            handles[made] = wm_type_handle(types[made]), made++;
    }
    if (!err)
        err = wm_api_type_create_struct(
            n, counts_at(r, 0, 1), (struct wm_displs){ bytes_at(r, 1 + n), true }, handles, out);
    for (int64_t i = 0; i < made; i++)
        wm_type_unref(types[i]);
    free(types);
    free(handles);
    return err;
}

static int make_array(const struct wm_type *t, struct wm_type *old, struct wm_type **out)
{
    const struct wm_type_recipe *r = t->recipe;
    const int *tail = r->ints + r->nint; /* behind the counts that are among the integers */
    if (t->combiner == MPI_COMBINER_SUBARRAY) {
        int n = r->ints[0];
        return wm_api_type_create_subarray(n, counts_at(r, 1, 0), counts_at(r, 1, n),
                                           counts_at(r, 1, 2 * (int64_t)n), tail[-1], old, out);
    }
    int n = r->ints[2];
    tail -= 3 * n + 1;
    return wm_api_type_create_darray(r->ints[0], r->ints[1], n, counts_at(r, 3, 0), tail, tail + n,
                                     tail + 2 * (int64_t)n, tail[3 * (int64_t)n], old, out);
}

static int make(const struct wm_type *t, struct wm_type *old, struct wm_type **out)
{
    const struct wm_type_recipe *r = t->recipe;
    int64_t n = r->nint || r->ncount ? count_at(r, 0) : 0;
    switch (t->combiner) {
    case MPI_COMBINER_CONTIGUOUS:
        return wm_api_type_contiguous(n, old, out);
    case MPI_COMBINER_VECTOR:
        return wm_api_type_vector(n, count_at(r, 1), count_at(r, 2), old, out);
    case MPI_COMBINER_HVECTOR:
        return wm_api_type_create_hvector(n, count_at(r, 1), bytes_at(r, 2)[0], old, out);
    case MPI_COMBINER_INDEXED:
        return wm_api_type_indexed(n, counts_at(r, 0, 1), items_at(r, 1 + n), old, out);
    case MPI_COMBINER_HINDEXED:
        return wm_api_type_create_hindexed(
            n, counts_at(r, 0, 1), (struct wm_displs){ bytes_at(r, 1 + n), true }, old, out);
    case MPI_COMBINER_INDEXED_BLOCK:
        return wm_api_type_create_indexed_block(n, count_at(r, 1), items_at(r, 2), old, out);
    case MPI_COMBINER_HINDEXED_BLOCK:
        return wm_api_type_create_hindexed_block(
            n, count_at(r, 1), (struct wm_displs){ bytes_at(r, 2), true }, old, out);
    case MPI_COMBINER_RESIZED:
        return wm_api_type_create_resized(old, bytes_at(r, 0)[0], bytes_at(r, 0)[1], out);
    case MPI_COMBINER_SUBARRAY:
    case MPI_COMBINER_DARRAY:
        return make_array(t, old, out);
    default: /* MPI_COMBINER_DUP */
        wm_type_ref(old);
        *out = old;
        return MPI_SUCCESS;
    }
}

int wm_datarep_type(const struct wm_datarep *d, struct wm_type *t, struct wm_type **out)
{
    struct wm_type *old;
    int64_t nbytes = 0;
    int err;
    if (t->predefined) {
        err = t->layout.size ? basic_size(d, t, &nbytes) : MPI_SUCCESS;
        return err ? err : wm_api_type_contiguous(nbytes, wm_type_get(MPI_BYTE), out);
    }
    if (t->combiner == MPI_COMBINER_STRUCT)
        return make_struct(d, t->recipe, out);
    err = wm_datarep_type(d, t->recipe->types[0], &old);
    if (err)
        return err;
    err = make(t, old, out);
    wm_type_unref(old);
    return err;
}
