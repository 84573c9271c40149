/* SPDX-License-Identifier: BSD-3-Clause */
/* The enqueued collectives of the API: arguments are checked as in the calls after which they are
 * named.  MPIX_Allreduce_enqueue is MPICH's; the others follow its form.  Any thread. */
#include "mpi/api/bind.h"
#include "mpi/op/op.h"
#include "mpi/stream/stream.h"

static int check_op(MPI_Op op, MPI_Datatype type, const char *arg)
{
    const struct wm_op *o = wm_op_get(op);
    if (!o)
        return wm_bad_op(arg, op);
    return wm_op_allows(o, wm_type_get(type)) ? MPI_SUCCESS : wm_bad_op_type(arg, op, type);
}

/* One side: buffer, count and type. */
static int check_side(const void *buf, MPI_Count count, MPI_Datatype h, const char *const args[3])
{
    struct wm_type *t = wm_type_get(h);
    if (count < 0)
        return wm_bad_count(args[1], count);
    if (wm_xstream_usable(t, args[2], h))
        return MPI_ERR_TYPE;
    return wm_bad_address(buf, count, t) ? wm_bad_buffer(args[0], buf, t) : MPI_SUCCESS;
}

/* One side of a v form: counts, displacements and type. */
static int check_sides(const struct wm_comm *c, const int *counts, const int *displs,
                       MPI_Datatype h, const char *const args[3])
{
    int err = wm_check_counts(args[0], (struct wm_counts){ counts, false }, c->size);
    if (err)
        return err;
    return displs ? wm_xstream_usable(wm_type_get(h), args[2], h)
                  : wm_bad_null(args[1], MPI_ERR_ARG);
}

static int check_root(const struct wm_comm *c, int root, const char *arg)
{
    return (unsigned)root < (unsigned)c->size ? MPI_SUCCESS : wm_bad_root(arg, c, root);
}

/* Ends a call whose arguments have been checked, with the result `err`. */
static int finish(struct wm_call *call, int err, const char *name)
{
    return wm_xstream_raise(call->comm, err ? err : wm_xstream_coll(call), name);
}

/* The vectors of a v form, if a side has any. */
static int vectors(struct wm_call *call, const int *scounts, const int *sdispls, const int *rcounts,
                   const int *rdispls)
{
    return wm_call_vectors(
        call, NULL, (struct wm_counts){ scounts, false }, (struct wm_displs){ sdispls, false },
        (struct wm_counts){ rcounts, false }, (struct wm_displs){ rdispls, false });
}

/* ---- reductions ---- */

struct reduction {
    enum coll_kind kind;
    const void *sendbuf;
    void *recvbuf;
    MPI_Count count; /* of one block; not used with `counts` */
    const int *counts;
    MPI_Datatype type;
    MPI_Op op;
};

/* Both sides have the same type, also in place. */
static struct wm_call reduce_call(struct wm_comm *c, const struct reduction *a)
{
    struct wm_type *t = wm_type_get(a->type);
    struct wm_call call = { .comm = c, .form = WM_BLOCKING, .op = wm_op_get(a->op), .rtype = t };
    call.args.kind = a->kind;
    call.args.sbuf = a->sendbuf;
    call.args.rbuf = a->recvbuf;
    call.args.scount = call.args.rcount = a->count;
    call.args.stype = call.args.rtype = &t->layout;
    call.args.op = &call.op->op;
    return call;
}

/* All reductions but the rooted one: (sendbuf, recvbuf, count or counts, datatype, op, comm). */
static int reduce_all(const struct reduction *a, MPI_Comm comm, const char *name)
{
    const char *args[] = { "argument 2 (recvbuf)",
                           a->kind == COLL_ALLREDUCE ? "argument 3 (count)"
                                                     : "argument 3 (recvcount)",
                           "argument 4 (datatype)" };
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 6 (comm)", name, &err);
    if (!c)
        return err;
    if (a->kind == COLL_REDUCE_SCATTER)
        err = wm_check_counts("argument 3 (recvcounts)", (struct wm_counts){ a->counts, false },
                              c->size);
    if (!err)
        err = check_side(a->recvbuf, a->counts ? a->counts[c->rank] : a->count, a->type, args);
    if (!err)
        err = check_op(a->op, a->type, "argument 5 (op)");
    if (!err && a->sendbuf != MPI_IN_PLACE &&
        wm_bad_address(a->sendbuf, a->count, wm_type_get(a->type)))
        err = wm_bad_buffer("argument 1 (sendbuf)", a->sendbuf, wm_type_get(a->type));
    if (err)
        return wm_xstream_raise(c, err, name);
    struct wm_call call = reduce_call(c, a);
    if (a->counts)
        err = vectors(&call, NULL, NULL, a->counts, NULL);
    return finish(&call, err, name);
}

WM_EXPORT int PMPIX_Allreduce_enqueue(const void *sendbuf, void *recvbuf, int count,
                                      MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    struct reduction a = { COLL_ALLREDUCE, sendbuf, recvbuf, count, NULL, datatype, op };
    return reduce_all(&a, comm, "MPIX_Allreduce_enqueue");
}
WM_WEAK(MPIX_Allreduce_enqueue);

WM_EXPORT int PMPIX_Allreduce_enqueue_c(const void *sendbuf, void *recvbuf, MPI_Count count,
                                        MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    struct reduction a = { COLL_ALLREDUCE, sendbuf, recvbuf, count, NULL, datatype, op };
    return reduce_all(&a, comm, "MPIX_Allreduce_enqueue_c");
}
WM_WEAK(MPIX_Allreduce_enqueue_c);

WM_EXPORT int PMPIX_Reduce_scatter_block_enqueue(const void *sendbuf, void *recvbuf, int recvcount,
                                                 MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    struct reduction a = {
        COLL_REDUCE_SCATTER_BLOCK, sendbuf, recvbuf, recvcount, NULL, datatype, op
    };
    return reduce_all(&a, comm, "MPIX_Reduce_scatter_block_enqueue");
}
WM_WEAK(MPIX_Reduce_scatter_block_enqueue);

WM_EXPORT int PMPIX_Reduce_scatter_enqueue(const void *sendbuf, void *recvbuf,
                                           const int recvcounts[], MPI_Datatype datatype, MPI_Op op,
                                           MPI_Comm comm)
{
    struct reduction a = { COLL_REDUCE_SCATTER, sendbuf, recvbuf, 0, recvcounts, datatype, op };
    return reduce_all(&a, comm, "MPIX_Reduce_scatter_enqueue");
}
WM_WEAK(MPIX_Reduce_scatter_enqueue);

WM_EXPORT int PMPIX_Reduce_enqueue(const void *sendbuf, void *recvbuf, int count,
                                   MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm)
{
    static const char name[] = "MPIX_Reduce_enqueue";
    struct reduction a = { COLL_REDUCE, sendbuf, recvbuf, count, NULL, datatype, op };
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 7 (comm)", name, &err);
    if (!c)
        return err;
    struct wm_type *t = wm_type_get(datatype);
    const char *args[] = { root == c->rank ? "argument 2 (recvbuf)" : "argument 1 (sendbuf)",
                           "argument 3 (count)", "argument 4 (datatype)" };
    err = check_root(c, root, "argument 6 (root)");
    if (!err)
        err = check_side(root == c->rank ? recvbuf : sendbuf, count, datatype, args);
    if (!err)
        err = check_op(op, datatype, "argument 5 (op)");
    if (!err && sendbuf == MPI_IN_PLACE && root != c->rank)
        err = wm_bad_in_place("argument 1 (sendbuf)", c);
    if (!err && sendbuf != MPI_IN_PLACE && wm_bad_address(sendbuf, count, t))
        err = wm_bad_buffer("argument 1 (sendbuf)", sendbuf, t);
    if (err)
        return wm_xstream_raise(c, err, name);
    struct wm_call call = reduce_call(c, &a);
    call.args.root = root;
    return finish(&call, MPI_SUCCESS, name);
}
WM_WEAK(MPIX_Reduce_enqueue);

/* ---- moving data ---- */

WM_EXPORT int PMPIX_Bcast_enqueue(void *buffer, int count, MPI_Datatype datatype, int root,
                                  MPI_Comm comm)
{
    static const char name[] = "MPIX_Bcast_enqueue";
    const char *args[] = { "argument 1 (buffer)", "argument 2 (count)", "argument 3 (datatype)" };
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 5 (comm)", name, &err);
    if (!c)
        return err;
    err = check_root(c, root, "argument 4 (root)");
    if (!err)
        err = check_side(buffer, count, datatype, args);
    struct wm_call call = { .comm = c, .form = WM_BLOCKING };
    call.args.kind = COLL_BCAST;
    call.args.root = root;
    if (!err)
        wm_call_recv(&call, buffer, count, wm_type_get(datatype));
    return finish(&call, err, name);
}
WM_WEAK(MPIX_Bcast_enqueue);

static const char *const send_args[] = { "argument 1 (sendbuf)", "argument 2 (sendcount)",
                                         "argument 3 (sendtype)" };
static const char *const recv_args[] = { "argument 4 (recvbuf)", "argument 5 (recvcount)",
                                         "argument 6 (recvtype)" };

/* Allgather and alltoall. */
static int equal(enum coll_kind kind, const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                 void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                 const char *name)
{
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 7 (comm)", name, &err);
    if (!c)
        return err;
    if (sendbuf != MPI_IN_PLACE)
        err = check_side(sendbuf, sendcount, sendtype, send_args);
    if (!err)
        err = check_side(recvbuf, recvcount, recvtype, recv_args);
    struct wm_call call = { .comm = c, .form = WM_BLOCKING };
    call.args.kind = kind;
    if (!err) {
        wm_call_send(&call, sendbuf, sendcount, wm_type_get(sendtype));
        wm_call_recv(&call, recvbuf, recvcount, wm_type_get(recvtype));
    }
    return finish(&call, err, name);
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

WM_EXPORT int PMPIX_Allgatherv_enqueue(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                                       void *recvbuf, const int recvcounts[], const int displs[],
                                       MPI_Datatype recvtype, MPI_Comm comm)
{
    static const char name[] = "MPIX_Allgatherv_enqueue";
    const char *args[] = { "argument 5 (recvcounts)", "argument 6 (displs)",
                           "argument 7 (recvtype)" };
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 8 (comm)", name, &err);
    if (!c)
        return err;
    struct wm_call call = { .comm = c, .form = WM_BLOCKING };
    call.args.kind = COLL_ALLGATHERV;
    if (sendbuf != MPI_IN_PLACE)
        err = check_side(sendbuf, sendcount, sendtype, send_args);
    if (!err)
        err = check_sides(c, recvcounts, displs, recvtype, args);
    if (!err)
        err = vectors(&call, NULL, NULL, recvcounts, displs);
    if (!err) {
        wm_call_send(&call, sendbuf, sendcount, wm_type_get(sendtype));
        wm_call_recv(&call, recvbuf, 0, wm_type_get(recvtype));
    }
    return finish(&call, err, name);
}
WM_WEAK(MPIX_Allgatherv_enqueue);

WM_EXPORT int PMPIX_Alltoallv_enqueue(const void *sendbuf, const int sendcounts[],
                                      const int sdispls[], MPI_Datatype sendtype, void *recvbuf,
                                      const int recvcounts[], const int rdispls[],
                                      MPI_Datatype recvtype, MPI_Comm comm)
{
    static const char name[] = "MPIX_Alltoallv_enqueue";
    const char *sends[] = { "argument 2 (sendcounts)", "argument 3 (sdispls)",
                            "argument 4 (sendtype)" };
    const char *receives[] = { "argument 6 (recvcounts)", "argument 7 (rdispls)",
                               "argument 8 (recvtype)" };
    bool in_place = sendbuf == MPI_IN_PLACE;
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 9 (comm)", name, &err);
    if (!c)
        return err;
    struct wm_call call = { .comm = c, .form = WM_BLOCKING };
    call.args.kind = COLL_ALLTOALLV;
    if (!in_place)
        err = check_sides(c, sendcounts, sdispls, sendtype, sends);
    if (!err)
        err = check_sides(c, recvcounts, rdispls, recvtype, receives);
    if (!err)
        err = vectors(&call, in_place ? NULL : sendcounts, in_place ? NULL : sdispls, recvcounts,
                      rdispls);
    if (!err) {
        wm_call_send(&call, sendbuf, 0, wm_type_get(sendtype));
        wm_call_recv(&call, recvbuf, 0, wm_type_get(recvtype));
    }
    return finish(&call, err, name);
}
WM_WEAK(MPIX_Alltoallv_enqueue);

WM_EXPORT int PMPIX_Gatherv_enqueue(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                                    void *recvbuf, const int recvcounts[], const int displs[],
                                    MPI_Datatype recvtype, int root, MPI_Comm comm)
{
    static const char name[] = "MPIX_Gatherv_enqueue";
    const char *args[] = { "argument 5 (recvcounts)", "argument 6 (displs)",
                           "argument 7 (recvtype)" };
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 9 (comm)", name, &err);
    if (!c)
        return err;
    bool is_root = root == c->rank;
    struct wm_call call = { .comm = c, .form = WM_BLOCKING };
    call.args.kind = COLL_GATHERV;
    call.args.root = root;
    err = check_root(c, root, "argument 8 (root)");
    if (!err && sendbuf == MPI_IN_PLACE && !is_root)
        err = wm_bad_in_place("argument 1 (sendbuf)", c);
    if (!err && sendbuf != MPI_IN_PLACE)
        err = check_side(sendbuf, sendcount, sendtype, send_args);
    if (!err && is_root)
        err = check_sides(c, recvcounts, displs, recvtype, args);
    if (!err && is_root)
        err = vectors(&call, NULL, NULL, recvcounts, displs);
    if (!err)
        wm_call_send(&call, sendbuf, sendcount, wm_type_get(sendtype));
    if (!err && is_root)
        wm_call_recv(&call, recvbuf, 0, wm_type_get(recvtype));
    return finish(&call, err, name);
}
WM_WEAK(MPIX_Gatherv_enqueue);

WM_EXPORT int PMPIX_Scatterv_enqueue(const void *sendbuf, const int sendcounts[],
                                     const int displs[], MPI_Datatype sendtype, void *recvbuf,
                                     int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm)
{
    static const char name[] = "MPIX_Scatterv_enqueue";
    const char *sends[] = { "argument 2 (sendcounts)", "argument 3 (displs)",
                            "argument 4 (sendtype)" };
    const char *receives[] = { "argument 5 (recvbuf)", "argument 6 (recvcount)",
                               "argument 7 (recvtype)" };
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 9 (comm)", name, &err);
    if (!c)
        return err;
    bool is_root = root == c->rank;
    struct wm_call call = { .comm = c, .form = WM_BLOCKING };
    call.args.kind = COLL_SCATTERV;
    call.args.root = root;
    err = check_root(c, root, "argument 8 (root)");
    if (!err && recvbuf == MPI_IN_PLACE && !is_root)
        err = wm_bad_in_place("argument 5 (recvbuf)", c);
    if (!err && recvbuf != MPI_IN_PLACE)
        err = check_side(recvbuf, recvcount, recvtype, receives);
    if (!err && is_root)
        err = check_sides(c, sendcounts, displs, sendtype, sends);
    if (!err && is_root)
        err = vectors(&call, sendcounts, displs, NULL, NULL);
    if (!err && is_root)
        wm_call_send(&call, sendbuf, 0, wm_type_get(sendtype));
    if (!err)
        wm_call_recv(&call, recvbuf, recvcount, wm_type_get(recvtype));
    return finish(&call, err, name);
}
WM_WEAK(MPIX_Scatterv_enqueue);

WM_EXPORT int PMPIX_Barrier_enqueue(MPI_Comm comm)
{
    static const char name[] = "MPIX_Barrier_enqueue";
    int err = MPI_SUCCESS;
    struct wm_comm *c = wm_xstream_comm_of(comm, "argument 1 (comm)", name, &err);
    struct wm_call call = { .comm = c, .form = WM_BLOCKING };
    call.args.kind = COLL_BARRIER;
    return c ? finish(&call, MPI_SUCCESS, name) : err;
}
WM_WEAK(MPIX_Barrier_enqueue);
