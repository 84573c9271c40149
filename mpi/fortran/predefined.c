/* SPDX-License-Identifier: BSD-3-Clause */
/* Fortran's predefined callbacks.  They are constants in C, so MPI_COMM_CREATE_KEYVAL and its like
 * compare addresses; a program may also call them.  Any thread. */
#include "mpi/fortran/hand.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* Here these are names of procedures. */
#undef MPI_NULL_COPY_FN
#undef MPI_DUP_FN
#undef MPI_NULL_DELETE_FN
#undef MPI_COMM_NULL_COPY_FN
#undef MPI_COMM_DUP_FN
#undef MPI_COMM_NULL_DELETE_FN
#undef MPI_TYPE_NULL_COPY_FN
#undef MPI_TYPE_DUP_FN
#undef MPI_TYPE_NULL_DELETE_FN
#undef MPI_WIN_NULL_COPY_FN
#undef MPI_WIN_DUP_FN
#undef MPI_WIN_NULL_DELETE_FN
#undef MPI_CONVERSION_FN_NULL
#undef MPI_CONVERSION_FN_NULL_C

/* The functions for communicators serve datatypes and windows as well. */
WF_EXPORT void mpi_comm_null_copy_fn_(wf_int *object, wf_int *keyval, void *extra, void *in,
                                      void *out, wf_int *flag, wf_int *ierror)
{
    (void)object, (void)keyval, (void)extra, (void)in, (void)out;
    *flag = wf_false;
    *ierror = MPI_SUCCESS;
}
WF_OTHERS(mpi_comm_null_copy_fn, MPI_COMM_NULL_COPY_FN);
WF_ALSO(mpi_comm_null_copy_fn, mpi_type_null_copy_fn, MPI_TYPE_NULL_COPY_FN);
WF_ALSO(mpi_comm_null_copy_fn, mpi_win_null_copy_fn, MPI_WIN_NULL_COPY_FN);
WF_ALSO(mpi_comm_null_copy_fn, mpi_null_copy_fn, MPI_NULL_COPY_FN);

WF_EXPORT void mpi_comm_dup_fn_(wf_int *object, wf_int *keyval, MPI_Aint *extra, MPI_Aint *in,
                                MPI_Aint *out, wf_int *flag, wf_int *ierror)
{
    (void)object, (void)keyval, (void)extra;
    *out = *in;
    *flag = wf_true;
    *ierror = MPI_SUCCESS;
}
WF_OTHERS(mpi_comm_dup_fn, MPI_COMM_DUP_FN);
WF_ALSO(mpi_comm_dup_fn, mpi_type_dup_fn, MPI_TYPE_DUP_FN);
WF_ALSO(mpi_comm_dup_fn, mpi_win_dup_fn, MPI_WIN_DUP_FN);

/* Of MPI_KEYVAL_CREATE, whose values are default INTEGERs. */
WF_EXPORT void mpi_dup_fn_(wf_int *comm, wf_int *keyval, wf_int *extra, wf_int *in, wf_int *out,
                           wf_int *flag, wf_int *ierror)
{
    (void)comm, (void)keyval, (void)extra;
    *out = *in;
    *flag = wf_true;
    *ierror = MPI_SUCCESS;
}
WF_OTHERS(mpi_dup_fn, MPI_DUP_FN);

WF_EXPORT void mpi_comm_null_delete_fn_(wf_int *object, wf_int *keyval, void *value, void *extra,
                                        wf_int *ierror)
{
    (void)object, (void)keyval, (void)value, (void)extra;
    *ierror = MPI_SUCCESS;
}
WF_OTHERS(mpi_comm_null_delete_fn, MPI_COMM_NULL_DELETE_FN);
WF_ALSO(mpi_comm_null_delete_fn, mpi_type_null_delete_fn, MPI_TYPE_NULL_DELETE_FN);
WF_ALSO(mpi_comm_null_delete_fn, mpi_win_null_delete_fn, MPI_WIN_NULL_DELETE_FN);
WF_ALSO(mpi_comm_null_delete_fn, mpi_null_delete_fn, MPI_NULL_DELETE_FN);

/* Of MPI_REGISTER_DATAREP: never called. */
WF_EXPORT void mpi_conversion_fn_null_(void) {}
WF_OTHERS(mpi_conversion_fn_null, MPI_CONVERSION_FN_NULL);
WF_ALSO(mpi_conversion_fn_null, mpi_conversion_fn_null_c, MPI_CONVERSION_FN_NULL_C);

#ifdef WF_CALLBACK
WF_CALLBACK(mpi_comm_null_copy_fn_, mpi_comm_null_copy_fn)
WF_CALLBACK(mpi_comm_null_copy_fn_, mpi_type_null_copy_fn)
WF_CALLBACK(mpi_comm_null_copy_fn_, mpi_win_null_copy_fn)
WF_CALLBACK(mpi_comm_dup_fn_, mpi_comm_dup_fn)
WF_CALLBACK(mpi_comm_dup_fn_, mpi_type_dup_fn)
WF_CALLBACK(mpi_comm_dup_fn_, mpi_win_dup_fn)
WF_CALLBACK(mpi_comm_null_delete_fn_, mpi_comm_null_delete_fn)
WF_CALLBACK(mpi_comm_null_delete_fn_, mpi_type_null_delete_fn)
WF_CALLBACK(mpi_comm_null_delete_fn_, mpi_win_null_delete_fn)
WF_CALLBACK(mpi_conversion_fn_null_, mpi_conversion_fn_null)
#endif

/* A program that is not position-independent has its own address for each name whose address it
 * takes, so each name is an entry. */
#define NAMES(name, NAME) \
    (wf_procedure *)name##_, (wf_procedure *)name##__, (wf_procedure *)name, (wf_procedure *)NAME
static wf_procedure *const names[][16] = {
    [WF_NULL_COPY] = { NAMES(mpi_comm_null_copy_fn, MPI_COMM_NULL_COPY_FN),
                       NAMES(mpi_type_null_copy_fn, MPI_TYPE_NULL_COPY_FN),
                       NAMES(mpi_win_null_copy_fn, MPI_WIN_NULL_COPY_FN),
                       NAMES(mpi_null_copy_fn, MPI_NULL_COPY_FN) },
    [WF_DUP] = { NAMES(mpi_comm_dup_fn, MPI_COMM_DUP_FN), NAMES(mpi_type_dup_fn, MPI_TYPE_DUP_FN),
                 NAMES(mpi_win_dup_fn, MPI_WIN_DUP_FN), NAMES(mpi_dup_fn, MPI_DUP_FN) },
    [WF_NULL_DELETE] = { NAMES(mpi_comm_null_delete_fn, MPI_COMM_NULL_DELETE_FN),
                         NAMES(mpi_type_null_delete_fn, MPI_TYPE_NULL_DELETE_FN),
                         NAMES(mpi_win_null_delete_fn, MPI_WIN_NULL_DELETE_FN),
                         NAMES(mpi_null_delete_fn, MPI_NULL_DELETE_FN) },
    [WF_NO_CONVERSION] = { NAMES(mpi_conversion_fn_null, MPI_CONVERSION_FN_NULL),
                           NAMES(mpi_conversion_fn_null_c, MPI_CONVERSION_FN_NULL_C) },
};

bool wf_is_predefined(wf_procedure *function, enum wf_predefined which)
{
    for (int i = 0; i < 16; i++)
        if (function == names[which][i] && function)
            return true;
    return false;
}
