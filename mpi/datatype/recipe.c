/* SPDX-License-Identifier: BSD-3-Clause */
/* How a datatype was made: MPI_Type_get_envelope and MPI_Type_get_contents, and counting basic
 * elements along the constructors' tree.  Recipes never change, so any thread may read them. */
#include "mpi/datatype/recipe.h"
#include "mpi/datatype/make.h"
#include "mpi/api/bodies.h"
#include "mpi/base/status.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

_Thread_local bool wm_type_large;

static bool fit_in_int(const int64_t *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (v[i] < INT_MIN || v[i] > INT_MAX)
            return false;
    return true;
}

static void append_ints(struct wm_type_recipe *r, const int *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        r->ints[r->nint++] = v[i];
}

struct wm_type_recipe *wm_type_recipe_create(const struct wm_type_args *a)
{
    size_t n64 = (size_t)(2 * a->ncount + 2 * a->naddr + a->ntype),
           n32 = (size_t)(a->nhead + a->ncount + a->ntail);
    struct wm_type_recipe *r = calloc(1, sizeof *r + n64 * sizeof(int64_t) + n32 * sizeof(int));
    if (!r)
        return NULL;
    r->addrs = (MPI_Aint *)(r + 1);
    r->counts = (MPI_Count *)(r->addrs + a->naddr);
    r->types = (struct wm_type **)(r->counts + a->ncount + a->naddr);
    r->ints = (int *)(r->counts + 2 * a->ncount + a->naddr + a->ntype);
    append_ints(r, a->head, a->nhead);
    if (!wm_type_large && fit_in_int(a->count, a->ncount)) {
        for (int64_t i = 0; i < a->ncount; i++)
            r->ints[r->nint++] = (int)a->count[i];
        for (int64_t i = 0; i < a->naddr; i++)
            r->addrs[r->naddr++] = a->addr[i];
    } else {
        for (int64_t i = 0; i < a->ncount; i++)
            r->counts[r->ncount++] = a->count[i];
        for (int64_t i = 0; i < a->naddr; i++)
            r->counts[r->ncount++] = a->addr[i];
    }
    append_ints(r, a->tail, a->ntail);
    for (int64_t i = 0; i < a->ntype; i++) {
        wm_type_ref(a->type[i]);
        r->types[r->ntype++] = a->type[i];
    }
    return r;
}

void wm_type_recipe_free(struct wm_type_recipe *r)
{
    if (!r)
        return;
    for (int64_t i = 0; i < r->ntype; i++)
        wm_type_unref(r->types[i]);
    free(r);
}

static int64_t recipe_count(const struct wm_type_recipe *r, int64_t i)
{
    return r->ncount ? r->counts[i] : r->ints[i];
}

/* Whole basic elements in the first `nbytes` of one item's data, nbytes <= size; *rest gets the
 * bytes of a broken one. */
static int64_t elements_of(const struct wm_type *t, int64_t nbytes, int64_t *rest)
{
    const struct wm_type_recipe *r = t->recipe;
    if (nbytes == t->layout.size) {
        *rest = 0;
        return t->nelems;
    }
    if (t->predefined && t->nelems == 2) { /* a pair of a value and an index */
        int64_t first = t->pair_first;
        *rest = nbytes < first ? nbytes : nbytes - first;
        return nbytes >= first;
    }
    *rest = nbytes;
    if (!r)
        return 0;
    int64_t n = 0;
    bool many = t->combiner == MPI_COMBINER_STRUCT;
    int64_t nblock = many ? recipe_count(r, 0) : 1;
    for (int64_t i = 0; i < nblock && *rest; i++) {
        const struct wm_type *old = r->types[many ? i : 0];
        if (!old->layout.size)
            continue;
        int64_t whole = *rest / old->layout.size, most = many ? recipe_count(r, 1 + i) : INT64_MAX;
        whole = whole < most ? whole : most;
        n += whole * old->nelems;
        *rest -= whole * old->layout.size;
        if (whole < most && *rest)
            return n + elements_of(old, *rest, rest);
    }
    return n;
}

/* Bytes of the first n basic elements of one item, n <= nelems: the inverse of elements_of(). */
static int64_t bytes_of(const struct wm_type *t, int64_t n)
{
    const struct wm_type_recipe *r = t->recipe;
    if (n == t->nelems)
        return t->layout.size;
    if (t->predefined && t->nelems == 2)
        return n ? t->pair_first : 0;
    int64_t nbytes = 0;
    bool many = t->combiner == MPI_COMBINER_STRUCT;
    int64_t nblock = !r ? 0 : many ? recipe_count(r, 0) : 1;
    for (int64_t i = 0; i < nblock && n; i++) {
        const struct wm_type *old = r->types[many ? i : 0];
        if (!old->nelems)
            continue;
        int64_t whole = n / old->nelems, most = many ? recipe_count(r, 1 + i) : INT64_MAX;
        whole = whole < most ? whole : most;
        nbytes += whole * old->layout.size;
        n -= whole * old->nelems;
        if (whole < most && n)
            return nbytes + bytes_of(old, n);
    }
    return nbytes;
}

int wm_api_get_elements(const MPI_Status *status, struct wm_type *datatype, MPI_Count *count)
{
    int64_t len = wm_status_len(status), size = datatype->layout.size, rest = 0;
    if (!size) {
        *count = len ? MPI_UNDEFINED : 0;
        return MPI_SUCCESS;
    }
    int64_t n = len / size * datatype->nelems;
    if (len % size)
        n += elements_of(datatype, len % size, &rest);
    *count = rest ? MPI_UNDEFINED : n;
    return MPI_SUCCESS;
}

int wm_api_get_count(const MPI_Status *status, struct wm_type *datatype, MPI_Count *count)
{
    int64_t len = wm_status_len(status), size = datatype->layout.size;
    if (!size)
        *count = len ? MPI_UNDEFINED : 0;
    else
        *count = len % size ? MPI_UNDEFINED : len / size;
    return MPI_SUCCESS;
}

int wm_api_status_set_elements(MPI_Status *status, struct wm_type *datatype, MPI_Count count)
{
    int64_t per_item = datatype->nelems, nbytes = 0;
    if (per_item && (__builtin_mul_overflow(count / per_item, datatype->layout.size, &nbytes) ||
                     __builtin_add_overflow(nbytes, bytes_of(datatype, count % per_item), &nbytes)))
        return wm_err(MPI_ERR_COUNT, "%lld basic elements are more bytes than a message can have",
                      (long long)count);
    wm_status_set_len(status, nbytes);
    return MPI_SUCCESS;
}

int wm_api_type_get_envelope_c(struct wm_type *datatype, MPI_Count *num_integers,
                               MPI_Count *num_addresses, MPI_Count *num_large_counts,
                               MPI_Count *num_datatypes, int *combiner)
{
    const struct wm_type_recipe *r = datatype->recipe;
    *num_integers = r ? r->nint : 0;
    *num_addresses = r ? r->naddr : 0;
    *num_large_counts = r ? r->ncount : 0;
    *num_datatypes = r ? r->ntype : 0;
    *combiner = datatype->combiner;
    return MPI_SUCCESS;
}

static int needs_c_form(const char *call)
{
    return wm_err(MPI_ERR_TYPE, "the datatype was made by a procedure with large counts; use %s_c",
                  call);
}

int wm_api_type_get_envelope(struct wm_type *datatype, int *num_integers, int *num_addresses,
                             int *num_datatypes, int *combiner)
{
    MPI_Count ni, na, nc, nt;
    wm_api_type_get_envelope_c(datatype, &ni, &na, &nc, &nt, combiner);
    if (nc)
        return needs_c_form("MPI_Type_get_envelope");
    *num_integers = (int)ni;
    *num_addresses = (int)na;
    *num_datatypes = (int)nt;
    return MPI_SUCCESS;
}

int wm_api_type_get_contents_c(struct wm_type *datatype, MPI_Count max_integers,
                               MPI_Count max_addresses, MPI_Count max_large_counts,
                               MPI_Count max_datatypes, int array_of_integers[],
                               MPI_Aint array_of_addresses[], MPI_Count array_of_large_counts[],
                               MPI_Datatype array_of_datatypes[])
{
    const struct wm_type_recipe *r = datatype->recipe;
    if (!r)
        return wm_err(MPI_ERR_TYPE, "%s is predefined: it has no contents", datatype->name);
    if (max_integers < r->nint || max_addresses < r->naddr || max_large_counts < r->ncount ||
        max_datatypes < r->ntype)
        return wm_err(
            MPI_ERR_ARG,
            "room for %lld integers, %lld addresses, %lld counts and %lld datatypes was given, "
            "needed are %lld, %lld, %lld and %lld",
            (long long)max_integers, (long long)max_addresses, (long long)max_large_counts,
            (long long)max_datatypes, (long long)r->nint, (long long)r->naddr, (long long)r->ncount,
            (long long)r->ntype);
    for (int64_t i = 0; i < r->nint; i++)
        array_of_integers[i] = r->ints[i];
    for (int64_t i = 0; i < r->naddr; i++)
        array_of_addresses[i] = r->addrs[i];
    for (int64_t i = 0; i < r->ncount; i++)
        array_of_large_counts[i] = r->counts[i];
    for (int64_t i = 0; i < r->ntype; i++) {
        wm_type_ref(r->types[i]); /* the caller frees derived ones */
        rt_fetch_add(&r->types[i]->handles, 1);
        array_of_datatypes[i] = wm_type_handle(r->types[i]);
    }
    return MPI_SUCCESS;
}

int wm_api_type_get_contents(struct wm_type *datatype, int max_integers, int max_addresses,
                             int max_datatypes, int array_of_integers[],
                             MPI_Aint array_of_addresses[], MPI_Datatype array_of_datatypes[])
{
    if (datatype->recipe && datatype->recipe->ncount)
        return needs_c_form("MPI_Type_get_contents");
    return wm_api_type_get_contents_c(datatype, max_integers, max_addresses, 0, max_datatypes,
                                      array_of_integers, array_of_addresses, NULL,
                                      array_of_datatypes);
}
