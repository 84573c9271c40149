/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of the completion calls (MPI-5.0 sections 3.7.3 to 3.7.6): one, any, all, some; wait and
 * test; cancel and free.  Requests and statuses of all but cancel and free are the caller's
 * (mpi/base/caller.h).
 *
 * A request is null, inactive persistent (both complete at once with an empty status), pending or
 * complete.  Any thread.  A request belongs to the one call that completes it, so the lock may be
 * released between two requests, which the callbacks of generalised requests need. */
#include "mpi/p2p/api_wait.h"
#include "mpi/api/bodies.h"
#include <limits.h>
#include <stdio.h>
#include "mpi/base/status.h"
#include "mpi/p2p/describe.h"
#include "mpi/p2p/failed.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/persistent.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/wait.h"

int wm_req_error(const struct rt_req *r)
{
    if (!r->err)
        return MPI_SUCCESS;
    if (r->ops && r->ops->owner)
        wm_err_attach(r->ops->owner(r));
    if (r->ops && r->ops->error)
        return r->ops->error(r);
    if (r->err == -RT_ETRUNC && r->ops == &wm_recv_ops)
        return wm_err(
            MPI_ERR_TRUNCATE,
            "the message from rank %d with tag %d has %lld bytes, the receive buffer room "
            "for %lld; receive with a larger count",
            r->status.src, r->status.tag, (long long)((const struct wm_preq *)r)->nbytes,
            (long long)r->status.len);
    if (r->err == -RT_ETRUNC)
        return wm_err(MPI_ERR_TRUNCATE,
                      "the message from rank %d with tag %d is longer than the %lld bytes of the "
                      "receive buffer; receive with a larger count",
                      r->status.src, r->status.tag, (long long)r->status.len);
    if (r->err == -RT_EREMOTE && r->ops == &wm_recv_ops)
        return wm_err_rt(r->err, "the message from rank %d with tag %d", r->status.src,
                         r->status.tag);
    if (r->err == -RT_EPEER && r->ops == &wm_recv_ops) {
        const struct wm_preq *q = (const struct wm_preq *)r;
        return wm_err_gone(q->comm, q->peer_rank, q->tag);
    }
    return wm_err_rt(r->err, "the operation could not be completed");
}

/* Into a loop for each ABI: left to the compiler, calls that differ in the ABI become one that
 * compares it for each request. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

static ALWAYS_INLINE void fill_status(MPI_Status *s, enum wm_abi abi, const struct rt_req *r)
{
    wm_caller_fill(s, abi, r->status.src, r->status.tag, r->status.len, r->status.cancelled);
}

/* The status of a request that is null or inactive. */
static void fill_empty(MPI_Status *s, enum wm_abi abi)
{
    wm_caller_fill_error(s, abi, MPI_SUCCESS);
    wm_caller_fill(s, abi, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
}

/* Polls between two passes over everything: a wait polls only what most often completes a message
 * or moves it on.  A pass takes twice as long as such a poll. */
#define LOOKS 4

/* Polls the copies of this process, if there are any, else the messages of the peer.  True: the
 * request is complete. */
static bool ends(const struct wm_preq *q, const struct wm_peer *peer, struct rt_idle *idle)
{
    for (int i = 0; i < LOOKS; i++) {
        int n = 0;
        if (rt_gpu_nactive)
            n = wm_progress_copies(q->dom);
        else if (peer && peer->poll)
            n = peer->poll(peer->eager);
        else
            return false;
        if (rt_req_done(&q->r))
            return true;
        if (n)
            *idle = (struct rt_idle){ 0 };
        rt_relax();
    }
    return false;
}

static __attribute__((noinline)) bool is_any_source(const struct rt_req *r)
{
    const struct rt_req *in = wm_persistent_inner(r);
    const struct wm_preq *q = (const struct wm_preq *)in;
    return in && in->ops == &wm_recv_ops && q->peer_rank == MPI_ANY_SOURCE &&
           q->state == WM_POSTED && wm_failed_unacked(q->comm);
}

/* Whether it is a receive from any source, without a message, that must not be waited for. */
static inline bool stuck(const struct rt_req *r)
{
    return rt_unlikely(rt_dead()) && is_any_source(r);
}

/* The error of such a receive, which stays active. */
static int pending_error(const struct rt_req *r)
{
    if (!stuck(r))
        return MPI_ERR_PENDING;
    wm_err_attach(r->ops->owner(r));
    return wm_err(MPIX_ERR_PROC_FAILED_PENDING,
                  "a receive from any source stays active, but a process of the communicator has "
                  "failed; MPIX_Comm_ack_failed lets it wait for the others");
}

static bool is_stuck(void *r) { return stuck(r); } /* `hits` of a wait */

static void wait_device(struct wm_preq *q)
{
    const struct wm_peer *peer = q->peer_rank >= 0 ? q->comm->peers[q->peer_rank] : NULL;
    struct wm_wait wait = WM_WAIT_REQ(&q->r, ((struct wm_what){ wm_describe_preq, q }));
    while (!rt_req_done(&q->r) && !stuck(&q->r)) {
        if (ends(q, peer, &wait.idle))
            break;
        wm_domain_step(q->dom, &wait);
    }
    wm_domain_left(q->dom, &wait);
}

/* Waits for a device request to its end; polls any other request before the general wait.  Returns
 * whether the wait is over. */
static __attribute__((noinline)) bool wait_first(struct rt_req *r)
{
    if (r->flags & RT_REQ_DEVICE) {
        wait_device((struct wm_preq *)r);
        return true;
    }
    r->ops->poll(r);
    return rt_req_done(r);
}

/* False: the request is not complete, a receive that must not be waited for. */
static bool wait_for(struct wm_domain *d, struct rt_req *r)
{
    if (rt_unlikely(r->flags & (RT_REQ_DEVICE | RT_REQ_POLLS)) && wait_first(r))
        return rt_req_done(r);
    wm_progress(d); /* most often one pass is enough */
    return rt_req_done(r) || wm_domain_until_or(d, wm_wait_done, WM_WAIT_DONE(r),
                                                (struct wm_what){ wm_describe_request, r },
                                                (struct wm_interrupt){ is_stuck, r });
}

/* Ends it, in a call that blocks until it is complete. */
static void give_up(struct rt_req *r)
{
    r->ops->cancel(r);
    r->status = (struct rt_status){ .src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };
    r->err = -RT_EPEER;
}

int wm_req_wait(struct wm_domain *d, struct rt_req *r, MPI_Status *status)
{
    if (!rt_req_done(r) && rt_unlikely(!wait_for(d, r)))
        give_up(r);
    fill_status(status, WM_STANDARD_ABI, r);
    int err = wm_req_error(r);
    wm_req_release(r);
    return err;
}

/* ---- one request of a user's array ---- */

struct array {
    MPI_Request *h; /* of the caller */
    int n;
    enum wm_abi abi;
};

static inline MPI_Request get(const struct array *a, int i)
{
    return wm_caller_request(a->h, i, a->abi);
}

static ALWAYS_INLINE void clear(const struct array *a, int i)
{
    wm_caller_store(a->h, i, a->abi, wm_caller.null);
}

static struct array array(int n, const MPI_Request *h)
{
    return (struct array){ (MPI_Request *)(uintptr_t)h, n, wm_caller.abi };
}

enum state { NOTHING, PENDING, COMPLETE, WRONG };

static inline enum state look(MPI_Request h, struct rt_req **out)
{
    if (h == wm_caller.null)
        return NOTHING;
    struct rt_req *r = wm_req_get(h);
    *out = r;
    if (rt_unlikely(!r))
        return WRONG;
    if (rt_unlikely((r->flags & (RT_REQ_PERSISTENT | RT_REQ_ACTIVE)) == RT_REQ_PERSISTENT))
        return NOTHING;
    return rt_req_done(r) ? COMPLETE : PENDING;
}

static int wrong(int i, MPI_Request h)
{
    return wm_err(
        MPI_ERR_REQUEST,
        "request %d of the array, 0x%lx, is not a live request; it was freed, completed before, or "
        "never started",
        i, (unsigned long)(uintptr_t)h);
}

/* MPI_ERROR of a status that a callback has not set. */
#define UNSET INT_MIN

/* The status of a complete generalised request, by its callback, which may call MPI.  No other call
 * uses the request meanwhile. */
static int query(struct wm_domain *d, struct rt_req *r, MPI_Status *s, enum wm_abi abi)
{
    MPI_Status own = { .MPI_ERROR = UNSET };
    MPI_Status *to = s == MPI_STATUS_IGNORE || abi != WM_STANDARD_ABI ? &own : s;
    wm_status_set(to, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
    rt_unlock(&d->lock);
    int err = r->ops->query(r, to);
    rt_lock(&d->lock);
    if (to != s && s != MPI_STATUS_IGNORE) {
        wm_caller_fill(s, abi, to->MPI_SOURCE, to->MPI_TAG, wm_status_len(to),
                       wm_status_cancelled(to));
        if (to->MPI_ERROR != UNSET)
            wm_caller_fill_error(s, abi, to->MPI_ERROR);
    }
    return err;
}

static int dispose(struct wm_domain *d, struct rt_req *r)
{
    rt_unlock(&d->lock);
    int err = r->ops->dispose(r);
    rt_lock(&d->lock);
    wm_req_release(r);
    return err;
}

static int callback_error(int err, const char *which)
{
    return err ? wm_err(err, "the %s function of the generalized request returned %d", which, err)
               : MPI_SUCCESS;
}

/* The code of the function that was called last counts (MPI-5.0 section 13.2).  An error of the
 * first is not lost when the last succeeds. */
static int take_user(struct wm_domain *d, const struct array *a, int i, struct rt_req *r,
                     MPI_Status *s)
{
    int query_err = query(d, r, s, a->abi), err = dispose(d, r);
    clear(a, i);
    return err ? callback_error(err, "free") : callback_error(query_err, "query");
}

/* Status of a complete request that is not taken. */
static int peek(struct wm_domain *d, struct rt_req *r, MPI_Status *s, enum wm_abi abi)
{
    if (r->flags & RT_REQ_USER)
        return callback_error(query(d, r, s, abi), "query");
    fill_status(s, abi, r);
    return MPI_SUCCESS;
}

/* Returns the status of a persistent request; the request remains, inactive. */
static int deactivate(struct rt_req *r, MPI_Status *s, enum wm_abi abi)
{
    fill_status(s, abi, r);
    r->flags &= ~RT_REQ_ACTIVE;
    return wm_req_error(r);
}

/* Takes request i, which is complete: status, handle, memory. */
static ALWAYS_INLINE int take(struct wm_domain *d, const struct array *a, int i, struct rt_req *r,
                              MPI_Status *s)
{
    if (rt_unlikely(r->flags & (RT_REQ_USER | RT_REQ_PERSISTENT)))
        return r->flags & RT_REQ_USER ? take_user(d, a, i, r, s) : deactivate(r, s, a->abi);
    fill_status(s, a->abi, r);
    int err = rt_likely(!r->err) ? MPI_SUCCESS : wm_req_error(r);
    wm_req_release(r);
    clear(a, i);
    return err;
}

/* Where the requests of an array are. */
struct lanes {
    /* Whose lock the call holds; the first request's, at first; NULL: none, they do not change. */
    struct wm_domain *d;
    uint32_t all; /* with requests of several lanes: a bit for each; else 0 */
};

static __attribute__((noinline)) void find_lanes(const struct array *a, struct lanes *l)
{
    struct wm_domain *first = NULL;
    uint32_t all = 0;
    for (int i = 0; i < a->n; i++) {
        const struct rt_req *r = wm_req_get(get(a, i));
        struct wm_domain *d = r ? wm_req_domain(r) : NULL;
        if (!d)
            continue;
        first = first ? first : d;
        all |= 1u << d->lane;
    }
    l->d = first;
    l->all = all & (all - 1) ? all : 0;
}

static inline struct lanes lanes_of(const struct array *a)
{
    struct lanes l = { wm_main_domain, 0 };
    if (rt_unlikely(rt_threaded))
        find_lanes(a, &l);
    return l;
}

/* Before request r changes: with requests of several lanes, the call changes locks.  The domain
 * whose lock it holds then. */
static inline struct wm_domain *holder(struct lanes *l, const struct rt_req *r)
{
    if (rt_unlikely(l->all))
        wm_req_change(r, &l->d);
    return l->d;
}

static int check_array(const struct array *a)
{
    struct rt_req *r;
    for (int i = 0; i < a->n; i++)
        if (look(get(a, i), &r) == WRONG)
            return wrong(i, get(a, i));
    return MPI_SUCCESS;
}

/* The requests that are not complete, of one lane or, without `d`, of all. */
static void describe_in(const struct wm_domain *d, const struct array *a, struct rt_wait_note *n)
{
    struct rt_req *r;
    for (int i = 0; i < a->n; i++)
        if (look(get(a, i), &r) == PENDING && (!d || wm_req_lane(r) == d))
            wm_describe_add(n, r);
}

static void describe_pending(const void *of, struct rt_wait_note *n) { describe_in(NULL, of, n); }

/* ---- requests of several lanes ---- */

/* Lane i < WM_LANES_MAX if the array has requests there. */
static struct wm_domain *lane_at(const struct lanes *l, int i)
{
    return l->all >> i & 1 ? wm_lane_at(i) : NULL;
}

/* One pass over each lane of the array, under one lock at a time.  Called and returns under the
 * lock of l->d. */
static int poll_lanes(const struct lanes *l)
{
    int n = 0;
    if (rt_likely(!l->all))
        return wm_progress(l->d);
    rt_unlock(&l->d->lock);
    for (int i = 0; i < WM_LANES_MAX; i++) {
        struct wm_domain *d = lane_at(l, i);
        if (!d)
            continue;
        rt_lock(&d->lock);
        n += wm_progress(d);
        rt_unlock(&d->lock);
    }
    rt_lock(&l->d->lock);
    return n;
}

struct mixed {
    const struct array *a;
    const struct lanes *l;
};

/* Called and returns under the lock of the lane whose unexpected messages the caller adds. */
static void describe_mixed(const void *of, struct rt_wait_note *n)
{
    const struct mixed *m = of;
    struct wm_domain *d, *home = m->l->d;
    describe_in(home, m->a, n);
    rt_unlock(&home->lock);
    for (int i = 0; i < WM_LANES_MAX; i++) {
        if (!(d = lane_at(m->l, i)) || d == home)
            continue;
        rt_lock(&d->lock);
        describe_in(d, m->a, n);
        wm_describe_unexpected(d, n);
        rt_unlock(&d->lock);
    }
    rt_lock(&home->lock);
}

/* Until ready(a), which reads only words that any thread may read. */
static __attribute__((noinline)) void wait_mixed(const struct lanes *l, struct array *a,
                                                 bool (*ready)(void *a))
{
    struct mixed m = { a, l };
    struct wm_wait w = {
        .ready = ready, .arg = a, .what = { describe_mixed, &m }, .lanes = l->all
    };
    while (!ready(a)) {
        if (poll_lanes(l) > 0)
            w.idle = (struct rt_idle){ 0 };
        else if (!ready(a))
            wm_domain_idle(l->d, &w);
    }
    wm_domain_left(l->d, &w);
}

/* ---- one ---- */

static int wait_one(const struct array *a, MPI_Status *status)
{
    struct rt_req *r;
    enum state st = look(get(a, 0), &r);
    if (st == NOTHING) {
        fill_empty(status, a->abi);
        return MPI_SUCCESS;
    }
    if (st == WRONG)
        return wrong(0, get(a, 0));
    struct wm_domain *d = wm_req_domain(r);
    wm_req_lock(d);
    int err = st == PENDING && rt_unlikely(!wait_for(d, r)) ? pending_error(r)
                                                            : take(d, a, 0, r, status);
    wm_req_unlock(d);
    return err;
}

int wm_api_wait(MPI_Request *request, MPI_Status *status)
{
    struct array a = array(1, request);
    return wait_one(&a, status);
}

int wm_req_wait_handle(MPI_Request request, MPI_Status *status)
{
    return wait_one(&(struct array){ &request, 1, WM_STANDARD_ABI }, status);
}

/* The state of a request after at most one pass of progress. */
static enum state poll_one(struct wm_domain *d, MPI_Request h, struct rt_req **r)
{
    enum state st = look(h, r);
    if (st != PENDING)
        return st;
    wm_progress(d);
    return look(h, r);
}

int wm_api_test(MPI_Request *request, int *flag, MPI_Status *status)
{
    struct rt_req *r;
    struct array a = array(1, request);
    struct wm_domain *d = wm_req_domain(wm_req_get(get(&a, 0)));
    int err = MPI_SUCCESS;
    wm_req_lock(d);
    enum state st = poll_one(d, get(&a, 0), &r);
    *flag = st != PENDING;
    if (st == NOTHING)
        fill_empty(status, a.abi);
    else if (st == WRONG)
        err = wrong(0, get(&a, 0));
    else if (st == COMPLETE)
        err = take(d, &a, 0, r, status);
    else if (stuck(r))
        err = pending_error(r);
    wm_req_unlock(d);
    wm_domain_polled(*flag);
    return err;
}

/* ---- all ---- */

/* Stores the result in a status, also in a call that succeeds: MPI-5.0 section 3.2.5 leaves
 * MPI_ERROR unchanged then, but other libraries write MPI_SUCCESS and programs read it. */
static ALWAYS_INLINE void note(MPI_Status *s, enum wm_abi abi, int err, bool *failed)
{
    *failed = *failed || err;
    wm_caller_fill_error(s, abi, err);
}

static int in_status(bool failed)
{
    if (!failed)
        return MPI_SUCCESS;
    char last[512];
    snprintf(last, sizeof last, "%s", wm_err_detail());
    return wm_err(MPI_ERR_IN_STATUS, "%s; MPI_ERROR of each status shows which requests failed",
                  last);
}

/* Takes all of them, which are complete, except after a wait that has ended early.  `l` NULL: they
 * are of the domain `d`. */
static ALWAYS_INLINE int take_each(struct wm_domain *d, struct lanes *l, const struct array *a,
                                   MPI_Status *statuses)
{
    bool failed = false;
    for (int i = 0; i < a->n; i++) {
        struct rt_req *r;
        MPI_Status *s = wm_caller_status(statuses, i, a->abi);
        int err = MPI_SUCCESS;
        enum state st = look(get(a, i), &r);
        if (st == NOTHING)
            fill_empty(s, a->abi);
        else if (rt_unlikely(st != COMPLETE)) /* WRONG: the array contains a request twice */
            err = st == WRONG ? wrong(i, get(a, i)) : pending_error(r);
        else
            err = take(l ? holder(l, r) : d, a, i, r, s);
        note(s, a->abi, err, &failed);
    }
    return in_status(failed);
}

static __attribute__((noinline)) int take_all(struct lanes *l, const struct array *a,
                                              MPI_Status *statuses)
{
    return take_each(l->d, l, a, statuses);
}

static __attribute__((noinline)) bool wait_long(struct wm_domain *d, struct array a,
                                                struct rt_req *r)
{
    return wm_domain_until_or(d, wm_wait_done, WM_WAIT_DONE(r),
                              (struct wm_what){ describe_pending, &a },
                              (struct wm_interrupt){ is_stuck, r });
}

/* The caller's array may stay in registers.  Most often one pass is enough. */
static __attribute__((noinline)) bool wait_in(struct wm_domain *d, MPI_Request *h, int n,
                                              enum wm_abi abi, struct rt_req *r)
{
    wm_progress(d);
    return rt_likely(rt_req_done(r)) || wait_long(d, (struct array){ h, n, abi }, r);
}

/* Inlined for each ABI: the loops of window benchmarks and of halo exchanges. */
static ALWAYS_INLINE int wait_all(struct wm_domain *d, struct array a, MPI_Status *statuses)
{
    struct rt_req *r;
    int err = MPI_SUCCESS;
    wm_req_lock(d);
    for (int i = 0; i < a.n && !err; i++) { /* all are checked before the first is taken */
        enum state st = look(get(&a, i), &r);
        if (st == PENDING && rt_unlikely(!wait_in(d, a.h, a.n, a.abi, r)))
            break;
        if (rt_unlikely(st == WRONG))
            err = wrong(i, get(&a, i));
    }
    if (rt_likely(!err))
        err = take_each(d, NULL, &a, statuses);
    wm_req_unlock(d);
    return err;
}

static bool is_all_done(void *arg);

/* The same with threads. */
static __attribute__((noinline)) int wait_all_lanes(int n, MPI_Request *h, MPI_Status *statuses)
{
    struct array a = array(n, h);
    struct lanes l = lanes_of(&a);
    if (!l.all)
        return wait_all(l.d, a, statuses);
    int err = check_array(&a);
    if (err)
        return err;
    wm_req_lock(l.d);
    wait_mixed(&l, &a, is_all_done);
    err = take_all(&l, &a, statuses);
    wm_req_unlock(l.d);
    return err;
}

int wm_api_waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    struct wm_domain *d = wm_main_domain;
    if (rt_unlikely(rt_threaded))
        return wait_all_lanes(count, requests, statuses);
    switch (wm_caller.abi) {
    case WM_OMPI:
        return wait_all(d, (struct array){ requests, count, WM_OMPI }, statuses);
    case WM_MPICH:
        return wait_all(d, (struct array){ requests, count, WM_MPICH }, statuses);
    default:
        return wait_all(d, (struct array){ requests, count, WM_STANDARD_ABI }, statuses);
    }
}

/* The first receive that must not be waited for. */
static bool find_stuck(const struct array *a, int *i)
{
    struct rt_req *r;
    for (*i = 0; *i < a->n; (*i)++)
        if (look(get(a, *i), &r) == PENDING && stuck(r))
            return true;
    return false;
}

static bool any_stuck(void *arg)
{
    int i;
    return find_stuck(arg, &i);
}

static bool all_done(const struct array *a)
{
    struct rt_req *r;
    for (int i = 0; i < a->n; i++)
        if (look(get(a, i), &r) == PENDING)
            return false;
    return true;
}

static bool is_all_done(void *arg) { return all_done(arg); }

int wm_api_testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    struct array a = array(count, requests);
    int err = check_array(&a), i;
    if (err)
        return err;
    struct lanes l = lanes_of(&a);
    wm_req_lock(l.d);
    if (!all_done(&a))
        poll_lanes(&l);
    *flag = all_done(&a);
    if (*flag)
        err = take_all(&l, &a, statuses);
    else if (rt_unlikely(rt_dead()) && find_stuck(&a, &i))
        err = pending_error(wm_req_get(get(&a, i)));
    wm_req_unlock(l.d);
    wm_domain_polled(*flag);
    return err;
}

/* ---- any ---- */

/* First complete request, or -1; *active counts those that are not null or inactive. */
static int find_done(const struct array *a, int *active)
{
    *active = 0;
    for (int i = 0; i < a->n; i++) {
        struct rt_req *r;
        enum state st = look(get(a, i), &r);
        if (st == COMPLETE)
            return (*active)++, i;
        *active += st == PENDING;
    }
    return -1;
}

/* The same after at most one pass of progress. */
static int poll_done(const struct lanes *l, const struct array *a, int *active)
{
    int i = find_done(a, active);
    if (i >= 0 || !*active)
        return i;
    poll_lanes(l);
    return find_done(a, active);
}

/* One is complete, or none is left that could complete. */
static bool some_done(void *arg)
{
    int active;
    return find_done(arg, &active) >= 0 || !active;
}

static void wait_some(const struct lanes *l, struct array *a)
{
    if (rt_unlikely(l->all))
        wait_mixed(l, a, some_done);
    else if (rt_likely(l->d != NULL))
        wm_domain_until_or(l->d, some_done, a, (struct wm_what){ describe_pending, a },
                           (struct wm_interrupt){ any_stuck, a });
}

int wm_api_waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    struct array a = array(count, requests);
    int err = check_array(&a), active, i;
    if (err)
        return err;
    struct lanes l = lanes_of(&a);
    wm_req_lock(l.d);
    wait_some(&l, &a);
    i = find_done(&a, &active);
    if (i < 0 && active && find_stuck(&a, index)) {
        err = pending_error(wm_req_get(get(&a, *index)));
    } else if (i < 0) {
        *index = MPI_UNDEFINED;
        fill_empty(status, a.abi);
    } else {
        struct rt_req *r = wm_req_get(get(&a, i));
        *index = i;
        err = take(holder(&l, r), &a, i, r, status);
    }
    wm_req_unlock(l.d);
    return err;
}

int wm_api_testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    struct array a = array(count, requests);
    int err = check_array(&a), active;
    if (err)
        return err;
    struct lanes l = lanes_of(&a);
    wm_req_lock(l.d);
    int i = poll_done(&l, &a, &active);
    *index = MPI_UNDEFINED;
    *flag = i >= 0 || !active;
    if (i >= 0) {
        struct rt_req *r = wm_req_get(get(&a, i));
        *index = i;
        err = take(holder(&l, r), &a, i, r, status);
    } else if (!active) {
        fill_empty(status, a.abi);
    } else if (rt_unlikely(rt_dead()) && find_stuck(&a, &i)) {
        *index = i;
        err = pending_error(wm_req_get(get(&a, i)));
    }
    wm_req_unlock(l.d);
    wm_domain_polled(*flag);
    return err;
}

/* ---- some ---- */

static int take_some(struct lanes *l, const struct array *a, int *outcount, int *indices,
                     MPI_Status *statuses)
{
    int k = 0;
    bool failed = false;
    for (int i = 0; i < a->n; i++) {
        struct rt_req *r;
        enum state st = look(get(a, i), &r);
        bool left = st == PENDING && stuck(r);
        if (st != COMPLETE && !left)
            continue;
        MPI_Status *s = wm_caller_status(statuses, k, a->abi);
        note(s, a->abi, left ? pending_error(r) : take(holder(l, r), a, i, r, s), &failed);
        indices[k++] = i;
    }
    *outcount = k;
    return in_status(failed);
}

int wm_api_waitsome(int incount, MPI_Request requests[], int *outcount, int indices[],
                    MPI_Status statuses[])
{
    struct array a = array(incount, requests);
    int err = check_array(&a), active;
    if (err)
        return err;
    struct lanes l = lanes_of(&a);
    wm_req_lock(l.d);
    wait_some(&l, &a);
    find_done(&a, &active);
    if (active)
        err = take_some(&l, &a, outcount, indices, statuses);
    else
        *outcount = MPI_UNDEFINED;
    wm_req_unlock(l.d);
    return err;
}

int wm_api_testsome(int incount, MPI_Request requests[], int *outcount, int indices[],
                    MPI_Status statuses[])
{
    struct array a = array(incount, requests);
    int err = check_array(&a), active;
    if (err)
        return err;
    struct lanes l = lanes_of(&a);
    wm_req_lock(l.d);
    poll_done(&l, &a, &active);
    if (active)
        err = take_some(&l, &a, outcount, indices, statuses);
    else
        *outcount = MPI_UNDEFINED;
    wm_req_unlock(l.d);
    wm_domain_polled(*outcount != 0);
    return err;
}

/* ---- without taking, cancelling, freeing ---- */

int wm_api_request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    struct rt_req *r;
    enum wm_abi abi = wm_caller.abi;
    struct wm_domain *d = wm_req_domain(wm_req_get(request));
    int err = MPI_SUCCESS;
    wm_req_lock(d);
    enum state st = poll_one(d, request, &r);
    *flag = st != PENDING;
    if (st == NOTHING)
        fill_empty(status, abi);
    else if (st == COMPLETE)
        err = peek(d, r, status, abi);
    else if (st == WRONG)
        err = wrong(0, request);
    wm_req_unlock(d);
    wm_domain_polled(*flag);
    return err;
}

int wm_api_request_get_status_all(int count, const MPI_Request requests[], int *flag,
                                  MPI_Status *statuses)
{
    struct array a = array(count, requests);
    int err = check_array(&a);
    if (err)
        return err;
    struct lanes l = lanes_of(&a);
    struct rt_req *r;
    wm_req_lock(l.d);
    if (!all_done(&a))
        poll_lanes(&l);
    *flag = all_done(&a);
    bool failed = false;
    for (int i = 0; *flag && i < count; i++) {
        MPI_Status *s = wm_caller_status(statuses, i, a.abi);
        if (look(get(&a, i), &r) == COMPLETE)
            err = peek(holder(&l, r), r, s, a.abi);
        else
            fill_empty(s, a.abi), err = MPI_SUCCESS;
        note(s, a.abi, err, &failed);
    }
    wm_req_unlock(l.d);
    wm_domain_polled(*flag);
    return in_status(failed);
}

int wm_api_request_get_status_any(int count, const MPI_Request requests[], int *index, int *flag,
                                  MPI_Status *status)
{
    struct array a = array(count, requests);
    int err = check_array(&a), active;
    if (err)
        return err;
    struct lanes l = lanes_of(&a);
    wm_req_lock(l.d);
    int i = poll_done(&l, &a, &active);
    struct rt_req *r = i >= 0 ? wm_req_get(get(&a, i)) : NULL;
    *flag = i >= 0 || !active;
    *index = i >= 0 ? i : MPI_UNDEFINED;
    if (r)
        err = peek(holder(&l, r), r, status, a.abi);
    else if (!active)
        fill_empty(status, a.abi);
    wm_req_unlock(l.d);
    wm_domain_polled(*flag);
    return err;
}

int wm_api_request_get_status_some(int incount, const MPI_Request requests[], int *outcount,
                                   int indices[], MPI_Status *statuses)
{
    struct array a = array(incount, requests);
    int err = check_array(&a), active, n = 0;
    if (err)
        return err;
    struct lanes l = lanes_of(&a);
    struct rt_req *r;
    wm_req_lock(l.d);
    if (!all_done(&a)) /* also beside one that is complete, which the next call finds again */
        poll_lanes(&l);
    find_done(&a, &active);
    bool failed = false;
    for (int i = 0; active && i < incount; i++)
        if (look(get(&a, i), &r) == COMPLETE) {
            MPI_Status *s = wm_caller_status(statuses, n, a.abi);
            note(s, a.abi, peek(holder(&l, r), r, s, a.abi), &failed);
            indices[n++] = i;
        }
    *outcount = active ? n : MPI_UNDEFINED;
    wm_req_unlock(l.d);
    wm_domain_polled(*outcount != 0);
    return in_status(failed);
}

int wm_api_cancel(MPI_Request *request)
{
    struct rt_req *r = wm_req_get(*request);
    if (!r)
        return wrong(0, *request);
    if ((r->flags & (RT_REQ_PERSISTENT | RT_REQ_ACTIVE)) == RT_REQ_PERSISTENT)
        return wm_err(
            MPI_ERR_REQUEST,
            "the persistent request is not active; cancel applies to a started operation");
    if (!r->ops->cancel && !(r->flags & RT_REQ_STATIC))
        return wm_err(MPI_ERR_REQUEST, "a %s cannot be cancelled", r->ops->name);
    if (r->flags & RT_REQ_USER)
        return callback_error(r->ops->cancel(r), "cancel");
    struct wm_domain *d = wm_req_domain(r);
    int err = 0;
    wm_req_lock(d);
    if (!rt_req_done(r) || r->err == -RT_EPEER)
        err = r->ops->cancel(r);
    wm_req_unlock(d);
    return err < 0 ? wm_err_rt(err, "could not cancel") : MPI_SUCCESS;
}

int wm_api_test_cancelled(const MPI_Status *status, int *flag)
{
    *flag = wm_status_cancelled(status);
    return MPI_SUCCESS;
}

int wm_api_request_free(MPI_Request *request)
{
    struct rt_req *r = wm_req_get(*request);
    if (!r)
        return wrong(0, *request);
    struct wm_domain *d = wm_req_domain(r);
    int err = MPI_SUCCESS;
    wm_req_lock(d);
    bool user = r->flags & RT_REQ_USER;
    bool idle = (r->flags & (RT_REQ_PERSISTENT | RT_REQ_ACTIVE)) == RT_REQ_PERSISTENT;
    if (!idle && !rt_req_done(r) && r->ops->no_free_active)
        err = wm_err(MPI_ERR_REQUEST, "a %s that is active cannot be freed; complete it first",
                     r->ops->name);
    else if (!idle && !rt_req_done(r))
        r->flags |= RT_REQ_DETACHED;
    else if (user)
        err = callback_error(dispose(d, r), "free");
    else
        wm_req_release(r);
    wm_req_unlock(d);
    if (!err || user)
        *request = wm_caller.null;
    return err;
}
