/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of the reductions and scans: blocking, nonblocking and persistent (MPI-5.0
 * chapter 6).  Arguments that only some processes use are not looked at elsewhere.  Any thread. */
#include "mpi/api/bodies.h"
#include "mpi/core/coll_call.h"
#include "mpi/core/coll_device.h"
#include "mpi/p2p/device.h"
#include "runtime/base/err.h"

static void set_reduction(struct wm_call *call, enum coll_kind kind, const void *sendbuf,
                          void *recvbuf, int64_t count, struct wm_type *type, struct wm_op *op)
{
    call->args = (struct coll_args){ .kind = kind,
                                     .sbuf = sendbuf,
                                     .rbuf = recvbuf,
                                     .scount = count,
                                     .rcount = count,
                                     .stype = &type->layout,
                                     .rtype = &type->layout,
                                     .op = &op->op };
    call->rtype = type;
    call->op = op;
}

static int do_reduce(enum wm_form form, const void *sendbuf, void *recvbuf, MPI_Count count,
                     struct wm_type *datatype, struct wm_op *op, int root, struct wm_comm *comm,
                     MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    if (!comm->inter)
        set_reduction(&call, COLL_REDUCE, sendbuf, recvbuf, count, datatype, op);
    else if (root == MPI_ROOT)
        set_reduction(&call, COLL_REDUCE, NULL, recvbuf, count, datatype, op);
    else if (root != MPI_PROC_NULL)
        set_reduction(&call, COLL_REDUCE, sendbuf, NULL, count, datatype, op);
    call.args.kind = COLL_REDUCE;
    call.args.root = root;
    return wm_call_run(&call);
}

int wm_api_reduce(const void *sendbuf, void *recvbuf, MPI_Count count, struct wm_type *datatype,
                  struct wm_op *op, int root, struct wm_comm *comm)
{
    return do_reduce(WM_BLOCKING, sendbuf, recvbuf, count, datatype, op, root, comm, NULL);
}

int wm_api_ireduce(const void *sendbuf, void *recvbuf, MPI_Count count, struct wm_type *datatype,
                   struct wm_op *op, int root, struct wm_comm *comm, MPI_Request *request)
{
    return do_reduce(WM_NONBLOCKING, sendbuf, recvbuf, count, datatype, op, root, comm, request);
}

int wm_api_reduce_init(const void *sendbuf, void *recvbuf, MPI_Count count,
                       struct wm_type *datatype, struct wm_op *op, int root, struct wm_comm *comm,
                       struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_reduce(WM_PERSISTENT, sendbuf, recvbuf, count, datatype, op, root, comm, request);
}

/* Those with one count and no root. */
static int do_plain(enum coll_kind kind, enum wm_form form, const void *sendbuf, void *recvbuf,
                    MPI_Count count, struct wm_type *datatype, struct wm_op *op,
                    struct wm_comm *comm, MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    set_reduction(&call, kind, sendbuf, recvbuf, count, datatype, op);
    return wm_call_run(&call);
}

int wm_api_allreduce(const void *sendbuf, void *recvbuf, MPI_Count count, struct wm_type *datatype,
                     struct wm_op *op, struct wm_comm *comm)
{
    return do_plain(COLL_ALLREDUCE, WM_BLOCKING, sendbuf, recvbuf, count, datatype, op, comm, NULL);
}

int wm_api_iallreduce(const void *sendbuf, void *recvbuf, MPI_Count count, struct wm_type *datatype,
                      struct wm_op *op, struct wm_comm *comm, MPI_Request *request)
{
    return do_plain(COLL_ALLREDUCE, WM_NONBLOCKING, sendbuf, recvbuf, count, datatype, op, comm,
                    request);
}

int wm_api_allreduce_init(const void *sendbuf, void *recvbuf, MPI_Count count,
                          struct wm_type *datatype, struct wm_op *op, struct wm_comm *comm,
                          struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_plain(COLL_ALLREDUCE, WM_PERSISTENT, sendbuf, recvbuf, count, datatype, op, comm,
                    request);
}

int wm_api_reduce_scatter_block(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                struct wm_type *datatype, struct wm_op *op, struct wm_comm *comm)
{
    return do_plain(COLL_REDUCE_SCATTER_BLOCK, WM_BLOCKING, sendbuf, recvbuf, recvcount, datatype,
                    op, comm, NULL);
}

int wm_api_ireduce_scatter_block(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                 struct wm_type *datatype, struct wm_op *op, struct wm_comm *comm,
                                 MPI_Request *request)
{
    return do_plain(COLL_REDUCE_SCATTER_BLOCK, WM_NONBLOCKING, sendbuf, recvbuf, recvcount,
                    datatype, op, comm, request);
}

int wm_api_reduce_scatter_block_init(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                     struct wm_type *datatype, struct wm_op *op,
                                     struct wm_comm *comm, struct wm_info *info,
                                     MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_plain(COLL_REDUCE_SCATTER_BLOCK, WM_PERSISTENT, sendbuf, recvbuf, recvcount, datatype,
                    op, comm, request);
}

static int do_reduce_scatter(enum wm_form form, const void *sendbuf, void *recvbuf,
                             struct wm_counts recvcounts, struct wm_type *datatype,
                             struct wm_op *op, struct wm_comm *comm, MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    set_reduction(&call, COLL_REDUCE_SCATTER, sendbuf, recvbuf, 0, datatype, op);
    int err = wm_call_vectors(&call, (struct wm_counts){ 0 }, (struct wm_displs){ 0 }, recvcounts,
                              (struct wm_displs){ 0 });
    if (err)
        return err;
    return wm_call_run(&call);
}

int wm_api_reduce_scatter(const void *sendbuf, void *recvbuf, struct wm_counts recvcounts,
                          struct wm_type *datatype, struct wm_op *op, struct wm_comm *comm)
{
    return do_reduce_scatter(WM_BLOCKING, sendbuf, recvbuf, recvcounts, datatype, op, comm, NULL);
}

int wm_api_ireduce_scatter(const void *sendbuf, void *recvbuf, struct wm_counts recvcounts,
                           struct wm_type *datatype, struct wm_op *op, struct wm_comm *comm,
                           MPI_Request *request)
{
    return do_reduce_scatter(WM_NONBLOCKING, sendbuf, recvbuf, recvcounts, datatype, op, comm,
                             request);
}

int wm_api_reduce_scatter_init(const void *sendbuf, void *recvbuf, struct wm_counts recvcounts,
                               struct wm_type *datatype, struct wm_op *op, struct wm_comm *comm,
                               struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_reduce_scatter(WM_PERSISTENT, sendbuf, recvbuf, recvcounts, datatype, op, comm,
                             request);
}

int wm_api_scan(const void *sendbuf, void *recvbuf, MPI_Count count, struct wm_type *datatype,
                struct wm_op *op, struct wm_comm *comm)
{
    return do_plain(COLL_SCAN, WM_BLOCKING, sendbuf, recvbuf, count, datatype, op, comm, NULL);
}

int wm_api_iscan(const void *sendbuf, void *recvbuf, MPI_Count count, struct wm_type *datatype,
                 struct wm_op *op, struct wm_comm *comm, MPI_Request *request)
{
    return do_plain(COLL_SCAN, WM_NONBLOCKING, sendbuf, recvbuf, count, datatype, op, comm,
                    request);
}

int wm_api_scan_init(const void *sendbuf, void *recvbuf, MPI_Count count, struct wm_type *datatype,
                     struct wm_op *op, struct wm_comm *comm, struct wm_info *info,
                     MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_plain(COLL_SCAN, WM_PERSISTENT, sendbuf, recvbuf, count, datatype, op, comm, request);
}

int wm_api_exscan(const void *sendbuf, void *recvbuf, MPI_Count count, struct wm_type *datatype,
                  struct wm_op *op, struct wm_comm *comm)
{
    return do_plain(COLL_EXSCAN, WM_BLOCKING, sendbuf, recvbuf, count, datatype, op, comm, NULL);
}

int wm_api_iexscan(const void *sendbuf, void *recvbuf, MPI_Count count, struct wm_type *datatype,
                   struct wm_op *op, struct wm_comm *comm, MPI_Request *request)
{
    return do_plain(COLL_EXSCAN, WM_NONBLOCKING, sendbuf, recvbuf, count, datatype, op, comm,
                    request);
}

int wm_api_exscan_init(const void *sendbuf, void *recvbuf, MPI_Count count,
                       struct wm_type *datatype, struct wm_op *op, struct wm_comm *comm,
                       struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_plain(COLL_EXSCAN, WM_PERSISTENT, sendbuf, recvbuf, count, datatype, op, comm,
                    request);
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
