/* SPDX-License-Identifier: BSD-3-Clause */
/* What the module mpi_f08 of MPICH has besides procedures, as gfortran compiles it: descriptors,
 * special variables, operators, MPI_SIZEOF and conversions of statuses.  Any thread. */
#include <string.h>
#include "mpi/fortran/section.h"
#include "mpi/foreign/mpich/data.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* ---- descriptors ---- */

/* gfortran's own, which a procedure without BIND(C) gets.  A stride counts spans. */
struct gfortran_desc {
    void *base;
    size_t offset, elem_len;
    int version;
    int8_t rank, type;
    int16_t attribute;
    intptr_t span;
    struct {
        intptr_t stride, lower, upper;
    } dim[15];
};

const struct wf_desc *wx_desc_in(struct wf_desc *to, const void *from)
{
    const struct gfortran_desc *d = from;
    intptr_t span = d->span ? d->span : (intptr_t)d->elem_len;

    to->base = d->base;
    if (d->base == wx_f08_in_place)
        to->base = mpipriv1_ + 4;
    else if (d->base == wx_f08_bottom)
        to->base = mpipriv1_;
    to->elem_len = d->elem_len;
    to->rank = d->rank;
    for (int i = 0; i < d->rank; i++) {
        to->dim[i].lower = d->dim[i].lower;
        to->dim[i].extent = d->dim[i].upper - d->dim[i].lower + 1;
        to->dim[i].stride = d->dim[i].stride * span;
    }
    /* The last extent of an assumed-size array is unknown. */
    if (d->rank > 0 && d->dim[d->rank - 1].lower == 1 && d->dim[d->rank - 1].upper == 0)
        to->dim[d->rank - 1].extent = -1;
    return to;
}

/* MPI_PACK_EXTERNAL and MPI_UNPACK_EXTERNAL: in the standard's ABI the compiler passes addresses,
 * for these have a string.  Only contiguous arrays. */
static const void *whole(const struct gfortran_desc *d, const char *call, wf_int *ierror)
{
    struct wf_desc w;
    if (wf_flat(wx_desc_in(&w, d)))
        return w.base;
    wf_error(ierror, wx_comm_raise(MPI_COMM_SELF, MPI_ERR_BUFFER, call,
                                   "a buffer must be a contiguous array"));
    return wx_f08_in_place; /* no buffer of a program */
}

#define PACK(p, symbol, what, count_type, size_type) \
    void p##mpi_##what##_(const char *datarep, const void *in, const count_type *incount, \
                          const wf_int *type, void *out, const size_type *outsize, \
                          size_type *position, wf_int *ierror, size_t len); \
    WF_EXPORT void wx_##p##what(const char *datarep, const struct gfortran_desc *in, \
                                const count_type *incount, const wf_int *type, \
                                const struct gfortran_desc *out, const size_type *outsize, \
                                size_type *position, wf_int *ierror, size_t len) __asm__(symbol); \
    void wx_##p##what(const char *datarep, const struct gfortran_desc *in, \
                      const count_type *incount, const wf_int *type, \
                      const struct gfortran_desc *out, const size_type *outsize, \
                      size_type *position, wf_int *ierror, size_t len) \
    { \
        const void *from = whole(in, "MPI_Pack_external", ierror); \
        const void *to = whole(out, "MPI_Pack_external", ierror); \
        if (from != wx_f08_in_place && to != wx_f08_in_place) \
            p##mpi_##what##_(datarep, from, incount, type, (void *)(uintptr_t)to, outsize, \
                             position, ierror, len); \
    }
#define UNPACK(p, symbol, what, count_type, size_type) \
    void p##mpi_##what##_(const char *datarep, const void *in, const size_type *insize, \
                          size_type *position, void *out, const count_type *outcount, \
                          const wf_int *type, wf_int *ierror, size_t len); \
    WF_EXPORT void wx_##p##what(const char *datarep, const struct gfortran_desc *in, \
                                const size_type *insize, size_type *position, \
                                const struct gfortran_desc *out, const count_type *outcount, \
                                const wf_int *type, wf_int *ierror, size_t len) __asm__(symbol); \
    void wx_##p##what(const char *datarep, const struct gfortran_desc *in, \
                      const size_type *insize, size_type *position, \
                      const struct gfortran_desc *out, const count_type *outcount, \
                      const wf_int *type, wf_int *ierror, size_t len) \
    { \
        const void *from = whole(in, "MPI_Unpack_external", ierror); \
        const void *to = whole(out, "MPI_Unpack_external", ierror); \
        if (from != wx_f08_in_place && to != wx_f08_in_place) \
            p##mpi_##what##_(datarep, from, insize, position, (void *)(uintptr_t)to, outcount, \
                             type, ierror, len); \
    }
PACK(, "mpi_pack_external_f08ts_", pack_external, wf_int, MPI_Aint)
PACK(p, "pmpir_pack_external_f08ts_", pack_external, wf_int, MPI_Aint)
UNPACK(, "mpi_unpack_external_f08ts_", unpack_external, wf_int, MPI_Aint)
UNPACK(p, "pmpir_unpack_external_f08ts_", unpack_external, wf_int, MPI_Aint)
PACK(, "mpi_pack_external_f08ts_large_", pack_external_c_f08, MPI_Count, MPI_Count)
PACK(p, "pmpir_pack_external_f08ts_large_", pack_external_c_f08, MPI_Count, MPI_Count)
UNPACK(, "mpi_unpack_external_f08ts_large_", unpack_external_c_f08, MPI_Count, MPI_Count)
UNPACK(p, "pmpir_unpack_external_f08ts_large_", unpack_external_c_f08, MPI_Count, MPI_Count)

/* ---- special variables that are no buffers ---- */

#define CELL(name, n) \
    WF_EXPORT extern char name[n] __asm__("__mpi_f08_link_constants_MOD_mpi_" #name); \
    char name[n];
CELL(unweighted, 4)
CELL(weights_empty, 4)
CELL(errcodes_ignore, 4)
CELL(argv_null, 1)
CELL(argvs_null, 1)

const struct wf_cells wf_second_cells = { {
    [WF_STATUS] = wx_f08_status_ignore,
    [WF_STATUSES] = wx_f08_statuses_ignore,
    [WF_ERRCODES] = errcodes_ignore,
    [WF_ARGVS] = argvs_null,
    [WF_ARGV] = argv_null,
    [WF_UNWEIGHTED] = unweighted,
    [WF_EMPTY] = weights_empty,
    [WF_AUTOMATIC] = wx_f08_bottom,
    [WF_BOTTOM] = wx_f08_bottom,
    [WF_INPLACE] = wx_f08_in_place,
} };

/* ---- operators ---- */

static wf_int equal(const wf_int *a, const wf_int *b) { return wf_logical(*a == *b); }
static wf_int unequal(const wf_int *a, const wf_int *b) { return wf_logical(*a != *b); }

#define NAMED(function, name) \
    extern __typeof__(function) wx_##name __asm__("__mpi_f08_types_MOD_mpi_" #name) \
        __attribute__((alias(#function), visibility("default")));
#define OPERATORS(handle) \
    NAMED(equal, handle##_eq) \
    NAMED(equal, handle##_f08_eq_f) \
    NAMED(equal, handle##_f_eq_f08) \
    NAMED(unequal, handle##_neq) \
    NAMED(unequal, handle##_f08_neq_f) \
    NAMED(unequal, handle##_f_neq_f08)
OPERATORS(comm)
OPERATORS(datatype)
OPERATORS(errhandler)
OPERATORS(file)
OPERATORS(group)
OPERATORS(info)
OPERATORS(message)
OPERATORS(op)
OPERATORS(request)
OPERATORS(session)
OPERATORS(win)

/* ---- statuses: the same INTEGERs in both forms ---- */

static void status_copy(const wf_int *from, wf_int *to, wf_int *ierror)
{
    memcpy(to, from, sizeof(MPI_Status));
    wf_error(ierror, MPI_SUCCESS);
}
NAMED(status_copy, status_f082f)
NAMED(status_copy, status_f2f08)

/* ---- MPI_SIZEOF ---- */

#define SIZEOF(name, n) \
    static void sizeof_##name(const void *x, wf_int *size, wf_int *ierror) \
    { \
        (void)x; \
        *size = n; \
        wf_error(ierror, MPI_SUCCESS); \
    } \
    NAMED(sizeof_##name, sizeof_##name)
SIZEOF(character, 1)
SIZEOF(logical, 4)
SIZEOF(xint8, 1)
SIZEOF(xint16, 2)
SIZEOF(xint32, 4)
SIZEOF(xint64, 8)
SIZEOF(xreal32, 4)
SIZEOF(xreal64, 8)
SIZEOF(xreal128, 16)
SIZEOF(xcomplex32, 8)
SIZEOF(xcomplex64, 16)
SIZEOF(xcomplex128, 32)
