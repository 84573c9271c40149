/* SPDX-License-Identifier: BSD-3-Clause */
/* Fortran forms of procedures that MPI-3.0 removed, over those of C: functions of mpi.h, or of
 * mpi/foreign/outside.c.  Addresses are INTEGERs; those of 4 bytes hold the low part, so
 * differences of near addresses are right.  Any thread. */
#define WEFT_MPI1
#include "mpi/fortran/hand.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* MPI_X and PMPI_X, which call C's procedure of their name. */
#define ENTRY(p, P, name, NAME, Name, params, ...) \
    WF_EXPORT void p##mpi_##name##_ params { f_##name(P##MPI_##Name, __VA_ARGS__); } \
    WF_OTHERS(p##mpi_##name, P##MPI_##NAME);
#define ENTRIES(...) ENTRY(, , __VA_ARGS__) ENTRY(p, P, __VA_ARGS__)

static void f_address(__typeof__(MPI_Address) *fn, void *location, wf_int *address, wf_int *ierror)
{
    MPI_Aint at = 0;
    int ret = fn(wf_buf(location), &at);
    *address = (wf_int)at;
    wf_error(ierror, ret);
}
ENTRIES(address, ADDRESS, Address, (void *location, wf_int *address, wf_int *ierror), location,
        address, ierror)

/* ---- error handlers ---- */

static void f_errhandler_create(__typeof__(MPI_Comm_create_errhandler) *fn, wf_procedure *function,
                                wf_int *errhandler, wf_int *ierror)
{
    f_comm_create_errhandler(fn, function, errhandler, ierror);
}
ENTRIES(errhandler_create, ERRHANDLER_CREATE, Comm_create_errhandler,
        (wf_procedure * function, wf_int *errhandler, wf_int *ierror), function, errhandler, ierror)

static void f_errhandler_get(__typeof__(MPI_Errhandler_get) *fn, const wf_int *comm,
                             wf_int *errhandler, wf_int *ierror)
{
    MPI_Errhandler found = MPI_ERRHANDLER_NULL;
    int ret = fn(wf_h(MPI_Comm, *comm), &found);
    *errhandler = wf_i(found);
    wf_error(ierror, ret);
}
ENTRIES(errhandler_get, ERRHANDLER_GET, Errhandler_get,
        (const wf_int *comm, wf_int *errhandler, wf_int *ierror), comm, errhandler, ierror)

static void f_errhandler_set(__typeof__(MPI_Errhandler_set) *fn, const wf_int *comm,
                             const wf_int *errhandler, wf_int *ierror)
{
    wf_error(ierror, fn(wf_h(MPI_Comm, *comm), wf_h(MPI_Errhandler, *errhandler)));
}
ENTRIES(errhandler_set, ERRHANDLER_SET, Errhandler_set,
        (const wf_int *comm, const wf_int *errhandler, wf_int *ierror), comm, errhandler, ierror)

/* ---- datatypes ---- */

#define BOUND(name, NAME, Name) \
    static void f_##name(__typeof__(MPI_##Name) *fn, const wf_int *datatype, wf_int *value, \
                         wf_int *ierror) \
    { \
        MPI_Aint found = 0; \
        int ret = fn(wf_h(MPI_Datatype, *datatype), &found); \
        *value = (wf_int)found; \
        wf_error(ierror, ret); \
    } \
    ENTRIES(name, NAME, Name, (const wf_int *datatype, wf_int *value, wf_int *ierror), datatype, \
            value, ierror)
BOUND(type_extent, TYPE_EXTENT, Type_extent)
BOUND(type_lb, TYPE_LB, Type_lb)
BOUND(type_ub, TYPE_UB, Type_ub)

static void f_type_hvector(__typeof__(MPI_Type_hvector) *fn, const wf_int *count,
                           const wf_int *length, const wf_int *stride, const wf_int *oldtype,
                           wf_int *newtype, wf_int *ierror)
{
    MPI_Datatype made = MPI_DATATYPE_NULL;
    int ret = fn(wf_in(*count), wf_in(*length), (MPI_Aint)*stride, wf_h(MPI_Datatype, *oldtype),
                 &made);
    *newtype = wf_i(made);
    wf_error(ierror, ret);
}
ENTRIES(type_hvector, TYPE_HVECTOR, Type_hvector,
        (const wf_int *count, const wf_int *length, const wf_int *stride, const wf_int *oldtype,
         wf_int *newtype, wf_int *ierror),
        count, length, stride, oldtype, newtype, ierror)

static MPI_Aint *displs_in(struct wf_tmp *t, const wf_int *displs, int n)
{
    MPI_Aint *v = wf_tmp_get(t, sizeof *v * (size_t)(n > 0 ? n : 1));
    for (int i = 0; i < n; i++)
        v[i] = displs[i];
    return v;
}

static void f_type_hindexed(__typeof__(MPI_Type_hindexed) *fn, const wf_int *count,
                            const wf_int *lengths, const wf_int *displs, const wf_int *oldtype,
                            wf_int *newtype, wf_int *ierror)
{
    struct wf_tmp l, d;
    int n = wf_in(*count);
    MPI_Datatype made = MPI_DATATYPE_NULL;
    int ret = fn(n, wf_ints_in(&l, lengths, n), displs_in(&d, displs, n),
                 wf_h(MPI_Datatype, *oldtype), &made);
    wf_ints_free(&l);
    wf_tmp_free(&d);
    *newtype = wf_i(made);
    wf_error(ierror, ret);
}
ENTRIES(type_hindexed, TYPE_HINDEXED, Type_hindexed,
        (const wf_int *count, const wf_int *lengths, const wf_int *displs, const wf_int *oldtype,
         wf_int *newtype, wf_int *ierror),
        count, lengths, displs, oldtype, newtype, ierror)

static void f_type_struct(__typeof__(MPI_Type_struct) *fn, const wf_int *count,
                          const wf_int *lengths, const wf_int *displs, const wf_int *types,
                          wf_int *newtype, wf_int *ierror)
{
    struct wf_tmp l, d, h;
    int n = wf_in(*count);
    MPI_Datatype made = MPI_DATATYPE_NULL;
    int ret = fn(n, wf_ints_in(&l, lengths, n), displs_in(&d, displs, n),
                 wf_handles_in(MPI_Datatype, &h, types, n), &made);
    wf_ints_free(&l);
    wf_tmp_free(&d);
    wf_tmp_free(&h);
    *newtype = wf_i(made);
    wf_error(ierror, ret);
}
ENTRIES(type_struct, TYPE_STRUCT, Type_struct,
        (const wf_int *count, const wf_int *lengths, const wf_int *displs, const wf_int *types,
         wf_int *newtype, wf_int *ierror),
        count, lengths, displs, types, newtype, ierror)
