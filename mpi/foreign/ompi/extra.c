/* SPDX-License-Identifier: BSD-3-Clause */
/* Procedures and functions of Open MPI's ABI that are not in the standard ABI: Fortran's handles,
 * functions that copy attributes, markers among pointers. */
#include "mpi/foreign/convert.h"
#include "mpi/foreign/ompi/data.h"

#define EXPORT __attribute__((visibility("default")))

typedef int fint;

int *wx_weights_in(const int *weights)
{
    if (weights == (int *)2)
        return MPI_UNWEIGHTED;
    return weights == (int *)3 ? MPI_WEIGHTS_EMPTY : (int *)(uintptr_t)weights;
}

bool wx_is_ignored(const void *status)
{
    return status == mpi_fortran_status_ignore_ || status == mpi_fortran_statuses_ignore_;
}

MPI_T_pvar_handle wx_pvar_in(MPI_T_pvar_handle handle)
{
    return (intptr_t)handle == -1 ? MPI_T_PVAR_ALL_HANDLES : handle;
}

/* ---- handles in Fortran ---- */

#define FORTRAN(Class, word, type) \
    WX_PROC(fint, Class##_c2f, (type handle)) { return wx_to_fortran(handle); } \
    WX_PROC(type, Class##_f2c, (fint handle)) \
    { \
        return wx_of_fortran(wx_##word##_of_fortran, handle); \
    }

FORTRAN(Comm, comm, wx_MPI_Comm)
FORTRAN(Errhandler, errh, wx_MPI_Errhandler)
FORTRAN(File, file, wx_MPI_File)
FORTRAN(Group, group, wx_MPI_Group)
FORTRAN(Info, info, wx_MPI_Info)
FORTRAN(Message, message, wx_MPI_Message)
FORTRAN(Op, op, wx_MPI_Op)
FORTRAN(Request, request, wx_MPI_Request)
FORTRAN(Session, session, wx_MPI_Session)
FORTRAN(Type, type, wx_MPI_Datatype)
FORTRAN(Win, win, wx_MPI_Win)

/* Open MPI 5 declares this procedure, which no version of the standard has. */
WX_PROC(int, Session_set_info, (wx_MPI_Session session, wx_MPI_Info info))
{
    (void)session, (void)info;
    wx_ready();
    return wx_error_out(WX(Comm_raise)(MPI_COMM_NULL, MPI_ERR_UNSUPPORTED_OPERATION,
                                       "MPI_Session_set_info",
                                       "the info of a session is that of MPI_Session_init"));
}

/* ---- attributes ---- */

/* MPI_COMM_NULL_COPY_FN and so on: these names are macros for functions of Open MPI. */
#define ATTRIBUTES(prefix, type) \
    EXPORT int prefix##NULL_COPY_FN(type object, int keyval, void *extra, void *in, void *out, \
                                    int *flag); \
    EXPORT int prefix##DUP_FN(type object, int keyval, void *extra, void *in, void *out, \
                              int *flag); \
    EXPORT int prefix##NULL_DELETE_FN(type object, int keyval, void *value, void *extra); \
    int prefix##NULL_COPY_FN(type object, int keyval, void *extra, void *in, void *out, int *flag) \
    { \
        (void)object, (void)keyval, (void)extra, (void)in, (void)out; \
        *flag = 0; \
        return 0; \
    } \
    int prefix##DUP_FN(type object, int keyval, void *extra, void *in, void *out, int *flag) \
    { \
        (void)object, (void)keyval, (void)extra; \
        *flag = 1; \
        *(void **)out = in; \
        return 0; \
    } \
    int prefix##NULL_DELETE_FN(type object, int keyval, void *value, void *extra) \
    { \
        (void)object, (void)keyval, (void)value, (void)extra; \
        return 0; \
    }

ATTRIBUTES(OMPI_C_MPI_, wx_MPI_Comm)
ATTRIBUTES(OMPI_C_MPI_COMM_, wx_MPI_Comm)
ATTRIBUTES(OMPI_C_MPI_TYPE_, wx_MPI_Datatype)
ATTRIBUTES(OMPI_C_MPI_WIN_, wx_MPI_Win)
