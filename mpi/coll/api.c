/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of the collectives (MPI-5.0 chapter 6).  One body serves the blocking, the nonblocking and
 * the persistent form, and all kinds with the same parameters: the binding has filled in everything
 * of the call but the buffers.  Arguments that are significant only at some processes are not read
 * at the others.  Any thread. */
#include "mpi/api/bodies.h"
#include "mpi/coll/call.h"
#include "mpi/coll/device.h"
#include "mpi/op/op.h"
#include "mpi/p2p/device.h"
#include "runtime/base/err.h"
#include "runtime/base/reserve.h"

/* Whether this process has a buffer on that side of a call that moves data. */
static bool has_side(const struct wm_call *call, enum coll_side side)
{
    const struct coll_args *a = &call->args;
    if (!coll_is(a->kind, COLL_IS_ROOTED))
        return true;
    return coll_is(a->kind, COLL_IS_TO_ROOT) == (side == COLL_RECV)
               ? wm_call_root(call->comm, a->root)
               : wm_call_leaf(call->comm, a->root);
}

int wm_api_barrier(struct wm_call *call) { return wm_call_run(call); }

int wm_api_bcast(struct wm_call *call, void *buffer, MPI_Count count, struct wm_type *datatype)
{
    if (wm_call_root(call->comm, call->args.root) || wm_call_leaf(call->comm, call->args.root))
        wm_call_recv(call, buffer, count, datatype);
    return wm_call_run(call);
}

/* Also gather, scatter and alltoall. */
int wm_api_allgather(struct wm_call *call, const void *sendbuf, MPI_Count sendcount,
                     struct wm_type *sendtype, void *recvbuf, MPI_Count recvcount,
                     struct wm_type *recvtype)
{
    if (has_side(call, COLL_SEND))
        wm_call_send(call, sendbuf, sendcount, sendtype);
    if (has_side(call, COLL_RECV))
        wm_call_recv(call, recvbuf, recvcount, recvtype);
    return wm_call_run(call);
}

/* Also gatherv. */
int wm_api_allgatherv(struct wm_call *call, const void *sendbuf, MPI_Count sendcount,
                      struct wm_type *sendtype, void *recvbuf, struct wm_counts recvcounts,
                      struct wm_displs displs, struct wm_type *recvtype)
{
    int64_t few[WM_FEW];
    bool receives = has_side(call, COLL_RECV);
    int err = receives ? wm_call_vectors(call, few, (struct wm_counts){ 0 },
                                         (struct wm_displs){ 0 }, recvcounts, displs)
                       : MPI_SUCCESS;
    if (err)
        return err;
    if (has_side(call, COLL_SEND))
        wm_call_send(call, sendbuf, sendcount, sendtype);
    if (receives)
        wm_call_recv(call, recvbuf, 0, recvtype);
    return wm_call_run(call);
}

int wm_api_scatterv(struct wm_call *call, const void *sendbuf, struct wm_counts sendcounts,
                    struct wm_displs displs, struct wm_type *sendtype, void *recvbuf,
                    MPI_Count recvcount, struct wm_type *recvtype)
{
    int64_t few[WM_FEW];
    bool sends = has_side(call, COLL_SEND);
    int err = sends ? wm_call_vectors(call, few, sendcounts, displs, (struct wm_counts){ 0 },
                                      (struct wm_displs){ 0 })
                    : MPI_SUCCESS;
    if (err)
        return err;
    if (sends)
        wm_call_send(call, sendbuf, 0, sendtype);
    if (has_side(call, COLL_RECV))
        wm_call_recv(call, recvbuf, recvcount, recvtype);
    return wm_call_run(call);
}

int wm_api_alltoallv(struct wm_call *call, const void *sendbuf, struct wm_counts sendcounts,
                     struct wm_displs sdispls, struct wm_type *sendtype, void *recvbuf,
                     struct wm_counts recvcounts, struct wm_displs rdispls,
                     struct wm_type *recvtype)
{
    int64_t few[WM_FEW];
    bool in_place = sendbuf == MPI_IN_PLACE;
    int err = wm_call_vectors(call, few, in_place ? (struct wm_counts){ 0 } : sendcounts,
                              in_place ? (struct wm_displs){ 0 } : sdispls, recvcounts, rdispls);
    if (err)
        return err;
    wm_call_send(call, sendbuf, 0, sendtype);
    wm_call_recv(call, recvbuf, 0, recvtype);
    return wm_call_run(call);
}

/* Decodes the types of one side of alltoallw and sets their layouts; types[i] is referenced until
 * the end of the call. */
static int decode_types(const char *arg, const MPI_Datatype *h, int n, const struct rt_layout **l,
                        struct wm_type **types)
{
    for (int i = 0; i < n; i++) {
        types[i] = wm_type_get(h[i]);
        if (!types[i] || !types[i]->committed || types[i]->absent)
            return wm_err(MPI_ERR_TYPE, "%s[%d] is 0x%lx, expected a committed datatype", arg, i,
                          (unsigned long)(uintptr_t)h[i]);
        l[i] = &types[i]->layout;
    }
    return MPI_SUCCESS;
}

/* The layouts and types of alltoallw, stored in the space that the vectors reserve for them. */
static int set_types(struct wm_call *call, const MPI_Datatype *st, const MPI_Datatype *rt)
{
    int n = call->comm->remote->size;
    const struct rt_layout **layouts = wm_call_more(call);
    struct wm_type **types = (struct wm_type **)(layouts + 2 * n);
    call->args.stypes = layouts;
    call->args.rtypes = layouts + n;
    call->types = types;
    int err = decode_types("recvtypes", rt, n, layouts + n, types + n);
    if (!err && st)
        err = decode_types("sendtypes", st, n, layouts, types);
    if (!err)
        call->ntypes = 2 * n;
    return err;
}

int wm_api_alltoallw(struct wm_call *call, const void *sendbuf, struct wm_counts sendcounts,
                     struct wm_displs sdispls, const MPI_Datatype sendtypes[], void *recvbuf,
                     struct wm_counts recvcounts, struct wm_displs rdispls,
                     const MPI_Datatype recvtypes[])
{
    bool in_place = sendbuf == MPI_IN_PLACE;
    call->args.sbuf = sendbuf;
    call->args.rbuf = recvbuf;
    int err = wm_call_vectors(call, NULL, in_place ? (struct wm_counts){ 0 } : sendcounts,
                              in_place ? (struct wm_displs){ 0 } : sdispls, recvcounts, rdispls);
    if (!err)
        err = set_types(call, in_place ? NULL : sendtypes, recvtypes);
    if (err) {
        rt_reserve_free(call->vectors);
        return err;
    }
    return wm_call_run(call);
}

/* ---- reductions ---- */

static void set_reduction(struct wm_call *call, const void *sendbuf, void *recvbuf, int64_t count,
                          struct wm_type *type, struct wm_op *op)
{
    struct coll_args *a = &call->args;
    a->sbuf = sendbuf;
    a->rbuf = recvbuf;
    a->scount = a->rcount = count;
    a->stype = a->rtype = &type->layout;
    a->op = &op->op;
    call->rtype = type;
    call->op = op;
}

/* Also reduce, reduce_scatter_block and the scans.  On an intercommunicator, the processes of one
 * group send, and one process of the other group receives. */
int wm_api_allreduce(struct wm_call *call, const void *sendbuf, void *recvbuf, MPI_Count count,
                     struct wm_type *datatype, struct wm_op *op)
{
    if (rt_likely(!call->comm->inter || !coll_is(call->args.kind, COLL_IS_ROOTED)))
        set_reduction(call, sendbuf, recvbuf, count, datatype, op);
    else if (call->args.root == MPI_ROOT)
        set_reduction(call, NULL, recvbuf, count, datatype, op);
    else if (call->args.root != MPI_PROC_NULL)
        set_reduction(call, sendbuf, NULL, count, datatype, op);
    return wm_call_run(call);
}

int wm_api_reduce_scatter(struct wm_call *call, const void *sendbuf, void *recvbuf,
                          struct wm_counts recvcounts, struct wm_type *datatype, struct wm_op *op)
{
    int64_t few[WM_FEW];
    set_reduction(call, sendbuf, recvbuf, 0, datatype, op);
    int err = wm_call_vectors(call, few, (struct wm_counts){ 0 }, (struct wm_displs){ 0 },
                              recvcounts, (struct wm_displs){ 0 });
    return err ? err : wm_call_run(call);
}

int wm_api_reduce_local(const void *inbuf, void *inoutbuf, MPI_Count count,
                        struct wm_type *datatype, struct wm_op *op)
{
    const struct rt_layout *l = &datatype->layout;
    int err = rt_unlikely(rt_gpu_watch) ? wm_coll_reduce_local(&op->op, inbuf, inoutbuf, count, l)
                                        : rt_reduce_apply(&op->op, inbuf, inoutbuf, count, l);
    if (err == -RT_EADDR)
        return wm_dev_fault();
    return err >= 0 ? MPI_SUCCESS
                    : wm_err_rt(err, err == -RT_EINVAL ? "the operation does not take this datatype"
                                                       : "could not copy device memory");
}
