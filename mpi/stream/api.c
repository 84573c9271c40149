/* SPDX-License-Identifier: BSD-3-Clause */
/* The enqueueing calls as programs see them: arguments are checked as those of the calls that they
 * are named after.  Names and parameters are MPICH's, and in the same manner where MPICH has none.
 * Any thread. */
#include "mpi/api/bind.h"
#include "mpi/stream/stream.h"

static int usable(const struct wm_type *t, const char *arg, MPI_Datatype h)
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
    if (usable(t, "argument 3 (datatype)", h))
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
    if (usable(t, "argument 3 (datatype)", h))
        return MPI_ERR_TYPE;
    if ((unsigned)source >= (unsigned)c->size && source != MPI_PROC_NULL &&
        source != MPI_ANY_SOURCE)
        return wm_bad_source("argument 4 (source)", c, source);
    if (tag < 0 && tag != MPI_ANY_TAG)
        return wm_bad_recv_tag("argument 5 (tag)", tag);
    return wm_bad_address(buf, count, t) ? wm_bad_buffer("argument 1 (buf)", buf, t) : MPI_SUCCESS;
}

/* The library is up and the communicator lives; else *err is what the call returns. */
static struct wm_comm *comm_of(MPI_Comm h, const char *arg, const char *call, int *err)
{
    struct wm_comm *c = NULL;
    if (rt_unlikely(!rt_load_relaxed(&wm_state.users)))
        *err = wm_bad_phase(call);
    else if (rt_unlikely(!(c = wm_comm_get(h))))
        *err = wm_raise_comm(NULL, wm_bad_comm(arg, h), call);
    return c;
}

static int raise(struct wm_comm *c, int err, const char *call)
{
    return err ? wm_raise_comm(c, err, call) : MPI_SUCCESS;
}

static int send(const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                MPI_Comm comm, const char *call)
{
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_of(comm, "argument 6 (comm)", call, &err);
    if (!c)
        return err;
    err = check_send(c, buf, count, type, dest, tag);
    if (!err)
        err = wm_xstream_send(buf, count, wm_type_get(type), dest, tag, c, NULL);
    return raise(c, err, call);
}

static int isend(const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                 MPI_Comm comm, MPI_Request *request, const char *call)
{
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_of(comm, "argument 6 (comm)", call, &err);
    if (!c)
        return err;
    err = request ? check_send(c, buf, count, type, dest, tag)
                  : wm_bad_null("argument 7 (request)", MPI_ERR_ARG);
    if (!err)
        err = wm_xstream_send(buf, count, wm_type_get(type), dest, tag, c, request);
    return raise(c, err, call);
}

static int recv(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                MPI_Status *status, const char *call)
{
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_of(comm, "argument 6 (comm)", call, &err);
    if (!c)
        return err;
    err = check_recv(c, buf, count, type, source, tag);
    if (!err)
        err = wm_xstream_recv(buf, count, wm_type_get(type), source, tag, c, status);
    return raise(c, err, call);
}

static int irecv(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                 MPI_Request *request, const char *call)
{
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_of(comm, "argument 6 (comm)", call, &err);
    if (!c)
        return err;
    err = request ? check_recv(c, buf, count, type, source, tag)
                  : wm_bad_null("argument 7 (request)", MPI_ERR_ARG);
    if (!err)
        err = wm_xstream_irecv(buf, count, wm_type_get(type), source, tag, c, request);
    return raise(c, err, call);
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
    return raise(NULL, wm_xstream_wait(request, status, 0), call);
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
    return raise(NULL, err, call);
}
WM_WEAK(MPIX_Waitall_enqueue);

/* ---- collectives ---- */

static int check_op(MPI_Op op, MPI_Datatype type, const char *arg)
{
    const struct wm_op *o = wm_op_get(op);
    if (!o)
        return wm_bad_op(arg, op);
    return wm_op_allows(o, wm_type_get(type)) ? MPI_SUCCESS : wm_bad_op_type(arg, op, type);
}

/* One side: count and type.  Arguments are numbered from `first`. */
static int check_side(const void *buf, MPI_Count count, MPI_Datatype h, const char *args[3])
{
    struct wm_type *t = wm_type_get(h);
    if (count < 0)
        return wm_bad_count(args[1], count);
    if (usable(t, args[2], h))
        return MPI_ERR_TYPE;
    return wm_bad_address(buf, count, t) ? wm_bad_buffer(args[0], buf, t) : MPI_SUCCESS;
}

static int allreduce(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type,
                     MPI_Op op, MPI_Comm comm, const char *call)
{
    const char *recv_args[] = { "argument 2 (recvbuf)", "argument 3 (count)",
                                "argument 4 (datatype)" };
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_of(comm, "argument 6 (comm)", call, &err);
    if (!c)
        return err;
    struct wm_type *t = wm_type_get(type);
    err = check_side(recvbuf, count, type, recv_args);
    if (!err)
        err = check_op(op, type, "argument 5 (op)");
    if (!err && sendbuf != MPI_IN_PLACE && wm_bad_address(sendbuf, count, t))
        err = wm_bad_buffer("argument 1 (sendbuf)", sendbuf, t);
    struct wm_xstream_coll a = { COLL_ALLREDUCE, sendbuf, recvbuf, count, count, t, t,
                                 wm_op_get(op),  0 };
    return raise(c, err ? err : wm_xstream_coll(c, &a), call);
}

WM_EXPORT int PMPIX_Allreduce_enqueue(const void *sendbuf, void *recvbuf, int count,
                                      MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    return allreduce(sendbuf, recvbuf, count, datatype, op, comm, "MPIX_Allreduce_enqueue");
}
WM_WEAK(MPIX_Allreduce_enqueue);

WM_EXPORT int PMPIX_Allreduce_enqueue_c(const void *sendbuf, void *recvbuf, MPI_Count count,
                                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    return allreduce(sendbuf, recvbuf, count, datatype, op, comm, "MPIX_Allreduce_enqueue_c");
}
WM_WEAK(MPIX_Allreduce_enqueue_c);

WM_EXPORT int PMPIX_Reduce_enqueue(const void *sendbuf, void *recvbuf, int count,
                                   MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm)
{
    static const char call[] = "MPIX_Reduce_enqueue";
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_of(comm, "argument 7 (comm)", call, &err);
    if (!c)
        return err;
    struct wm_type *t = wm_type_get(datatype);
    const char *args[] = { root == c->rank ? "argument 2 (recvbuf)" : "argument 1 (sendbuf)",
                           "argument 3 (count)", "argument 4 (datatype)" };
    if ((unsigned)root >= (unsigned)c->size)
        err = wm_bad_root("argument 6 (root)", c, root);
    if (!err)
        err = check_side(root == c->rank ? recvbuf : sendbuf, count, datatype, args);
    if (!err)
        err = check_op(op, datatype, "argument 5 (op)");
    if (!err && sendbuf == MPI_IN_PLACE && root != c->rank)
        err = wm_bad_in_place("argument 1 (sendbuf)", c);
    if (!err && sendbuf != MPI_IN_PLACE && wm_bad_address(sendbuf, count, t))
        err = wm_bad_buffer("argument 1 (sendbuf)", sendbuf, t);
    struct wm_xstream_coll a = { COLL_REDUCE, sendbuf, recvbuf,       count, count,
                                 t,           t,       wm_op_get(op), root };
    return raise(c, err ? err : wm_xstream_coll(c, &a), call);
}
WM_WEAK(MPIX_Reduce_enqueue);

WM_EXPORT int PMPIX_Bcast_enqueue(void *buffer, int count, MPI_Datatype datatype, int root,
                                  MPI_Comm comm)
{
    static const char call[] = "MPIX_Bcast_enqueue";
    const char *args[] = { "argument 1 (buffer)", "argument 2 (count)", "argument 3 (datatype)" };
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_of(comm, "argument 5 (comm)", call, &err);
    if (!c)
        return err;
    struct wm_type *t = wm_type_get(datatype);
    err = (unsigned)root < (unsigned)c->size ? check_side(buffer, count, datatype, args)
                                             : wm_bad_root("argument 4 (root)", c, root);
    struct wm_xstream_coll a = {
        .kind = COLL_BCAST, .rbuf = buffer, .rcount = count, .rtype = t, .root = root
    };
    return raise(c, err ? err : wm_xstream_coll(c, &a), call);
}
WM_WEAK(MPIX_Bcast_enqueue);

/* Allgather and alltoall. */
static int equal(enum coll_kind kind, const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                 void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                 const char *call)
{
    const char *send_args[] = { "argument 1 (sendbuf)", "argument 2 (sendcount)",
                                "argument 3 (sendtype)" };
    const char *recv_args[] = { "argument 4 (recvbuf)", "argument 5 (recvcount)",
                                "argument 6 (recvtype)" };
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_of(comm, "argument 7 (comm)", call, &err);
    if (!c)
        return err;
    if (sendbuf != MPI_IN_PLACE)
        err = check_side(sendbuf, sendcount, sendtype, send_args);
    if (!err)
        err = check_side(recvbuf, recvcount, recvtype, recv_args);
    struct wm_xstream_coll a = { kind,      sendbuf,
                                 recvbuf,   sendcount,
                                 recvcount, sendbuf == MPI_IN_PLACE ? NULL : wm_type_get(sendtype),
                                 NULL,      NULL,
                                 0 };
    a.rtype = wm_type_get(recvtype);
    return raise(c, err ? err : wm_xstream_coll(c, &a), call);
}

WM_EXPORT int PMPIX_Allgather_enqueue(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                                      void *recvbuf, int recvcount, MPI_Datatype recvtype,
                                      MPI_Comm comm)
{
    return equal(COLL_ALLGATHER, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
                 "MPIX_Allgather_enqueue");
}
WM_WEAK(MPIX_Allgather_enqueue);

WM_EXPORT int PMPIX_Alltoall_enqueue(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                                     void *recvbuf, int recvcount, MPI_Datatype recvtype,
                                     MPI_Comm comm)
{
    return equal(COLL_ALLTOALL, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
                 "MPIX_Alltoall_enqueue");
}
WM_WEAK(MPIX_Alltoall_enqueue);

WM_EXPORT int PMPIX_Barrier_enqueue(MPI_Comm comm)
{
    static const char call[] = "MPIX_Barrier_enqueue";
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_of(comm, "argument 1 (comm)", call, &err);
    struct wm_xstream_coll a = { .kind = COLL_BARRIER };
    return c ? raise(c, wm_xstream_coll(c, &a), call) : err;
}
WM_WEAK(MPIX_Barrier_enqueue);
