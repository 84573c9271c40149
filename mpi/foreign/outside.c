/* SPDX-License-Identifier: BSD-3-Clause */
/* Procedures that are not in the standard ABI and are the same in each foreign one: conversions of
 * statuses, removed procedures of MPI-1, extensions. */
#include <string.h>
#include "mpi/foreign/convert.h"
#include "mpi/foreign/fortran.h"

typedef void comm_fn(wx_MPI_Comm *comm, int *code, ...);
extern int
wx_Comm_create_errhandler(comm_fn *user,
                          wx_MPI_Errhandler *errhandler) __asm__("PMPI_Comm_create_errhandler");

typedef int fint;

/* ---- statuses: the same bytes in all languages ---- */

static int status_copy(void *to, const void *from)
{
    bool ignored = from == (const void *)WX_STATUS_IGNORE || wx_is_ignored(from);
    if (!to || !from || ignored)
        return wx_error_out(MPI_ERR_ARG);
    memcpy(to, from, sizeof(wx_MPI_Status));
    return MPI_SUCCESS;
}

WX_PROC(int, Status_c2f, (const wx_MPI_Status *c, fint *f)) { return status_copy(f, c); }
WX_PROC(int, Status_f2c, (const fint *f, wx_MPI_Status *c)) { return status_copy(c, f); }
WX_PROC(int, Status_c2f08, (const wx_MPI_Status *c, wx_MPI_Status *f)) { return status_copy(f, c); }
WX_PROC(int, Status_f082c, (const wx_MPI_Status *f, wx_MPI_Status *c)) { return status_copy(c, f); }
WX_PROC(int, Status_f2f08, (const fint *f, wx_MPI_Status *f08)) { return status_copy(f08, f); }
WX_PROC(int, Status_f082f, (const wx_MPI_Status *f08, fint *f)) { return status_copy(f, f08); }

/* ---- removed from the standard in MPI-3.0 ---- */

WX_PROC(int, Address, (const void *location, MPI_Aint *address))
{
    wx_ready();
    return wx_error_out(WX(Get_address)(location, address));
}

WX_PROC(int, Errhandler_create, (comm_fn * user, wx_MPI_Errhandler *errhandler))
{
    return wx_Comm_create_errhandler(user, errhandler);
}

WX_PROC(int, Errhandler_get, (wx_MPI_Comm comm, wx_MPI_Errhandler *errhandler))
{
    MPI_Errhandler h = MPI_ERRHANDLER_NULL;
    wx_ready();
    int ret = WX(Comm_get_errhandler)(wx_comm_in(comm), errhandler ? &h : NULL);
    if (!ret)
        *errhandler = wx_errh_out(h);
    return wx_error_out(ret);
}

WX_PROC(int, Errhandler_set, (wx_MPI_Comm comm, wx_MPI_Errhandler errhandler))
{
    wx_ready();
    return wx_error_out(WX(Comm_set_errhandler)(wx_comm_in(comm), wx_errh_in(errhandler)));
}

/* The lower bound and the extent of a datatype. */
static int extent_of(wx_MPI_Datatype datatype, MPI_Aint *lb, MPI_Aint *extent)
{
    wx_ready();
    return WX(Type_get_extent)(wx_type_in(datatype), lb, extent);
}

WX_PROC(int, Type_extent, (wx_MPI_Datatype datatype, MPI_Aint *extent))
{
    MPI_Aint lb;
    return wx_error_out(extent_of(datatype, &lb, extent));
}

WX_PROC(int, Type_lb, (wx_MPI_Datatype datatype, MPI_Aint *displacement))
{
    MPI_Aint extent;
    return wx_error_out(extent_of(datatype, displacement, &extent));
}

WX_PROC(int, Type_ub, (wx_MPI_Datatype datatype, MPI_Aint *displacement))
{
    MPI_Aint lb, extent;
    int ret = extent_of(datatype, &lb, &extent);
    if (!ret && displacement)
        *displacement = lb + extent;
    return wx_error_out(ret);
}

static int type_made(int ret, MPI_Datatype made, wx_MPI_Datatype *newtype)
{
    if (!ret)
        *newtype = wx_type_out(made);
    return wx_error_out(ret);
}

WX_PROC(int, Type_hindexed,
        (int count, const int lengths[], const MPI_Aint displs[], wx_MPI_Datatype oldtype,
         wx_MPI_Datatype *newtype))
{
    MPI_Datatype made = MPI_DATATYPE_NULL;
    wx_ready();
    int ret = WX(Type_create_hindexed)(count, lengths, displs, wx_type_in(oldtype),
                                       newtype ? &made : NULL);
    return type_made(ret, made, newtype);
}

WX_PROC(int, Type_hvector,
        (int count, int length, MPI_Aint stride, wx_MPI_Datatype oldtype, wx_MPI_Datatype *newtype))
{
    MPI_Datatype made = MPI_DATATYPE_NULL;
    wx_ready();
    int ret = WX(Type_create_hvector)(count, length, stride, wx_type_in(oldtype),
                                      newtype ? &made : NULL);
    return type_made(ret, made, newtype);
}

struct members {
    int n, *lengths;
    MPI_Aint *displs;
    MPI_Datatype *types;
    MPI_Aint lb, ub;
    bool has_lb, has_ub;
};

static void member(struct members *m, int length, MPI_Aint displ, wx_MPI_Datatype type)
{
    if (WX_IS_LB(type)) {
        m->lb = m->has_lb && m->lb < displ ? m->lb : displ;
        m->has_lb = true;
    } else if (WX_IS_UB(type)) {
        m->ub = m->has_ub && m->ub > displ ? m->ub : displ;
        m->has_ub = true;
    } else {
        m->lengths[m->n] = length;
        m->displs[m->n] = displ;
        m->types[m->n++] = wx_type_in(type);
    }
}

/* Gives a struct the bounds of its markers. */
static int mark(const struct members *m, MPI_Datatype *made)
{
    MPI_Datatype inner = *made;
    MPI_Aint lb, extent;
    int ret = WX(Type_get_extent)(inner, &lb, &extent);
    if (!ret) {
        MPI_Aint ub = m->has_ub ? m->ub : lb + extent;
        lb = m->has_lb ? m->lb : lb;
        ret = WX(Type_create_resized)(inner, lb, ub - lb, made);
    }
    WX(Type_free)(&inner);
    return ret;
}

WX_PROC(int, Type_struct,
        (int count, const int lengths[], const MPI_Aint displs[], const wx_MPI_Datatype types[],
         wx_MPI_Datatype *newtype))
{
    size_t n = count > 0 ? (size_t)count : 0;
    MPI_Datatype made = MPI_DATATYPE_NULL;
    if (n && !(lengths && displs && types)) {
        wx_ready();
        return wx_error_out(
            WX(Type_create_struct)(count, lengths, displs, NULL, newtype ? &made : NULL));
    }
    struct members m = { .lengths = wx_alloc(n * sizeof *m.lengths),
                         .displs = wx_alloc(n * sizeof *m.displs),
                         .types = wx_alloc(n * sizeof *m.types) };
    wx_ready();
    for (size_t i = 0; i < n; i++)
        member(&m, lengths[i], displs[i], types[i]);
    int ret = WX(Type_create_struct)(count < 0 ? count : m.n, m.lengths, m.displs, m.types,
                                     newtype ? &made : NULL);
    if (!ret && (m.has_lb || m.has_ub))
        ret = mark(&m, &made);
    free(m.lengths);
    free(m.displs);
    free(m.types);
    return type_made(ret, made, newtype);
}

/* ---- extensions ---- */

WX_PROCX(int, GPU_query_support, (int gpu_type, int *is_supported))
{
    wx_ready();
    return wx_error_out(WX(GPU_query_support)(gpu_type, is_supported));
}
#define QUERY(name) \
    WX_PROCX(int, name, (void)) \
    { \
        wx_ready(); \
        return WX(name)(); \
    }
QUERY(Query_cuda_support)
QUERY(Query_ze_support)
QUERY(Query_hip_support)

/* The version of the standard ABI: -1, because the program has another ABI. */
WX_PROC(int, Abi_get_version, (int *major, int *minor))
{
    if (!major || !minor)
        return wx_error_out(MPI_ERR_ARG);
    *major = *minor = -1;
    return MPI_SUCCESS;
}

/* ---- for sections of Fortran ---- */

int wx_comm_raise(wx_MPI_Comm comm, int errorclass, const char *call, const char *text)
{
    return wx_error_out(WX(Comm_raise)(wx_comm_in(comm), wx_error_in(errorclass), call, text));
}

int wx_type_iov_len(wx_MPI_Datatype datatype, MPI_Count most, MPI_Count *n, MPI_Count *nbytes)
{
    return wx_error_out(WX(Type_iov_len)(wx_type_in(datatype), most, n, nbytes));
}

int wx_type_iov(wx_MPI_Datatype datatype, MPI_Count first, MPIX_Iov iov[], MPI_Count most,
                MPI_Count *n)
{
    return wx_error_out(WX(Type_iov)(wx_type_in(datatype), first, iov, most, n));
}
