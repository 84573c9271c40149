/* SPDX-License-Identifier: BSD-3-Clause */
/* What bindings for other languages need of the library: callbacks with a state of their own, the
 * language of attribute values, and an error of their own.  libmpifort_abi calls these
 * (MPIX_Op_set_x(3)).  Any thread.  And addresses of Fortran's constants, for C. */
#include "mpi/api/bind.h"
#include "mpi/base/attr.h"
#include "mpi/core/errh.h"
#include "mpi/op/op.h"

WM_EXPORT int PMPIX_Op_set_x(MPI_Op op, MPIX_User_function_x *function,
                             MPIX_Destructor_function *destructor, void *extra_state)
{
    static const char call[] = "MPIX_Op_set_x";
    struct wm_op *o = wm_op_get(op);
    if (!o || o->predefined)
        return wm_raise_comm(
            NULL, wm_err(MPI_ERR_OP, "argument 1 (op) was not made by MPI_Op_create"), call);
    if (!function)
        return wm_raise_comm(NULL, wm_bad_null("argument 2 (function)", MPI_ERR_ARG), call);
    wm_op_set_x(o, function, destructor, extra_state);
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_Op_set_x);

WM_EXPORT int PMPIX_Errhandler_set_x(MPI_Errhandler errhandler,
                                     MPIX_Errhandler_function_x *function,
                                     MPIX_Destructor_function *destructor, void *extra_state)
{
    static const char call[] = "MPIX_Errhandler_set_x";
    struct wm_errh *e = wm_errh_get(errhandler);
    if (!e || (uintptr_t)errhandler < WM_PREDEFINED_MAX)
        return wm_raise_comm(NULL,
                             wm_err(MPI_ERR_ERRHANDLER, "argument 1 (errhandler) was not made by "
                                                        "MPI_Comm_create_errhandler or its like"),
                             call);
    if (!function)
        return wm_raise_comm(NULL, wm_bad_null("argument 2 (function)", MPI_ERR_ARG), call);
    e->extra = function;
    e->destroy = destructor;
    e->state = extra_state;
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_Errhandler_set_x);

WM_EXPORT int PMPIX_Keyval_set_x(int keyval, int language, MPIX_Destructor_function *destructor)
{
    int err = wm_keyval_set_x(keyval, language, destructor);
    return err ? wm_raise_comm(NULL, err, "MPIX_Keyval_set_x") : MPI_SUCCESS;
}
WM_WEAK(MPIX_Keyval_set_x);

WM_EXPORT int PMPIX_Attr_language(int keyval, int language)
{
    wm_attr_set_language(keyval, language);
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_Attr_language);

WM_EXPORT void PMPIX_Caller_set(const MPIX_Caller *caller)
{
    bool mpich = caller->status_nbytes == sizeof(struct wm_mpich_status);
    wm_caller = (struct wm_caller){
        .abi = mpich ? WM_MPICH : WM_OMPI,
        .any_source = caller->any_source,
        .proc_null = caller->proc_null,
        .any_tag = caller->any_tag,
        .code = caller->code,
    };
    MPI_Request null = caller->request_null;
    wm_caller.null = mpich ? (MPI_Request)((uintptr_t)null ^ WM_MPICH_BIT) : null;
}
WM_WEAK(MPIX_Caller_set);

WM_EXPORT int PMPIX_Comm_raise(MPI_Comm comm, int errorclass, const char *call, const char *text)
{
    return wm_raise_comm(wm_comm_get(comm), wm_err(errorclass, "%s", text), call);
}
WM_WEAK(MPIX_Comm_raise);

/* libmpifort_abi stores the addresses of its constants here when it is loaded.  Without that
 * library no status has these addresses. */
static MPI_Status no_status, no_statuses;
WM_EXPORT MPI_Fint *MPI_F_STATUS_IGNORE = &no_status.MPI_SOURCE;
WM_EXPORT MPI_Fint *MPI_F_STATUSES_IGNORE = &no_statuses.MPI_SOURCE;
WM_EXPORT MPI_F08_status *MPI_F08_STATUS_IGNORE = &no_status;
WM_EXPORT MPI_F08_status *MPI_F08_STATUSES_IGNORE = &no_statuses;
