/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes: keys whose copy and delete functions are the user's, and predefined attributes whose
 * values are constants that differ between the ABIs. */
#include "mpi/foreign/convert.h"
#include "mpi/foreign/fortran.h"

typedef void function(void);

/* The extra state of a key; freed with the key. */
struct functions {
    function *copy, *del;
    void *extra;
};

#define KEYS(Class, word) \
    typedef int word##_copy_fn(wx_MPI_##Class object, int keyval, void *extra, void *in, \
                               void *out, int *flag); \
    typedef int word##_delete_fn(wx_MPI_##Class object, int keyval, void *value, void *extra); \
    static int word##_copy(MPI_##Class object, int keyval, void *extra, void *in, void *out, \
                           int *flag) \
    { \
        struct functions *f = extra; \
        return wx_error_in(((word##_copy_fn *)f->copy)( \
            wx_##word##_out(object), wx_keyval_out(keyval), f->extra, in, out, flag)); \
    } \
    static int word##_delete(MPI_##Class object, int keyval, void *value, void *extra) \
    { \
        struct functions *f = extra; \
        return wx_error_in(((word##_delete_fn *)f->del)(wx_##word##_out(object), \
                                                        wx_keyval_out(keyval), value, f->extra)); \
    } \
    static int word##_create_keyval(word##_copy_fn *copy, word##_delete_fn *del, int *keyval, \
                                    void *extra) \
    { \
        struct functions *f = wx_alloc(sizeof *f); \
        int key = MPI_KEYVAL_INVALID; \
        *f = (struct functions){ (function *)copy, (function *)del, extra }; \
        wx_ready(); \
        int ret = WX(Class##_create_keyval)(copy ? word##_copy : NULL, del ? word##_delete : NULL, \
                                            keyval ? &key : NULL, f); \
        if (!ret) \
            ret = WX(Keyval_set_x)(key, MPIX_ATTR_C, free); \
        if (ret) \
            free(f); \
        else \
            *keyval = wx_keyval_out(key); \
        return wx_error_out(ret); \
    } \
    WX_PROC(int, Class##_create_keyval, \
            (word##_copy_fn * copy, word##_delete_fn * del, int *keyval, void *extra)) \
    { \
        return word##_create_keyval(copy, del, keyval, extra); \
    }

#define MPI_Type MPI_Datatype
#define wx_MPI_Type wx_MPI_Datatype
KEYS(Comm, comm)
KEYS(Type, type)
KEYS(Win, win)

WX_PROC(int, Keyval_create, (comm_copy_fn * copy, comm_delete_fn *del, int *keyval, void *extra))
{
    return comm_create_keyval(copy, del, keyval, extra);
}

/* ---- Fortran ---- */

/* The key's extra state, which its Fortran functions need, is allocated memory. */
static void fortran_free(void *state)
{
    free(((struct functions *)state)->extra);
    free(state);
}

int wx_keyval_set_x(int keyval, int language, MPIX_Destructor_function *destructor)
{
    (void)destructor; /* free() */
    wx_ready();
    return wx_error_out(WX(Keyval_set_x)(wx_keyval_in(keyval), language, fortran_free));
}

/* The language of the attribute values in this thread's calls. */
static _Thread_local int value_language = MPIX_ATTR_C;

int wx_attr_language(int keyval, int language)
{
    wx_ready();
    value_language = language;
    return WX(Attr_language)(wx_keyval_in(keyval), language);
}

/* ---- values ---- */

static int value_of(void *value)
{
    return value_language == MPIX_ATTR_C ? **(int **)value : (int)*(MPI_Aint *)value;
}

/* C gets the address of a variable that holds the value; Fortran gets the value. */
static void store(void *value, int *variable, int it)
{
    *variable = it;
    if (value_language == MPIX_ATTR_C)
        *(int **)value = variable;
    else
        *(MPI_Aint *)value = it;
}

/* Flavors and models of windows are numbers below 8 in each ABI.  An entry, once written, keeps its
 * value: C programs keep addresses of them. */
static void store_small(void *value, int it)
{
    static int numbers[8];
    store(value, &numbers[it & 7], it);
}

/* Puts the translation of a predefined attribute where the caller finds it: an int of this
 * library. */
static int comm_value(int ret, int keyval, void *value, const int *flag)
{
    static int host, io, last;
    if (ret || !*flag)
        return wx_error_out(ret);
    int *mine = keyval == MPI_HOST ? &host : keyval == MPI_IO ? &io : &last;
    int ours = 0;
    if (keyval == MPI_HOST || keyval == MPI_IO || keyval == MPI_LASTUSEDCODE)
        ours = value_of(value);
    else
        return MPI_SUCCESS;
    /* The last code that the program has added; without one, the last code of the ABI. */
    if (keyval == MPI_LASTUSEDCODE)
        store(value, mine, ours > MPI_ERR_LASTCODE ? wx_error_out(ours) : WX_LASTCODE);
    else
        store(value, mine, wx_rank_out(ours));
    return MPI_SUCCESS;
}

WX_PROC(int, Comm_get_attr, (wx_MPI_Comm comm, int keyval, void *value, int *flag))
{
    wx_ready();
    int key = wx_keyval_in(keyval);
    return comm_value(WX(Comm_get_attr)(wx_comm_in(comm), key, value, flag), key, value, flag);
}

WX_PROC(int, Attr_get, (wx_MPI_Comm comm, int keyval, void *value, int *flag))
{
    wx_ready();
    int key = wx_keyval_in(keyval);
    return comm_value(WX(Attr_get)(wx_comm_in(comm), key, value, flag), key, value, flag);
}

WX_PROC(int, Type_get_attr, (wx_MPI_Datatype datatype, int keyval, void *value, int *flag))
{
    wx_ready();
    return wx_error_out(WX(Type_get_attr)(wx_type_in(datatype), wx_keyval_in(keyval), value, flag));
}

WX_PROC(int, Win_get_attr, (wx_MPI_Win win, int keyval, void *value, int *flag))
{
    wx_ready();
    int key = wx_keyval_in(keyval);
    int ret = WX(Win_get_attr)(wx_win_in(win), key, value, flag);
    if (ret || !*flag)
        return wx_error_out(ret);
    if (key == MPI_WIN_CREATE_FLAVOR)
        store_small(value, wx_flavor_out(value_of(value)));
    else if (key == MPI_WIN_MODEL)
        store_small(value, wx_model_out(value_of(value)));
    return MPI_SUCCESS;
}
