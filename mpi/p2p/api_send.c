/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of the sending calls (MPI-5.0 sections 3.4, 3.7.2): four modes, blocking and nonblocking.
 */
#include "mpi/api/bodies.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/api_wait.h"
#include "mpi/p2p/buffered.h"
#include "mpi/p2p/checks.h"
#include "mpi/p2p/flow.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"

static int send_failed(int err, const struct wm_msg *m)
{
    if (err == -RT_EBUFFER)
        return wm_err(
            MPI_ERR_BUFFER,
            "the attached buffer has no room for %lld bytes; attach a larger one with "
            "MPI_Buffer_attach (message size + MPI_BSEND_OVERHEAD for each pending message)",
            (long long)wm_nbytes(m->count, m->layout));
    if (err == -RT_EINVAL)
        return wm_err(MPI_ERR_COUNT, "count %lld times the type's size overflows 63 bits",
                      (long long)m->count);
    if (err == -RT_EADDR)
        return wm_dev_fault();
    return wm_err_rt(err, "could not send to rank %d", m->peer);
}

/* The request holds a reference to the datatype until it is complete. */
static void hold_type(struct rt_req *r, struct wm_type *t)
{
    if ((r->flags & RT_REQ_STATIC) || t->predefined || rt_req_done(r))
        return;
    ((struct wm_preq *)r)->type = t;
    wm_type_ref(t);
}

static int start_plain(const struct wm_msg *m, enum wm_mode mode, struct wm_type *t,
                       struct rt_req **out)
{
    int err = wm_p2p_isend(m, mode, out);
    if (rt_unlikely(err < 0))
        return send_failed(err, m);
    hold_type(*out, t);
    return MPI_SUCCESS;
}

static __attribute__((noinline, cold)) int start_checked(const struct wm_msg *m, enum wm_mode mode,
                                                         struct wm_type *t, bool blocking,
                                                         struct rt_req **out)
{
    wm_checked_starting(m, false);
    int err = start_plain(m, wm_checked_mode(mode), t, out);
    if (!err)
        wm_checked_start(*out, blocking);
    return err;
}

static int start(const struct wm_msg *m, enum wm_mode mode, struct wm_type *t, bool blocking,
                 struct rt_req **out)
{
    return rt_unlikely(wm_checks != NULL) ? start_checked(m, mode, t, blocking, out)
                                          : start_plain(m, mode, t, out);
}

static __attribute__((noinline)) int send_wait(const struct wm_msg *m, enum wm_mode mode,
                                               struct wm_type *t)
{
    struct wm_domain *d = m->comm->dom;
    struct rt_req *r;
    rt_lock(&d->lock);
    int err = start(m, mode, t, true, &r);
    if (!err)
        err = wm_req_wait(d, r, MPI_STATUS_IGNORE);
    rt_unlock(&d->lock);
    return err;
}

static int send_start(const struct wm_msg *m, enum wm_mode mode, struct wm_type *t,
                      MPI_Request *request)
{
    struct wm_domain *d = m->comm->dom;
    struct rt_req *r;
    rt_lock(&d->lock);
    int err = start(m, mode, t, false, &r);
    if (!err) {
        wm_req_store(request, r);
        wm_dev_advance(d, r);
    }
    rt_unlock(&d->lock);
    return err;
}

#define MSG(buf_, n_, t_, peer_, tag_, comm_) \
    { \
        .buf = (buf_), .count = (n_), .layout = &(t_)->layout, .comm = wm_on_lane(comm_), \
        .peer = (peer_), .tag = (tag_) \
    }

/* One small contiguous message: straight into the transport.  Under the lock. */
static inline bool send_now(const void *buf, MPI_Count count, const struct wm_type *t, int dest,
                            int tag, struct wm_comm *c, struct wm_mem *room,
                            const struct wm_mem **mem)
{
    if (rt_unlikely(dest < 0))
        return false;
    struct wm_peer *p = c->peers[dest];
    if (rt_unlikely(!p || p->budget <= 0 || !t->layout.contig ||
                    (((uint64_t)count | (uint64_t)t->layout.size) >> 31) != 0))
        return false;
    size_t len = (size_t)count * (size_t)t->layout.size;
    if (len > p->eager_max || (*mem = wm_resolve_contig(buf, (int64_t)len, room)))
        return false;
    struct btl_hdr hdr = wm_hdr(WM_EAGER, c->ctx, tag, c->rank);
    if (rt_unlikely(p->send(p->eager, &hdr, buf, len) != 0))
        return false;
    wm_count_eager(c->dom, (int64_t)len);
    wm_flow_sent(p, (int64_t)len);
    return true;
}

/* With threads, and with WEFT_CHECK, whose checks the other path has.  `request`: NULL of a
 * blocking call. */
static __attribute__((noinline)) int send_locked(const void *buf, MPI_Count count,
                                                 struct wm_type *t, int dest, int tag,
                                                 struct wm_comm *comm, MPI_Request *request)
{
    struct wm_msg m = MSG(buf, count, t, dest, tag, comm);
    struct wm_domain *d = m.comm->dom;
    struct wm_mem room;
    rt_lock(&d->lock);
    bool sent = rt_likely(!wm_checks) && send_now(buf, count, t, dest, tag, m.comm, &room, &m.mem);
    if (rt_likely(sent && request))
        wm_req_store(request, wm_req_complete);
    rt_unlock(&d->lock);
    if (rt_likely(sent))
        return MPI_SUCCESS;
    return request ? send_start(&m, WM_STANDARD, t, request) : send_wait(&m, WM_STANDARD, t);
}

int wm_api_send(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                struct wm_comm *comm)
{
    struct wm_mem room;
    const struct wm_mem *mem = NULL;
    if (rt_unlikely(rt_threaded))
        return send_locked(buf, count, datatype, dest, tag, comm, NULL);
    if (rt_likely(send_now(buf, count, datatype, dest, tag, comm, &room, &mem)))
        return MPI_SUCCESS;
    struct wm_msg m = MSG(buf, count, datatype, dest, tag, comm);
    m.mem = mem;
    return send_wait(&m, WM_STANDARD, datatype);
}

int wm_api_rsend(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                 struct wm_comm *comm)
{
    return wm_api_send(buf, count, datatype, dest, tag, comm);
}

int wm_api_ssend(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                 struct wm_comm *comm)
{
    struct wm_msg m = MSG(buf, count, datatype, dest, tag, comm);
    return send_wait(&m, WM_SYNCHRONOUS, datatype);
}

int wm_api_bsend(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                 struct wm_comm *comm)
{
    struct wm_msg m = MSG(buf, count, datatype, dest, tag, comm);
    rt_lock(&m.comm->dom->lock);
    wm_checked_starting(&m, false);
    int err = wm_p2p_bsend(&m, datatype);
    rt_unlock(&m.comm->dom->lock);
    return err < 0 ? send_failed(err, &m) : MPI_SUCCESS;
}

int wm_api_isend(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                 struct wm_comm *comm, MPI_Request *request)
{
    struct wm_mem room;
    const struct wm_mem *mem = NULL;
    if (rt_unlikely(rt_threaded))
        return send_locked(buf, count, datatype, dest, tag, comm, request);
    if (rt_likely(send_now(buf, count, datatype, dest, tag, comm, &room, &mem))) {
        wm_req_store(request, wm_req_complete);
        return MPI_SUCCESS;
    }
    struct wm_msg m = MSG(buf, count, datatype, dest, tag, comm);
    m.mem = mem;
    return send_start(&m, WM_STANDARD, datatype, request);
}

int wm_api_irsend(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                  struct wm_comm *comm, MPI_Request *request)
{
    return wm_api_isend(buf, count, datatype, dest, tag, comm, request);
}

int wm_api_issend(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                  struct wm_comm *comm, MPI_Request *request)
{
    struct wm_msg m = MSG(buf, count, datatype, dest, tag, comm);
    return send_start(&m, WM_SYNCHRONOUS, datatype, request);
}

int wm_api_ibsend(const void *buf, MPI_Count count, struct wm_type *datatype, int dest, int tag,
                  struct wm_comm *comm, MPI_Request *request)
{
    int err = wm_api_bsend(buf, count, datatype, dest, tag, comm);
    if (!err)
        wm_req_store(request, wm_req_complete);
    return err;
}
