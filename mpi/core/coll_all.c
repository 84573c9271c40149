/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of allgather and alltoall in all their forms: blocking, nonblocking and persistent
 * (MPI-5.0 chapter 6).  Arguments that only some processes use are not looked at elsewhere.  Any
 * thread. */
#include "mpi/api/bodies.h"
#include "mpi/core/coll_call.h"
#include <stdlib.h>

/* Allgather and alltoall with equal counts. */
static int do_equal(enum coll_kind kind, enum wm_form form, const void *sendbuf,
                    MPI_Count sendcount, struct wm_type *sendtype, void *recvbuf,
                    MPI_Count recvcount, struct wm_type *recvtype, struct wm_comm *comm,
                    MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    call.args.kind = kind;
    wm_call_send(&call, sendbuf, sendcount, sendtype);
    wm_call_recv(&call, recvbuf, recvcount, recvtype);
    return wm_call_run(&call);
}

int wm_api_allgather(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                     void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype,
                     struct wm_comm *comm)
{
    return do_equal(COLL_ALLGATHER, WM_BLOCKING, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                    recvtype, comm, NULL);
}

int wm_api_iallgather(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                      void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype,
                      struct wm_comm *comm, MPI_Request *request)
{
    return do_equal(COLL_ALLGATHER, WM_NONBLOCKING, sendbuf, sendcount, sendtype, recvbuf,
                    recvcount, recvtype, comm, request);
}

int wm_api_allgather_init(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                          void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype,
                          struct wm_comm *comm, struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_equal(COLL_ALLGATHER, WM_PERSISTENT, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                    recvtype, comm, request);
}

static int do_allgatherv(enum wm_form form, const void *sendbuf, MPI_Count sendcount,
                         struct wm_type *sendtype, void *recvbuf, struct wm_counts recvcounts,
                         struct wm_displs displs, struct wm_type *recvtype, struct wm_comm *comm,
                         MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    call.args.kind = COLL_ALLGATHERV;
    int err = wm_call_vectors(&call, (struct wm_counts){ 0 }, (struct wm_displs){ 0 }, recvcounts,
                              displs);
    if (err)
        return err;
    wm_call_send(&call, sendbuf, sendcount, sendtype);
    wm_call_recv(&call, recvbuf, 0, recvtype);
    return wm_call_run(&call);
}

int wm_api_allgatherv(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                      void *recvbuf, struct wm_counts recvcounts, struct wm_displs displs,
                      struct wm_type *recvtype, struct wm_comm *comm)
{
    return do_allgatherv(WM_BLOCKING, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                         recvtype, comm, NULL);
}

int wm_api_iallgatherv(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                       void *recvbuf, struct wm_counts recvcounts, struct wm_displs displs,
                       struct wm_type *recvtype, struct wm_comm *comm, MPI_Request *request)
{
    return do_allgatherv(WM_NONBLOCKING, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                         recvtype, comm, request);
}

int wm_api_allgatherv_init(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                           void *recvbuf, struct wm_counts recvcounts, struct wm_displs displs,
                           struct wm_type *recvtype, struct wm_comm *comm, struct wm_info *info,
                           MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_allgatherv(WM_PERSISTENT, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                         recvtype, comm, request);
}

int wm_api_alltoall(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                    void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype,
                    struct wm_comm *comm)
{
    return do_equal(COLL_ALLTOALL, WM_BLOCKING, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                    recvtype, comm, NULL);
}

int wm_api_ialltoall(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                     void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype,
                     struct wm_comm *comm, MPI_Request *request)
{
    return do_equal(COLL_ALLTOALL, WM_NONBLOCKING, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                    recvtype, comm, request);
}

int wm_api_alltoall_init(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype,
                         void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype,
                         struct wm_comm *comm, struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_equal(COLL_ALLTOALL, WM_PERSISTENT, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                    recvtype, comm, request);
}

static int do_alltoallv(enum wm_form form, const void *sendbuf, struct wm_counts sendcounts,
                        struct wm_displs sdispls, struct wm_type *sendtype, void *recvbuf,
                        struct wm_counts recvcounts, struct wm_displs rdispls,
                        struct wm_type *recvtype, struct wm_comm *comm, MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    call.args.kind = COLL_ALLTOALLV;
    bool in_place = sendbuf == MPI_IN_PLACE;
    int err = wm_call_vectors(&call, in_place ? (struct wm_counts){ 0 } : sendcounts,
                              in_place ? (struct wm_displs){ 0 } : sdispls, recvcounts, rdispls);
    if (err)
        return err;
    wm_call_send(&call, sendbuf, 0, sendtype);
    wm_call_recv(&call, recvbuf, 0, recvtype);
    return wm_call_run(&call);
}

int wm_api_alltoallv(const void *sendbuf, struct wm_counts sendcounts, struct wm_displs sdispls,
                     struct wm_type *sendtype, void *recvbuf, struct wm_counts recvcounts,
                     struct wm_displs rdispls, struct wm_type *recvtype, struct wm_comm *comm)
{
    return do_alltoallv(WM_BLOCKING, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                        rdispls, recvtype, comm, NULL);
}

int wm_api_ialltoallv(const void *sendbuf, struct wm_counts sendcounts, struct wm_displs sdispls,
                      struct wm_type *sendtype, void *recvbuf, struct wm_counts recvcounts,
                      struct wm_displs rdispls, struct wm_type *recvtype, struct wm_comm *comm,
                      MPI_Request *request)
{
    return do_alltoallv(WM_NONBLOCKING, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                        rdispls, recvtype, comm, request);
}

int wm_api_alltoallv_init(const void *sendbuf, struct wm_counts sendcounts,
                          struct wm_displs sdispls, struct wm_type *sendtype, void *recvbuf,
                          struct wm_counts recvcounts, struct wm_displs rdispls,
                          struct wm_type *recvtype, struct wm_comm *comm, struct wm_info *info,
                          MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_alltoallv(WM_PERSISTENT, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                        rdispls, recvtype, comm, request);
}

/* Layouts of one side of alltoallw; types[i] is held until the end. */
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

/* The layouts and types of alltoallw, in the room that the vectors have for them. */
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

static int do_alltoallw(enum wm_form form, const void *sendbuf, struct wm_counts sendcounts,
                        struct wm_displs sdispls, const MPI_Datatype sendtypes[], void *recvbuf,
                        struct wm_counts recvcounts, struct wm_displs rdispls,
                        const MPI_Datatype recvtypes[], struct wm_comm *comm, MPI_Request *request)
{
    struct wm_call call = { .comm = comm, .form = form, .request = request };
    call.args.kind = COLL_ALLTOALLW;
    bool in_place = sendbuf == MPI_IN_PLACE;
    call.args.sbuf = sendbuf;
    call.args.rbuf = recvbuf;
    int err = wm_call_vectors(&call, in_place ? (struct wm_counts){ 0 } : sendcounts,
                              in_place ? (struct wm_displs){ 0 } : sdispls, recvcounts, rdispls);
    if (!err)
        err = set_types(&call, in_place ? NULL : sendtypes, recvtypes);
    if (err) {
        free(call.vectors);
        return err;
    }
    return wm_call_run(&call);
}

int wm_api_alltoallw(const void *sendbuf, struct wm_counts sendcounts, struct wm_displs sdispls,
                     const MPI_Datatype sendtypes[], void *recvbuf, struct wm_counts recvcounts,
                     struct wm_displs rdispls, const MPI_Datatype recvtypes[], struct wm_comm *comm)
{
    return do_alltoallw(WM_BLOCKING, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
                        rdispls, recvtypes, comm, NULL);
}

int wm_api_ialltoallw(const void *sendbuf, struct wm_counts sendcounts, struct wm_displs sdispls,
                      const MPI_Datatype sendtypes[], void *recvbuf, struct wm_counts recvcounts,
                      struct wm_displs rdispls, const MPI_Datatype recvtypes[],
                      struct wm_comm *comm, MPI_Request *request)
{
    return do_alltoallw(WM_NONBLOCKING, sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                        recvcounts, rdispls, recvtypes, comm, request);
}

int wm_api_alltoallw_init(const void *sendbuf, struct wm_counts sendcounts,
                          struct wm_displs sdispls, const MPI_Datatype sendtypes[], void *recvbuf,
                          struct wm_counts recvcounts, struct wm_displs rdispls,
                          const MPI_Datatype recvtypes[], struct wm_comm *comm,
                          struct wm_info *info, MPI_Request *request)
{
    (void)info; /* no hints are known */
    return do_alltoallw(WM_PERSISTENT, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
                        rdispls, recvtypes, comm, request);
}
