/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs collective calls: a blocking one from a task on the stack, a nonblocking or persistent one
 * from a request.  Takes the domain's lock unless said otherwise. */
#include "mpi/core/coll_call.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "mpi/p2p/p2p.h"
#include "mpi/tool/event.h"
#include "runtime/base/err.h"

/* Polls of a blocking call's own task before the general wait, which also looks at the transports.
 * Ranks with a core each finish a small call on shared memory within this. */
#define OWN_POLLS 100
/* Where ranks outnumber cores, polling only delays those that this call waits for: the core is
 * given away after every look.  So many rounds of all ranks are far more than a call takes whose
 * ranks have all entered it. */
#define OWN_YIELDS 50

/* A nonblocking or persistent collective as a request. */
struct coll_req {
    struct coll_task task; /* first member: its req is the request */
    struct wm_comm *comm;
    struct wm_type *stype, *rtype, **types;
    struct wm_op *op;
    void *vectors;
    int ntypes;
};
_Static_assert(sizeof(struct coll_req) <= WM_REQ_MAX, "collective request fits a slab slot");

static void hold(struct coll_req *q, const struct wm_call *call)
{
    q->comm = call->comm;
    q->stype = call->stype;
    q->rtype = call->rtype;
    q->op = call->op;
    q->vectors = call->vectors;
    q->types = call->types;
    q->ntypes = call->ntypes;
    wm_comm_ref(q->comm);
    if (q->stype)
        wm_type_ref(q->stype);
    if (q->rtype)
        wm_type_ref(q->rtype);
    for (int i = 0; i < q->ntypes; i++)
        if (q->types[i])
            wm_type_ref(q->types[i]);
    if (q->op)
        wm_op_ref(q->op);
}

static void req_release(struct rt_req *r)
{
    struct coll_req *q = (struct coll_req *)r;
    if (q->stype)
        wm_type_unref(q->stype);
    if (q->rtype)
        wm_type_unref(q->rtype);
    for (int i = 0; i < q->ntypes; i++)
        if (q->types[i])
            wm_type_unref(q->types[i]);
    if (q->op)
        wm_op_unref(q->op);
    free(q->vectors);
    wm_comm_unref(q->comm);
    rt_slab_free(&wm_request_slab, q);
}

static void *req_owner(const struct rt_req *r) { return ((const struct coll_req *)r)->comm; }

/* After the request has finished: a handle that the user gave up goes with it. */
static void req_done(struct rt_req *r, void *arg)
{
    (void)arg;
    if (r->flags & RT_REQ_DETACHED)
        wm_req_release(r);
}

static void run_task(struct wm_domain *d, struct coll_task *k)
{
    if (!coll_task_advance(k))
        wm_domain_add_task(d, k);
}

static int req_start(struct rt_req *r)
{
    struct coll_req *q = (struct coll_req *)r;
    r->done = 0;
    r->err = 0;
    int err = coll_restart(&q->task);
    if (err < 0) {
        r->done = 1;
        return err;
    }
    r->flags |= RT_REQ_ACTIVE;
    wm_tool_coll(q->comm->dom, &q->task);
    run_task(q->comm->dom, &q->task);
    return 0;
}

static const struct rt_req_ops req_ops = { .name = "collective operation",
                                           .release = req_release,
                                           .owner = req_owner };
static const struct rt_req_ops persistent_ops = { .name = "persistent collective operation",
                                                  .start = req_start,
                                                  .release = req_release,
                                                  .owner = req_owner };

/* A call's first moments, before it joins the domain's tasks; whether it finished. */
static bool run_alone(struct wm_domain *d, struct coll_task *k)
{
    if (!rt_idle_oversubscribed()) {
        for (int i = 0; i < OWN_POLLS; i++) {
            if (coll_task_advance(k))
                return true;
            rt_relax();
        }
        return false;
    }
    for (int i = 0; i < OWN_YIELDS; i++) {
        if (coll_task_advance(k))
            return true;
        rt_unlock(&d->lock);
        sched_yield();
        rt_lock(&d->lock);
        wm_progress(d);
    }
    return false;
}

int wm_coll_run(struct wm_comm *c, const struct coll_args *a)
{
    struct coll_task k;
    k.req = (struct rt_req){ 0 };
    int err = coll_start(&c->team, a, &k);
    if (err < 0)
        return err;
    wm_tool_coll(c->dom, &k);
    if (!run_alone(c->dom, &k)) {
        wm_domain_add_task(c->dom, &k);
        wm_domain_wait(c->dom, &k.req.done);
    }
    return k.req.err;
}

static int start_request(struct wm_call *call)
{
    bool persistent = call->form == WM_PERSISTENT;
    struct coll_req *q = wm_req_alloc(persistent ? &persistent_ops : &req_ops);
    if (!q) {
        free(call->vectors);
        return -RT_ENOMEM;
    }
    int err = 0;
    q->task.req.status = (struct rt_status){ .src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };
    q->task.req.notify = req_done;
    hold(q, call);
    if (persistent) {
        q->task.req.flags = RT_REQ_PERSISTENT;
        q->task.req.done = 1;
        coll_prepare(&call->comm->team, &call->args, &q->task);
    } else {
        err = coll_start(&call->comm->team, &call->args, &q->task);
        if (err >= 0) {
            wm_tool_coll(call->comm->dom, &q->task);
            run_task(call->comm->dom, &q->task);
        }
    }
    if (err < 0)
        req_release(&q->task.req);
    else
        *call->request = wm_req_handle(&q->task.req);
    return err;
}

int wm_call_run(struct wm_call *call)
{
    struct wm_comm *c = call->comm;
    const char *name = coll_kind_names[call->args.kind];
    int err;
    if (c->inter) {
        free(call->vectors);
        return wm_err(MPI_ERR_UNSUPPORTED_OPERATION,
                      "%s on an intercommunicator is not implemented; use an intracommunicator",
                      name);
    }
    rt_lock(&c->dom->lock);
    if (call->form == WM_BLOCKING) {
        err = wm_coll_run(c, &call->args);
        free(call->vectors);
    } else {
        err = start_request(call);
    }
    rt_unlock(&c->dom->lock);
    return rt_unlikely(err < 0) ? wm_err_rt(err, "%s among %d processes", name, c->size)
                                : MPI_SUCCESS;
}

static const int64_t *counts_in(int64_t *to, struct wm_counts v, int n)
{
    for (int i = 0; v.v && i < n; i++)
        to[i] = wm_count_at(v, i);
    return v.v ? to : NULL;
}

static const int64_t *displs_in(int64_t *to, struct wm_displs v, int n)
{
    for (int i = 0; v.v && i < n; i++)
        to[i] = wm_displ_at(v, i);
    return v.v ? to : NULL;
}

int wm_call_vectors(struct wm_call *call, struct wm_counts sc, struct wm_displs sd,
                    struct wm_counts rc, struct wm_displs rd)
{
    int n = call->comm->size;
    int64_t *v = malloc(4 * (size_t)n * (sizeof *v + sizeof(void *)));
    if (!v)
        return wm_err(MPI_ERR_NO_MEM, "no memory for the counts of %d processes", n);
    call->vectors = v;
    call->args.scounts = counts_in(v, sc, n);
    call->args.sdispls = displs_in(v + n, sd, n);
    call->args.rcounts = counts_in(v + 2 * n, rc, n);
    call->args.rdispls = displs_in(v + 3 * n, rd, n);
    return MPI_SUCCESS;
}

void *wm_call_more(const struct wm_call *call)
{
    void *more = (int64_t *)call->vectors + 4 * call->comm->size;
    memset(more, 0, 4 * (size_t)call->comm->size * sizeof(void *));
    return more;
}
