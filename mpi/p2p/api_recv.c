/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of the receiving calls (MPI-5.0 sections 3.2.4, 3.7.2). */
#include "mpi/api/bodies.h"
#include "mpi/base/status.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/api_wait.h"
#include "mpi/p2p/checks.h"
#include "mpi/p2p/describe.h"
#include "mpi/p2p/failed.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/wait.h"

/* Polls of the source's line between two passes over everything: about a microsecond with a core
 * for each rank.  With more ranks than cores, other ranks need the core.  A value that is wrong for
 * a machine costs a fraction of a microsecond: too low, more passes over other sources; too high,
 * the other sources wait longer. */
#define POLLS 64
#define POLLS_CROWDED 2

static int recv_failed(int err, const struct wm_msg *m)
{
    if (err == -RT_EINVAL)
        return wm_err(MPI_ERR_COUNT, "count %lld times the type's size overflows 63 bits",
                      (long long)m->count);
    if (err == -RT_EADDR)
        return wm_dev_fault();
    return wm_err_rt(err, "could not receive from rank %d", m->peer);
}

static int start_plain(const struct wm_msg *m, struct wm_type *t, struct rt_req **out)
{
    int err = wm_p2p_irecv(m, out);
    if (rt_unlikely(err < 0))
        return recv_failed(err, m);
    if (!((*out)->flags & RT_REQ_STATIC) && !t->predefined && !rt_req_done(*out)) {
        ((struct wm_preq *)*out)->type = t;
        wm_type_ref(t);
    }
    return MPI_SUCCESS;
}

static __attribute__((noinline, cold)) int start_checked(const struct wm_msg *m, struct wm_type *t,
                                                         bool blocking, struct rt_req **out)
{
    wm_checked_starting(m, true);
    int err = start_plain(m, t, out);
    if (!err)
        wm_checked_start(*out, blocking);
    return err;
}

static int start(const struct wm_msg *m, struct wm_type *t, bool blocking, struct rt_req **out)
{
    return rt_unlikely(wm_checks != NULL) ? start_checked(m, t, blocking, out)
                                          : start_plain(m, t, out);
}

static int recv_general(const struct wm_msg *m, struct wm_type *t, MPI_Status *status)
{
    struct wm_domain *d = m->comm->dom;
    struct rt_req *r;
    rt_lock(&d->lock);
    int err = start(m, t, true, &r);
    if (!err)
        err = wm_req_wait(d, r, status);
    rt_unlock(&d->lock);
    return err;
}

static inline bool hot_poll(const struct wm_preq *q, struct wm_peer *p, int polls)
{
    if (rt_likely(p && p->poll))
        for (int i = 0; i < polls; i++) {
            p->poll(p->eager);
            if (rt_likely(q->r.done))
                return true;
            rt_relax();
        }
    return false;
}

/* A receive from any source, without a message, whose sender may have died. */
static bool give_up(struct wm_domain *d, struct wm_preq *q)
{
    if (q->peer_rank != MPI_ANY_SOURCE || d->hot != q || !wm_failed_unacked(q->comm))
        return false;
    d->hot = NULL;
    q->r.status = (struct rt_status){ .src = q->peer_rank, .tag = q->tag };
    rt_req_finish(&q->r, -RT_EPEER);
    return true;
}

/* After a pass that has found `n` events. */
static __attribute__((noinline)) void wait_longer(struct wm_domain *d, struct wm_preq *q,
                                                  struct wm_peer *p, int polls, int n)
{
    struct wm_wait wait = WM_WAIT_REQ(&q->r, ((struct wm_what){ wm_describe_preq, q }));
    do {
        if (n)
            wait.idle = (struct rt_idle){ 0 };
        else if (rt_unlikely(rt_dead()) && give_up(d, q))
            break;
        else
            wm_domain_idle(d, &wait);
        if (hot_poll(q, p, polls))
            break;
        n = wm_progress(d);
    } while (!q->r.done);
    wm_domain_left(d, &wait);
}

static void hot_wait(struct wm_domain *d, struct wm_preq *q, struct wm_peer *p)
{
    int polls = rt_idle_oversubscribed() ? POLLS_CROWDED : POLLS;
    if (hot_poll(q, p, polls))
        return;
    int n = wm_progress(d);
    if (!q->r.done)
        wait_longer(d, q, p, polls, n);
}

/* The request on the stack has no operations: the binding has the communicator already. */
static __attribute__((noinline, cold)) int hot_error(struct wm_preq *q)
{
    q->r.ops = &wm_recv_ops;
    return wm_req_error(&q->r);
}

static inline const struct wm_mem *not_host(const void *buf, MPI_Count count,
                                            const struct wm_type *t, struct wm_mem *room)
{
    return wm_resolve_now(buf, count, &t->layout, count * t->layout.size, room);
}

/* One thread: the request lives in this frame and is matched before the tables are searched. */
int wm_api_recv(void *buf, MPI_Count count, struct wm_type *datatype, int source, int tag,
                struct wm_comm *comm, MPI_Status *status)
{
    struct wm_domain *d = comm->dom;
    struct wm_peer *p = NULL;
    struct wm_mem room;
    const struct wm_mem *mem = NULL;
    if (rt_likely(!rt_threaded && source >= 0))
        p = comm->peers[source];
    if (rt_unlikely(rt_threaded || (!p && (source != MPI_ANY_SOURCE || comm->ft.revoked)) ||
                    (p && p->err) ||
                    (((uint64_t)count | (uint64_t)datatype->layout.size) >> 31) != 0 ||
                    (mem = not_host(buf, count, datatype, &room)))) {
        struct wm_msg m = { .buf = buf,
                            .count = count,
                            .layout = &datatype->layout,
                            .comm = wm_on_lane(comm),
                            .peer = source,
                            .tag = tag,
                            .mem = mem };
        return recv_general(&m, datatype, status);
    }
    struct wm_preq q;
    q.r.done = 0;
    q.r.flags = 0;
    q.r.notify = NULL;
    q.kind = WM_PREQ_ON_STACK;
    q.coll = false;
    q.dom = d;
    q.comm = comm;
    q.peer_rank = source;
    q.tag = tag;
    q.buf = buf;
    q.count = count;
    q.layout = &datatype->layout;
    q.nbytes = count * datatype->layout.size;
    q.posted.key = (struct wm_key){ .ctx = comm->ctx,
                                    .src = source,
                                    .tag = tag == MPI_ANY_TAG ? WM_MATCH_ANY : tag };
    struct wm_unex *u = d->match.nunex ? wm_match_find(&d->match, &q.posted.key) : NULL;
    if (u) {
        struct wm_stored *s = rt_container(u, struct wm_stored, unex);
        wm_match_remove(&d->match, u);
        wm_deliver(&q, s->from, s->kind, &u->key, s->data, s->len);
        wm_stored_free(d, s);
    } else {
        d->hot = &q;
    }
    if (!q.r.done)
        hot_wait(d, &q, p);
    if (status != MPI_STATUS_IGNORE)
        wm_status_set(status, q.r.status.src, q.r.status.tag, q.r.status.len, false);
    return rt_likely(!q.r.err) ? MPI_SUCCESS : hot_error(&q);
}

/* A known source, nothing unexpected: the request is filled from the arguments.  Under the lock. */
static inline struct wm_preq *irecv_now(void *buf, MPI_Count count, struct wm_type *t, int source,
                                        int tag, struct wm_comm *c, struct wm_mem *room,
                                        const struct wm_mem **mem)
{
    struct wm_domain *d = c->dom;
    if (rt_unlikely(source < 0 || d->match.nunex || !t->predefined ||
                    (((uint64_t)count | (uint64_t)t->layout.size) >> 31) != 0))
        return NULL;
    struct wm_peer *p = c->peers[source];
    if (rt_unlikely(!p || p->err || (*mem = not_host(buf, count, t, room))))
        return NULL;
    struct wm_preq *q = wm_preq_new(d, WM_PREQ_RECV);
    if (rt_unlikely(!q))
        return NULL;
    q->posted.key.ctx = c->ctx;
    q->posted.key.src = source;
    q->posted.key.tag = tag == MPI_ANY_TAG ? WM_MATCH_ANY : tag;
    q->state = WM_POSTED;
    q->coll = false;
    q->peer_rank = source;
    q->tag = tag;
    q->buf = buf;
    q->nbytes = count * t->layout.size;
    q->layout = &t->layout;
    q->count = count;
    q->comm = c;
    wm_comm_ref(c);
    wm_match_post(&d->match, &q->posted);
    return q;
}

static int start_under_lock(const struct wm_msg *m, struct wm_type *t, MPI_Request *request)
{
    struct rt_req *r;
    int err = start(m, t, false, &r);
    if (rt_likely(!err)) {
        wm_req_store(request, r);
        wm_dev_advance(m->comm->dom, r);
    }
    return err;
}

/* With threads, and with WEFT_CHECK, whose checks the other path has. */
static __attribute__((noinline)) int irecv_locked(struct wm_msg *m, struct wm_type *t,
                                                  MPI_Request *request)
{
    struct wm_domain *d = m->comm->dom;
    struct wm_mem room;
    int err = MPI_SUCCESS;
    rt_lock(&d->lock);
    struct wm_preq *q = NULL;
    if (rt_likely(!wm_checks))
        q = irecv_now((void *)(uintptr_t)m->buf, m->count, t, m->peer, m->tag, m->comm, &room,
                      &m->mem);
    if (rt_likely(q))
        wm_req_store(request, &q->r);
    else
        err = start_under_lock(m, t, request);
    rt_unlock(&d->lock);
    return err;
}

int wm_api_irecv(void *buf, MPI_Count count, struct wm_type *datatype, int source, int tag,
                 struct wm_comm *comm, MPI_Request *request)
{
    struct wm_mem room;
    const struct wm_mem *mem = NULL;
    if (rt_unlikely(rt_threaded)) {
        struct wm_msg m = { .buf = buf,
                            .count = count,
                            .layout = &datatype->layout,
                            .comm = wm_on_lane(comm),
                            .peer = source,
                            .tag = tag };
        return irecv_locked(&m, datatype, request);
    }
    struct wm_preq *q = irecv_now(buf, count, datatype, source, tag, comm, &room, &mem);
    if (rt_likely(q)) {
        wm_req_store(request, &q->r);
        return MPI_SUCCESS;
    }
    struct wm_msg m = { .buf = buf,
                        .count = count,
                        .layout = &datatype->layout,
                        .comm = comm,
                        .peer = source,
                        .tag = tag,
                        .mem = mem };
    return start_under_lock(&m, datatype, request);
}
