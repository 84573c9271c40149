/* SPDX-License-Identifier: BSD-3-Clause */
/* Procedures of MPICH's ABI that are not in the standard ABI: conversions to Fortran's handles,
 * which are the same ints; and functions and data of MPICH. */
#include <string.h>
#include "mpi/foreign/convert.h"
#include "mpi/foreign/mpich/data.h"

typedef int fint;

int *wx_weights_in(const int *weights)
{
    if (weights == &wx_unweighted_cell)
        return MPI_UNWEIGHTED;
    return weights == &wx_weights_empty_cell ? MPI_WEIGHTS_EMPTY : (int *)(uintptr_t)weights;
}

bool wx_is_ignored(const void *status)
{
    return status == mpipriv1_ + 8 || status == mpipriv2_ || status == wx_f08_status_ignore ||
           status == wx_f08_statuses_ignore;
}

MPI_T_pvar_handle wx_pvar_in(MPI_T_pvar_handle handle)
{
    return (void *)handle == &wx_all_handles_cell ? MPI_T_PVAR_ALL_HANDLES : handle;
}

/* ---- handles as integers ---- */

#define SAME(Class, type) \
    WX_PROC(fint, Class##_c2f, (type handle)) { return handle; } \
    WX_PROC(type, Class##_f2c, (fint handle)) { return handle; } \
    WX_PROC(int, Class##_toint, (type handle)) { return handle; } \
    WX_PROC(type, Class##_fromint, (int handle)) { return handle; }

SAME(Comm, wx_MPI_Comm)
SAME(Errhandler, wx_MPI_Errhandler)
SAME(Group, wx_MPI_Group)
SAME(Info, wx_MPI_Info)
SAME(Message, wx_MPI_Message)
SAME(Op, wx_MPI_Op)
SAME(Request, wx_MPI_Request)
SAME(Session, wx_MPI_Session)
SAME(Type, wx_MPI_Datatype)
SAME(Win, wx_MPI_Win)

WX_PROC(fint, File_c2f, (wx_MPI_File handle)) { return (fint)(intptr_t)handle; }
WX_PROC(wx_MPI_File, File_f2c, (fint handle)) { return (wx_MPI_File)(uintptr_t)(unsigned)handle; }
WX_PROC(int, File_toint, (wx_MPI_File handle)) { return (int)(intptr_t)handle; }
WX_PROC(wx_MPI_File, File_fromint, (int handle))
{
    return (wx_MPI_File)(uintptr_t)(unsigned)handle;
}

/* ---- attributes ---- */

/* MPI_DUP_FN, MPI_COMM_DUP_FN, MPI_TYPE_DUP_FN and MPI_WIN_DUP_FN. */
__attribute__((visibility("default"))) int MPIR_Dup_fn(int object, int keyval, void *extra,
                                                       void *in, void *out, int *flag);
int MPIR_Dup_fn(int object, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)object, (void)keyval, (void)extra;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}
