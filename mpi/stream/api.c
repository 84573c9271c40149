/* SPDX-License-Identifier: BSD-3-Clause */
/* The enqueued messages of the API: arguments are checked as in the calls after which they are
 * named.  Names and parameters are MPICH's.  Any thread. */
#include "mpi/api/bind.h"
#include "mpi/stream/stream.h"

int wm_xstream_usable(const struct wm_type *t, const char *arg, MPI_Datatype h)
{
    return wm_usable_type(t) ? MPI_SUCCESS : wm_bad_type(arg, h);
}

/* ---- messages ---- */

static int check_send(struct wm_comm *c, const void *buf, MPI_Count count, MPI_Datatype h, int dest,
                      int tag)
{
    struct wm_type *t = wm_type_get(h);
    if (count < 0)
        return wm_bad_count("argument 2 (count)", count);
    if (wm_xstream_usable(t, "argument 3 (datatype)", h))
        return MPI_ERR_TYPE;
    if ((unsigned)dest >= (unsigned)c->size && dest != MPI_PROC_NULL)
        return wm_bad_rank("argument 4 (dest)", c, dest);
    if (tag < 0)
        return wm_bad_tag("argument 5 (tag)", tag);
    return wm_bad_address(buf, count, t) ? wm_bad_buffer("argument 1 (buf)", buf, t) : MPI_SUCCESS;
}

static int check_recv(struct wm_comm *c, const void *buf, MPI_Count count, MPI_Datatype h,
                      int source, int tag)
{
    struct wm_type *t = wm_type_get(h);
    if (count < 0)
        return wm_bad_count("argument 2 (count)", count);
    if (wm_xstream_usable(t, "argument 3 (datatype)", h))
        return MPI_ERR_TYPE;
    if ((unsigned)source >= (unsigned)c->size && source != MPI_PROC_NULL &&
        source != MPI_ANY_SOURCE)
        return wm_bad_source("argument 4 (source)", c, source);
    if (tag < 0 && tag != MPI_ANY_TAG)
        return wm_bad_recv_tag("argument 5 (tag)", tag);
    return wm_bad_address(buf, count, t) ? wm_bad_buffer("argument 1 (buf)", buf, t) : MPI_SUCCESS;
}

struct wm_comm *wm_xstream_comm_of(MPI_Comm h, const char *arg, const char *call, int *err)
{
    struct wm_comm *c = NULL;
    if (rt_unlikely(!rt_load_relaxed(&wm_state.users)))
        *err = wm_bad_phase(call);
    else if (rt_unlikely(!(c = wm_comm_get(h))))
        *err = wm_raise_comm(NULL, wm_bad_comm(arg, h), call);
    return c;
}

int wm_xstream_raise(struct wm_comm *c, int err, const char *call)
{
    return err ? wm_raise_comm(c, err, call) : MPI_SUCCESS;
}

static int send(const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                MPI_Comm comm, const char *call)
{
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 6 (comm)", call, &err);
    if (!c)
        return err;
    err = check_send(c, buf, count, type, dest, tag);
    if (!err)
        err = wm_xstream_send(buf, count, wm_type_get(type), dest, tag, c, NULL);
    return wm_xstream_raise(c, err, call);
}

static int isend(const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                 MPI_Comm comm, MPI_Request *request, const char *call)
{
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 6 (comm)", call, &err);
    if (!c)
        return err;
    err = request ? check_send(c, buf, count, type, dest, tag)
                  : wm_bad_null("argument 7 (request)", MPI_ERR_ARG);
    if (!err)
        err = wm_xstream_send(buf, count, wm_type_get(type), dest, tag, c, request);
    return wm_xstream_raise(c, err, call);
}

static int recv(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                MPI_Status *status, const char *call)
{
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 6 (comm)", call, &err);
    if (!c)
        return err;
    err = check_recv(c, buf, count, type, source, tag);
    if (!err)
        err = wm_xstream_recv(buf, count, wm_type_get(type), source, tag, c, status);
    return wm_xstream_raise(c, err, call);
}

static int irecv(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                 MPI_Request *request, const char *call)
{
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 6 (comm)", call, &err);
    if (!c)
        return err;
    err = request ? check_recv(c, buf, count, type, source, tag)
                  : wm_bad_null("argument 7 (request)", MPI_ERR_ARG);
    if (!err)
        err = wm_xstream_irecv(buf, count, wm_type_get(type), source, tag, c, request);
    return wm_xstream_raise(c, err, call);
}

WM_EXPORT int PMPIX_Send_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest,
                                 int tag, MPI_Comm comm)
{
    return send(buf, count, datatype, dest, tag, comm, "MPIX_Send_enqueue");
}
WM_WEAK(MPIX_Send_enqueue);

WM_EXPORT int PMPIX_Send_enqueue_c(const void *buf, MPI_Count count, MPI_Datatype datatype,
                                   int dest, int tag, MPI_Comm comm)
{
    return send(buf, count, datatype, dest, tag, comm, "MPIX_Send_enqueue_c");
}
WM_WEAK(MPIX_Send_enqueue_c);

WM_EXPORT int PMPIX_Isend_enqueue(const void *buf, int count, MPI_Datatype datatype, int dest,
                                  int tag, MPI_Comm comm, MPI_Request *request)
{
    return isend(buf, count, datatype, dest, tag, comm, request, "MPIX_Isend_enqueue");
}
WM_WEAK(MPIX_Isend_enqueue);

WM_EXPORT int PMPIX_Isend_enqueue_c(const void *buf, MPI_Count count, MPI_Datatype datatype,
                                    int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    return isend(buf, count, datatype, dest, tag, comm, request, "MPIX_Isend_enqueue_c");
}
WM_WEAK(MPIX_Isend_enqueue_c);

WM_EXPORT int PMPIX_Recv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag,
                                 MPI_Comm comm, MPI_Status *status)
{
    return recv(buf, count, datatype, source, tag, comm, status, "MPIX_Recv_enqueue");
}
WM_WEAK(MPIX_Recv_enqueue);

WM_EXPORT int PMPIX_Recv_enqueue_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source,
                                   int tag, MPI_Comm comm, MPI_Status *status)
{
    return recv(buf, count, datatype, source, tag, comm, status, "MPIX_Recv_enqueue_c");
}
WM_WEAK(MPIX_Recv_enqueue_c);

WM_EXPORT int PMPIX_Irecv_enqueue(void *buf, int count, MPI_Datatype datatype, int source, int tag,
                                  MPI_Comm comm, MPI_Request *request)
{
    return irecv(buf, count, datatype, source, tag, comm, request, "MPIX_Irecv_enqueue");
}
WM_WEAK(MPIX_Irecv_enqueue);

WM_EXPORT int PMPIX_Irecv_enqueue_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source,
                                    int tag, MPI_Comm comm, MPI_Request *request)
{
    return irecv(buf, count, datatype, source, tag, comm, request, "MPIX_Irecv_enqueue_c");
}
WM_WEAK(MPIX_Irecv_enqueue_c);

WM_EXPORT int PMPIX_Wait_enqueue(MPI_Request *request, MPI_Status *status)
{
    static const char call[] = "MPIX_Wait_enqueue";
    if (rt_unlikely(!rt_load_relaxed(&wm_state.users)))
        return wm_bad_phase(call);
    if (!request)
        return wm_raise_comm(NULL, wm_bad_null("argument 1 (request)", MPI_ERR_REQUEST), call);
    return wm_xstream_raise(NULL, wm_xstream_wait(request, status, 0), call);
}
WM_WEAK(MPIX_Wait_enqueue);

WM_EXPORT int PMPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[],
                                    MPI_Status array_of_statuses[])
{
    static const char call[] = "MPIX_Waitall_enqueue";
    int err = MPI_SUCCESS;
    if (rt_unlikely(!rt_load_relaxed(&wm_state.users)))
        return wm_bad_phase(call);
    if (count < 0)
        return wm_raise_comm(NULL, wm_bad_count("argument 1 (count)", count), call);
    if (count && !array_of_requests)
        return wm_raise_comm(NULL, wm_bad_null("argument 2 (array_of_requests)", MPI_ERR_ARG),
                             call);
    for (int i = 0; i < count && !err; i++)
        err = wm_xstream_wait(&array_of_requests[i],
                              array_of_statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE
                                                                       : &array_of_statuses[i],
                              i);
    return wm_xstream_raise(NULL, err, call);
}
WM_WEAK(MPIX_Waitall_enqueue);
