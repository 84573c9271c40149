/* SPDX-License-Identifier: BSD-3-Clause */
/* The user's functions as callbacks of operations, error handlers, generalised requests and data
 * representations.  They see the handles, statuses and error codes of the foreign ABI.  An object
 * is made with a function that is never called, and then gets the user's function as state
 * (MPIX_Op_set_x(3)); or its function finds the user's function in the extra state. */
#include "mpi/foreign/convert.h"
#include "mpi/foreign/fortran.h"

/* A function as state, and back. */
typedef void function(void);
static void *state_of(function *f) { return (void *)(uintptr_t)f; }
static function *function_of(void *state) { return (function *)(uintptr_t)state; }

/* ---- operations ---- */

typedef void user_fn(void *in, void *inout, int *len, wx_MPI_Datatype *datatype);
typedef void user_fn_c(void *in, void *inout, MPI_Count *len, wx_MPI_Datatype *datatype);

static void op_unset(void *in, void *inout, int *len, MPI_Datatype *datatype)
{
    (void)in, (void)inout, (void)len, (void)datatype;
    abort();
}
static void op_unset_c(void *in, void *inout, MPI_Count *len, MPI_Datatype *datatype)
{
    (void)in, (void)inout, (void)len, (void)datatype;
    abort();
}

/* A vector with more elements than an int can count is reduced in parts. */
static void op_call(void *in, void *inout, MPI_Count len, MPI_Datatype datatype, void *state)
{
    MPI_Count lb, extent = 0;
    wx_MPI_Datatype type = wx_type_out(datatype);
    if (len > INT_MAX)
        WX(Type_get_extent_c)(datatype, &lb, &extent);
    for (MPI_Count done = 0; done < len; done += INT_MAX) {
        int n = len - done < INT_MAX ? (int)(len - done) : INT_MAX;
        ((user_fn *)function_of(state))((char *)in + done * extent, (char *)inout + done * extent,
                                        &n, &type);
    }
}
static void op_call_c(void *in, void *inout, MPI_Count len, MPI_Datatype datatype, void *state)
{
    wx_MPI_Datatype type = wx_type_out(datatype);
    ((user_fn_c *)function_of(state))(in, inout, &len, &type);
}

static int op_made(int ret, MPI_Op made, MPIX_User_function_x *call, function *user, wx_MPI_Op *op)
{
    if (!ret && (ret = WX(Op_set_x)(made, call, NULL, state_of(user))))
        WX(Op_free)(&made);
    if (!ret)
        *op = wx_op_out(made);
    return wx_error_out(ret);
}

WX_PROC(int, Op_create, (user_fn * user, int commute, wx_MPI_Op *op))
{
    MPI_Op made = MPI_OP_NULL;
    wx_ready();
    int ret = WX(Op_create)(user ? op_unset : NULL, commute, op ? &made : NULL);
    return op_made(ret, made, op_call, (function *)user, op);
}

WX_PROC(int, Op_create_c, (user_fn_c * user, int commute, wx_MPI_Op *op))
{
    MPI_Op made = MPI_OP_NULL;
    wx_ready();
    int ret = WX(Op_create_c)(user ? op_unset_c : NULL, commute, op ? &made : NULL);
    return op_made(ret, made, op_call_c, (function *)user, op);
}

/* ---- error handlers ---- */

#define ERRHANDLER(Class, word) \
    typedef void word##_fn(wx_MPI_##Class *object, int *code, ...); \
    static void word##_unset(MPI_##Class *object, int *code, ...) \
    { \
        (void)object, (void)code; \
        abort(); \
    } \
    static void word##_call(void *object, int *code, void *state) \
    { \
        wx_MPI_##Class h = wx_##word##_out((MPI_##Class)object); \
        int theirs = wx_error_out(*code); \
        ((word##_fn *)function_of(state))(&h, &theirs); \
    } \
    WX_PROC(int, Class##_create_errhandler, (word##_fn * user, wx_MPI_Errhandler * errhandler)) \
    { \
        MPI_Errhandler made = MPI_ERRHANDLER_NULL; \
        wx_ready(); \
        int ret = WX(Class##_create_errhandler)(user ? word##_unset : NULL, \
                                                errhandler ? &made : NULL); \
        if (!ret) \
            ret = WX(Errhandler_set_x)(made, word##_call, NULL, state_of((function *)user)); \
        if (!ret) \
            *errhandler = wx_errh_out(made); \
        return wx_error_out(ret); \
    }

ERRHANDLER(Comm, comm)
ERRHANDLER(Win, win)
ERRHANDLER(File, file)
ERRHANDLER(Session, session)

/* ---- operations and error handlers of Fortran ---- */

/* The function of the Fortran side, which sees the ABI's handles, and its state. */
struct outer {
    function *call;
    void *state;
};

static struct outer *outer(function *call, void *state)
{
    struct outer *o = wx_alloc(sizeof *o);
    *o = (struct outer){ call, state };
    return o;
}

static void op_outer(void *in, void *inout, MPI_Count len, MPI_Datatype datatype, void *state)
{
    struct outer *o = state;
    ((wx_user_function_x *)o->call)(in, inout, len, wx_type_out(datatype), o->state);
}

int wx_op_set_x(wx_MPI_Op op, wx_user_function_x *call, MPIX_Destructor_function *destructor,
                void *state)
{
    (void)destructor; /* none */
    wx_ready();
    struct outer *o = outer((function *)call, state);
    int ret = WX(Op_set_x)(wx_op_in(op), op_outer, free, o);
    if (ret)
        free(o);
    return wx_error_out(ret);
}

static void errh_outer(void *object, int *code, void *state)
{
    struct outer *o = state;
    int theirs = wx_error_out(*code);
    void *h = (void *)(intptr_t)wx_handle_out((uintptr_t)object); /* of any class */
    ((MPIX_Errhandler_function_x *)o->call)(h, &theirs, o->state);
}

int wx_errhandler_set_x(wx_MPI_Errhandler errhandler, MPIX_Errhandler_function_x *call,
                        MPIX_Destructor_function *destructor, void *state)
{
    (void)destructor; /* none */
    wx_ready();
    struct outer *o = outer((function *)call, state);
    int ret = WX(Errhandler_set_x)(wx_errh_in(errhandler), errh_outer, free, o);
    if (ret)
        free(o);
    return wx_error_out(ret);
}

/* ---- generalised requests ---- */

typedef int query_fn(void *extra, wx_MPI_Status *status);
typedef int free_fn(void *extra);
typedef int cancel_fn(void *extra, int complete);

struct grequest {
    query_fn *query;
    free_fn *free;
    cancel_fn *cancel;
    void *extra;
};

static int grequest_query(void *state, MPI_Status *status)
{
    struct grequest *g = state;
    wx_MPI_Status f;
    int error = status->MPI_ERROR; /* changes only if the user sets it */
    wx_status_write(status, &f);
    f.MPI_ERROR = WX_UNSET;
    int ret = g->query(g->extra, &f);
    wx_status_read(&f, status);
    if (f.MPI_ERROR == WX_UNSET)
        status->MPI_ERROR = error;
    return wx_error_in(ret);
}

/* The last call about the request. */
static int grequest_free(void *state)
{
    struct grequest *g = state;
    int ret = g->free(g->extra);
    free(g);
    return wx_error_in(ret);
}

static int grequest_cancel(void *state, int complete)
{
    struct grequest *g = state;
    return wx_error_in(g->cancel(g->extra, complete));
}

WX_PROC(int, Grequest_start,
        (query_fn * query, free_fn *free_it, cancel_fn *cancel, void *extra,
         wx_MPI_Request *request))
{
    struct grequest *g = wx_alloc(sizeof *g);
    MPI_Request made = MPI_REQUEST_NULL;
    *g = (struct grequest){ query, free_it, cancel, extra };
    wx_ready();
    int ret = WX(Grequest_start)(query ? grequest_query : NULL, free_it ? grequest_free : NULL,
                                 cancel ? grequest_cancel : NULL, g, request ? &made : NULL);
    if (ret)
        free(g);
    else
        *request = wx_request_out(made);
    return wx_error_out(ret);
}

/* ---- data representations ---- */

typedef int extent_fn(wx_MPI_Datatype datatype, MPI_Aint *extent, void *extra);
typedef int conversion_fn(void *userbuf, wx_MPI_Datatype datatype, int count, void *filebuf,
                          MPI_Offset position, void *extra);
typedef int conversion_fn_c(void *userbuf, wx_MPI_Datatype datatype, MPI_Count count, void *filebuf,
                            MPI_Offset position, void *extra);

/* Lives until the process ends: a representation cannot be removed. */
struct datarep {
    conversion_fn *read, *write;
    conversion_fn_c *read_c, *write_c;
    extent_fn *extent;
    void *extra;
};

static int datarep_extent(MPI_Datatype datatype, MPI_Aint *extent, void *state)
{
    struct datarep *d = state;
    return wx_error_in(d->extent(wx_type_out(datatype), extent, d->extra));
}

#define CONVERSION(form, count_type) \
    static int datarep_##form(void *userbuf, MPI_Datatype datatype, count_type count, \
                              void *filebuf, MPI_Offset position, void *state) \
    { \
        struct datarep *d = state; \
        return wx_error_in( \
            d->form(userbuf, wx_type_out(datatype), count, filebuf, position, d->extra)); \
    }

CONVERSION(read, int)
CONVERSION(write, int)
CONVERSION(read_c, MPI_Count)
CONVERSION(write_c, MPI_Count)

static struct datarep *datarep_new(struct datarep from)
{
    struct datarep *d = wx_alloc(sizeof *d);
    *d = from;
    return d;
}

static int datarep_made(int ret, struct datarep *d)
{
    if (ret)
        free(d);
    return wx_error_out(ret);
}

WX_PROC(int, Register_datarep,
        (const char *name, conversion_fn *from, conversion_fn *to, extent_fn *extent, void *extra))
{
    struct datarep *d = datarep_new(
        (struct datarep){ .read = from, .write = to, .extent = extent, .extra = extra });
    wx_ready();
    return datarep_made(WX(Register_datarep)(name, from ? datarep_read : MPI_CONVERSION_FN_NULL,
                                             to ? datarep_write : MPI_CONVERSION_FN_NULL,
                                             extent ? datarep_extent : NULL, d),
                        d);
}

WX_PROC(int, Register_datarep_c,
        (const char *name, conversion_fn_c *from, conversion_fn_c *to, extent_fn *extent,
         void *extra))
{
    struct datarep *d = datarep_new(
        (struct datarep){ .read_c = from, .write_c = to, .extent = extent, .extra = extra });
    wx_ready();
    return datarep_made(WX(Register_datarep_c)(name,
                                               from ? datarep_read_c : MPI_CONVERSION_FN_NULL_C,
                                               to ? datarep_write_c : MPI_CONVERSION_FN_NULL_C,
                                               extent ? datarep_extent : NULL, d),
                        d);
}
