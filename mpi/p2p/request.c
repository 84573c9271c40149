/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests as objects: the slab of handles, the spare list of point-to-point requests, completion
 * and release. Called under the domain's lock. */
#include "mpi/p2p/request.h"
#include <stdio.h>
#include <stdlib.h>
#include "mpi/base/err.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/checks.h"
#include "mpi/p2p/describe.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"

_Static_assert(sizeof(struct wm_preq) <= WM_REQ_MAX, "point-to-point request fits a slab slot");
_Static_assert(sizeof(struct coll_task) <= WM_REQ_MAX, "collective task fits a slab slot");

struct req_slot {
    char bytes[WM_REQ_MAX];
};
struct rt_slab wm_request_slab = RT_SLAB_RESERVE(WM_REQUEST, "request", struct req_slot);

struct rt_req *wm_req_complete, *wm_req_proc_null;
const struct wm_checks *wm_checks;

void *wm_req_alloc(const struct rt_req_ops *ops)
{
    struct rt_req *r = rt_slab_alloc(&wm_request_slab);
    if (r)
        r->ops = ops;
    return r;
}

struct postponed {
    struct rt_req r; /* first member */
    struct wm_comm *comm;
    int errclass;
    char detail[256];
};
_Static_assert(sizeof(struct postponed) <= WM_REQ_MAX, "a failed call fits a slab slot");

static void postponed_release(struct rt_req *r)
{
    wm_comm_unref(((struct postponed *)r)->comm);
    rt_slab_free(&wm_request_slab, r);
}

static void *postponed_owner(const struct rt_req *r) { return ((const struct postponed *)r)->comm; }

static int postponed_error(const struct rt_req *r)
{
    const struct postponed *q = (const struct postponed *)r;
    return wm_err(q->errclass, "%s", q->detail);
}

static int postponed_cancel(struct rt_req *r)
{
    (void)r;
    return 0;
}

static const struct rt_req_ops postponed_ops = { .name = "call with a failed process",
                                                 .cancel = postponed_cancel,
                                                 .release = postponed_release,
                                                 .owner = postponed_owner,
                                                 .error = postponed_error };

bool wm_req_postpone(struct wm_comm *c, int errclass, int source, int tag, MPI_Request *request,
                     enum wm_abi abi)
{
    if (errclass != MPIX_ERR_PROC_FAILED && errclass != MPIX_ERR_REVOKED)
        return false;
    struct postponed *q = wm_req_alloc(&postponed_ops);
    if (!q)
        return false;
    q->errclass = errclass;
    snprintf(q->detail, sizeof q->detail, "%s", wm_err_detail());
    wm_err_clear();
    q->r.status = (struct rt_status){ .src = source, .tag = tag };
    rt_lock(&c->dom->lock);
    q->comm = c;
    wm_comm_ref(c);
    rt_unlock(&c->dom->lock);
    rt_req_finish(&q->r, errclass == MPIX_ERR_REVOKED ? -RT_EREVOKED : -RT_EPEER);
    wm_caller_store(request, 0, abi, wm_req_handle(&q->r));
    return true;
}

void wm_req_forgive(struct wm_preq *q, const struct wm_peer *peer)
{
    if (q->r.err != -RT_EPEER || !peer || !wm_peer_is_last(peer))
        return;
    q->r.err = 0;
    q->r.status.cancelled = true;
}

static int preq_cancel(struct rt_req *r)
{
    struct wm_preq *q = (struct wm_preq *)r;
    if (q->kind == WM_PREQ_SEND)
        return q->dom->cancel_send(q);
    if (rt_req_done(r) && q->peer_rank >= 0)
        wm_req_forgive(q, q->comm->peers[q->peer_rank]);
    if (q->state != WM_POSTED)
        return 0; /* matched: it completes normally (MPI-5.0 section 3.8.4) */
    wm_match_unpost(&q->dom->match, &q->posted);
    q->state = WM_IDLE;
    r->status = (struct rt_status){ .src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG, .cancelled = true };
    wm_preq_finish(q, 0);
    return 0;
}

int wm_dev_open(struct wm_preq *q, const struct wm_mem *mem)
{
    struct wm_domain *d = q->dom;
    struct wm_dev *v = d->spare.dev;
    if (mem->kind == WM_MEMORY_UNRESOLVED)
        return mem->err;
    if (v)
        d->spare.dev = v->next;
    else if (!(v = malloc(sizeof *v)))
        return -RT_ENOMEM;
    v->scattered = mem->kind == WM_MEMORY_SCATTERED;
    v->at = v->scattered ? (struct rt_gpu_ptr){ 0 } : mem->at;
    v->stage = NULL;
    v->q = q;
    v->exported = v->has_key = false;
    v->fail = 0;
    q->dev = v;
    q->r.flags |= RT_REQ_DEVICE;
    return 0;
}

static void close_watched(struct wm_preq *q)
{
    if (q->r.flags & RT_REQ_CHECKED)
        wm_checks->released(q);
    if (!(q->r.flags & RT_REQ_DEVICE))
        return;
    q->dev->next = q->dom->spare.dev;
    q->dom->spare.dev = q->dev;
    q->dev = NULL;
}

/* Spare requests keep their slab slot; only the generation of the handle changes, so stale handles
 * are still detected. */
void wm_preq_release(struct rt_req *r)
{
    struct wm_preq *q = (struct wm_preq *)r;
    struct wm_domain *d = q->dom;
    if (rt_unlikely(r->flags & (RT_REQ_DEVICE | RT_REQ_CHECKED)))
        close_watched(q); /* before its datatype ends */
    if (rt_unlikely(q->type)) {
        wm_type_unref(q->type);
        q->type = NULL;
    }
    if (rt_unlikely(q->peer)) { /* it took part in a rendezvous, or waited for room */
        q->peer = NULL;
        q->fail = 0;
    }
    wm_comm_unref(q->comm);
    uint32_t h = r->obj.handle, gen = 0x7fu << RT_SLAB_GEN_SHIFT;
    r->obj.handle = 0;
    r->err = (int)((h & ~gen) | ((h + (1u << RT_SLAB_GEN_SHIFT)) & gen));
    r->arg = d->spare.preq[q->kind];
    d->spare.preq[q->kind] = q;
}

static void *preq_owner(const struct rt_req *r) { return ((const struct wm_preq *)r)->comm; }

static void preq_describe(const struct rt_req *r, struct rt_wait_note *n)
{
    wm_describe_preq(r, n);
}

const struct rt_req_ops wm_send_ops = { .name = "send",
                                        .cancel = preq_cancel,
                                        .release = wm_preq_release,
                                        .owner = preq_owner,
                                        .describe = preq_describe };
const struct rt_req_ops wm_recv_ops = { .name = "receive",
                                        .cancel = preq_cancel,
                                        .release = wm_preq_release,
                                        .owner = preq_owner,
                                        .describe = preq_describe };
static const struct rt_req_ops static_ops = { .name = "completed operation" };

struct wm_domain *wm_req_lane_of_other(const struct rt_req *r)
{
    const struct wm_comm *c = r->ops->owner ? r->ops->owner(r) : NULL;
    return c ? c->dom : wm_main_domain;
}

void wm_req_change(const struct rt_req *r, struct wm_domain **d)
{
    struct wm_domain *e = wm_req_lane(r);
    if (!e || e == *d)
        return;
    rt_unlock(&(*d)->lock);
    rt_lock(&e->lock);
    *d = e;
}

static struct rt_req *static_req(int src)
{
    struct rt_req *r = wm_req_alloc(&static_ops);
    if (!r)
        return NULL;
    r->done = 1;
    r->flags = RT_REQ_STATIC;
    r->status = (struct rt_status){ .src = src, .tag = MPI_ANY_TAG };
    return r;
}

static int users; /* domains */

int wm_req_init(void)
{
    if (users++)
        return 0;
    wm_req_complete = static_req(MPI_ANY_SOURCE);
    wm_req_proc_null = static_req(MPI_PROC_NULL);
    return wm_req_complete && wm_req_proc_null ? 0 : -RT_ENOMEM;
}

void wm_req_fini(void)
{
    if (users == 0 || --users)
        return;
    if (wm_req_complete)
        rt_slab_free(&wm_request_slab, wm_req_complete);
    if (wm_req_proc_null)
        rt_slab_free(&wm_request_slab, wm_req_proc_null);
    wm_req_complete = wm_req_proc_null = NULL;
}

struct wm_preq *wm_preq_make(struct wm_domain *d, enum wm_preq_kind kind)
{
    struct wm_preq *q = rt_slab_alloc(&wm_request_slab);
    if (!q)
        return NULL;
    q->r.ops = kind == WM_PREQ_RECV ? &wm_recv_ops : &wm_send_ops;
    q->kind = (uint8_t)kind;
    q->dom = d;
    return q;
}

struct wm_preq *wm_preq_named(uint32_t handle)
{
    struct rt_req *r = rt_slab_get(&wm_request_slab, handle);
    return r && (r->ops == &wm_recv_ops || r->ops == &wm_send_ops) ? (struct wm_preq *)r : NULL;
}

void wm_req_end(struct rt_req *r, int err)
{
    bool detached = r->flags & RT_REQ_DETACHED;
    rt_req_finish(r, err);
    if (rt_unlikely(detached))
        wm_req_release(r);
}

void wm_req_release(struct rt_req *r)
{
    if (r->flags & RT_REQ_STATIC)
        return;
    if (r->ops == &wm_recv_ops) /* the usual one, without the indirect call */
        wm_preq_release(r);
    else if (r->ops->release)
        r->ops->release(r);
    else
        rt_slab_free(&wm_request_slab, r);
}
