/* SPDX-License-Identifier: BSD-3-Clause */
/* Generalised requests (MPI-5.0 section 13.2): the user's own operations as requests.  The calls
 * that complete, inspect, cancel and free requests run the callbacks (mpi/p2p/api_wait.c), without
 * the domain's lock, because a callback may call MPI.  A request whose handle was freed while it
 * was pending is destroyed in MPI_Grequest_complete, which any thread may call. */
#include "mpi/api/bodies.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"

struct greq {
    struct rt_req r; /* first member */
    MPI_Grequest_query_function *query_fn;
    MPI_Grequest_free_function *free_fn;
    MPI_Grequest_cancel_function *cancel_fn;
    void *extra;
};
_Static_assert(sizeof(struct greq) <= WM_REQ_MAX, "generalised request fits a slab slot");

static int greq_query(struct rt_req *r, void *status)
{
    const struct greq *g = (struct greq *)r;
    return g->query_fn(g->extra, status);
}

static int greq_dispose(struct rt_req *r)
{
    const struct greq *g = (struct greq *)r;
    return g->free_fn(g->extra);
}

static int greq_cancel(struct rt_req *r)
{
    const struct greq *g = (struct greq *)r;
    return g->cancel_fn(g->extra, rt_req_done(r));
}

static const struct rt_req_ops greq_ops = { .name = "generalized request",
                                            .cancel = greq_cancel,
                                            .query = greq_query,
                                            .dispose = greq_dispose };

int wm_api_grequest_start(MPI_Grequest_query_function *query_fn,
                          MPI_Grequest_free_function *free_fn,
                          MPI_Grequest_cancel_function *cancel_fn, void *extra_state,
                          MPI_Request *request)
{
    struct greq *g = wm_req_alloc(&greq_ops);
    if (!g)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a generalized request");
    g->query_fn = query_fn;
    g->free_fn = free_fn;
    g->cancel_fn = cancel_fn;
    g->extra = extra_state;
    g->r.flags = RT_REQ_USER;
    *request = wm_req_handle(&g->r);
    return MPI_SUCCESS;
}

/* For a request without a handle, for which no thread can wait. */
static int dispose(struct wm_domain *d, struct greq *g)
{
    int err = greq_dispose(&g->r);
    rt_lock(&d->lock);
    wm_req_release(&g->r);
    rt_unlock(&d->lock);
    return err ? wm_err(err, "the free function of the generalized request returned %d", err)
               : MPI_SUCCESS;
}

int wm_api_grequest_complete(MPI_Request request)
{
    struct wm_domain *d = wm_main_domain;
    rt_lock(&d->lock);
    struct rt_req *r = wm_req_get(request);
    bool wrong = !r || r->ops != &greq_ops || rt_req_done(r), freed = false;
    if (!wrong) {
        freed = r->flags & RT_REQ_DETACHED;
        rt_req_finish(r, 0);
    }
    rt_unlock(&d->lock);
    if (wrong)
        return wm_err(MPI_ERR_REQUEST,
                      "0x%lx is not a pending request of MPI_Grequest_start; it is of another "
                      "kind, or complete already",
                      (unsigned long)(uintptr_t)request);
    return freed ? dispose(d, (struct greq *)r) : MPI_SUCCESS;
}
