/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives and messages on the streams of processes whose devices cannot synchronise by kernels
 * that wait: processes of several hosts, more than WM_XSTREAM_RANKS, or processes that take turns
 * on a device, where a kernel that waits keeps the turn from the process for which it waits.  A
 * proxy thread in each process serves their communicators.
 *
 * An enqueued call hands the stream over to the proxy thread (struct rt_gpu_hand): a number appears
 * in pinned memory when the stream reaches the call, and the stream waits for the next number.  The
 * proxy thread sees the first, runs the ordinary nonblocking collective on a hidden communicator
 * (`way`), and stores the second.  Drivers before CUDA 11.7 cannot do that; there one launch of
 * weft_meet does, which stores a number to `arrived` and waits until the same number is in `done`.
 *
 * Order.  A stream waits at one call at a time, so the proxy thread starts the calls of a
 * communicator in the order of its stream, which is the same in all processes, and never two at
 * once.  A captured call has words of its own, so a graph may be launched any number of times.  The
 * calls of all communicators have one order: the program's, or, where several threads of a process
 * may make calls, an agreed one (turn.c), for which the hosts synchronise.
 *
 * Failure.  A collective that fails, for example because one of its processes has ended, makes the
 * communicator unusable (wm_xstream_broken()): the streams of all its processes continue, also
 * those that reach a call later, because the thread ends each such wait.  For this each process has
 * a receive posted for the failure message, which the proxy thread polls.  The
 * engine completes what other processes still wait for; the buffers of that call must not be freed
 * before MPI_Finalize.
 *
 * The thread polls while there is a call that its stream may reach, which includes every captured
 * call; otherwise it sleeps.  It polls as a rank that waits (idle.h), if there is a core for it and
 * the application's thread, which may poll the stream in the driver and does not yield there.  Else
 * it sleeps between the polls: a thread that wakes up gets the core, one that has yielded gets it
 * when the time slice of the other has ended.  The thread is
 * inside the library like any thread of MPI_THREAD_MULTIPLE, so locks are on from the first such
 * communicator on.
 *
 * Under the domain's lock, except wm_proxy_permit() and wm_proxy_rest(). */
#include <ctype.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include "mpi/coll/team.h"
#include "mpi/core/life.h"
#include "mpi/op/op.h"
#include "mpi/p2p/api_wait.h"
#include "mpi/p2p/describe.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/wait.h"
#include "mpi/stream/stream.h"
#include "runtime/base/clock.h"
#include "runtime/base/idle.h"
#include "runtime/base/thread.h"
#include "runtime/boot/boot.h"

/* Calls of a communicator that its stream has not passed; the next one waits.  A driver call that
 * finds the queue of a stream full (about 1000 entries, of which a call needs 2 or 3) waits inside
 * the driver, and then the proxy thread cannot copy what would empty it: H200, driver 580. */
#define CALLS_MAX 128

/* The words of a call, pinned. */
struct words {
    uint32_t hand, pad[15];            /* written by the stream and the proxy thread in turn */
    uint32_t count, arrived, pad2[14]; /* weft_meet's; count: runs of the call so far */
    uint32_t done, pad3[15];           /* written by the proxy thread */
};

struct wm_proxy_room {
    struct wm_proxy_room *next;
    struct rt_gpu_stage *stage;
};

struct wm_proxy_call {
    struct wm_proxy_call *next;
    struct wm_call call; /* on `way`; this struct owns `vectors` and references */
    struct words *words;
    uint32_t here;   /* the number by which the stream hands over; 0: weft_meet does it */
    uint32_t served; /* the number last stored to `done` */
    bool captured, runs;
    MPI_Request request; /* of the collective while it runs */
    bool is_message;
    struct wm_proxy_message message;
    struct rt_req *req; /* of the message while it runs */
};

static struct {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool exists;     /* under the domain's lock */
    bool work, stop; /* under the mutex */
} proxy = { .mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

bool wm_proxy_serves(const struct wm_comm *c)
{
    return !wm_coll_team_in_node(c) || c->size > WM_XSTREAM_RANKS;
}

bool wm_proxy_permit(void) { return wm_life_threads(); }

/* ---- a call's words and references ---- */

static int add_room(struct wm_xstream_comm *s)
{
    struct wm_proxy_room *room = calloc(1, sizeof *room);
    int err = room ? rt_gpu_stage_take(s->g, true, RT_GPU_STAGE_SMALL, &room->stage) : -RT_ENOMEM;
    if (err < 0) {
        free(room);
        return err;
    }
    memset(room->stage->p, 0, RT_GPU_STAGE_SMALL);
    room->next = s->rooms;
    s->rooms = room;
    s->room_left = RT_GPU_STAGE_SMALL / sizeof(struct words);
    return 0;
}

/* Reuses a call that has ended, with its words, or allocates one. */
static int take_call(struct wm_xstream_comm *s, struct wm_proxy_call **out)
{
    struct wm_proxy_call *p = s->idle_calls;
    if (p) {
        s->idle_calls = p->next;
        *out = p;
        return 0;
    }
    int err = s->room_left ? 0 : add_room(s);
    if (err >= 0 && !(p = calloc(1, sizeof *p)))
        err = -RT_ENOMEM;
    if (err < 0)
        return err;
    p->words = (struct words *)(void *)s->rooms->stage->p + --s->room_left;
    *out = p;
    return 0;
}

static void hold(struct wm_proxy_call *p, struct wm_xstream_comm *s, struct wm_call *call)
{
    p->is_message = false;
    p->call = *call;
    p->call.comm = s->way;
    p->call.form = WM_NONBLOCKING;
    p->call.attended = true;
    call->vectors = NULL;
    if (p->call.stype)
        wm_type_ref(p->call.stype);
    if (p->call.rtype)
        wm_type_ref(p->call.rtype);
    if (p->call.op)
        wm_op_ref(p->call.op);
}

static void unhold(struct wm_proxy_call *p)
{
    if (p->call.stype)
        wm_type_unref(p->call.stype);
    if (p->call.rtype)
        wm_type_unref(p->call.rtype);
    if (p->call.op)
        wm_op_unref(p->call.op);
    free(p->call.vectors);
}

static void give_call(struct wm_xstream_comm *s, struct wm_proxy_call *p)
{
    unhold(p);
    p->next = s->idle_calls;
    s->idle_calls = p;
}

static void drop_call(struct wm_xstream_comm *s, struct wm_proxy_call *p)
{
    struct wm_proxy_call **at = &s->calls;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    s->ncalls -= !p->captured;
    give_call(s, p);
}

/* ---- the proxy thread ---- */

/* Whether the stream waits at the call.  Pairs with the device's store, which follows all earlier
 * work of its stream. */
static bool has_arrived(const struct wm_proxy_call *p)
{
    return p->here ? rt_load_acquire(&p->words->hand) == p->here
                   : rt_load_acquire(&p->words->arrived) != p->served;
}

/* The stores order the data before the number. */
static void let_go(struct wm_proxy_call *p)
{
    if (p->here)
        rt_store_release(&p->words->hand, p->here + 1);
    else
        rt_store_release(&p->words->done, ++p->served);
}

static void fail(struct wm_xstream_comm *s, const struct wm_proxy_call *p)
{
    if (p->is_message)
        log_error(MPI, "an enqueued message between this process and rank %d has failed: %s",
                  p->message.m.peer, wm_err_detail());
    else
        log_error(MPI, "an enqueued %s among %d processes has failed: %s",
                  coll_kind_names[p->call.args.kind], s->comm->size, wm_err_detail());
    wm_xstream_broken(s);
}

static struct rt_req *request_of(const struct wm_proxy_call *p)
{
    return !p->runs ? NULL : p->is_message ? p->req : wm_req_get(p->request);
}

/* Copies the vectors for one start of a call; the collective frees the copy. */
static int copy_vectors(struct wm_call *call)
{
    struct coll_args *a = &call->args;
    const int64_t **v[] = { &a->scounts, &a->sdispls, &a->rcounts, &a->rdispls };
    int n = call->comm->size;
    char *was = call->vectors, *copy;
    if (!was)
        return MPI_SUCCESS;
    copy = malloc(4 * (size_t)n * sizeof(int64_t));
    if (!copy)
        return wm_err(MPI_ERR_NO_MEM, "no memory for the counts of %d processes", n);
    memcpy(copy, was, 4 * (size_t)n * sizeof(int64_t));
    for (int i = 0; i < 4; i++)
        if (*v[i])
            *v[i] = (const int64_t *)(const void *)(copy + ((const char *)*v[i] - was));
    call->vectors = copy;
    return MPI_SUCCESS;
}

/* Releases the lock.  The communicator stays meanwhile, because its stream waits for this call, or
 * because of `starts` if the CUDA context was destroyed. */
static void start_collective(struct wm_domain *d, struct wm_xstream_comm *s,
                             struct wm_proxy_call *p)
{
    struct wm_call call = p->call;
    call.request = &p->request;
    p->runs = s->starts = true;
    rt_unlock(&d->lock);
    int err = copy_vectors(&call);
    if (!err)
        err = wm_call_run(&call);
    rt_lock(&d->lock);
    s->starts = false;
    if (err) {
        p->runs = false;
        fail(s, p);
    }
}

static void end_call(struct wm_xstream_comm *s, struct wm_proxy_call *p, int err)
{
    p->runs = false;
    if (err) {
        fail(s, p);
        return;
    }
    let_go(p);
    if (!p->captured)
        drop_call(s, p);
}

/* The receiver's call has returned the error of a message that is too long for its buffer. */
static void finish(struct wm_xstream_comm *s, struct wm_proxy_call *p, struct rt_req *r)
{
    int err = wm_req_error(r);
    wm_req_release(r);
    end_call(s, p, p->is_message && err == MPI_ERR_TRUNCATE ? MPI_SUCCESS : err);
}

static void start_message(struct wm_xstream_comm *s, struct wm_proxy_call *p)
{
    const struct wm_proxy_message *a = &p->message;
    if (a->copies) {
        end_call(s, p, wm_xstream_send_copy(&a->m));
        return;
    }
    int rc = a->sends ? wm_p2p_isend(&a->m, WM_STANDARD, &p->req) : wm_p2p_irecv(&a->m, &p->req);
    p->runs = rc >= 0;
    if (rc < 0)
        end_call(s, p, wm_err_rt(rc, "starting the message"));
}

static void start(struct wm_domain *d, struct wm_xstream_comm *s, struct wm_proxy_call *p)
{
    if (p->is_message)
        start_message(s, p);
    else
        start_collective(d, s, p);
}

/* After a failure: no stream waits for a collective, also not for one that still runs. */
static bool let_all_go(struct wm_xstream_comm *s, bool *open)
{
    bool any = false;
    for (struct wm_proxy_call *p = rt_gpu_alive(s->g) ? s->calls : NULL, *next; p; p = next) {
        bool over = has_arrived(p);
        next = p->next;
        any = any || over;
        if (over)
            let_go(p);
        if (p->captured || !(over || p->runs))
            *open = true;
        else if (!p->runs)
            drop_call(s, p);
    }
    return any;
}

/* Whether any work on the communicator was done; *open: there may be more. */
static bool serve_comm(struct wm_domain *d, struct wm_xstream_comm *s, bool *open)
{
    if (s->broken)
        return let_all_go(s, open);
    if (rt_req_done(s->failure)) {
        wm_xstream_broken(s);
        return true;
    }
    for (struct wm_proxy_call *p = s->calls; p; p = p->next) {
        struct rt_req *r = request_of(p);
        *open = true;
        if (r && rt_req_done(r)) {
            finish(s, p, r);
            return true;
        }
        if (!p->runs && has_arrived(p)) {
            start(d, s, p);
            return true;
        }
    }
    return false;
}

static bool serve(struct wm_domain *d, bool *open)
{
    struct rt_list *l;
    rt_list_each (l, &wm_xstream_comms) {
        struct wm_xstream_comm *s = rt_container(l, struct wm_xstream_comm, link);
        if (s->proxied && serve_comm(d, s, open))
            return true; /* the list may have changed */
    }
    return false;
}

/* Publishes the oldest call that waits for other processes as a wait of this process: the program
 * waits in the driver and publishes nothing.  NULL: there is no such call. */
static struct rt_wait_note *show(uint64_t since_ns)
{
    struct rt_list *l;
    const struct wm_xstream_comm *of = NULL;
    const struct wm_proxy_call *call = NULL;
    rt_list_each (l, &wm_xstream_comms) {
        const struct wm_xstream_comm *s = rt_container(l, struct wm_xstream_comm, link);
        for (const struct wm_proxy_call *p = s->proxied && !s->broken ? s->calls : NULL; p;
             p = p->next)
            if (request_of(p)) {
                of = s;
                call = p;
            }
    }
    struct rt_wait_note *n = call ? rt_activity_begin(since_ns) : NULL;
    if (!n)
        return NULL;
    const char *what = !call->is_message     ? coll_kind_names[call->call.args.kind]
                       : call->message.sends ? "send"
                                             : "recv";
    snprintf(n->call, sizeof n->call, "MPIX_%c%s_enqueue", toupper(what[0]), what + 1);
    n->nstack = 0;
    wm_describe_request(request_of(call), n);
    wm_describe_comm(n, of->comm);
    rt_activity_publish(n);
    return n;
}

/* Messages of a collective that has completed in this process but which have not left: other
 * processes wait for them, and the application may not call MPI soon. */
static bool has_unsent(const struct wm_domain *d)
{
    return !rt_list_empty(&d->retry) || !rt_list_empty(&d->streams) || d->fins.n;
}

/* Returns false if the thread must end. */
static bool await_work(void)
{
    pthread_mutex_lock(&proxy.mutex);
    while (!proxy.work && !proxy.stop)
        pthread_cond_wait(&proxy.wake, &proxy.mutex);
    proxy.work = false;
    bool stop = proxy.stop;
    pthread_mutex_unlock(&proxy.mutex);
    return !stop;
}

static bool must_stop(void)
{
    pthread_mutex_lock(&proxy.mutex);
    bool stop = proxy.stop;
    pthread_mutex_unlock(&proxy.mutex);
    return stop;
}

static void *run(void *arg)
{
    struct wm_domain *d = arg;
    struct rt_wait_note *note = NULL;
    prctl(PR_SET_NAME, "weft-proxy");
    prctl(PR_SET_TIMERSLACK, 1); /* otherwise naps take 50 µs more */
    while (await_work()) {
        uint64_t last = rt_now_ns();
        struct rt_idle idle = { 0 };
        for (bool open = true; open && !must_stop();) {
            open = false;
            rt_lock(&d->lock);
            bool found = serve(d, &open);
            open = open || has_unsent(d);
            if (open && wm_progress(d) > 0)
                found = true;
            if (!found && !note && rt_now_ns() - last >= RT_ACTIVITY_NS)
                note = show(last);
            rt_unlock(&d->lock);
            open = open || found;
            if (note && (found || !open)) {
                rt_activity_end(note, rt_now_ns());
                note = NULL;
            }
            if (found) {
                last = rt_now_ns();
                idle = (struct rt_idle){ 0 };
            } else if (rt_idle_suffices(2)) {
                rt_idle_pause(&idle, 2);
            } else {
                rt_idle_nap(rt_now_ns() - last);
            }
        }
    }
    if (note)
        rt_activity_end(note, rt_now_ns());
    return NULL;
}

static void notify(bool stop)
{
    pthread_mutex_lock(&proxy.mutex);
    proxy.work = true;
    proxy.stop = stop;
    pthread_cond_signal(&proxy.wake);
    pthread_mutex_unlock(&proxy.mutex);
}

/* The thread runs on the other cores of the job (as mpi/core/helper.c's): on the core of a rank
 * that polls its stream in the driver, it would be late by time slices. */
static int create_thread(struct wm_domain *d)
{
    cpu_set_t cpus;
    proxy.work = proxy.stop = false;
    int err = rt_thread_start(&proxy.thread, NULL, run, d);
    proxy.exists = !err;
    if (!err && rt_boot_cpus(&cpus)) /* on failure the thread keeps its binding */
        pthread_setaffinity_np(proxy.thread, sizeof cpus, &cpus);
    return err ? -RT_ESYS : 0;
}

int wm_proxy_join(struct wm_xstream_comm *s)
{
    if (!rt_threaded)
        return -RT_ENOTSUP;
    int err = proxy.exists ? 0 : create_thread(s->comm->dom);
    return err < 0 ? err : wm_xstream_expect_failure(s);
}

void wm_proxy_leave(struct wm_xstream_comm *s)
{
    for (struct wm_proxy_call *p; (p = s->calls);) {
        struct rt_req *r = request_of(p);
        s->calls = p->next;
        if (r && rt_req_done(r))
            wm_req_release(r);
        else if (r)
            r->flags |= RT_REQ_DETACHED;
        give_call(s, p);
    }
    for (struct wm_proxy_call *p; (p = s->idle_calls);) {
        s->idle_calls = p->next;
        free(p);
    }
    for (struct wm_proxy_room *room; (room = s->rooms);) {
        s->rooms = room->next;
        rt_gpu_stage_give(room->stage);
        free(room);
    }
}

void wm_proxy_rest(void)
{
    if (!proxy.exists)
        return;
    notify(true);
    pthread_join(proxy.thread, NULL);
    proxy.exists = false;
}

/* ---- calls ---- */

static bool has_room(void *arg)
{
    const struct wm_xstream_comm *s = arg;
    return s->ncalls < CALLS_MAX || s->broken || !rt_gpu_alive(s->g);
}

static void describe_room(const void *of, struct rt_wait_note *n)
{
    const struct wm_xstream_comm *s = of;
    wm_describe_comm(n, s->comm);
}

void wm_proxy_await_room(struct wm_xstream_comm *s)
{
    if (rt_unlikely(!has_room(s)))
        wm_domain_until(s->comm->dom, has_room, s, (struct wm_what){ describe_room, s });
}

/* `end`: where the stream does not wait yet. */
static int hand_over(struct wm_xstream_call *k, struct wm_proxy_call *p, struct rt_gpu_hand *end)
{
    uint32_t *word = &p->words->hand;
    p->here += 2;
    struct rt_gpu_hand h = { .word = word, .here = p->here, .begins = true, .ends = !end };
    struct rt_gpu_hand rest = { .word = word, .here = p->here, .ends = true };
    if (k->capturing) {
        struct rt_gpu_hand *last = end ? &rest : &h;
        last->then = word;
        last->value = p->here - 1;
    }
    if (end)
        *end = rest;
    return wm_xstream_hand(k, &h);
}

static int launch_meet(struct wm_xstream_call *k, struct wm_proxy_call *p)
{
    struct rt_gpu_meet m;
    wm_xstream_meet_init(k, &m, (uint64_t)(uintptr_t)&p->words->count, 1);
    m.signal[m.nsignal++] = (uint64_t)(uintptr_t)&p->words->arrived;
    m.wait[m.nwait++] = (uint64_t)(uintptr_t)&p->words->done;
    return wm_xstream_meet(k, &m, true);
}

/* The thread has the call from here on; after an error, too, because the stream may wait. */
static int launch(struct wm_xstream_call *k, struct wm_proxy_call *p, struct rt_gpu_hand *end)
{
    struct wm_xstream_comm *s = k->s;
    p->captured = k->capturing;
    p->next = s->calls;
    s->calls = p;
    s->ncalls += !p->captured;
    int err = rt_gpu_can_hand() ? hand_over(k, p, end) : launch_meet(k, p);
    notify(false);
    return err < 0 ? wm_err_rt(err, "enqueuing a call among %d processes", s->comm->size)
                   : MPI_SUCCESS;
}

int wm_proxy_enqueue(struct wm_xstream_call *k, struct wm_call *call)
{
    struct wm_xstream_comm *s = k->s;
    struct wm_xstream_turn turn;
    struct wm_proxy_call *p = NULL;
    int err = take_call(s, &p);
    if (err < 0)
        err = wm_err_rt(err, "memory for an enqueued collective");
    if (p)
        hold(p, s, call);
    if (s->in_turn)
        err = wm_xstream_turn_take(s, err, &turn);
    else if (err) /* the other processes' streams wait for this one */
        wm_xstream_broken(s);
    if (err && p)
        give_call(s, p);
    if (err)
        return err;
    err = launch(k, p, NULL);
    if (s->in_turn)
        wm_xstream_turn_end(&turn);
    return err;
}

int wm_proxy_message(struct wm_xstream_call *k, const struct wm_proxy_message *a,
                     struct rt_gpu_hand *end)
{
    struct wm_proxy_call *p;
    int err = take_call(k->s, &p);
    if (err < 0) {
        wm_xstream_broken(k->s); /* the other process has, or will have, enqueued its part */
        return wm_err_rt(err, "memory for an enqueued message");
    }
    p->is_message = true;
    p->message = *a;
    p->call = (struct wm_call){ .stype = a->type };
    wm_type_ref(a->type);
    return launch(k, p, end);
}
