/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of the send-receive family (MPI-5.0 section 3.11).  The nonblocking form is the general
 * one: a request over two others; the receive is started first, so that the message finds it
 * posted. */
#include <stdlib.h>
#include "mpi/api/bodies.h"
#include "mpi/base/status.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/api_wait.h"
#include "mpi/p2p/checks.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/pack_any.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "runtime/base/err.h"

/* What MPI_Sendrecv_replace sends: the user's data, packed, in memory of the device that holds the
 * data, or of the host. */
struct copy {
    char *p;                    /* NULL: none */
    struct rt_gpu_stage *stage; /* owned; NULL: p is from malloc */
};

struct pair {                 /* request of MPI_Isendrecv */
    struct rt_req r;          /* first member */
    struct wm_comm *comm;     /* referenced */
    struct wm_type *types[2]; /* referenced, or NULL */
    struct copy copy;         /* replace: what is being sent, owned */
    int left;                 /* unfinished halves */
};
_Static_assert(sizeof(struct pair) <= WM_REQ_MAX, "request fits a slab slot");

static const struct rt_layout byte_layout = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true
};

/* Under the domain's lock when it is memory of a device. */
static void copy_give(struct copy *c)
{
    if (c->stage)
        rt_gpu_stage_give(c->stage);
    else
        free(c->p);
    *c = (struct copy){ .p = NULL };
}

static void pair_release(struct rt_req *r)
{
    struct pair *p = (struct pair *)r;
    for (int i = 0; i < 2; i++)
        if (p->types[i])
            wm_type_unref(p->types[i]);
    wm_comm_unref(p->comm);
    copy_give(&p->copy);
    rt_slab_free(&wm_request_slab, p);
}

static void *pair_owner(const struct rt_req *r) { return ((const struct pair *)r)->comm; }

static const struct rt_req_ops pair_ops = { .name = "send-receive",
                                            .release = pair_release,
                                            .owner = pair_owner };

static void half_done(struct pair *p, int err)
{
    if (err && !p->r.err)
        p->r.err = err;
    if (--p->left)
        return;
    bool detached = p->r.flags & RT_REQ_DETACHED;
    rt_req_finish(&p->r, p->r.err);
    if (detached)
        wm_req_release(&p->r);
}

static void send_done(struct rt_req *r, void *arg)
{
    int err = r->err;
    wm_req_release(r);
    half_done(arg, err);
}

static void recv_done(struct rt_req *r, void *arg)
{
    struct pair *p = arg;
    int err = r->err;
    p->r.status = r->status;
    wm_req_release(r);
    half_done(p, err);
}

static void watch(struct rt_req *r, void (*notify)(struct rt_req *, void *), struct pair *p)
{
    if (rt_req_done(r)) {
        notify(r, p);
        return;
    }
    r->notify = notify;
    r->arg = p;
    r->flags |= RT_REQ_INNER;
}

static struct wm_type *hold(struct wm_type *t)
{
    if (t->predefined)
        return NULL;
    wm_type_ref(t);
    return t;
}

/* The send cannot be started: the receive is cancelled.  A receive that is matched already must
 * complete. */
static int give_up(struct rt_req *rr, struct wm_type *rtype, int err)
{
    if (!rt_req_done(rr))
        rr->ops->cancel(rr);
    if (rt_req_done(rr)) {
        wm_req_release(rr);
    } else {
        ((struct wm_preq *)rr)->type = hold(rtype);
        rr->flags |= RT_REQ_DETACHED;
    }
    return err;
}

static int pair_start(const struct wm_msg *out, struct wm_type *stype, const struct wm_msg *in,
                      struct wm_type *rtype, const struct copy *copy, struct pair **pair_p)
{
    struct pair *p = wm_req_alloc(&pair_ops);
    struct rt_req *rr, *sr;
    if (!p)
        return -RT_ENOMEM;
    wm_checked_starting(in, true);
    wm_checked_starting(out, false);
    int err = wm_p2p_irecv(in, &rr);
    if (err >= 0) {
        wm_checked_start(rr, true);
        err = wm_p2p_isend(out, wm_checked_mode(WM_STANDARD), &sr);
        if (err < 0)
            give_up(rr, rtype, err);
    }
    if (err < 0) {
        rt_slab_free(&wm_request_slab, p);
        return err;
    }
    wm_checked_start(sr, true);
    p->comm = in->comm;
    wm_comm_ref(p->comm);
    p->types[0] = hold(stype);
    p->types[1] = hold(rtype);
    if (copy)
        p->copy = *copy;
    p->left = 2;
    watch(rr, recv_done, p);
    watch(sr, send_done, p);
    *pair_p = p;
    return 0;
}

/* One of status and request is given: blocking or nonblocking. */
static int exchange(const struct wm_msg *out, struct wm_type *stype, const struct wm_msg *in,
                    struct wm_type *rtype, struct copy *copy, MPI_Status *status,
                    MPI_Request *request)
{
    struct wm_domain *d = in->comm->dom;
    struct pair *p;
    rt_lock(&d->lock);
    int err = pair_start(out, stype, in, rtype, copy, &p);
    if (err < 0) {
        if (copy)
            copy_give(copy);
        err = err == -RT_EADDR
                  ? wm_dev_fault()
                  : wm_err_rt(err, "could not exchange with ranks %d and %d", out->peer, in->peer);
    } else if (request) {
        *request = wm_req_handle(&p->r);
    } else {
        err = wm_req_wait(d, &p->r, status);
    }
    rt_unlock(&d->lock);
    return err;
}

static int check_counts(MPI_Count scount, const struct wm_type *stype, MPI_Count rcount,
                        const struct wm_type *rtype)
{
    if (wm_nbytes(scount, &stype->layout) < 0 || wm_nbytes(rcount, &rtype->layout) < 0)
        return wm_err(MPI_ERR_COUNT, "a count times its type's size overflows 63 bits");
    return MPI_SUCCESS;
}

static int sendrecv(const struct wm_msg *out, struct wm_type *stype, const struct wm_msg *in,
                    struct wm_type *rtype, MPI_Status *status, MPI_Request *request)
{
    int err = check_counts(out->count, stype, in->count, rtype);
    return err ? err : exchange(out, stype, in, rtype, NULL, status, request);
}

/* Packs what is sent to `p` on its device.  Not by the driver's own copy, which takes 10 us for 8
 * bytes, where the library's copies take 3.5 us. */
static int fill_copy(const struct wm_msg *m, const struct rt_gpu_ptr *at, int64_t nbytes, char *p)
{
    struct rt_gpu_wait wait;
    if (!m->layout->contig || at->kind == RT_MEM_MANAGED)
        return wm_dev_move_now(at->g,
                               &(struct wm_packing){ m->layout, m->count, (char *)(uintptr_t)m->buf,
                                                     0, p, nbytes, true });
    rt_gpu_wait_begin(&wait);
    rt_gpu_copy_near(at->g, p, m->buf, (size_t)nbytes, &wait.op);
    return rt_gpu_wait(&wait);
}

/* -RT_ENOTSUP: the device has no memory left. */
static int copy_on_device(const struct wm_msg *m, const struct rt_gpu_ptr *at, int64_t nbytes,
                          struct copy *out)
{
    struct copy c = { .p = NULL };
    if (rt_gpu_stage_take(at->g, false, (size_t)nbytes, &c.stage) < 0)
        return -RT_ENOTSUP;
    c.p = c.stage->p;
    int err = fill_copy(m, at, nbytes, c.p);
    if (err < 0)
        copy_give(&c);
    else
        *out = c;
    return err;
}

static int copy_on_host(const struct wm_msg *m, const struct wm_mem *mem, int64_t nbytes,
                        struct copy *out)
{
    out->p = malloc((size_t)nbytes + 1);
    if (!out->p)
        return -RT_ENOMEM;
    int err = wm_move(mem, &(struct wm_packing){ m->layout, m->count, (char *)(uintptr_t)m->buf, 0,
                                                 out->p, nbytes, true });
    if (err < 0)
        copy_give(out);
    return err;
}

static int copy_take(const struct wm_msg *m, int64_t nbytes, struct copy *out)
{
    struct wm_mem mem;
    *out = (struct copy){ .p = NULL };
    rt_lock(&m->comm->dom->lock);
    int err = wm_resolve(m->buf, m->count, m->layout, nbytes, &mem);
    bool host = !err && mem.kind == WM_MEMORY_HOST;
    if (!err && !host)
        err = mem.kind == WM_MEMORY_DEVICE ? copy_on_device(m, &mem.at, nbytes, out) : -RT_ENOTSUP;
    if (err == -RT_ENOTSUP)
        err = copy_on_host(m, &mem, nbytes, out);
    rt_unlock(&m->comm->dom->lock);
    return host ? copy_on_host(m, &mem, nbytes, out) : err; /* other threads may use the lock */
}

static int replace(const struct wm_msg *in, struct wm_type *type, int dest, int sendtag,
                   MPI_Status *status, MPI_Request *request)
{
    struct copy copy;
    int err = check_counts(in->count, type, in->count, type);
    if (err)
        return err;
    int64_t nbytes = wm_nbytes(in->count, in->layout);
    err = copy_take(in, nbytes, &copy);
    if (err == -RT_ENOMEM)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a copy of the %lld bytes sent",
                      (long long)nbytes);
    if (err < 0)
        return wm_any_error(err);
    struct wm_msg out = { .buf = copy.p,
                          .count = nbytes,
                          .layout = &byte_layout,
                          .comm = in->comm,
                          .peer = dest,
                          .tag = sendtag };
    return exchange(&out, type, in, type, &copy, status, request);
}

int wm_api_sendrecv(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype, int dest,
                    int sendtag, void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype,
                    int source, int recvtag, struct wm_comm *comm, MPI_Status *status)
{
    struct wm_msg out = { .buf = sendbuf,
                          .count = sendcount,
                          .layout = &sendtype->layout,
                          .comm = wm_on_lane(comm),
                          .peer = dest,
                          .tag = sendtag };
    struct wm_msg in = { .buf = recvbuf,
                         .count = recvcount,
                         .layout = &recvtype->layout,
                         .comm = wm_on_lane(comm),
                         .peer = source,
                         .tag = recvtag };
    return sendrecv(&out, sendtype, &in, recvtype, status, NULL);
}

int wm_api_isendrecv(const void *sendbuf, MPI_Count sendcount, struct wm_type *sendtype, int dest,
                     int sendtag, void *recvbuf, MPI_Count recvcount, struct wm_type *recvtype,
                     int source, int recvtag, struct wm_comm *comm, MPI_Request *request)
{
    struct wm_msg out = { .buf = sendbuf,
                          .count = sendcount,
                          .layout = &sendtype->layout,
                          .comm = wm_on_lane(comm),
                          .peer = dest,
                          .tag = sendtag };
    struct wm_msg in = { .buf = recvbuf,
                         .count = recvcount,
                         .layout = &recvtype->layout,
                         .comm = wm_on_lane(comm),
                         .peer = source,
                         .tag = recvtag };
    return sendrecv(&out, sendtype, &in, recvtype, MPI_STATUS_IGNORE, request);
}

int wm_api_sendrecv_replace(void *buf, MPI_Count count, struct wm_type *datatype, int dest,
                            int sendtag, int source, int recvtag, struct wm_comm *comm,
                            MPI_Status *status)
{
    struct wm_msg in = { .buf = buf,
                         .count = count,
                         .layout = &datatype->layout,
                         .comm = wm_on_lane(comm),
                         .peer = source,
                         .tag = recvtag };
    return replace(&in, datatype, dest, sendtag, status, NULL);
}

int wm_api_isendrecv_replace(void *buf, MPI_Count count, struct wm_type *datatype, int dest,
                             int sendtag, int source, int recvtag, struct wm_comm *comm,
                             MPI_Request *request)
{
    struct wm_msg in = { .buf = buf,
                         .count = count,
                         .layout = &datatype->layout,
                         .comm = wm_on_lane(comm),
                         .peer = source,
                         .tag = recvtag };
    return replace(&in, datatype, dest, sendtag, MPI_STATUS_IGNORE, request);
}
