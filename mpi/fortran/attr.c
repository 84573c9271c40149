/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes from Fortran: keys with Fortran copy and delete functions, and values that are
 * integers.  The C library keeps the language of each value and converts (MPI-5.0 section 19.3.7);
 * this file passes the language around each call.  Any thread. */
#include "mpi/fortran/hand.h"
#include <stdlib.h>

/* How C sees a default INTEGER that Fortran stored. */
#define WF_ATTR_INTEGER (WF_WIDE ? MPIX_ATTR_AINT : MPIX_ATTR_INT)

/* The extra state of a key; freed with the key. */
struct functions {
    wf_procedure *copy, *del;
    MPI_Aint extra;
};

/* The functions of MPI_COMM_CREATE_KEYVAL and its like, and those of MPI_KEYVAL_CREATE, whose
 * values are default INTEGERs. */
typedef void copy_fn_f(wf_int *object, wf_int *keyval, MPI_Aint *extra, MPI_Aint *in, MPI_Aint *out,
                       wf_int *flag, wf_int *ierror);
typedef void delete_fn_f(wf_int *object, wf_int *keyval, MPI_Aint *value, MPI_Aint *extra,
                         wf_int *ierror);
typedef void old_copy_fn_f(wf_int *comm, wf_int *keyval, wf_int *extra, wf_int *in, wf_int *out,
                           wf_int *flag, wf_int *ierror);
typedef void old_delete_fn_f(wf_int *comm, wf_int *keyval, wf_int *value, wf_int *extra,
                             wf_int *ierror);

static int copy(wf_int object, int keyval, void *extra, void *in, void *out, int *flag)
{
    struct functions *f = extra;
    MPI_Aint from = (MPI_Aint)in, to = 0;
    wf_int key = keyval, yes = wf_false, ierror = MPI_SUCCESS;
    ((copy_fn_f *)f->copy)(&object, &key, &f->extra, &from, &to, &yes, &ierror);
    *flag = wf_logical_in(yes);
    *(MPI_Aint *)out = to;
    return (int)ierror;
}

static int del(wf_int object, int keyval, void *value, void *extra)
{
    struct functions *f = extra;
    MPI_Aint v = (MPI_Aint)value;
    wf_int key = keyval, ierror = MPI_SUCCESS;
    ((delete_fn_f *)f->del)(&object, &key, &v, &f->extra, &ierror);
    return (int)ierror;
}

static int copy_comm(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    return copy(wf_i(comm), keyval, extra, in, out, flag);
}
static int copy_type(MPI_Datatype type, int keyval, void *extra, void *in, void *out, int *flag)
{
    return copy(wf_i(type), keyval, extra, in, out, flag);
}
static int copy_win(MPI_Win win, int keyval, void *extra, void *in, void *out, int *flag)
{
    return copy(wf_i(win), keyval, extra, in, out, flag);
}
static int delete_comm(MPI_Comm comm, int keyval, void *value, void *extra)
{
    return del(wf_i(comm), keyval, value, extra);
}
static int delete_type(MPI_Datatype type, int keyval, void *value, void *extra)
{
    return del(wf_i(type), keyval, value, extra);
}
static int delete_win(MPI_Win win, int keyval, void *value, void *extra)
{
    return del(wf_i(win), keyval, value, extra);
}

static int copy_old(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    struct functions *f = extra;
    wf_int object = wf_i(comm), key = keyval, state = (wf_int)f->extra, yes = wf_false;
    wf_int from = (wf_int)(intptr_t)in, to = 0, ierror = MPI_SUCCESS;
    ((old_copy_fn_f *)f->copy)(&object, &key, &state, &from, &to, &yes, &ierror);
    *flag = wf_logical_in(yes);
    *(MPI_Aint *)out = to;
    return (int)ierror;
}
static int delete_old(MPI_Comm comm, int keyval, void *value, void *extra)
{
    struct functions *f = extra;
    wf_int object = wf_i(comm), key = keyval, state = (wf_int)f->extra;
    wf_int v = (wf_int)(intptr_t)value, ierror = MPI_SUCCESS;
    ((old_delete_fn_f *)f->del)(&object, &key, &v, &state, &ierror);
    return (int)ierror;
}

static struct functions *functions_new(wf_procedure *copy_fn, wf_procedure *delete_fn,
                                       MPI_Aint extra)
{
    struct functions *f = wf_alloc(sizeof *f);
    *f = (struct functions){ copy_fn, delete_fn, extra };
    return f;
}

/* After the C procedure has made a key whose functions and values are of `language`. */
static void made(int ret, int key, int language, struct functions *f, wf_int *keyval,
                 wf_int *ierror)
{
    if (!ret)
        ret = PMPIX_Keyval_set_x(key, language, free);
    if (ret)
        free(f);
    *keyval = ret ? MPI_KEYVAL_INVALID : key;
    wf_error(ierror, ret);
}

/* In C the predefined functions are constants: 0 for those that do nothing, and one constant for
 * the functions that copy, of all kinds of objects. */
static uintptr_t copy_code(wf_procedure *function, wf_procedure *ours)
{
    if (wf_is_predefined(function, WF_NULL_COPY))
        return 0;
    return wf_is_predefined(function, WF_DUP) ? (uintptr_t)MPI_COMM_DUP_FN : (uintptr_t)ours;
}
static uintptr_t delete_code(wf_procedure *function, wf_procedure *ours)
{
    return wf_is_predefined(function, WF_NULL_DELETE) ? 0 : (uintptr_t)ours;
}

void f_comm_create_keyval(__typeof__(MPI_Comm_create_keyval) *fn, wf_procedure *comm_copy_attr_fn,
                          wf_procedure *comm_delete_attr_fn, wf_int *comm_keyval,
                          const MPI_Aint *extra_state, wf_int *ierror)
{
    int key = MPI_KEYVAL_INVALID;
    struct functions *f = functions_new(comm_copy_attr_fn, comm_delete_attr_fn, *extra_state);
    int ret = fn(
        (MPI_Comm_copy_attr_function *)copy_code(comm_copy_attr_fn, (wf_procedure *)copy_comm),
        (MPI_Comm_delete_attr_function *)delete_code(comm_delete_attr_fn,
                                                     (wf_procedure *)delete_comm),
        &key, f);
    made(ret, key, MPIX_ATTR_AINT, f, comm_keyval, ierror);
}

void f_type_create_keyval(__typeof__(MPI_Type_create_keyval) *fn, wf_procedure *type_copy_attr_fn,
                          wf_procedure *type_delete_attr_fn, wf_int *type_keyval,
                          const MPI_Aint *extra_state, wf_int *ierror)
{
    int key = MPI_KEYVAL_INVALID;
    struct functions *f = functions_new(type_copy_attr_fn, type_delete_attr_fn, *extra_state);
    int ret = fn(
        (MPI_Type_copy_attr_function *)copy_code(type_copy_attr_fn, (wf_procedure *)copy_type),
        (MPI_Type_delete_attr_function *)delete_code(type_delete_attr_fn,
                                                     (wf_procedure *)delete_type),
        &key, f);
    made(ret, key, MPIX_ATTR_AINT, f, type_keyval, ierror);
}

void f_win_create_keyval(__typeof__(MPI_Win_create_keyval) *fn, wf_procedure *win_copy_attr_fn,
                         wf_procedure *win_delete_attr_fn, wf_int *win_keyval,
                         const MPI_Aint *extra_state, wf_int *ierror)
{
    int key = MPI_KEYVAL_INVALID;
    struct functions *f = functions_new(win_copy_attr_fn, win_delete_attr_fn, *extra_state);
    int ret = fn(
        (MPI_Win_copy_attr_function *)copy_code(win_copy_attr_fn, (wf_procedure *)copy_win),
        (MPI_Win_delete_attr_function *)delete_code(win_delete_attr_fn, (wf_procedure *)delete_win),
        &key, f);
    made(ret, key, MPIX_ATTR_AINT, f, win_keyval, ierror);
}

void f_keyval_create(__typeof__(MPI_Keyval_create) *fn, wf_procedure *copy_fn,
                     wf_procedure *delete_fn, wf_int *keyval, const wf_int *extra_state,
                     wf_int *ierror)
{
    int key = MPI_KEYVAL_INVALID;
    struct functions *f = functions_new(copy_fn, delete_fn, *extra_state);
    int ret = fn((MPI_Copy_function *)copy_code(copy_fn, (wf_procedure *)copy_old),
                 (MPI_Delete_function *)delete_code(delete_fn, (wf_procedure *)delete_old), &key,
                 f);
    made(ret, key, WF_ATTR_INTEGER, f, keyval, ierror);
}

/* ---- values ---- */

/* The C library converts while a language is set for the key, in this thread. */
static int begin(const wf_int *keyval, int language)
{
    int key = wf_keyval(*keyval);
    PMPIX_Attr_language(key, language);
    return key;
}
static void end(void) { PMPIX_Attr_language(MPI_KEYVAL_INVALID, MPIX_ATTR_C); }

void f_comm_set_attr(__typeof__(MPI_Comm_set_attr) *fn, const wf_int *comm,
                     const wf_int *comm_keyval, const MPI_Aint *attribute_val, wf_int *ierror)
{
    int key = begin(comm_keyval, MPIX_ATTR_AINT);
    int ret = fn(wf_h(MPI_Comm, *comm), key, (void *)*attribute_val);
    end();
    wf_error(ierror, ret);
}

void f_type_set_attr(__typeof__(MPI_Type_set_attr) *fn, const wf_int *datatype,
                     const wf_int *type_keyval, const MPI_Aint *attribute_val, wf_int *ierror)
{
    int key = begin(type_keyval, MPIX_ATTR_AINT);
    int ret = fn(wf_h(MPI_Datatype, *datatype), key, (void *)*attribute_val);
    end();
    wf_error(ierror, ret);
}

void f_win_set_attr(__typeof__(MPI_Win_set_attr) *fn, const wf_int *win, const wf_int *win_keyval,
                    const MPI_Aint *attribute_val, wf_int *ierror)
{
    int key = begin(win_keyval, MPIX_ATTR_AINT);
    int ret = fn(wf_h(MPI_Win, *win), key, (void *)*attribute_val);
    end();
    wf_error(ierror, ret);
}

void f_attr_put(__typeof__(MPI_Attr_put) *fn, const wf_int *comm, const wf_int *keyval,
                const wf_int *attribute_val, wf_int *ierror)
{
    int key = begin(keyval, WF_ATTR_INTEGER);
    int ret = fn(wf_h(MPI_Comm, *comm), key, (void *)(intptr_t)*attribute_val);
    end();
    wf_error(ierror, ret);
}

/* The attribute, if there is one. */
static void got(int ret, int found, void *value, MPI_Aint *attribute_val, wf_int *flag,
                wf_int *ierror)
{
    end();
    if (!ret && found)
        *attribute_val = (MPI_Aint)value;
    *flag = wf_logical(found);
    wf_error(ierror, ret);
}

void f_comm_get_attr(__typeof__(MPI_Comm_get_attr) *fn, const wf_int *comm,
                     const wf_int *comm_keyval, MPI_Aint *attribute_val, wf_int *flag,
                     wf_int *ierror)
{
    void *value = NULL;
    int found = 0, key = begin(comm_keyval, MPIX_ATTR_AINT);
    int ret = fn(wf_h(MPI_Comm, *comm), key, &value, &found);
    got(ret, found, value, attribute_val, flag, ierror);
}

void f_type_get_attr(__typeof__(MPI_Type_get_attr) *fn, const wf_int *datatype,
                     const wf_int *type_keyval, MPI_Aint *attribute_val, wf_int *flag,
                     wf_int *ierror)
{
    void *value = NULL;
    int found = 0, key = begin(type_keyval, MPIX_ATTR_AINT);
    int ret = fn(wf_h(MPI_Datatype, *datatype), key, &value, &found);
    got(ret, found, value, attribute_val, flag, ierror);
}

void f_win_get_attr(__typeof__(MPI_Win_get_attr) *fn, const wf_int *win, const wf_int *win_keyval,
                    MPI_Aint *attribute_val, wf_int *flag, wf_int *ierror)
{
    void *value = NULL;
    int found = 0, key = begin(win_keyval, MPIX_ATTR_AINT);
    int ret = fn(wf_h(MPI_Win, *win), key, &value, &found);
    got(ret, found, value, attribute_val, flag, ierror);
}

/* An INTEGER gets the low part of a longer value. */
void f_attr_get(__typeof__(MPI_Attr_get) *fn, const wf_int *comm, const wf_int *keyval,
                wf_int *attribute_val, wf_int *flag, wf_int *ierror)
{
    void *value = NULL;
    MPI_Aint whole = 0;
    int found = 0, key = begin(keyval, WF_ATTR_INTEGER);
    int ret = fn(wf_h(MPI_Comm, *comm), key, &value, &found);
    got(ret, found, value, &whole, flag, ierror);
    if (!ret && found)
        *attribute_val = (wf_int)whole;
}
