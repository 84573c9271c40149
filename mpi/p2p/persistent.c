/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent point-to-point requests (MPI-5.0 section 3.9): the request holds the arguments; each
 * start runs an ordinary send or receive and takes over its result. */
#include "mpi/api/bodies.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/buffered.h"
#include "mpi/p2p/checks.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/persistent.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "runtime/base/cfg.h"

struct persistent {
    struct rt_req r; /* first member */
    struct wm_msg msg;
    enum wm_mode mode;
    bool is_recv;
    struct wm_type *type;  /* referenced, or NULL: predefined */
    struct rt_req *active; /* the running send or receive */
};
_Static_assert(sizeof(struct persistent) <= WM_REQ_MAX, "persistent request fits a slab slot");

static void take_over(struct persistent *q, struct rt_req *inner)
{
    int err = inner->err;
    q->r.status = inner->status;
    q->active = NULL;
    wm_req_release(inner);
    wm_req_end(&q->r, err);
}

static void inner_done(struct rt_req *inner, void *arg) { take_over(arg, inner); }

static int persistent_start(struct rt_req *r)
{
    struct persistent *q = (struct persistent *)r;
    struct rt_req *inner = wm_req_complete;
    wm_checked_starting(&q->msg, q->is_recv);
    int err = q->is_recv               ? wm_p2p_irecv(&q->msg, &inner)
              : q->mode == WM_BUFFERED ? wm_p2p_bsend(&q->msg, NULL)
                                       : wm_p2p_isend(&q->msg, wm_checked_mode(q->mode), &inner);
    if (err < 0)
        return err;
    wm_checked_start(inner, false);
    r->done = 0;
    r->err = 0;
    r->flags |= RT_REQ_ACTIVE;
    if (rt_req_done(inner)) {
        take_over(q, inner);
        return 0;
    }
    inner->notify = inner_done;
    inner->arg = q;
    inner->flags |= RT_REQ_INNER;
    q->active = inner;
    return 0;
}

static int persistent_cancel(struct rt_req *r)
{
    struct rt_req *inner = ((struct persistent *)r)->active;
    return inner && inner->ops->cancel ? inner->ops->cancel(inner) : 0;
}

static void persistent_release(struct rt_req *r)
{
    struct persistent *q = (struct persistent *)r;
    if (q->type)
        wm_type_unref(q->type);
    wm_comm_unref(q->msg.comm);
    rt_slab_free(&wm_request_slab, q);
}

static void *persistent_owner(const struct rt_req *r)
{
    return ((const struct persistent *)r)->msg.comm;
}

static const struct rt_req_ops persistent_ops = {
    .name = "persistent request",
    .start = persistent_start,
    .cancel = persistent_cancel,
    .release = persistent_release,
    .owner = persistent_owner,
};

const struct rt_req *wm_persistent_inner(const struct rt_req *r)
{
    return r->ops == &persistent_ops ? ((const struct persistent *)r)->active : r;
}

static int make(const struct wm_msg *m, struct wm_type *t, enum wm_mode mode, bool is_recv,
                MPI_Request *request)
{
    if (wm_nbytes(m->count, m->layout) < 0)
        return wm_err(MPI_ERR_COUNT, "count %lld times the type's size overflows 63 bits",
                      (long long)m->count);
    struct persistent *q = wm_req_alloc(&persistent_ops);
    if (!q)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a persistent request");
    q->r.flags = RT_REQ_PERSISTENT;
    q->r.done = 1;
    q->msg = *m;
    q->mode = mode;
    q->is_recv = is_recv;
    rt_lock(&m->comm->dom->lock);
    wm_comm_ref(m->comm);
    rt_unlock(&m->comm->dom->lock);
    if (!t->predefined) {
        q->type = t;
        wm_type_ref(t);
    }
    *request = wm_req_handle(&q->r);
    return MPI_SUCCESS;
}

static int send_init(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                     struct wm_comm *comm, enum wm_mode mode, MPI_Request *request)
{
    struct wm_msg m = { .buf = buf,
                        .count = count,
                        .layout = &datatype->layout,
                        .comm = wm_on_lane(comm),
                        .peer = dest,
                        .tag = tag };
    return make(&m, datatype, mode, false, request);
}

int wm_api_send_init(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                     struct wm_comm *comm, MPI_Request *request)
{
    return send_init(buf, count, datatype, dest, tag, comm, WM_STANDARD, request);
}

int wm_api_ssend_init(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                      struct wm_comm *comm, MPI_Request *request)
{
    return send_init(buf, count, datatype, dest, tag, comm, WM_SYNCHRONOUS, request);
}

int wm_api_bsend_init(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                      struct wm_comm *comm, MPI_Request *request)
{
    return send_init(buf, count, datatype, dest, tag, comm, WM_BUFFERED, request);
}

int wm_api_rsend_init(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                      struct wm_comm *comm, MPI_Request *request)
{
    return send_init(buf, count, datatype, dest, tag, comm, WM_READY, request);
}

int wm_api_recv_init(void *buf, MPI_Count count, struct wm_type *datatype, int source, int tag,
                     struct wm_comm *comm, MPI_Request *request)
{
    struct wm_msg m = { .buf = buf,
                        .count = count,
                        .layout = &datatype->layout,
                        .comm = wm_on_lane(comm),
                        .peer = source,
                        .tag = tag };
    return make(&m, datatype, WM_STANDARD, true, request);
}

static int is_active(int i)
{
    return wm_err(
        MPI_ERR_REQUEST,
        "request %d is active; complete it with a wait or test before it is started again", i);
}

static int start_one(struct rt_req *r)
{
    int err = r->ops->start(r);
    if (err >= 0)
        return MPI_SUCCESS;
    if ((cfg.ft && err == -RT_EPEER) || err == -RT_EREVOKED) { /* as wm_req_postpone() */
        r->flags |= RT_REQ_ACTIVE;
        rt_req_finish(r, err);
        return MPI_SUCCESS;
    }
    if (r->ops->owner)
        wm_err_attach(r->ops->owner(r));
    if (err == -RT_EADDR)
        return wm_dev_fault();
    return err == -RT_EBUFFER
               ? wm_err(MPI_ERR_BUFFER, "the attached buffer has no room; attach a larger one")
               : wm_err_rt(err, "could not start the %s", r->ops->name);
}

int wm_api_startall(int count, MPI_Request requests[])
{
    enum wm_abi abi = wm_caller.abi;
    for (int i = 0; i < count; i++) {
        MPI_Request h = wm_caller_request(requests, i, abi);
        struct rt_req *r = wm_req_get(h);
        if (!r || !r->ops->start || !(r->flags & RT_REQ_PERSISTENT))
            return wm_err(MPI_ERR_REQUEST, "request %d, 0x%lx, is not a persistent request", i,
                          (unsigned long)(uintptr_t)h);
        if (r->flags & RT_REQ_ACTIVE)
            return is_active(i);
    }
    struct wm_domain *d = wm_main_domain;
    int err = MPI_SUCCESS;
    rt_lock(&d->lock);
    for (int i = 0; i < count && !err; i++) {
        struct rt_req *r = wm_req_get(wm_caller_request(requests, i, abi));
        wm_req_hold(r, &d);
        err = r->flags & RT_REQ_ACTIVE ? is_active(i) : start_one(r); /* named twice */
    }
    rt_unlock(&d->lock);
    return err;
}

int wm_api_start(MPI_Request *request) { return wm_api_startall(1, request); }
