/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of barrier, broadcast, gather and scatter: blocking, nonblocking and persistent (MPI-5.0
 * chapter 6).  Arguments that only some processes use are not looked at elsewhere.  Any thread. */
#include "mpi/api/bodies.h"
#include "mpi/core/coll_call.h"

static int do_barrier(enum wm_form form, struct wm_comm *comm, MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    call.args.kind = COLL_BARRIER;
    return wm_call_run(&call);
}

int wm_api_barrier(struct wm_comm *comm) { return do_barrier(WM_BLOCKING, comm, NULL); }

int wm_api_ibarrier(struct wm_comm *comm, MPI_Request *request)
{
    return do_barrier(WM_NONBLOCKING, comm, request);
}

int wm_api_barrier_init(struct wm_comm *comm, struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_barrier(WM_PERSISTENT, comm, request);
}

static int do_bcast(enum wm_form form, void *buffer, MPI_Count count, struct wm_type *datatype,
                    int root, struct wm_comm *comm, MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    call.args.kind = COLL_BCAST;
    call.args.root = root;
    if (wm_call_root(comm, root) || wm_call_leaf(comm, root))
        wm_call_recv(&call, buffer, count, datatype);
    return wm_call_run(&call);
}

int wm_api_bcast(void *buffer, MPI_Count count, struct wm_type *datatype, int root,
                 struct wm_comm *comm)
{
    return do_bcast(WM_BLOCKING, buffer, count, datatype, root, comm, NULL);
}

int wm_api_ibcast(void *buffer, MPI_Count count, struct wm_type *datatype, int root,
                  struct wm_comm *comm, MPI_Request *request)
{
    return do_bcast(WM_NONBLOCKING, buffer, count, datatype, root, comm, request);
}

int wm_api_bcast_init(void *buffer, MPI_Count count, struct wm_type *datatype, int root,
                      struct wm_comm *comm, struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_bcast(WM_PERSISTENT, buffer, count, datatype, root, comm, request);
}

static int do_gather(enum wm_form form, const void *sendbuf, MPI_Count sendcount,
                     struct wm_type *sendtype, void *recvbuf, MPI_Count recvcount,
                     struct wm_type *recvtype, int root, struct wm_comm *comm, MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    call.args.kind = COLL_GATHER;
    call.args.root = root;
    if (wm_call_leaf(comm, root))
        wm_call_send(&call, sendbuf, sendcount, sendtype);
    if (wm_call_root(comm, root))
        wm_call_recv(&call, recvbuf, recvcount, recvtype);
    return wm_call_run(&call);
}

int wm_api_gather(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype, void *recvbuf,
                  MPI_Count recvcount, struct wm_type *recvtype, int root, struct wm_comm *comm)
{
    return do_gather(WM_BLOCKING, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
                     comm, NULL);
}

int wm_api_igather(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                   void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype, int root,
                   struct wm_comm *comm, MPI_Request *request)
{
    return do_gather(WM_NONBLOCKING, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                     root, comm, request);
}

int wm_api_gather_init(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                       void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype, int root,
                       struct wm_comm *comm, struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_gather(WM_PERSISTENT, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                     root, comm, request);
}

static int do_gatherv(enum wm_form form, const void *sendbuf, MPI_Count sendcount,
                      struct wm_type *sendtype, void *recvbuf, struct wm_counts recvcounts,
                      struct wm_displs displs, struct wm_type *recvtype, int root,
                      struct wm_comm *comm, MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    call.args.kind = COLL_GATHERV;
    call.args.root = root;
    int err = MPI_SUCCESS;
    if (wm_call_root(comm, root))
        err = wm_call_vectors(&call, (struct wm_counts){ 0 }, (struct wm_displs){ 0 }, recvcounts,
                              displs);
    if (err)
        return err;
    if (wm_call_leaf(comm, root))
        wm_call_send(&call, sendbuf, sendcount, sendtype);
    if (wm_call_root(comm, root))
        wm_call_recv(&call, recvbuf, 0, recvtype);
    return wm_call_run(&call);
}

int wm_api_gatherv(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                   void *recvbuf, struct wm_counts recvcounts, struct wm_displs displs,
                   struct wm_type *recvtype, int root, struct wm_comm *comm)
{
    return do_gatherv(WM_BLOCKING, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                      recvtype, root, comm, NULL);
}

int wm_api_igatherv(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                    void *recvbuf, struct wm_counts recvcounts, struct wm_displs displs,
                    struct wm_type *recvtype, int root, struct wm_comm *comm, MPI_Request *request)
{
    return do_gatherv(WM_NONBLOCKING, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                      recvtype, root, comm, request);
}

int wm_api_gatherv_init(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                        void *recvbuf, struct wm_counts recvcounts, struct wm_displs displs,
                        struct wm_type *recvtype, int root, struct wm_comm *comm,
                        struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_gatherv(WM_PERSISTENT, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                      recvtype, root, comm, request);
}

static int do_scatter(enum wm_form form, const void *sendbuf, MPI_Count sendcount,
                      struct wm_type *sendtype, void *recvbuf, MPI_Count recvcount,
                      struct wm_type *recvtype, int root, struct wm_comm *comm,
                      MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    call.args.kind = COLL_SCATTER;
    call.args.root = root;
    if (wm_call_root(comm, root))
        wm_call_send(&call, sendbuf, sendcount, sendtype);
    if (wm_call_leaf(comm, root))
        wm_call_recv(&call, recvbuf, recvcount, recvtype);
    return wm_call_run(&call);
}

int wm_api_scatter(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                   void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype, int root,
                   struct wm_comm *comm)
{
    return do_scatter(WM_BLOCKING, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
                      comm, NULL);
}

int wm_api_iscatter(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                    void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype, int root,
                    struct wm_comm *comm, MPI_Request *request)
{
    return do_scatter(WM_NONBLOCKING, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                      root, comm, request);
}

int wm_api_scatter_init(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                        void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype, int root,
                        struct wm_comm *comm, struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_scatter(WM_PERSISTENT, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                      root, comm, request);
}

static int do_scatterv(enum wm_form form, const void *sendbuf, struct wm_counts sendcounts,
                       struct wm_displs displs, struct wm_type *sendtype, void *recvbuf,
                       MPI_Count recvcount, struct wm_type *recvtype, int root,
                       struct wm_comm *comm, MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    call.args.kind = COLL_SCATTERV;
    call.args.root = root;
    int err = MPI_SUCCESS;
    if (wm_call_root(comm, root))
        err = wm_call_vectors(&call, sendcounts, displs, (struct wm_counts){ 0 },
                              (struct wm_displs){ 0 });
    if (err)
        return err;
    if (wm_call_root(comm, root))
        wm_call_send(&call, sendbuf, 0, sendtype);
    if (wm_call_leaf(comm, root))
        wm_call_recv(&call, recvbuf, recvcount, recvtype);
    return wm_call_run(&call);
}

int wm_api_scatterv(const void *sendbuf, struct wm_counts sendcounts, struct wm_displs displs,
                    struct wm_type *sendtype, void *recvbuf, MPI_Count recvcount,
                    struct wm_type *recvtype, int root, struct wm_comm *comm)
{
    return do_scatterv(WM_BLOCKING, sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount,
                       recvtype, root, comm, NULL);
}

int wm_api_iscatterv(const void *sendbuf, struct wm_counts sendcounts, struct wm_displs displs,
                     struct wm_type *sendtype, void *recvbuf, MPI_Count recvcount,
                     struct wm_type *recvtype, int root, struct wm_comm *comm, MPI_Request *request)
{
    return do_scatterv(WM_NONBLOCKING, sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount,
                       recvtype, root, comm, request);
}

int wm_api_scatterv_init(const void *sendbuf, struct wm_counts sendcounts, struct wm_displs displs,
                         struct wm_type *sendtype, void *recvbuf, MPI_Count recvcount,
                         struct wm_type *recvtype, int root, struct wm_comm *comm,
                         struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_scatterv(WM_PERSISTENT, sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount,
                       recvtype, root, comm, request);
}
