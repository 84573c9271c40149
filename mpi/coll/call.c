/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs collective calls: a blocking call from a task on the stack, a nonblocking or persistent call
 * from a request.  Takes the domain's lock unless a function says otherwise. */
#include "mpi/coll/call.h"
#include "coll/begin.h"
#include "coll/select.h"
#include "coll/start/start.h"
#include "coll/start/team.h"
#include "mpi/coll/check.h"
#include "mpi/coll/check_bufs.h"
#include "mpi/coll/device.h"
#include "mpi/coll/team.h"
#include <stdio.h>
#include <string.h>
#include "mpi/op/op.h"
#include "mpi/p2p/describe.h"
#include "mpi/p2p/p2p.h"
#include "mpi/base/event.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/err.h"
#include "runtime/base/reserve.h"
#include "runtime/gpu/gpu.h"

/* Polls of a blocking call's own task before the general wait, which also polls the transports.  If
 * each rank has a core, a small call in shared memory completes within this number.  Where it takes
 * longer, the general wait continues. */
#define OWN_POLLS 100
/* The same for a call on device memory, which takes at least some microseconds.  Every
 * DEVICE_LOOK-th of these polls also polls the transports. */
#define DEVICE_POLLS 2000
#define DEVICE_LOOK 16
/* In host calls without messages, one yield in YIELDS_LOOK is followed by a poll of the
 * transports. */
#define YIELDS_LOOK 8

/* A nonblocking or persistent collective as a request. */
struct coll_req {
    struct coll_task task; /* first member: its req is the request */
    struct wm_comm *comm;  /* its part on its lane */
    struct wm_type *stype, *rtype, **types;
    struct wm_op *op;
    void *vectors;
    int ntypes;
    struct coll_team *own; /* of a persistent call that has shared memory of its own */
    int broken;            /* the ranks could not agree on it: what starts return, or 0 */
};
_Static_assert(COLL_ROOT == MPI_ROOT && COLL_NOBODY == MPI_PROC_NULL, "roots as MPI has them");
_Static_assert(sizeof(struct coll_req) <= WM_REQ_MAX, "collective request fits a slab slot");

const struct coll_alg *wm_coll_last;

static __attribute__((noinline, cold)) void raise_event(const struct coll_task *k)
{
    /* Between two groups some ranks have no data. */
    int64_t nbytes = k->team->local ? 0 : coll_args_bytes(k->team, &k->args);
    wm_event_raise(WM_EVENT_COLL,
                   &(struct wm_event_data){
                       { (int)k->args.kind, coll_alg_index(k->alg), k->team->size }, nbytes });
}

/* Counts a collective that has been started, for tools. */
static inline void count(struct wm_domain *d, const struct coll_task *k)
{
    wm_stat_add(&d->stats->coll[k->args.kind], 1);
    if (rt_load_relaxed(&wm_coll_last) != k->alg) /* threads share it: rarely written */
        rt_store_relaxed(&wm_coll_last, k->alg);
    if (rt_unlikely(wm_event_wanted(WM_EVENT_COLL)))
        raise_event(k);
}

static void hold(struct coll_req *q, const struct wm_call *call)
{
    q->comm = wm_on_lane(call->comm);
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
    if (r->flags & RT_REQ_CHECKED)
        check_bufs_end(r);
    if (r->flags & RT_REQ_PERSISTENT)
        coll_unprepare(&q->task);
    if (q->own)
        wm_coll_team_own_end(q->own);
    if (q->stype)
        wm_type_unref(q->stype);
    if (q->rtype)
        wm_type_unref(q->rtype);
    for (int i = 0; i < q->ntypes; i++)
        if (q->types[i])
            wm_type_unref(q->types[i]);
    if (q->op)
        wm_op_unref(q->op);
    rt_reserve_free(q->vectors);
    wm_comm_unref(q->comm);
    rt_slab_free(&wm_request_slab, q);
}

static void *req_owner(const struct rt_req *r) { return ((const struct coll_req *)r)->comm; }

/* After the request completes: releases a request whose handle the user has freed. */
static void req_done(struct rt_req *r, void *arg)
{
    const struct coll_req *q = (struct coll_req *)r;
    (void)arg;
    if (rt_unlikely(r->err) && q->own)
        q->comm->team.failed |= q->own->failed;
    if ((r->flags & RT_REQ_PERSISTENT) && (r->flags & RT_REQ_CHECKED))
        check_bufs_end(r);
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
    wm_flow_before_coll(q->comm->dom);
    r->done = 0;
    r->err = 0;
    if (rt_unlikely(cfg.check))
        check_bufs_begin(q->comm, &q->task.args, r);
    int err = q->comm->ft.revoked ? -RT_EREVOKED : q->broken ? q->broken : coll_restart(&q->task);
    if (err < 0) {
        r->done = 1;
        if (r->flags & RT_REQ_CHECKED)
            check_bufs_end(r);
        return err;
    }
    r->flags |= RT_REQ_ACTIVE;
    count(q->comm->dom, &q->task);
    run_task(q->comm->dom, &q->task);
    return 0;
}

static void describe_task(const struct rt_req *r, struct rt_wait_note *n)
{
    const struct coll_task *k = (const struct coll_task *)r;
    const struct wm_comm *c = k->team->arg;
    wm_describe_one(n, c, wm_describe_item(RT_WAIT_COLL, c, MPI_PROC_NULL, k->tag, k->bytes));
    snprintf(n->what, sizeof n->what, "%s", coll_kind_names[k->args.kind]);
    n->number = k->seq;
    n->root = coll_forms[k->args.kind].traits & COLL_IS_ROOTED ? k->args.root : -1;
}

static void req_poll(struct rt_req *r);

static const struct rt_req_ops task_ops = { .name = "collective call", .describe = describe_task };
static const struct rt_req_ops req_ops = { .name = "collective operation",
                                           .release = req_release,
                                           .owner = req_owner,
                                           .poll = req_poll,
                                           .describe = describe_task };
static const struct rt_req_ops persistent_ops = { .name = "persistent collective operation",
                                                  .start = req_start,
                                                  .release = req_release,
                                                  .owner = req_owner,
                                                  .poll = req_poll,
                                                  .describe = describe_task };

/* Only progress delivers messages.  A call has no algorithm if it has nothing to do or while its
 * path is undecided. */
static bool has_messages(const struct coll_task *k)
{
    return k->alg && !(k->alg->need & COLL_NEED_ONE_NODE);
}

/* run_alone() for hosts where ranks outnumber cores.  Polling delays the ranks that this call waits
 * for, so each poll is followed by a yield. */
static bool run_yielding(struct wm_domain *d, struct coll_task *k)
{
    struct rt_idle idle = { 0 };
    enum rt_idle_advice advice = RT_IDLE_POLL;
    int polls = rt_idle_yield_polls();
    bool look = has_messages(k) || k->args.mem != RT_MEM_HOST;
    for (int i = 1; advice == RT_IDLE_POLL; i++) {
        if (coll_task_advance(k))
            return true;
        for (int poll = 0; poll < polls; poll++) {
            rt_relax();
            if (coll_task_advance(k))
                return true;
        }
        rt_unlock(&d->lock);
        advice = rt_idle_step_shared(&idle);
        rt_lock(&d->lock);
        if (look || i % YIELDS_LOOK == 0)
            wm_progress(d);
    }
    return false;
}

/* Polls a call before it joins the domain's tasks; returns whether the call completed. */
static inline bool run_alone(struct wm_domain *d, struct coll_task *k)
{
    if (!rt_idle_oversubscribed()) {
        bool device = k->args.mem != RT_MEM_HOST && !rt_threaded;
        for (int i = 1; i <= (device ? DEVICE_POLLS : OWN_POLLS); i++) {
            if (coll_task_advance(k))
                return true;
            rt_gpu_progress();
            if (has_messages(k) || (device && i % DEVICE_LOOK == 0))
                wm_progress(d);
            rt_relax();
        }
        return false;
    }
    return run_yielding(d, k);
}

/* As run_alone(), for a request that a thread waits for. */
static void req_poll(struct rt_req *r)
{
    struct coll_task *k = &((struct coll_req *)r)->task;
    if (rt_idle_oversubscribed() || has_messages(k) || k->args.mem != RT_MEM_HOST)
        return;
    rt_list_del(&k->link);
    for (int i = 0; i < OWN_POLLS; i++) {
        if (coll_task_advance(k) || !rt_list_empty(&k->link)) /* or it waits for its turn */
            return;
        rt_relax();
    }
    rt_list_append(k->home, &k->link);
}

static int start_task(struct wm_comm *c, struct coll_team *t, const struct coll_args *a,
                      bool background, struct coll_task *k)
{
    if (rt_unlikely(c->ft.revoked))
        return -RT_EREVOKED;
    k->req = (struct rt_req){ .ops = &task_ops };
    k->up = NULL;
    k->background = background;
    int err = coll_start(t, a, k);
    if (err >= 0)
        count(wm_coll_domain(c), k);
    return err;
}

/* Inline, with run_alone(): a short collective between two ranks has about 1200 instructions, and
 * each further call has 15. */
static inline int begin(struct wm_comm *c, struct coll_team *t, const struct coll_args *a,
                        struct coll_task *k)
{
    int err = start_task(c, t, a, false, k);
    if (err < 0)
        return err;
    if (!run_alone(wm_coll_domain(c), k))
        wm_domain_add_task(wm_coll_domain(c), k);
    return 0;
}

int wm_coll_begin(struct wm_comm *c, struct coll_team *t, const struct coll_args *a,
                  struct coll_task *k)
{
    return begin(c, t, a, k);
}

int wm_coll_post(struct wm_comm *c, const struct coll_args *a, struct coll_task *k)
{
    return start_task(c, &c->team, a, true, k);
}

int wm_coll_run(struct wm_comm *c, const struct coll_args *a)
{
    struct coll_task k;
    int err = begin(c, &c->team, a, &k);
    if (err < 0)
        return err;
    if (!k.req.done)
        wm_domain_wait(wm_coll_domain(c), &k.req);
    return k.req.err;
}

/* Whether this rank can carry the call out in shared memory. */
static bool may_share(const struct coll_req *q)
{
    const struct coll_task *k = &q->task;
    const char *why;
    if (q->comm->whole || k->fixed || k->args.mem != RT_MEM_HOST)
        return false;
    const int64_t bytes = coll_args_bytes(k->team, &k->args);
    return !coll_args_are_empty(&k->args, bytes) &&
           coll_choose_for(k->team, &k->args, bytes, true, &why)->need & COLL_NEED_ONE_NODE;
}

/* The ranks agree whether a persistent call gets shared memory of its own, and where.  The creation
 * of such a call is collective and may wait (MPI-5.0 section 6.13).  If a process has died, the
 * starts return the error. */
static void share(struct wm_comm *c, struct coll_req *q)
{
    uint64_t block = 0;
    q->own = may_share(q) ? wm_coll_team_own_make(c, &block) : NULL;
    int64_t v[2] = { !q->own, (int64_t)block };
    const struct coll_args a = { .kind = COLL_ALLREDUCE,
                                 .sbuf = COLL_IN_PLACE,
                                 .rbuf = v,
                                 .rcount = 2,
                                 .rtype = &wm_type_get(MPI_INT64_T)->layout,
                                 .op = &wm_op_get(MPI_MAX)->op,
                                 .mem = RT_MEM_HOST };
    q->broken = wm_coll_run(c, &a);
    if (!q->broken && !v[0]) {
        coll_team_attach(q->own, (size_t)v[1] - 1);
        coll_prepare_own(&q->task, q->own);
    } else if (q->own) {
        wm_coll_team_own_end(q->own);
        q->own = NULL;
    }
}

static int start_request(struct wm_call *call)
{
    bool persistent = call->form == WM_PERSISTENT;
    struct coll_req *q = wm_req_alloc(persistent ? &persistent_ops : &req_ops);
    if (!q) {
        rt_reserve_free(call->vectors);
        return -RT_ENOMEM;
    }
    int err = 0;
    q->task.req.status = (struct rt_status){ .src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };
    q->task.req.notify = req_done;
    q->task.req.flags = RT_REQ_POLLS;
    q->task.up = NULL;
    q->task.background = !call->attended;
    hold(q, call);
    if (persistent) {
        q->task.req.flags |= RT_REQ_PERSISTENT;
        q->task.req.done = 1;
        call->args.found = NULL; /* the call is started later */
        coll_prepare(&call->comm->team, &call->args, &q->task);
        if (wm_coll_team_may_own(call->comm) && !coll_is(call->args.kind, COLL_IS_NEIGHBOR))
            share(call->comm, q);
    } else {
        if (rt_unlikely(cfg.check))
            check_bufs_begin(q->comm, &call->args, &q->task.req);
        err = q->comm->ft.revoked ? -RT_EREVOKED
                                  : coll_start(&call->comm->team, &call->args, &q->task);
        if (err >= 0) {
            count(q->comm->dom, &q->task);
            run_task(q->comm->dom, &q->task);
        }
    }
    if (err < 0)
        req_release(&q->task.req);
    else
        *call->request = wm_req_handle(&q->task.req);
    return err;
}

/* The part of one side of a call that is known without reading all counts: with a count per process
 * only this process's own block; of a vector cut by such counts at least as much. */
static struct coll_block seen(const struct coll_args *a, enum coll_side side, int self, int n)
{
    enum coll_shape shape = coll_shape(a->kind, side);
    if (coll_is_apart(a->kind, side))
        return coll_args_block(a, side, self);
    struct coll_block b = coll_args_side(a, side);
    if (a->rcounts && coll_shape(a->kind, COLL_SEND) == COLL_SIDE_CUT)
        b.n = a->rcounts[self];
    else if (shape != COLL_SIDE_ONE)
        b.n *= n;
    return b;
}

static bool meet(const struct coll_block *a, const struct coll_block *b)
{
    if (!a->l || !b->l || !a->l->contig || !b->l->contig)
        return false;
    uintptr_t pa = (uintptr_t)a->at, pb = (uintptr_t)b->at, la = (uintptr_t)(a->n * a->l->size),
              lb = (uintptr_t)(b->n * b->l->size);
    return la && lb && pa < pb + lb && pb < pa + la;
}

/* Send and receive buffer must not overlap (MPI-5.0 section 2.3); an overlap that is visible
 * without examining every block is an error.  On an intercommunicator a rooted call has only one
 * buffer. */
static int check_call(const struct wm_call *call)
{
    const struct wm_comm *c = call->comm;
    const struct coll_args *a = &call->args;
    if (c->inter && coll_is(a->kind, COLL_IS_PREFIX))
        return wm_err(MPI_ERR_COMM,
                      "the communicator is an intercommunicator, on which %s is not "
                      "defined",
                      coll_kind_names[a->kind]);
    if (a->neighbors) /* vectors have one entry per neighbour, not per rank */
        return MPI_SUCCESS;
    if (!a->sbuf || !a->rbuf || a->sbuf == COLL_IN_PLACE || a->rbuf == COLL_IN_PLACE ||
        (coll_is(a->kind, COLL_IS_TO_ROOT) && !wm_call_root(c, a->root)))
        return MPI_SUCCESS;
    /* Of the blocks of a remote group, checking the first is enough; the blocks of a reduction
     * belong to the local group. */
    bool cut = coll_shape(a->kind, COLL_SEND) == COLL_SIDE_CUT;
    int self = c->inter && !cut ? 0 : c->rank, n = cut ? c->size : c->remote->size;
    struct coll_block s = seen(a, COLL_SEND, self, n), r = seen(a, COLL_RECV, self, n);
    if (rt_likely(!meet(&s, &r)))
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_BUFFER,
                  "the send buffer (%lld bytes at %p) and the receive buffer (%lld bytes at %p) "
                  "overlap; use MPI_IN_PLACE where it is allowed, or separate buffers",
                  (long long)(s.n * s.l->size), s.at, (long long)(r.n * r.l->size), r.at);
}

/* The shortcut for small reductions: the buffers do not overlap, so check_call() is not needed. */
static inline bool apart(const struct coll_args *a)
{
    uintptr_t dist = (uintptr_t)a->rbuf - (uintptr_t)a->sbuf;
    if (a->kind != COLL_ALLREDUCE)
        return false;
    uintptr_t len = (uintptr_t)(a->rcount * a->rtype->size);
    return dist >= len && 0 - dist >= len;
}

static __attribute__((noinline, cold)) int run_checked(struct wm_comm *c, const struct coll_args *a)
{
    struct rt_req r = { .done = 1 }; /* stands for the call */
    check_bufs_begin(c, a, &r);
    int err = wm_coll_run(c, a);
    check_bufs_end(&r);
    return err;
}

int wm_call_run(struct wm_call *call)
{
    struct wm_comm *c = call->comm;
    struct wm_domain *d = wm_coll_domain(c);
    const char *name = coll_kind_names[call->args.kind];
    struct rt_gpu_ptr at[2];
    int err;
    err = apart(&call->args) ? MPI_SUCCESS : check_call(call);
    if (rt_unlikely(err)) {
        rt_reserve_free(call->vectors);
        return err;
    }
    if (rt_unlikely(cfg.check)) {
        check_bufs_look(call);
        wm_check_call(call);
    }
    rt_lock(&d->lock);
    wm_flow_before_coll(d);
    if (rt_unlikely(rt_gpu_watch))
        err = wm_coll_look(call, at);
    if (call->form != WM_BLOCKING && err >= 0) {
        err = start_request(call);
    } else {
        if (err >= 0)
            err = rt_unlikely(cfg.check) ? run_checked(c, &call->args)
                                         : wm_coll_run(c, &call->args);
        rt_reserve_free(call->vectors);
    }
    if (rt_unlikely(err < 0)) /* a program that calls again until a revocation must see it arrive */
        wm_progress(d);
    rt_unlock(&d->lock);
    if (rt_unlikely(err < 0 && cfg.check))
        wm_check_failed(c);
    if (rt_likely(err >= 0))
        return MPI_SUCCESS;
    return err == -RT_EADDR ? wm_dev_fault()
                            : wm_err_rt(err, "%s among %d processes", name, c->size);
}

/* One entry for each process that is sent to or received from; for the blocks of a reduction, one
 * for each process of the local group. */
static int vector_len(const struct wm_call *call)
{
    const struct wm_comm *c = call->comm;
    return coll_shape(call->args.kind, COLL_SEND) == COLL_SIDE_CUT ? c->size : c->remote->size;
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

int wm_call_vectors(struct wm_call *call, int64_t *few, struct wm_counts sc, struct wm_displs sd,
                    struct wm_counts rc, struct wm_displs rd)
{
    int n = vector_len(call);
    int64_t *v = few;
    if (!few || 4 * n > WM_FEW || call->form != WM_BLOCKING) {
        v = call->vectors = rt_reserve_alloc(4 * (size_t)n * (sizeof *v + sizeof(void *)));
        if (!v)
            return wm_err(MPI_ERR_NO_MEM, "no memory for the counts of %d processes", n);
    }
    call->args.scounts = counts_in(v, sc, n);
    call->args.sdispls = displs_in(v + n, sd, n);
    call->args.rcounts = counts_in(v + 2 * n, rc, n);
    call->args.rdispls = displs_in(v + 3 * n, rd, n);
    return MPI_SUCCESS;
}

void *wm_call_more(const struct wm_call *call)
{
    int n = vector_len(call);
    void *more = (int64_t *)call->vectors + 4 * n;
    memset(more, 0, 4 * (size_t)n * sizeof(void *));
    return more;
}
