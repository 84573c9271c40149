/* SPDX-License-Identifier: BSD-3-Clause */
/* What the generated Fortran entry points share: Fortran's types, and the translation of arguments.
 * The library is built twice from the same sources: with 4-byte and with 8-byte INTEGER.  Handles
 * are INTEGERs that hold the value of the C handle.  Everything here may run in any thread; a
 * translation owns its temporary memory (struct wf_tmp) until the matching _done or _free function.
 *
 * WF_WIDE is a constant: where INTEGER is int, arrays and scalars are passed on as they are, and
 * the conversions below compile to nothing. */
#ifndef WF_FORT_H
#define WF_FORT_H

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "mpi/fortran/cells.h"

/* 8-byte INTEGER: the procedures with a large-count twin call the twin, so counts keep their width.
 * WF_LARGE(MPI_Send) is what MPI_SEND calls. */
#ifdef WF_INTEGER_8
typedef MPI_Count wf_count;
typedef MPI_Aint wf_displ;
#define WF_LARGE(name) name##_c
#else
typedef int wf_count;
typedef int wf_displ;
#define WF_LARGE(name) name
#endif
#define WF_WIDE (sizeof(wf_int) > sizeof(int))

#define WF_EXPORT __attribute__((visibility("default")))
#define WF_COLD __attribute__((cold, noinline))
#define WF_NOINLINE __attribute__((noinline))
#define wf_likely(x) __builtin_expect(!!(x), 1)
#define wf_unlikely(x) __builtin_expect(!!(x), 0)

/* The names that Fortran compilers give a procedure: they differ in case and underscores.  A
 * module's specific procedures end in _f08 (mpi_f08), and with 8-byte INTEGER in _i8, so that a
 * program that was compiled for the other library does not link.  WF_NAMES: procedures of all three
 * forms; WF_NAMES_F90: of mpif.h and mpi; WF_NAMES_F08: of mpi_f08 alone, whose name has the
 * suffix; WF_NAMES_CPTR: the form with TYPE(C_PTR) in mpi; WF_F08TS: procedures that get
 * descriptors.  The last parameter is the name in MPICH's module mpi_f08. */
#define WF_ALIAS(name, as) \
    extern __typeof__(name) as __attribute__((alias(#name), visibility("default")))
#define WF_OTHERS(lower, UPPER) \
    WF_ALIAS(lower##_, lower##__); \
    WF_ALIAS(lower##_, lower); \
    WF_ALIAS(lower##_, UPPER)
#define WF_ALSO(lower, as, AS) \
    WF_ALIAS(lower##_, as##_); \
    WF_ALIAS(lower##_, as##__); \
    WF_ALIAS(lower##_, as); \
    WF_ALIAS(lower##_, AS)
#ifdef WF_INTEGER_8
#define WF_NAMES_F90(lower, UPPER, mpich) \
    WF_OTHERS(lower, UPPER); \
    WF_ALSO(lower, lower##_i8, UPPER##_I8)
#define WF_NAMES_F08(lower, UPPER, mpich) WF_ALSO(lower, lower##_i8, UPPER##_I8)
#define WF_NAMES_CPTR(lower, UPPER) WF_ALSO(lower, lower##_cptr_i8, UPPER##_CPTR_I8)
#define WF_OPERATOR(function, lower, UPPER) WF_ALSO(function, lower##_i8, UPPER##_I8)
#define WF_F08TS(name, mpich) name##_f08ts_i8
#define WF_NAMES(lower, UPPER, mpich) \
    WF_NAMES_F90(lower, UPPER, mpich); \
    WF_ALSO(lower, lower##_f08_i8, UPPER##_F08_I8)
#else
#define WF_NAMES_F90(lower, UPPER, mpich) WF_OTHERS(lower, UPPER)
#define WF_NAMES_F08(lower, UPPER, mpich) WF_OTHERS(lower, UPPER)
#define WF_NAMES_CPTR(lower, UPPER) WF_ALSO(lower, lower##_cptr, UPPER##_CPTR)
#define WF_OPERATOR(function, lower, UPPER) WF_ALSO(function, lower, UPPER)
#define WF_F08TS(name, mpich) name##_f08ts
#define WF_NAMES(lower, UPPER, mpich) \
    WF_OTHERS(lower, UPPER); \
    WF_ALSO(lower, lower##_f08, UPPER##_F08)
#endif
/* Before a descriptor is read: another compiler's is converted. */
#define WF_DESC(d) (void)0
#ifndef WF_ABI
#define WF_SECTIONS
#endif

/* ---- temporary memory ---- */

struct wf_tmp {
    void *p;
    bool heap;
    _Alignas(16) char few[512];
};
/* These end the job when there is no memory: an argument cannot be translated, and no error handler
 * knows the call. */
void *wf_alloc(size_t nbytes);
void *wf_tmp_alloc(struct wf_tmp *t, size_t nbytes) WF_COLD;
void wf_tmp_release(struct wf_tmp *t) WF_COLD;
static inline void *wf_tmp_get(struct wf_tmp *t, size_t nbytes)
{
    if (wf_unlikely(nbytes > sizeof t->few))
        return wf_tmp_alloc(t, nbytes);
    t->heap = false;
    return t->p = t->few;
}
static inline void wf_tmp_free(struct wf_tmp *t)
{
    if (wf_unlikely(t->heap))
        wf_tmp_release(t);
}

/* ---- integers ---- */

/* An 8-byte INTEGER whose value C's int cannot hold ends the job: passing part of it would be wrong
 * data. */
int wf_too_large(wf_int x) WF_COLD;
static inline int wf_in(wf_int x)
{
    if (WF_WIDE && wf_unlikely(x < INT_MIN || x > INT_MAX))
        return wf_too_large(x);
    return (int)x;
}
/* A scalar that C writes: `x` itself, or `*tmp`, which wf_put() copies back. */
static inline int *wf_out(wf_int *x, int *tmp)
{
    if (!WF_WIDE)
        return (int *)(void *)x;
    *tmp = (int)*x;
    return tmp;
}
static inline void wf_put(wf_int *x, const int *tmp)
{
    if (WF_WIDE)
        *x = *tmp;
}
/* C counts from 0, Fortran from 1. */
static inline int wf_index(int i) { return i == MPI_UNDEFINED ? i : i + 1; }
static inline void wf_error(wf_int *ierror, int err)
{
    if (ierror) /* OPTIONAL in mpi_f08 */
        *ierror = err;
}

static inline int *wf_ints_out(struct wf_tmp *t, wf_int *x, int n)
{
    if (!WF_WIDE)
        return (int *)(void *)x;
    return wf_tmp_get(t, sizeof(int) * (size_t)(n > 0 ? n : 1));
}
static inline int *wf_ints_in(struct wf_tmp *t, const wf_int *x, int n)
{
    int *v = wf_ints_out(t, (wf_int *)(uintptr_t)x, n);
    for (int i = 0; WF_WIDE && i < n; i++)
        v[i] = wf_in(x[i]);
    return v;
}
static inline void wf_ints_free(struct wf_tmp *t)
{
    if (WF_WIDE)
        wf_tmp_free(t);
}
static inline void wf_ints_done(struct wf_tmp *t, wf_int *x, int n)
{
    if (!WF_WIDE)
        return;
    for (int i = 0; i < n; i++)
        x[i] = ((int *)t->p)[i];
    wf_tmp_free(t);
}
/* MPI_WAITSOME and its relatives: n indices, which count from 0. */
static inline void wf_indices_done(struct wf_tmp *t, wf_int *x, int n)
{
    wf_ints_done(t, x, n);
    for (int i = 0; i < n; i++)
        x[i] = wf_index((int)x[i]);
}
/* Weights and error codes, instead of which the special variables may be given. */
static inline int *wf_weights(struct wf_tmp *t, wf_int *x, int n, bool read)
{
    t->p = NULL;
    t->heap = false;
    if (wf_unlikely(wf_is_unweighted(x)))
        return MPI_UNWEIGHTED;
    if (wf_unlikely(wf_is_weights_empty(x)))
        return MPI_WEIGHTS_EMPTY;
    return read ? wf_ints_in(t, x, n) : wf_ints_out(t, x, n);
}
static inline void wf_weights_done(struct wf_tmp *t, wf_int *x, int n)
{
    if (WF_WIDE && t->p)
        wf_ints_done(t, x, n);
}
static inline void wf_weights_free(struct wf_tmp *t)
{
    if (WF_WIDE && t->p)
        wf_tmp_free(t);
}

/* ---- handles ---- */

/* wf_h(type, x): the C handle of an INTEGER; wf_i(handle): the INTEGER of a C handle. */
#ifdef WF_ABI
#include WF_ABI
#else
#define wf_h(type, x) ((type)(uintptr_t)(unsigned)(x))
#define wf_i(handle) ((wf_int)(uintptr_t)(handle))
#define wf_keyval(x) wf_in(x)
#endif

/* Arrays: wf_handles_in(type, ...) and so on.  C may write fewer handles than there is room for. */
#define wf_handles_out(type, ...) wf_out_##type(__VA_ARGS__)
#define wf_handles_in(type, ...) wf_in_##type(__VA_ARGS__)
#define wf_handles_done(type, ...) wf_done_##type(__VA_ARGS__)
#define WF_HANDLES(type) \
    static inline type *wf_out_##type(struct wf_tmp *t, int n, type null) \
    { \
        type *v = wf_tmp_get(t, sizeof *v * (size_t)(n > 0 ? n : 1)); \
        for (int i = 0; i < n; i++) \
            v[i] = null; \
        return v; \
    } \
    static inline type *wf_in_##type(struct wf_tmp *t, const wf_int *x, int n) \
    { \
        type *v = wf_tmp_get(t, sizeof *v * (size_t)(n > 0 ? n : 1)); \
        for (int i = 0; i < n; i++) \
            v[i] = wf_h(type, x[i]); \
        return v; \
    } \
    static inline void wf_done_##type(struct wf_tmp *t, wf_int *x, int n) \
    { \
        for (int i = 0; i < n; i++) \
            x[i] = wf_i(((type *)t->p)[i]); \
        wf_tmp_free(t); \
    }
WF_HANDLES(MPI_Datatype)
WF_HANDLES(MPI_Info)
WF_HANDLES(MPI_Request)

/* ---- logicals ---- */

extern wf_int wf_true, wf_false; /* what the program's compiler stores */
static inline int wf_logical_in(wf_int x) { return x != wf_false; }
static inline wf_int wf_logical(int flag) { return flag ? wf_true : wf_false; }
static inline int *wf_logicals_out(struct wf_tmp *t, int n)
{
    return wf_tmp_get(t, sizeof(int) * (size_t)(n > 0 ? n : 1));
}
static inline int *wf_logicals_in(struct wf_tmp *t, const wf_int *x, int n)
{
    int *v = wf_logicals_out(t, n);
    for (int i = 0; i < n; i++)
        v[i] = wf_logical_in(x[i]);
    return v;
}
static inline void wf_logicals_done(struct wf_tmp *t, wf_int *x, int n, int err)
{
    for (int i = 0; !err && i < n; i++)
        x[i] = wf_logical(((int *)t->p)[i]);
    wf_tmp_free(t);
}

/* ---- statuses: INTEGERs, the members of MPI_Status in their order ---- */

#define WF_STATUS_SIZE ((int)(sizeof(MPI_Status) / sizeof(int)))
#ifndef WF_ABI
_Static_assert(WF_STATUS_SIZE == 8, "MPI_STATUS_SIZE");
#endif

static inline MPI_Status *wf_status_in(const wf_int *x, MPI_Status *tmp)
{
    if (!WF_WIDE)
        return (MPI_Status *)(uintptr_t)x;
    for (int i = 0; i < WF_STATUS_SIZE; i++)
        ((int *)tmp)[i] = (int)x[i];
    return tmp;
}
static inline MPI_Status *wf_status_out(wf_int *x, MPI_Status *tmp)
{
    if (wf_unlikely(wf_is_status_ignore(x)))
        return MPI_STATUS_IGNORE;
    return wf_status_in(x, tmp); /* calls of one status leave its MPI_ERROR as it was */
}
static inline void wf_status_done(wf_int *x, const MPI_Status *tmp)
{
    for (int i = 0; WF_WIDE && !wf_is_status_ignore(x) && i < WF_STATUS_SIZE; i++)
        x[i] = ((const int *)tmp)[i];
}
static inline MPI_Status *wf_statuses_out(struct wf_tmp *t, wf_int *x, int n)
{
    if (wf_is_status_ignore(x))
        return MPI_STATUSES_IGNORE;
    /* The program need not have set the array, so its values have no range check. */
    MPI_Status *v = (MPI_Status *)wf_ints_out(t, x, n * WF_STATUS_SIZE);
    for (int i = 0; WF_WIDE && i < n; i++)
        wf_status_in(x + WF_STATUS_SIZE * i, &v[i]);
    return v;
}
static inline void wf_statuses_done(struct wf_tmp *t, wf_int *x, int n)
{
    if (WF_WIDE && !wf_is_status_ignore(x))
        wf_ints_done(t, x, n * WF_STATUS_SIZE);
}

/* ---- strings ---- */

/* A C string without the trailing blanks of x(1:len); `both`: also without the leading ones. */
char *wf_string_in(struct wf_tmp *t, const char *x, size_t len, bool both);
/* Copies a C string to x(1:len), cut or filled with blanks. */
void wf_string_done(char *x, size_t len, const char *s);

/* ---- numbers that determine the length of an array; 0 after an error ---- */

int wf_ndims(wf_int comm);
int wf_peers(wf_int comm); /* of the remote group on an intercommunicator */
int wf_degree(wf_int comm, bool out);
int wf_sum(const wf_int *x, int n);

#endif
