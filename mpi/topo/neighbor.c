/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of the neighbourhood collectives in all their forms (MPI-5.0 chapter 8, sections 8.6 to
 * 8.9).  Buffers and vectors mean nothing on a side without neighbours.  Any
 * thread. */
#include "mpi/api/bind.h"
#include "mpi/api/bodies.h"
#include "mpi/coll/call.h"
#include "mpi/topo/topo.h"
#include "runtime/base/reserve.h"

/* Sides of a call: this process sends to its destinations and receives from its sources. */
enum side { SEND, RECV };

static int check_topology(const struct wm_comm *comm)
{
    if (!comm->topo)
        return wm_err(MPI_ERR_TOPOLOGY, "the communicator has no topology; make one with "
                                        "MPI_Cart_create or MPI_Dist_graph_create_adjacent");
    if (!comm->topo->symmetric)
        return wm_err(MPI_ERR_TOPOLOGY,
                      comm->topo->kind == MPI_GRAPH
                          ? "the graph has edges in one direction only; MPI_Dist_graph_create "
                            "makes directed graphs"
                          : "the processes' lists do not agree on the edges of the graph: an edge "
                            "must be in the list of its source and in that of its destination");
    return MPI_SUCCESS;
}

/* Both buffers and the topology into a call. */
static int prepare(struct wm_call *call, const void *sendbuf, void *recvbuf)
{
    int err = check_topology(call->comm);
    if (err)
        return err;
    call->args.neighbors = &call->comm->topo->neighbors;
    call->args.sbuf = sendbuf;
    call->args.rbuf = recvbuf;
    return MPI_SUCCESS;
}

/* The number and type that all blocks of a side have. */
static int set_blocks(struct wm_call *call, enum side side, MPI_Count count, struct wm_type *type)
{
    const struct coll_neighbors *nb = call->args.neighbors;
    const void *buf = side == SEND ? call->args.sbuf : call->args.rbuf;
    int n = side == SEND ? nb->ndestinations : nb->nsources;
    if (n && wm_bad_address(buf, count, type))
        return wm_bad_buffer(side == SEND ? "argument 1 (sendbuf)" : "argument 4 (recvbuf)", buf,
                             type);
    if (side == SEND) {
        call->args.scount = count;
        call->args.stype = &type->layout;
        call->stype = type;
    } else {
        call->args.rcount = count;
        call->args.rtype = &type->layout;
        call->rtype = type;
    }
    return MPI_SUCCESS;
}

static int check_vectors(const char *counts_arg, const char *displs_arg, struct wm_counts c,
                         struct wm_displs d, int n)
{
    int err = n ? wm_check_counts(counts_arg, c, n) : MPI_SUCCESS;
    return err || !n || d.v ? err : wm_bad_null(displs_arg, MPI_ERR_ARG);
}

/* A buffer may be a special address only if no count of its side needs memory. */
static int check_buffer(const char *arg, const void *buf, struct wm_counts c, int n,
                        const struct wm_type *t)
{
    for (int i = 0; i < n; i++)
        if (wm_bad_address(buf, wm_count_at(c, i), t))
            return wm_bad_buffer(arg, buf, t);
    return MPI_SUCCESS;
}

/* 64-bit copies of the vectors; `more` bytes behind them. */
static int copy_vectors(struct wm_call *call, struct wm_counts sc, struct wm_displs sd,
                        struct wm_counts rc, struct wm_displs rd, size_t more)
{
    int out = sc.v || sd.v ? call->args.neighbors->ndestinations : 0;
    int in = call->args.neighbors->nsources;
    int64_t *v = rt_reserve_zalloc(2 * ((size_t)in + (size_t)out) * sizeof *v + more + 1);
    if (!v)
        return wm_err(MPI_ERR_NO_MEM, "no memory for the counts of %d neighbours", in + out);
    call->vectors = v;
    call->args.scounts = v;
    call->args.sdispls = v + out;
    call->args.rcounts = v + 2 * out;
    call->args.rdispls = v + 2 * out + in;
    for (int i = 0; i < out; i++) {
        v[i] = wm_count_at(sc, i);
        v[out + i] = wm_displ_at(sd, i);
    }
    for (int i = 0; i < in; i++) {
        v[2 * out + i] = wm_count_at(rc, i);
        v[2 * out + in + i] = wm_displ_at(rd, i);
    }
    return MPI_SUCCESS;
}

/* Also the body of MPI_Neighbor_alltoall. */
int wm_api_neighbor_allgather(struct wm_call *call, const void *sendbuf, MPI_Count sendcount,
                              struct wm_type *sendtype, void *recvbuf, MPI_Count recvcount,
                              struct wm_type *recvtype)
{
    int err = prepare(call, sendbuf, recvbuf);
    if (!err)
        err = set_blocks(call, SEND, sendcount, sendtype);
    if (!err)
        err = set_blocks(call, RECV, recvcount, recvtype);
    return err ? err : wm_call_run(call);
}

int wm_api_neighbor_allgatherv(struct wm_call *call, const void *sendbuf, MPI_Count sendcount,
                               struct wm_type *sendtype, void *recvbuf, struct wm_counts recvcounts,
                               struct wm_displs displs, struct wm_type *recvtype)
{
    int err = prepare(call, sendbuf, recvbuf);
    if (err)
        return err;
    int in = call->args.neighbors->nsources;
    err = set_blocks(call, SEND, sendcount, sendtype);
    if (!err)
        err = set_blocks(call, RECV, 0, recvtype);
    if (!err)
        err = check_vectors("argument 5 (recvcounts)", "argument 6 (displs)", recvcounts, displs,
                            in);
    if (!err)
        err = check_buffer("argument 4 (recvbuf)", recvbuf, recvcounts, in, recvtype);
    if (!err)
        err = copy_vectors(call, (struct wm_counts){ 0 }, (struct wm_displs){ 0 }, recvcounts,
                           displs, 0);
    return err ? err : wm_call_run(call);
}

/* What the v and the w form check alike. */
static int check_both_sides(const struct wm_call *call, struct wm_counts sc, struct wm_displs sd,
                            struct wm_counts rc, struct wm_displs rd)
{
    const struct coll_neighbors *nb = call->args.neighbors;
    int err = check_vectors("argument 2 (sendcounts)", "argument 3 (sdispls)", sc, sd,
                            nb->ndestinations);
    return err ? err
               : check_vectors("argument 6 (recvcounts)", "argument 7 (rdispls)", rc, rd,
                               nb->nsources);
}

int wm_api_neighbor_alltoallv(struct wm_call *call, const void *sendbuf,
                              struct wm_counts sendcounts, struct wm_displs sdispls,
                              struct wm_type *sendtype, void *recvbuf, struct wm_counts recvcounts,
                              struct wm_displs rdispls, struct wm_type *recvtype)
{
    int err = prepare(call, sendbuf, recvbuf);
    if (err)
        return err;
    const struct coll_neighbors *nb = call->args.neighbors;
    err = check_both_sides(call, sendcounts, sdispls, recvcounts, rdispls);
    if (!err)
        err = check_buffer("argument 1 (sendbuf)", sendbuf, sendcounts, nb->ndestinations,
                           sendtype);
    if (!err)
        err = check_buffer("argument 5 (recvbuf)", recvbuf, recvcounts, nb->nsources, recvtype);
    if (!err)
        err = set_blocks(call, SEND, 0, sendtype);
    if (!err)
        err = set_blocks(call, RECV, 0, recvtype);
    if (!err)
        err = copy_vectors(call, sendcounts, sdispls, recvcounts, rdispls, 0);
    return err ? err : wm_call_run(call);
}

/* Types and layouts of one side of the w form; types[i] is held until the end.  Nothing is expected
 * where there is no neighbour. */
static int decode_types(const char *arg, const MPI_Datatype *h, int n, const int *ranks,
                        const struct rt_layout **l, struct wm_type **types)
{
    if (n && !h)
        return wm_bad_null(arg, MPI_ERR_ARG);
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0)
            continue;
        types[i] = wm_type_get(h[i]);
        if (!wm_usable_type(types[i]))
            return wm_bad_type(arg, h[i]);
        l[i] = &types[i]->layout;
    }
    return MPI_SUCCESS;
}

/* Displacements are bytes here and may be absolute addresses, from MPI_BOTTOM. */
static int check_w_buffer(const char *arg, const void *buf, const int64_t *counts,
                          const int64_t *displs, int n, struct wm_type *const *types)
{
    for (int i = 0; i < n; i++) {
        const void *at = buf ? buf : (const void *)(uintptr_t)displs[i];
        if (types[i] && wm_bad_address(at, counts[i], types[i]))
            return wm_bad_buffer(arg, buf, types[i]);
    }
    return MPI_SUCCESS;
}

/* The types of both sides, in the room behind the vectors. */
static int set_types(struct wm_call *call, const MPI_Datatype *st, const MPI_Datatype *rt)
{
    const struct coll_neighbors *nb = call->args.neighbors;
    int out = nb->ndestinations, in = nb->nsources;
    const struct rt_layout **layouts = (const struct rt_layout **)((int64_t *)call->vectors +
                                                                   2 * (in + out));
    struct wm_type **types = (struct wm_type **)(layouts + in + out);
    call->args.stypes = layouts;
    call->args.rtypes = layouts + out;
    call->types = types;
    int err = decode_types("argument 4 (sendtypes)", st, out, nb->destinations, layouts, types);
    if (!err)
        err = decode_types("argument 8 (recvtypes)", rt, in, nb->sources, layouts + out,
                           types + out);
    if (!err)
        err = check_w_buffer("argument 1 (sendbuf)", call->args.sbuf, call->args.scounts,
                             call->args.sdispls, out, types);
    if (!err)
        err = check_w_buffer("argument 5 (recvbuf)", call->args.rbuf, call->args.rcounts,
                             call->args.rdispls, in, types + out);
    if (!err)
        call->ntypes = in + out;
    return err;
}

int wm_api_neighbor_alltoallw(struct wm_call *call, const void *sendbuf,
                              struct wm_counts sendcounts, const MPI_Aint sdispls[],
                              const MPI_Datatype sendtypes[], void *recvbuf,
                              struct wm_counts recvcounts, const MPI_Aint rdispls[],
                              const MPI_Datatype recvtypes[])
{
    struct wm_displs sd = { sdispls, true }, rd = { rdispls, true };
    int err = prepare(call, sendbuf, recvbuf);
    if (err)
        return err;
    size_t n = (size_t)call->args.neighbors->nsources + (size_t)call->args.neighbors->ndestinations;
    err = check_both_sides(call, sendcounts, sd, recvcounts, rd);
    if (!err)
        err = copy_vectors(call, sendcounts, sd, recvcounts, rd, 2 * n * sizeof(void *));
    if (err)
        return err;
    err = set_types(call, sendtypes, recvtypes);
    if (err) {
        rt_reserve_free(call->vectors);
        return err;
    }
    return wm_call_run(call);
}
