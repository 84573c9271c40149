/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective call in any of its forms: blocking, nonblocking or persistent. */
#ifndef WM_COLL_CALL_H
#define WM_COLL_CALL_H

#include "mpi/base/comm.h"
#include "mpi/datatype/type.h"
#include "mpi/op/op.h"
#include "mpi/p2p/lane.h"

enum wm_form { WM_BLOCKING, WM_NONBLOCKING, WM_PERSISTENT };

/* The binding fills in the first members, args.kind and args.root; the body fills in the rest. */
struct wm_call {
    struct wm_comm *comm;
    enum wm_form form;
    bool attended;        /* nonblocking, but a thread polls it until its end */
    MPI_Request *request; /* NULL when blocking */
    struct coll_args args;
    struct wm_type *stype, *rtype; /* referenced until the end of a nonblocking call; NULL: none */
    struct wm_op *op;
    void *vectors; /* arrays of rt_reserve_alloc() that args points to; freed by wm_call_run() or
                      with the request */
    struct wm_type **types; /* w forms: ntypes of them, referenced, inside `vectors` */
    int ntypes;
};

/* wm_call_root: whether this process is the root of a rooted call.  The other: whether it sends to
 * the root or receives from it.  On an intercommunicator the other processes of the root's group
 * take no part. */
static inline bool wm_call_root(const struct wm_comm *c, int root)
{
    return root == (c->inter ? MPI_ROOT : c->rank);
}
static inline bool wm_call_leaf(const struct wm_comm *c, int root)
{
    return !c->inter || root >= 0;
}

/* Set the send and the receive side of a call; count is 0 for v forms. */
static inline void wm_call_send(struct wm_call *call, const void *buf, int64_t count,
                                struct wm_type *type)
{
    call->args.sbuf = buf;
    if (buf == MPI_IN_PLACE)
        return;
    call->args.scount = count;
    call->args.stype = &type->layout;
    call->stype = type;
}
static inline void wm_call_recv(struct wm_call *call, void *buf, int64_t count,
                                struct wm_type *type)
{
    call->args.rbuf = buf;
    if (buf == MPI_IN_PLACE)
        return;
    call->args.rcount = count;
    call->args.rtype = &type->layout;
    call->rtype = type;
}

/* Under whose lock the collectives of `c` run: its tasks, the state of its team, its requests. */
static inline struct wm_domain *wm_coll_domain(struct wm_comm *c) { return wm_on_lane(c)->dom; }

/* Starts the call, and completes it if it is blocking.  Returns MPI_SUCCESS or what wm_err()
 * returned. */
int wm_call_run(struct wm_call *call);
/* The algorithm of the last call that was started in any lane, for tools; NULL: none was needed. */
extern const struct coll_alg *wm_coll_last;

/* Runs one blocking collective on the communicator's team; under the lock of wm_coll_domain().
 * Returns 0 or -RT_E. */
int wm_coll_run(struct wm_comm *c, const struct coll_args *a);
/* The first half of that, for callers that wait in their own way: 0, and the call has ended or `k`
 * is one of the domain's tasks until k->req.done; or -RT_E... */
int wm_coll_begin(struct wm_comm *c, struct coll_team *t, const struct coll_args *a,
                  struct coll_task *k);
/* Starts a collective that the caller advances by coll_task_advance(); `a` points to memory that
 * stays until the end.  0 or -RT_E... */
int wm_coll_post(struct wm_comm *c, const struct coll_args *a, struct coll_task *k);
/* Converts the vectors of a v form to 64-bit arrays: scounts, sdispls, rcounts, rdispls; a NULL `v`
 * is skipped.  A blocking call of few processes keeps them in `few`, an array of WM_FEW entries
 * that the caller keeps until the call returns; NULL: always allocates.  MPI_SUCCESS or what
 * wm_err() returned. */
#define WM_FEW 64
int wm_call_vectors(struct wm_call *call, int64_t *few, struct wm_counts sc, struct wm_displs sd,
                    struct wm_counts rc, struct wm_displs rd);
/* Space for 4 pointers per process after the vectors, for the w forms; call it after
 * wm_call_vectors(). */
void *wm_call_more(const struct wm_call *call);

#endif
