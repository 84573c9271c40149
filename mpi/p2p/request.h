/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: allocation, completion, release.  Under the domain's lock. */
#ifndef WM_P2P_REQUEST_H
#define WM_P2P_REQUEST_H

#include "mpi/base/caller.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/resolve.h"

extern struct rt_slab wm_request_slab;

extern const struct rt_req_ops wm_send_ops, wm_recv_ops;
/* The domain under whose lock the request changes; NULL: it never does. */
struct wm_domain *wm_req_lane_of_other(const struct rt_req *r); /* than messages */
static inline struct wm_domain *wm_req_lane(const struct rt_req *r)
{
    if (r->flags & RT_REQ_STATIC)
        return NULL;
    return r->ops == &wm_recv_ops || r->ops == &wm_send_ops ? ((const struct wm_preq *)r)->dom
                                                            : wm_req_lane_of_other(r);
}
/* The same where there is a request; wm_main_domain where there is none, or one thread. */
static inline struct wm_domain *wm_req_domain(const struct rt_req *r)
{
    if (rt_unlikely(rt_threaded) && r && (r->flags & RT_REQ_STATIC || wm_lanes_on()))
        return wm_req_lane(r);
    return wm_main_domain;
}
/* The lock of the domain of requests; none (NULL) where they do not change, because all threads of
 * a program complete small sends with the same one. */
static inline void wm_req_lock(struct wm_domain *d)
{
    if (rt_unlikely(rt_threaded) && d)
        rt_lock_always(&d->lock);
}
static inline void wm_req_unlock(struct wm_domain *d)
{
    if (rt_unlikely(rt_threaded) && d)
        rt_unlock(&d->lock);
}
/* The thread holds the lock of *d, and then that of the request's domain. */
void wm_req_change(const struct rt_req *r, struct wm_domain **d);
static inline void wm_req_hold(const struct rt_req *r, struct wm_domain **d)
{
    if (rt_unlikely(wm_lanes_on()))
        wm_req_change(r, d);
}

/* Completes a request; releases one that the user has freed. */
void wm_req_end(struct rt_req *r, int err);
/* Release a completed (or detached) request. */
void wm_req_release(struct rt_req *r);
static inline MPI_Request wm_req_handle(const struct rt_req *r)
{
    return (MPI_Request)(uintptr_t)r->obj.handle;
}
/* Stores a request in the caller's memory: for procedures of DIRECT in mpi/api/table.py. */
static inline void wm_req_store(MPI_Request *to, const struct rt_req *r)
{
    if (rt_likely(wm_caller.abi != WM_MPICH))
        *to = wm_req_handle(r);
    else
        wm_caller_store(to, 0, WM_MPICH, wm_req_handle(r));
}
/* NULL for wm_caller.null and for wrong handles. */
static inline struct rt_req *wm_req_get(MPI_Request h)
{
    return rt_slab_get(&wm_request_slab, (uintptr_t)h);
}
/* Allocates a zeroed request of at most WM_REQ_MAX bytes from the request slab, for other kinds
 * than point-to-point (generalised requests, collective tasks).  NULL: no memory. */
#define WM_REQ_MAX 448
void *wm_req_alloc(const struct rt_req_ops *ops);
/* Always complete requests, never released: of a small send (MPI_Isend of an eager message), and of
 * a receive from MPI_PROC_NULL. */
extern struct rt_req *wm_req_complete, *wm_req_proc_null;
/* Create and destroy these two; counted, one call for each domain.  0 or -RT_ENOMEM. */
int wm_req_init(void);
void wm_req_fini(void);

struct wm_preq *wm_preq_make(struct wm_domain *d,
                             enum wm_preq_kind kind); /* used when no spare request is left */
static inline struct wm_preq *wm_preq_new(struct wm_domain *d, enum wm_preq_kind kind)
{
    struct wm_preq *q = d->spare.preq[kind];
    if (rt_unlikely(!q))
        return wm_preq_make(d, kind);
    d->spare.preq[kind] = q->r.arg;
    q->r.obj.handle = (uint32_t)q->r.err;
    q->r.err = 0;
    q->r.done = 0;
    q->r.flags = 0;
    q->r.notify = NULL;
    return q;
}
void wm_preq_release(struct rt_req *r);
/* A nonblocking call on `c` that fails because a process has died, or `c` is revoked, succeeds and
 * returns a request that has failed: whether the death or the revocation is known when the call
 * begins is chance, so a program gets the error from the same call each time.  `source`, `tag`: of
 * the request's status; `abi`: in which `request` is stored.  Takes the text of wm_err().  False:
 * another error, or no memory. */
bool wm_req_postpone(struct wm_comm *c, int errclass, int source, int tag, MPI_Request *request,
                     enum wm_abi abi) __attribute__((cold));
/* A request that has failed because its peer has gone counts as cancelled, if the peer had
 * published before that it sends and receives no more.  peer may be NULL. */
void wm_req_forgive(struct wm_preq *q, const struct wm_peer *peer);
/* The request whose handle a peer has sent; NULL: there is none, or one of another kind. */
struct wm_preq *wm_preq_named(uint32_t handle);
static inline void wm_preq_finish(struct wm_preq *q, int err) { wm_req_end(&q->r, err); }

/* The extra state of a request with a device buffer; from a free list. */
struct wm_dev {
    struct rt_gpu_ptr at; /* location of the buffer */
    struct rt_gpu_op op;  /* the copy of an eager message, or between buffers of this process */
    struct rt_gpu_stage *stage; /* holds an eager message until it is copied */
    struct wm_preq *q;
    bool scattered; /* data in several allocations: works only as pieces of packed host memory */
    bool exported;  /* send: the key in the RTS names the buffer */
    bool has_key;   /* receive: `key` is set */
    char key[BTL_KEY_MAX]; /* receive: key of the sender's buffer, kept for the case that the sender
                              cannot write */
    int fail;              /* an eager message was too long */
    struct wm_dev *next;   /* link in the list of spare ones */
};

/* Gives q the struct wm_dev of its buffer, which is not host memory, and marks q.  0, -RT_ENOMEM,
 * or the error of mem. */
int wm_dev_open(struct wm_preq *q, const struct wm_mem *mem);

#endif
