/* SPDX-License-Identifier: BSD-3-Clause */
/* Fortran functions as callbacks of operations, error handlers, generalised requests and data
 * representations.  The C procedure makes the object with a C function that is never called; the
 * object is then given the Fortran function as state (MPIX_Op_set_x), or the C function finds it in
 * its extra state.  They are called by whichever thread runs the operation. */
#include "mpi/fortran/hand.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

/* A function as a C library's state, and back. */
static void *state_of(wf_procedure *function) { return (void *)(uintptr_t)function; }
static wf_procedure *function_of(void *state) { return (wf_procedure *)(uintptr_t)state; }

static void unset(void)
{
    fputs("Weft MPI: a tool called the C stand-in for a Fortran callback\n", stderr);
    PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_INTERN);
}

/* ---- operations ---- */

typedef void user_fn_f(void *invec, void *inoutvec, wf_int *len, wf_int *datatype);
typedef void user_fn_c_f(void *invec, void *inoutvec, MPI_Count *len, wf_int *datatype);

static void op_unset(void *in, void *inout, int *len, MPI_Datatype *datatype)
{
    (void)in, (void)inout, (void)len, (void)datatype;
    unset();
}
static void op_unset_c(void *in, void *inout, MPI_Count *len, MPI_Datatype *datatype)
{
    (void)in, (void)inout, (void)len, (void)datatype;
    unset();
}

/* A vector with more elements than an INTEGER can count is reduced in parts. */
static void op_call(void *in, void *inout, MPI_Count len, MPI_Datatype datatype, void *state)
{
    const MPI_Count most = WF_WIDE ? INT64_MAX : INT_MAX;
    MPI_Count lb, extent = 0;
    wf_int type = wf_i(datatype);
    if (len > most)
        PMPI_Type_get_extent_c(datatype, &lb, &extent);
    for (MPI_Count done = 0; done < len; done += most) {
        wf_int n = (wf_int)(len - done < most ? len - done : most);
        ((user_fn_f *)function_of(state))((char *)in + done * extent, (char *)inout + done * extent,
                                          &n, &type);
    }
}
static void op_call_c(void *in, void *inout, MPI_Count len, MPI_Datatype datatype, void *state)
{
    wf_int type = wf_i(datatype);
    ((user_fn_c_f *)function_of(state))(in, inout, &len, &type);
}

void f_op_create(__typeof__(MPI_Op_create) *fn, wf_procedure *user_fn, const wf_int *commute,
                 wf_int *op, wf_int *ierror)
{
    MPI_Op made = MPI_OP_NULL;
    int ret = fn(op_unset, wf_logical_in(*commute), &made);
    if (!ret)
        ret = PMPIX_Op_set_x(made, op_call, NULL, state_of(user_fn));
    *op = wf_i(made);
    wf_error(ierror, ret);
}

void f_op_create_c(__typeof__(MPI_Op_create_c) *fn, wf_procedure *user_fn, const wf_int *commute,
                   wf_int *op, wf_int *ierror)
{
    MPI_Op made = MPI_OP_NULL;
    int ret = fn(op_unset_c, wf_logical_in(*commute), &made);
    if (!ret)
        ret = PMPIX_Op_set_x(made, op_call_c, NULL, state_of(user_fn));
    *op = wf_i(made);
    wf_error(ierror, ret);
}

/* ---- error handlers ---- */

typedef void errhandler_fn_f(wf_int *object, wf_int *error_code);

static void errh_unset(void *object, int *error_code, ...)
{
    (void)object, (void)error_code;
    unset();
}

static void errh_call(void *object, int *error_code, void *state)
{
    wf_int handle = wf_i(object), code = *error_code;
    ((errhandler_fn_f *)function_of(state))(&handle, &code);
}

static void errh_made(int ret, MPI_Errhandler made, wf_procedure *function, wf_int *errhandler,
                      wf_int *ierror)
{
    if (!ret)
        ret = PMPIX_Errhandler_set_x(made, errh_call, NULL, state_of(function));
    *errhandler = wf_i(made);
    wf_error(ierror, ret);
}

void f_comm_create_errhandler(__typeof__(MPI_Comm_create_errhandler) *fn,
                              wf_procedure *comm_errhandler_fn, wf_int *errhandler, wf_int *ierror)
{
    MPI_Errhandler made = MPI_ERRHANDLER_NULL;
    int ret = fn((MPI_Comm_errhandler_function *)errh_unset, &made);
    errh_made(ret, made, comm_errhandler_fn, errhandler, ierror);
}

void f_win_create_errhandler(__typeof__(MPI_Win_create_errhandler) *fn,
                             wf_procedure *win_errhandler_fn, wf_int *errhandler, wf_int *ierror)
{
    MPI_Errhandler made = MPI_ERRHANDLER_NULL;
    int ret = fn((MPI_Win_errhandler_function *)errh_unset, &made);
    errh_made(ret, made, win_errhandler_fn, errhandler, ierror);
}

void f_file_create_errhandler(__typeof__(MPI_File_create_errhandler) *fn,
                              wf_procedure *file_errhandler_fn, wf_int *errhandler, wf_int *ierror)
{
    MPI_Errhandler made = MPI_ERRHANDLER_NULL;
    int ret = fn((MPI_File_errhandler_function *)errh_unset, &made);
    errh_made(ret, made, file_errhandler_fn, errhandler, ierror);
}

void f_session_create_errhandler(__typeof__(MPI_Session_create_errhandler) *fn,
                                 wf_procedure *session_errhandler_fn, wf_int *errhandler,
                                 wf_int *ierror)
{
    MPI_Errhandler made = MPI_ERRHANDLER_NULL;
    int ret = fn((MPI_Session_errhandler_function *)errh_unset, &made);
    errh_made(ret, made, session_errhandler_fn, errhandler, ierror);
}

/* ---- generalised requests ---- */

typedef void query_fn_f(MPI_Aint *extra_state, wf_int *status, wf_int *ierror);
typedef void free_fn_f(MPI_Aint *extra_state, wf_int *ierror);
typedef void cancel_fn_f(MPI_Aint *extra_state, wf_int *complete, wf_int *ierror);

struct grequest {
    wf_procedure *query, *free, *cancel;
    MPI_Aint extra; /* what the callbacks get */
    void *variable; /* the argument of MPI_Grequest_start */
};

/* After a callback that got extra_state with the value `before`.  Other MPIs pass their callbacks
 * the variable of MPI_Grequest_start itself, and programs wait for a change of it.  Weft's
 * callbacks get a copy, because the argument may be an expression, or a variable that is gone; a
 * change of the copy is stored in a variable that still has the value before.  The variable is
 * accessed by system calls, which fail where access through a pointer would crash: a constant is
 * read-only, and the stack of an ended thread is unmapped. */
static void store_change(const struct grequest *g, MPI_Aint before)
{
    MPI_Aint value;
    struct iovec own = { &value, sizeof value }, user = { g->variable, sizeof value };
    if (g->extra == before || process_vm_readv(getpid(), &own, 1, &user, 1, 0) < 0 ||
        value != before)
        return;
    value = g->extra;
    process_vm_writev(getpid(), &own, 1, &user, 1, 0);
}

static int grequest_query(void *state, MPI_Status *status)
{
    struct grequest *g = state;
    MPI_Aint before = g->extra;
    wf_int s[WF_STATUS_SIZE], ierror = MPI_SUCCESS;
    for (int i = 0; i < WF_STATUS_SIZE; i++)
        s[i] = ((int *)status)[i];
    ((query_fn_f *)g->query)(&g->extra, s, &ierror);
    store_change(g, before);
    for (int i = 0; i < WF_STATUS_SIZE; i++)
        ((int *)status)[i] = (int)s[i];
    return (int)ierror;
}

/* The last call about the request. */
static int grequest_free(void *state)
{
    struct grequest *g = state;
    MPI_Aint before = g->extra;
    wf_int ierror = MPI_SUCCESS;
    ((free_fn_f *)g->free)(&g->extra, &ierror);
    store_change(g, before);
    free(g);
    return (int)ierror;
}

static int grequest_cancel(void *state, int complete)
{
    struct grequest *g = state;
    MPI_Aint before = g->extra;
    wf_int is_complete = wf_logical(complete), ierror = MPI_SUCCESS;
    ((cancel_fn_f *)g->cancel)(&g->extra, &is_complete, &ierror);
    store_change(g, before);
    return (int)ierror;
}

void f_grequest_start(__typeof__(MPI_Grequest_start) *fn, wf_procedure *query_fn,
                      wf_procedure *free_fn, wf_procedure *cancel_fn, const MPI_Aint *extra_state,
                      wf_int *request, wf_int *ierror)
{
    struct grequest *g = wf_alloc(sizeof *g);
    *g = (struct grequest){ query_fn, free_fn, cancel_fn, *extra_state,
                            (void *)(uintptr_t)extra_state };
    MPI_Request made = MPI_REQUEST_NULL;
    int ret = fn(grequest_query, grequest_free, grequest_cancel, g, &made);
    if (ret)
        free(g);
    *request = wf_i(made);
    wf_error(ierror, ret);
}

/* ---- data representations ---- */

typedef void extent_fn_f(wf_int *datatype, MPI_Aint *extent, MPI_Aint *extra_state, wf_int *ierror);
typedef void conversion_fn_f(void *userbuf, wf_int *datatype, wf_int *count, void *filebuf,
                             MPI_Offset *position, MPI_Aint *extra_state, wf_int *ierror);
typedef void conversion_fn_c_f(void *userbuf, wf_int *datatype, MPI_Count *count, void *filebuf,
                               MPI_Offset *position, MPI_Aint *extra_state, wf_int *ierror);

/* Lives until the process ends: a representation cannot be removed. */
struct datarep {
    wf_procedure *read, *write, *extent;
    MPI_Aint extra;
};

static int datarep_extent(MPI_Datatype datatype, MPI_Aint *extent, void *state)
{
    struct datarep *d = state;
    wf_int type = wf_i(datatype), ierror = MPI_SUCCESS;
    ((extent_fn_f *)d->extent)(&type, extent, &d->extra, &ierror);
    return (int)ierror;
}

static int convert(struct datarep *d, wf_procedure *fn, void *userbuf, MPI_Datatype datatype,
                   int count, void *filebuf, MPI_Offset position)
{
    wf_int type = wf_i(datatype), n = count, ierror = MPI_SUCCESS;
    ((conversion_fn_f *)fn)(userbuf, &type, &n, filebuf, &position, &d->extra, &ierror);
    return (int)ierror;
}
static int datarep_read(void *userbuf, MPI_Datatype datatype, int count, void *filebuf,
                        MPI_Offset position, void *state)
{
    struct datarep *d = state;
    return convert(d, d->read, userbuf, datatype, count, filebuf, position);
}
static int datarep_write(void *userbuf, MPI_Datatype datatype, int count, void *filebuf,
                         MPI_Offset position, void *state)
{
    struct datarep *d = state;
    return convert(d, d->write, userbuf, datatype, count, filebuf, position);
}

static int convert_c(struct datarep *d, wf_procedure *fn, void *userbuf, MPI_Datatype datatype,
                     MPI_Count count, void *filebuf, MPI_Offset position)
{
    wf_int type = wf_i(datatype), ierror = MPI_SUCCESS;
    ((conversion_fn_c_f *)fn)(userbuf, &type, &count, filebuf, &position, &d->extra, &ierror);
    return (int)ierror;
}
static int datarep_read_c(void *userbuf, MPI_Datatype datatype, MPI_Count count, void *filebuf,
                          MPI_Offset position, void *state)
{
    struct datarep *d = state;
    return convert_c(d, d->read, userbuf, datatype, count, filebuf, position);
}
static int datarep_write_c(void *userbuf, MPI_Datatype datatype, MPI_Count count, void *filebuf,
                           MPI_Offset position, void *state)
{
    struct datarep *d = state;
    return convert_c(d, d->write, userbuf, datatype, count, filebuf, position);
}

static struct datarep *datarep_new(wf_procedure *read, wf_procedure *write, wf_procedure *extent,
                                   MPI_Aint extra)
{
    struct datarep *d = wf_alloc(sizeof *d);
    *d = (struct datarep){ read, write, extent, extra };
    return d;
}

void f_register_datarep(__typeof__(MPI_Register_datarep) *fn, const char *datarep,
                        wf_procedure *read_conversion_fn, wf_procedure *write_conversion_fn,
                        wf_procedure *dtype_file_extent_fn, const MPI_Aint *extra_state,
                        wf_int *ierror, size_t datarep_len)
{
    struct wf_tmp t;
    struct datarep *d = datarep_new(read_conversion_fn, write_conversion_fn, dtype_file_extent_fn,
                                    *extra_state);
    int ret = fn(wf_string_in(&t, datarep, datarep_len, false),
                 wf_is_predefined(read_conversion_fn, WF_NO_CONVERSION) ? MPI_CONVERSION_FN_NULL
                                                                        : datarep_read,
                 wf_is_predefined(write_conversion_fn, WF_NO_CONVERSION) ? MPI_CONVERSION_FN_NULL
                                                                         : datarep_write,
                 datarep_extent, d);
    if (ret)
        free(d);
    wf_tmp_free(&t);
    wf_error(ierror, ret);
}

void f_register_datarep_c(__typeof__(MPI_Register_datarep_c) *fn, const char *datarep,
                          wf_procedure *read_conversion_fn, wf_procedure *write_conversion_fn,
                          wf_procedure *dtype_file_extent_fn, const MPI_Aint *extra_state,
                          wf_int *ierror, size_t datarep_len)
{
    struct wf_tmp t;
    struct datarep *d = datarep_new(read_conversion_fn, write_conversion_fn, dtype_file_extent_fn,
                                    *extra_state);
    int ret = fn(wf_string_in(&t, datarep, datarep_len, false),
                 wf_is_predefined(read_conversion_fn, WF_NO_CONVERSION) ? MPI_CONVERSION_FN_NULL_C
                                                                        : datarep_read_c,
                 wf_is_predefined(write_conversion_fn, WF_NO_CONVERSION) ? MPI_CONVERSION_FN_NULL_C
                                                                         : datarep_write_c,
                 datarep_extent, d);
    if (ret)
        free(d);
    wf_tmp_free(&t);
    wf_error(ierror, ret);
}
