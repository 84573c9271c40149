/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes by decimal precision and range (MPI-5.0 section 19.1.5): predefined types without a
 * name, made when first asked for, the same handle for the same arguments, and never freed by the
 * user.  The precision of a kind is the one that selected_real_kind() of the Fortran compilers
 * reports.  Any thread: the list has a lock. */
#include "mpi/datatype/f90.h"
#include "mpi/datatype/make.h"
#include "mpi/api/bodies.h"
#include "mpi/datatype/recipe.h"
#include "runtime/base/lock.h"
#include <float.h>
#include <stdlib.h>

struct known {
    struct known *next;
    int combiner, p, r;
    struct wm_type *type;
};
static struct {
    struct rt_lock lock;
    struct known *first;
} f90 = { .lock = RT_LOCK_INIT };

/* Kinds from the smallest on; a kind serves when both its limits reach as far as what is asked. */
struct kind {
    int p, r; /* decimal digits and exponent range; p of integers is 0 */
    MPI_Datatype real, complex;
};
static const struct kind reals[] = {
    { FLT_DIG, 37, MPI_REAL4, MPI_COMPLEX8 },
    { DBL_DIG, 307, MPI_REAL8, MPI_COMPLEX16 },
    { LDBL_DIG, 4931, MPI_LONG_DOUBLE, MPI_C_LONG_DOUBLE_COMPLEX },
    { 33, 4931, MPI_REAL16, MPI_COMPLEX32 },
};
static const struct kind integers[] = {
    { 0, 2, MPI_INTEGER1, NULL },  { 0, 4, MPI_INTEGER2, NULL },   { 0, 9, MPI_INTEGER4, NULL },
    { 0, 18, MPI_INTEGER8, NULL }, { 0, 38, MPI_INTEGER16, NULL },
};

static struct wm_type *base_type(int combiner, int p, int r)
{
    bool whole = combiner == MPI_COMBINER_F90_INTEGER;
    const struct kind *k = whole ? integers : reals;
    size_t n = whole ? sizeof integers / sizeof *integers : sizeof reals / sizeof *reals;
    for (; n; n--, k++) {
        struct wm_type *t = wm_type_get(combiner == MPI_COMBINER_F90_COMPLEX ? k->complex
                                                                             : k->real);
        if ((p == MPI_UNDEFINED || p <= k->p) && (r == MPI_UNDEFINED || r <= k->r) && !t->absent)
            return t;
    }
    return NULL;
}

static int make(int combiner, int p, int r, struct wm_type **out)
{
    bool whole = combiner == MPI_COMBINER_F90_INTEGER;
    struct wm_type *base = base_type(combiner, whole ? 0 : p, r), *t = NULL;
    struct rt_layout l;
    if (!base)
        return wm_err(MPI_ERR_ARG, "no kind of this compiler has precision %d and range %d", p, r);
    struct known *k = malloc(sizeof *k);
    if (!k)
        return wm_err(MPI_ERR_NO_MEM, "no memory for another datatype");
    rt_layout_basic(&l, base->layout.size, base->layout.extent, base->layout.elem);
    int err = wm_type_create(
        &l, combiner,
        &(struct wm_type_args){ .head = (const int[]){ whole ? r : p, r }, .nhead = whole ? 1 : 2 },
        &t);
    if (err) {
        free(k);
        return err;
    }
    t->predefined = t->committed = true;
    t->nelems = 1;
    t->align = base->align;
    t->ops = base->ops;
    t->basic = base;
    *k = (struct known){ f90.first, combiner, p, r, t };
    f90.first = k;
    *out = t;
    return MPI_SUCCESS;
}

static int check_value(const char *name, int v)
{
    if (v < 0 && v != MPI_UNDEFINED)
        return wm_err(MPI_ERR_ARG, "%s is %d; it must be 0 or more, or MPI_UNDEFINED", name, v);
    return MPI_SUCCESS;
}

static int find_or_make(int combiner, int p, int r, struct wm_type **out)
{
    int err = check_value("p", p);
    if (!err)
        err = check_value("r", r);
    if (!err && p == MPI_UNDEFINED && r == MPI_UNDEFINED)
        err = wm_err(MPI_ERR_ARG, "p and r are both MPI_UNDEFINED; one must be given");
    if (err)
        return err;
    rt_lock(&f90.lock);
    struct known *k = f90.first;
    while (k && (k->combiner != combiner || k->p != p || k->r != r))
        k = k->next;
    if (k)
        *out = k->type;
    else
        err = make(combiner, p, r, out);
    rt_unlock(&f90.lock);
    return err;
}

int wm_api_type_create_f90_real(int p, int r, struct wm_type **newtype)
{
    return find_or_make(MPI_COMBINER_F90_REAL, p, r, newtype);
}

int wm_api_type_create_f90_complex(int p, int r, struct wm_type **newtype)
{
    return find_or_make(MPI_COMBINER_F90_COMPLEX, p, r, newtype);
}

int wm_api_type_create_f90_integer(int r, struct wm_type **newtype)
{
    return find_or_make(MPI_COMBINER_F90_INTEGER, MPI_UNDEFINED, r, newtype);
}

void wm_type_fini(void)
{
    while (f90.first) {
        struct known *k = f90.first;
        f90.first = k->next;
        k->type->predefined = false;
        k->type->handles = 0;
        wm_type_unref(k->type);
        free(k);
    }
}
