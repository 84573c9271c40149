/* SPDX-License-Identifier: BSD-3-Clause */
/* What a Fortran library in a foreign ABI needs of its C library besides procedures: callbacks with
 * a state and the language of attributes (MPIX_Op_set_x(3)), in the ABI's handles.  Two kinds of
 * sources include this: those of this folder, in which the ABI's types are wx_MPI_Op and so on, and
 * those of mpi/fortran, which are compiled with the ABI's mpi.h. */
#ifndef WX_FORTRAN_H
#define WX_FORTRAN_H

#ifdef WF_ABI
#define wx_MPI_Comm MPI_Comm
#define wx_MPI_Op MPI_Op
#define wx_MPI_Datatype MPI_Datatype
#define wx_MPI_Errhandler MPI_Errhandler
typedef void MPIX_Destructor_function(void *extra_state);
typedef void MPIX_Errhandler_function_x(void *object, int *error_code, void *extra_state);
#define MPIX_ATTR_INT 1
#define MPIX_ATTR_AINT 2
#define MPIX_ATTR_C 0
typedef struct {
    void *iov_base;
    MPI_Aint iov_len;
} MPIX_Iov;
#define PMPIX_Comm_raise wx_comm_raise
#define PMPIX_Type_iov_len wx_type_iov_len
#define PMPIX_Type_iov wx_type_iov
#define PMPIX_Op_set_x wx_op_set_x
#define PMPIX_Errhandler_set_x wx_errhandler_set_x
#define PMPIX_Keyval_set_x wx_keyval_set_x
#define PMPIX_Attr_language wx_attr_language
#endif

typedef void wx_user_function_x(void *in, void *inout, MPI_Count len, wx_MPI_Datatype datatype,
                                void *state);
#pragma GCC visibility push(default)
/* These return error codes of the ABI. */
int wx_op_set_x(wx_MPI_Op op, wx_user_function_x *call, MPIX_Destructor_function *destructor,
                void *state);
int wx_errhandler_set_x(wx_MPI_Errhandler errhandler, MPIX_Errhandler_function_x *call,
                        MPIX_Destructor_function *destructor, void *state);
int wx_keyval_set_x(int keyval, int language, MPIX_Destructor_function *destructor);
int wx_attr_language(int keyval, int language);
int wx_comm_raise(wx_MPI_Comm comm, int errorclass, const char *call, const char *text);
int wx_type_iov_len(wx_MPI_Datatype datatype, MPI_Count most, MPI_Count *n, MPI_Count *nbytes);
int wx_type_iov(wx_MPI_Datatype datatype, MPI_Count first, MPIX_Iov iov[], MPI_Count most,
                MPI_Count *n);
#pragma GCC visibility pop

#endif
