/* SPDX-License-Identifier: BSD-3-Clause */
/* The C++ library of Open MPI 4 (libmpi_cxx.so.40), as far as programs need it.  Nearly all of the
 * C++ bindings are inline functions of the program's own, over MPI_X.  Here is the rest: predefined
 * objects, functions that are not inline, and callbacks, which see C++ objects.
 *
 * An object has two words: the address of its class's virtual functions and a handle.  The virtual
 * functions are the program's, which exports them because Open MPI's library has them too.  A
 * program that hides them cannot call a virtual function of a predefined object by reference.  Any
 * thread. */
#include "mpi/foreign/convert.h"
#include "mpi/foreign/fortran.h"

#define EXPORT __attribute__((visibility("default")))
/* A function under its name in C++. */
#define CXX(type, symbol, name, params) \
    EXPORT type cxx_##name params __asm__(symbol); \
    type cxx_##name params

/* Virtual functions begin at the third word. */
#define CLASS(name, symbol) \
    extern const void *const cxx_class_##name[] __asm__("_ZTVN3MPI" symbol "E") \
        __attribute__((weak));
#define VIRTUAL(name) (&cxx_class_##name[2])

CLASS(Comm, "4Comm")
CLASS(Comm_Null, "9Comm_Null")
CLASS(Intracomm, "9Intracomm")
CLASS(Intercomm, "9Intercomm")
CLASS(Cartcomm, "8Cartcomm")
CLASS(Graphcomm, "9Graphcomm")
CLASS(Datatype, "8Datatype")
CLASS(Errhandler, "10Errhandler")
CLASS(File, "4File")
CLASS(Group, "5Group")
CLASS(Info, "4Info")
CLASS(Op, "2Op")
CLASS(Request, "7Request")
CLASS(Status, "6Status")
CLASS(Win, "3Win")

struct object {
    const void *virtual;
    void *handle;
};

/* ---- predefined objects ---- */

#define OBJECT(class, symbol, name, handle) \
    EXPORT extern struct object cxx_##name __asm__("_ZN3MPI" symbol "E"); \
    struct object cxx_##name = { VIRTUAL(class), handle };

OBJECT(Intracomm, "10COMM_WORLD", comm_world, ompi_mpi_comm_world)
OBJECT(Intracomm, "9COMM_SELF", comm_self, ompi_mpi_comm_self)
OBJECT(Comm_Null, "9COMM_NULL", comm_null, ompi_mpi_comm_null)
OBJECT(Group, "10GROUP_NULL", group_null, ompi_mpi_group_null)
OBJECT(Group, "11GROUP_EMPTY", group_empty, ompi_mpi_group_empty)
OBJECT(Info, "9INFO_NULL", info_null, ompi_mpi_info_null)
OBJECT(Win, "8WIN_NULL", win_null, ompi_mpi_win_null)
OBJECT(File, "9FILE_NULL", file_null, ompi_mpi_file_null)
OBJECT(Request, "12REQUEST_NULL", request_null, ompi_request_null)
OBJECT(Errhandler, "15ERRHANDLER_NULL", errhandler_null, ompi_mpi_errhandler_null)
OBJECT(Errhandler, "16ERRORS_ARE_FATAL", errors_are_fatal, ompi_mpi_errors_are_fatal)
OBJECT(Errhandler, "13ERRORS_RETURN", errors_return, ompi_mpi_errors_return)
OBJECT(Errhandler, "23ERRORS_THROW_EXCEPTIONS", errors_throw, ompi_mpi_errors_throw_exceptions)
OBJECT(Op, "7OP_NULL", op_null, ompi_mpi_op_null)
OBJECT(Op, "3MAX", max, ompi_mpi_op_max)
OBJECT(Op, "3MIN", min, ompi_mpi_op_min)
OBJECT(Op, "3SUM", sum, ompi_mpi_op_sum)
OBJECT(Op, "4PROD", prod, ompi_mpi_op_prod)
OBJECT(Op, "6MAXLOC", maxloc, ompi_mpi_op_maxloc)
OBJECT(Op, "6MINLOC", minloc, ompi_mpi_op_minloc)
OBJECT(Op, "4BAND", band, ompi_mpi_op_band)
OBJECT(Op, "3BOR", bor, ompi_mpi_op_bor)
OBJECT(Op, "4BXOR", bxor, ompi_mpi_op_bxor)
OBJECT(Op, "4LAND", land, ompi_mpi_op_land)
OBJECT(Op, "3LOR", lor, ompi_mpi_op_lor)
OBJECT(Op, "4LXOR", lxor, ompi_mpi_op_lxor)
OBJECT(Op, "7REPLACE", replace, ompi_mpi_op_replace)
OBJECT(Datatype, "13DATATYPE_NULL", datatype_null, ompi_mpi_datatype_null)
OBJECT(Datatype, "4BYTE", byte, ompi_mpi_byte)
OBJECT(Datatype, "6PACKED", packed, ompi_mpi_packed)
OBJECT(Datatype, "4CHAR", char, ompi_mpi_char)
OBJECT(Datatype, "11SIGNED_CHAR", signed_char, ompi_mpi_signed_char)
OBJECT(Datatype, "13UNSIGNED_CHAR", unsigned_char, ompi_mpi_unsigned_char)
OBJECT(Datatype, "5WCHAR", wchar, ompi_mpi_wchar)
OBJECT(Datatype, "5SHORT", short, ompi_mpi_short)
OBJECT(Datatype, "14UNSIGNED_SHORT", unsigned_short, ompi_mpi_unsigned_short)
OBJECT(Datatype, "3INT", int, ompi_mpi_int)
OBJECT(Datatype, "8UNSIGNED", unsigned, ompi_mpi_unsigned)
OBJECT(Datatype, "4LONG", long, ompi_mpi_long)
OBJECT(Datatype, "13UNSIGNED_LONG", unsigned_long, ompi_mpi_unsigned_long)
OBJECT(Datatype, "9LONG_LONG", long_long, ompi_mpi_long_long_int)
OBJECT(Datatype, "13LONG_LONG_INT", long_long_int, ompi_mpi_long_long_int)
OBJECT(Datatype, "18UNSIGNED_LONG_LONG", unsigned_long_long, ompi_mpi_unsigned_long_long)
OBJECT(Datatype, "5FLOAT", float, ompi_mpi_float)
OBJECT(Datatype, "6DOUBLE", double, ompi_mpi_double)
OBJECT(Datatype, "11LONG_DOUBLE", long_double, ompi_mpi_long_double)
OBJECT(Datatype, "4BOOL", bool, ompi_mpi_cxx_bool)
OBJECT(Datatype, "7COMPLEX", complex, ompi_mpi_cxx_cplex)
OBJECT(Datatype, "14DOUBLE_COMPLEX", double_complex, ompi_mpi_cxx_dblcplex)
OBJECT(Datatype, "19LONG_DOUBLE_COMPLEX", long_double_complex, ompi_mpi_cxx_ldblcplex)
OBJECT(Datatype, "9FLOAT_INT", float_int, ompi_mpi_float_int)
OBJECT(Datatype, "10DOUBLE_INT", double_int, ompi_mpi_double_int)
OBJECT(Datatype, "15LONG_DOUBLE_INT", long_double_int, ompi_mpi_longdbl_int)
OBJECT(Datatype, "8LONG_INT", long_int, ompi_mpi_long_int)
OBJECT(Datatype, "9SHORT_INT", short_int, ompi_mpi_short_int)
OBJECT(Datatype, "6TWOINT", twoint, ompi_mpi_2int)
OBJECT(Datatype, "9CHARACTER", character, ompi_mpi_character)
OBJECT(Datatype, "7LOGICAL", logical, ompi_mpi_logical)
OBJECT(Datatype, "7INTEGER", integer, ompi_mpi_integer)
OBJECT(Datatype, "8INTEGER1", integer1, ompi_mpi_integer1)
OBJECT(Datatype, "8INTEGER2", integer2, ompi_mpi_integer2)
OBJECT(Datatype, "8INTEGER4", integer4, ompi_mpi_integer4)
OBJECT(Datatype, "4REAL", real, ompi_mpi_real)
OBJECT(Datatype, "5REAL2", real2, ompi_mpi_real2)
OBJECT(Datatype, "5REAL4", real4, ompi_mpi_real4)
OBJECT(Datatype, "5REAL8", real8, ompi_mpi_real8)
OBJECT(Datatype, "16DOUBLE_PRECISION", double_precision, ompi_mpi_dblprec)
OBJECT(Datatype, "9F_COMPLEX", f_complex, ompi_mpi_cplex)
OBJECT(Datatype, "16F_DOUBLE_COMPLEX", f_double_complex, ompi_mpi_dblcplex)
OBJECT(Datatype, "7TWOREAL", tworeal, ompi_mpi_2real)
OBJECT(Datatype, "19TWODOUBLE_PRECISION", twodouble_precision, ompi_mpi_2dblprec)
OBJECT(Datatype, "10TWOINTEGER", twointeger, ompi_mpi_2integer)

#define VALUE(type, symbol, name, ...) \
    EXPORT extern type cxx_##name __asm__("_ZN3MPI" symbol "E"); \
    type cxx_##name = __VA_ARGS__;

VALUE(void *const, "6BOTTOM", bottom, 0)
VALUE(void *const, "8IN_PLACE", in_place, WX_IN_PLACE)
VALUE(const char **, "9ARGV_NULL", argv_null, 0)
VALUE(const char ***, "10ARGVS_NULL", argvs_null, 0)
VALUE(int, "9mpi_errno", errno, 0) /* the last error of the handler below */

/* ---- functions that are not inline ---- */

#define COMM(symbol) "_ZN3MPI4Comm" symbol

static void comm_set(struct object *comm, void *handle)
{
    *comm = (struct object){ VIRTUAL(Comm), handle };
}
CXX(void, COMM("C1Ev"), comm, (struct object * comm)) { comm_set(comm, ompi_mpi_comm_null); }
CXX(void, COMM("C2Ev"), comm_base, (struct object * comm)) { comm_set(comm, ompi_mpi_comm_null); }
CXX(void, COMM("C1ERKNS_9Comm_NullE"), comm_copy, (struct object * comm, const struct object *from))
{
    comm_set(comm, from->handle);
}
CXX(void, COMM("C2ERKNS_9Comm_NullE"), comm_copy_base,
    (struct object * comm, const struct object *from))
{
    comm_set(comm, from->handle);
}

/* Procedures of this library. */
#define PROC(name, params) extern int wx_##name params __asm__("PMPI_" #name);
PROC(Type_free, (wx_MPI_Datatype *))
PROC(Win_free, (wx_MPI_Win *))
PROC(File_close, (wx_MPI_File *))

CXX(void, "_ZN3MPI8Datatype4FreeEv", datatype_free, (struct object * datatype))
{
    wx_Type_free((wx_MPI_Datatype *)&datatype->handle);
}
CXX(void, "_ZN3MPI3Win4FreeEv", win_free, (struct object * win))
{
    wx_Win_free((wx_MPI_Win *)&win->handle);
}
CXX(void, "_ZN3MPI4File5CloseEv", file_close, (struct object * file))
{
    wx_File_close((wx_MPI_File *)&file->handle);
}

/* ---- objects of callbacks ---- */

static struct object comm_object(wx_MPI_Comm comm)
{
    MPI_Comm c = wx_comm_in(comm);
    int inter = 0, kind = MPI_UNDEFINED;
    struct object o = { VIRTUAL(Intracomm), comm };
    if (WX(Comm_test_inter)(c, &inter) || WX(Topo_test)(c, &kind))
        return o;
    if (inter)
        o.virtual = VIRTUAL(Intercomm);
    else if (kind == MPI_CART)
        o.virtual = VIRTUAL(Cartcomm);
    else if (kind == MPI_GRAPH)
        o.virtual = VIRTUAL(Graphcomm);
    return o;
}
static struct object type_object(wx_MPI_Datatype h)
{
    return (struct object){ VIRTUAL(Datatype), h };
}
static struct object win_object(wx_MPI_Win h) { return (struct object){ VIRTUAL(Win), h }; }
static struct object file_object(wx_MPI_File h) { return (struct object){ VIRTUAL(File), h }; }

/* A function as state, and back. */
typedef void function(void);
static void *state_of(function *f) { return (void *)(uintptr_t)f; }
static function *function_of(void *state) { return (function *)(uintptr_t)state; }

/* ---- operations ---- */

typedef void op_fn(const void *in, void *inout, int len, const struct object *datatype);

static void op_call(void *in, void *inout, MPI_Count len, wx_MPI_Datatype datatype, void *state)
{
    struct object type = type_object(datatype);
    MPI_Count lb, extent = 0;
    if (len > INT_MAX)
        WX(Type_get_extent_c)(wx_type_in(datatype), &lb, &extent);
    for (MPI_Count done = 0; done < len; done += INT_MAX) {
        int n = len - done < INT_MAX ? (int)(len - done) : INT_MAX;
        ((op_fn *)function_of(state))((char *)in + done * extent, (char *)inout + done * extent, n,
                                      &type);
    }
}

/* The program creates an operation with the first, then gives it the user's function. */
EXPORT void ompi_mpi_cxx_op_intercept(void *in, void *inout, int *len, wx_MPI_Datatype *datatype,
                                      function *user);
void ompi_mpi_cxx_op_intercept(void *in, void *inout, int *len, wx_MPI_Datatype *datatype,
                               function *user)
{
    op_call(in, inout, *len, *datatype, state_of(user));
}
EXPORT void ompi_op_set_cxx_callback(wx_MPI_Op op, function *user);
void ompi_op_set_cxx_callback(wx_MPI_Op op, function *user)
{
    wx_op_set_x(op, op_call, NULL, state_of(user));
}

/* ---- error handlers ---- */

/* A class with a destructor is returned in memory of the caller's (Itanium C++ ABI, x86-64). */
#define ERRHANDLER(Class, word, symbol) \
    typedef void word##_error_fn(struct object *object, int *code, ...); \
    typedef void word##_c_fn(wx_MPI_##Class *object, int *code, ...); \
    PROC(Class##_create_errhandler, (word##_c_fn *, wx_MPI_Errhandler *)) \
    static void word##_unset(wx_MPI_##Class *object, int *code, ...) \
    { \
        (void)object, (void)code; \
        abort(); \
    } \
    static void word##_error(void *handle, int *code, void *state) \
    { \
        struct object o = word##_object(handle); \
        ((word##_error_fn *)function_of(state))(&o, code); \
    } \
    CXX(struct object *, symbol, word##_create_errhandler, \
        (struct object * made, word##_error_fn * user)) \
    { \
        wx_MPI_Errhandler h = (wx_MPI_Errhandler)ompi_mpi_errhandler_null; \
        if (!wx_##Class##_create_errhandler(word##_unset, &h)) \
            wx_errhandler_set_x(h, word##_error, NULL, state_of((function *)user)); \
        *made = (struct object){ VIRTUAL(Errhandler), h }; \
        return made; \
    }

ERRHANDLER(Comm, comm, COMM("17Create_errhandlerEPFvRS0_PizE"))
ERRHANDLER(Win, win, "_ZN3MPI3Win17Create_errhandlerEPFvRS0_PizE")
ERRHANDLER(File, file, "_ZN3MPI4File17Create_errhandlerEPFvRS0_PizE")

/* ERRORS_THROW_EXCEPTIONS of a library that was built without exceptions, as Debian's is. */
static void store_error(wx_MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    cxx_errno = *code;
}

/* MPI::Init calls this after MPI_Init. */
CXX(void, "_ZN3MPI20InitializeInterceptsEv", initialize_intercepts, (void))
{
    wx_MPI_Errhandler h;
    if (!wx_Comm_create_errhandler(store_error, &h))
        ompi_mpi_errors_throw_exceptions[0] = (uint32_t)wx_handle_in(h);
}

/* ---- attributes ---- */

/* Of each pair of functions, one is NULL.  Freed with the key. */
struct keys {
    function *c_copy, *c_del, *copy, *del;
    void *extra;
};

#define KEYS(Class, word, symbol) \
    typedef int word##_c_copy_fn(wx_MPI_##Class, int, void *, void *, void *, int *); \
    typedef int word##_c_del_fn(wx_MPI_##Class, int, void *, void *); \
    typedef int word##_copy_fn(const struct object *, int, void *, void *, void *, bool *); \
    typedef int word##_del_fn(struct object *, int, void *, void *); \
    PROC(Class##_create_keyval, (word##_c_copy_fn *, word##_c_del_fn *, int *, void *)) \
    static int word##_copy(wx_MPI_##Class h, int key, void *extra, void *in, void *out, int *flag) \
    { \
        struct keys *k = extra; \
        if (k->c_copy) \
            return ((word##_c_copy_fn *)k->c_copy)(h, key, k->extra, in, out, flag); \
        struct object o = word##_object(h); \
        bool kept = false; \
        int ret = ((word##_copy_fn *)k->copy)(&o, key, k->extra, in, out, &kept); \
        *flag = kept; \
        return ret; \
    } \
    static int word##_del(wx_MPI_##Class h, int key, void *value, void *extra) \
    { \
        struct keys *k = extra; \
        if (k->c_del) \
            return ((word##_c_del_fn *)k->c_del)(h, key, value, k->extra); \
        struct object o = word##_object(h); \
        return ((word##_del_fn *)k->del)(&o, key, value, k->extra); \
    } \
    CXX(int, symbol, word##_create_keyval, \
        (word##_c_copy_fn * c_copy, word##_c_del_fn * c_del, word##_copy_fn * copy, \
         word##_del_fn * del, void *extra, int *keyval)) \
    { \
        struct keys *k = wx_alloc(sizeof *k); \
        *k = (struct keys){ (function *)c_copy, (function *)c_del, (function *)copy, \
                            (function *)del, extra }; \
        int ret = wx_##Class##_create_keyval(word##_copy, word##_del, keyval, k); \
        if (ret) \
            free(k); \
        else \
            wx_keyval_set_x(*keyval, MPIX_ATTR_C, free); \
        return ret; \
    }

#define wx_MPI_Type wx_MPI_Datatype
#define KEYVAL(handle, in) \
    "16do_create_keyvalEPFiP" handle "iPvS3_S3_PiEPFiS2_iS3_S3_EPFiRKS0_iS3_" in \
    "S3_RbEPFiRS0_iS3_S3_ES3_Ri"
KEYS(Comm, comm, COMM(KEYVAL("19ompi_communicator_t", "S3_")))
KEYS(Type, type, "_ZN3MPI8Datatype" KEYVAL("15ompi_datatype_t", "PKv"))
KEYS(Win, win, "_ZN3MPI3Win" KEYVAL("10ompi_win_t", "S3_"))

/* ---- generalised requests ---- */

struct status {
    const void *virtual;
    wx_MPI_Status status;
};

/* Made by the program with operator new, which must delete it. */
struct grequest {
    void *extra;
    int (*query)(void *extra, struct status *status);
    int (*free)(void *extra);
    int (*cancel)(void *extra, bool complete);
};
extern void operator_delete(void *p) __asm__("_ZdlPv") __attribute__((weak));

EXPORT int ompi_mpi_cxx_grequest_query_fn_intercept(void *state, wx_MPI_Status *status);
int ompi_mpi_cxx_grequest_query_fn_intercept(void *state, wx_MPI_Status *status)
{
    struct grequest *g = state;
    struct status s = { VIRTUAL(Status), *status };
    int ret = g->query(g->extra, &s);
    *status = s.status;
    return ret;
}

EXPORT int ompi_mpi_cxx_grequest_free_fn_intercept(void *state);
int ompi_mpi_cxx_grequest_free_fn_intercept(void *state)
{
    struct grequest *g = state;
    int ret = g->free(g->extra);
    if (operator_delete)
        operator_delete(g);
    return ret;
}

EXPORT int ompi_mpi_cxx_grequest_cancel_fn_intercept(void *state, int complete);
int ompi_mpi_cxx_grequest_cancel_fn_intercept(void *state, int complete)
{
    struct grequest *g = state;
    return g->cancel(g->extra, complete);
}

/* ---- data representations ---- */

typedef int c_conversion_fn(void *userbuf, wx_MPI_Datatype datatype, int count, void *filebuf,
                            MPI_Offset position, void *extra);
typedef int c_extent_fn(wx_MPI_Datatype datatype, MPI_Aint *extent, void *extra);
typedef void conversion_fn(void *userbuf, struct object *datatype, int count, void *filebuf,
                           MPI_Offset position, void *extra);
typedef void extent_fn(const struct object *datatype, MPI_Aint *extent, void *extra);
PROC(Register_datarep, (const char *, c_conversion_fn *, c_conversion_fn *, c_extent_fn *, void *))

/* Lives until the process ends: a representation cannot be removed. */
struct datarep {
    conversion_fn *read, *write;
    c_conversion_fn *c_read, *c_write;
    extent_fn *extent;
    void *extra;
};

static int datarep_extent(wx_MPI_Datatype datatype, MPI_Aint *extent, void *state)
{
    struct datarep *d = state;
    struct object type = type_object(datatype);
    d->extent(&type, extent, d->extra);
    return 0;
}

#define CONVERSION(form) \
    static int datarep_##form(void *userbuf, wx_MPI_Datatype datatype, int count, void *filebuf, \
                              MPI_Offset position, void *state) \
    { \
        struct datarep *d = state; \
        if (d->c_##form) \
            return d->c_##form(userbuf, datatype, count, filebuf, position, d->extra); \
        struct object type = type_object(datatype); \
        d->form(userbuf, &type, count, filebuf, position, d->extra); \
        return 0; \
    }
CONVERSION(read)
CONVERSION(write)

/* C's MPI_CONVERSION_FN_NULL is NULL. */
static void register_datarep(const char *name, struct datarep from)
{
    struct datarep *d = wx_alloc(sizeof *d);
    *d = from;
    if (wx_Register_datarep(name, d->read || d->c_read ? datarep_read : NULL,
                            d->write || d->c_write ? datarep_write : NULL, datarep_extent, d))
        free(d);
}

#define DATAREP(symbol, which, read_fn, read_field, write_fn, write_field) \
    CXX(void, "_ZN3MPI16Register_datarepEPKcPF" symbol, which, \
        (const char *name, read_fn *from, write_fn *to, extent_fn *extent, void *extra)) \
    { \
        struct datarep d = { .read_field = from, .write_field = to, .extent = extent }; \
        d.extra = extra; \
        register_datarep(name, d); \
    }
DATAREP("vPvRNS_8DatatypeEiS2_xS2_ES6_PFvRKS3_RlS2_ES2_", datarep, conversion_fn, read,
        conversion_fn, write)
DATAREP("vPvRNS_8DatatypeEiS2_xS2_EPFiS2_P15ompi_datatype_tiS2_xS2_EPFvRKS3_RlS2_ES2_",
        datarep_writing, conversion_fn, read, c_conversion_fn, c_write)
DATAREP("iPvP15ompi_datatype_tiS2_xS2_EPFvS2_RNS_8DatatypeEiS2_xS2_EPFvRKS7_RlS2_ES2_",
        datarep_reading, c_conversion_fn, c_read, conversion_fn, write)
DATAREP("iPvP15ompi_datatype_tiS2_xS2_ES6_PFvRKNS_8DatatypeERlS2_ES2_", datarep_c, c_conversion_fn,
        c_read, c_conversion_fn, c_write)
