/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: streams, one thread each, and events.  An operation waits for earlier
 * operations of its stream and, if the null stream is concerned, for those of other streams.  After
 * a context has failed, its streams drop their operations. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "test/fake/gpu/fake.h"

#define STREAM_MAGIC 0x57f57a3au
#define EVENT_MAGIC 0x57fe7e47u

#define QUEUE_MAX 1000 /* operations that a stream has not finished */

/* ---- the thread ---- */

static void random_delay(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    if (fake.delay_us)
        fake_nap_us((*state >> 8) % (fake.delay_us + 1));
}

static void run_one(cu_stream s, struct fake_op *op, unsigned *random)
{
    int i, err;

    for (i = 0; i < op->ndeps; i++)
        fake_stream_wait(op->deps[i].stream, op->deps[i].ticket);
    random_delay(random);
    err = s->ctx->err ? 0 : op->run(op);
    if (err)
        s->ctx->err = err;
}

static void *stream_main(void *arg)
{
    cu_stream s = arg;
    unsigned random = (unsigned)(uintptr_t)s ^ (unsigned)fake.pid * 2654435761u;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct fake_op *op = s->head;

        if (!op && s->destroyed)
            break;
        if (!op) {
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        s->head = op->next;
        if (!s->head)
            s->tail = &s->head;
        pthread_mutex_unlock(&s->lock);
        run_one(s, op, &random);
        pthread_mutex_lock(&s->lock);
        atomic_store_explicit(&s->completed, op->ticket, memory_order_release);
        pthread_cond_broadcast(&s->done);
        free(op->deps);
        free(op);
    }
    s->started = false;
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* The application's signals are blocked in the thread. */
static int stream_start(cu_stream s)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_t t;
    int err;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&t, &attr, stream_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return err ? CU_ERROR_OUT_OF_MEMORY : 0;
}

/* ---- submitting and waiting ---- */

struct fake_op *fake_op_make(int (*run)(struct fake_op *op), size_t nparams)
{
    struct fake_op *op = calloc(1, sizeof(*op) + nparams);

    if (op) {
        op->run = run;
        op->nparams = nparams;
    }
    return op;
}

static void add_dep(struct fake_op *op, cu_stream s)
{
    struct fake_dep *d;

    pthread_mutex_lock(&s->lock);
    if (s->completed < s->submitted) {
        d = realloc(op->deps, (size_t)(op->ndeps + 1) * sizeof(*d));
        if (d) {
            op->deps = d;
            d[op->ndeps].stream = s;
            d[op->ndeps++].ticket = s->submitted;
        }
    }
    pthread_mutex_unlock(&s->lock);
}

/* The dependencies that the legacy null stream adds. */
static void null_stream_deps(cu_stream s, struct fake_op *op)
{
    cu_stream other;

    if (!s->blocking)
        return;
    if (s != s->ctx->null_stream) {
        if (s->ctx->null_stream)
            add_dep(op, s->ctx->null_stream);
        return;
    }
    for (other = s->ctx->streams; other; other = other->next)
        if (other != s && other->blocking)
            add_dep(op, other);
}

/* The dependencies between streams that share a hardware queue. */
static void queue_deps(cu_stream s, struct fake_op *op)
{
    cu_stream other;

    for (other = s->ctx->streams; fake.one_queue && !s->urgent && other; other = other->next)
        if (other != s && !other->urgent)
            add_dep(op, other);
}

/* As with driver 580, a call that finds the queue of its stream full waits, and calls of other
 * threads that submit wait for it. */
static void queue_enter(cu_stream s)
{
    pthread_mutex_lock(&fake.submitting);
    pthread_mutex_lock(&s->lock);
    while (s->submitted - s->completed >= QUEUE_MAX)
        pthread_cond_wait(&s->done, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static int submit(cu_stream s, struct fake_op *op)
{
    int err = 0;

    op->stream = s;
    pthread_mutex_lock(&fake.lock);
    null_stream_deps(s, op);
    queue_deps(s, op);
    cu_stream capture = fake_capture_of(s);
    pthread_mutex_lock(&s->lock);
    if (capture) {
        fake_capture(capture, op);
        pthread_mutex_unlock(&s->lock);
        pthread_mutex_unlock(&fake.lock);
        return 0;
    }
    if (!s->started) {
        err = stream_start(s);
        s->started = !err;
    }
    if (!err) {
        op->ticket = ++s->submitted;
        *s->tail = op;
        s->tail = &op->next;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&fake.lock);
    if (err) {
        free(op->deps);
        free(op);
    }
    return err;
}

int fake_submit(cu_stream s, struct fake_op *op)
{
    int err;

    if (!op)
        return CU_ERROR_OUT_OF_MEMORY;
    queue_enter(s);
    err = submit(s, op);
    pthread_mutex_unlock(&fake.submitting);
    return err;
}

/* UINT64_MAX: everything submitted so far. */
void fake_stream_wait(cu_stream s, uint64_t ticket)
{
    pthread_mutex_lock(&s->lock);
    if (ticket > s->submitted)
        ticket = s->submitted;
    while (s->completed < ticket)
        pthread_cond_wait(&s->done, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void fake_stream_stop(cu_stream s)
{
    pthread_mutex_lock(&s->lock);
    s->destroyed = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
}

static cu_stream stream_make(cu_ctx c, bool blocking) /* under fake.lock */
{
    cu_stream s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->magic = STREAM_MAGIC;
    s->ctx = c;
    s->blocking = blocking;
    s->tail = &s->head;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->done, NULL);
    s->next = c->streams;
    c->streams = s;
    return s;
}

int fake_stream_of(cu_ctx c, cu_stream s, cu_stream *out)
{
    int err = 0;

    pthread_mutex_lock(&fake.lock);
    if (!s || s == (cu_stream)1) { /* CU_STREAM_LEGACY is 1 */
        if (!c->null_stream)
            c->null_stream = stream_make(c, true);
        s = c->null_stream;
    }
    if (!s)
        err = CU_ERROR_OUT_OF_MEMORY;
    else if (s->magic != STREAM_MAGIC || (s->destroyed && !s->ctx->destroyed))
        err = CU_ERROR_INVALID_HANDLE;
    else
        err = fake_ctx_check(s->ctx);
    pthread_mutex_unlock(&fake.lock);
    *out = s;
    return err;
}

/* ---- the driver's functions ---- */

static int stream_create(cu_stream *s, unsigned flags, const char *symbol)
{
    cu_ctx c;
    int err = fake_enter_ctx(symbol, &c);

    if (err)
        return err;
    if (flags & ~CU_STREAM_NON_BLOCKING)
        return CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    *s = NULL;
    if (fake.used[c->dev] + FAKE_GRANULE <= fake.mem_nbytes) /* as on a real device */
        *s = stream_make(c, !(flags & CU_STREAM_NON_BLOCKING));
    pthread_mutex_unlock(&fake.lock);
    return *s ? 0 : CU_ERROR_OUT_OF_MEMORY;
}

cu_result cuStreamCreate(cu_stream *s, unsigned flags)
{
    return stream_create(s, flags, "cuStreamCreate");
}

cu_result cuStreamCreateWithPriority(cu_stream *s, unsigned flags, int priority)
{
    int err = stream_create(s, flags, "cuStreamCreateWithPriority");

    if (!err)
        (*s)->urgent = priority < 0; /* a priority out of range is clamped */
    return err;
}

static int enter_stream(const char *symbol, cu_stream *s)
{
    cu_ctx c;
    int err = fake_enter_ctx(symbol, &c);

    return err ? err : fake_stream_of(c, *s, s);
}

cu_result cuStreamDestroy_v2(cu_stream s)
{
    bool null = !s;
    int err = enter_stream("cuStreamDestroy_v2", &s);

    if (err || null)
        return err ? err : CU_ERROR_INVALID_HANDLE;
    fake_stream_stop(s); /* queued work still runs */
    return 0;
}

/* In a capture, no call may query the progress of the stream.  Under its lock. */
static int spoils(cu_stream s)
{
    if (!s->captured_tail)
        return 0;
    s->capture_broken = true;
    return CU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

cu_result cuStreamQuery(cu_stream s)
{
    int err = enter_stream("cuStreamQuery", &s);
    bool ready;

    if (err)
        return err;
    pthread_mutex_lock(&s->lock);
    ready = s->completed == s->submitted;
    err = spoils(s);
    pthread_mutex_unlock(&s->lock);
    if (err)
        return err;
    return s->ctx->err ? s->ctx->err : ready ? 0 : CU_ERROR_NOT_READY;
}

static _Atomic int nwaits;

int fake_cuda_nwaits(void) { return nwaits; }

cu_result cuStreamSynchronize(cu_stream s)
{
    int err = enter_stream("cuStreamSynchronize", &s);

    nwaits++;
    if (err)
        return err;
    pthread_mutex_lock(&s->lock);
    err = spoils(s);
    pthread_mutex_unlock(&s->lock);
    if (err)
        return err;
    fake_stream_wait(s, UINT64_MAX);
    return s->ctx->err;
}

static int run_nothing(struct fake_op *op)
{
    (void)op;
    return 0;
}

/* ---- an application's kernel ---- */

static _Atomic uint32_t nreleases;

static int run_hold(struct fake_op *op)
{
    for (unsigned us = 0; us / 1000 < op->len && nreleases == op->value; us += 200)
        fake_nap_us(200);
    return 0;
}

cu_result fake_cuda_hold(cu_stream s, unsigned max_ms)
{
    struct fake_op *op = fake_op_make(run_hold, 0);
    int err = enter_stream("fake_cuda_hold", &s);

    if (err || !op) {
        free(op);
        return err ? err : CU_ERROR_OUT_OF_MEMORY;
    }
    op->value = nreleases;
    op->len = max_ms;
    return fake_submit(s, op);
}

void fake_cuda_release(void) { nreleases++; }

cu_result cuStreamWaitEvent(cu_stream s, cu_event e, unsigned flags)
{
    int err = enter_stream("cuStreamWaitEvent", &s);
    struct fake_op *op;

    (void)flags;
    if (err || !e || e->magic != EVENT_MAGIC || e->destroyed)
        return err ? err : CU_ERROR_INVALID_HANDLE;
    if (!e->at.stream)
        return 0;
    if (e->capture && fake_capture_of(e->capture)) {
        s->origin = e->capture == s ? NULL : e->capture;
        return 0;
    }
    op = fake_op_make(run_nothing, 0);
    if (op && (op->deps = malloc(sizeof(*op->deps)))) {
        op->deps[0] = e->at;
        op->ndeps = 1;
    }
    return fake_submit(s, op);
}

cu_result cuEventCreate(cu_event *e, unsigned flags)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuEventCreate", &c);

    (void)flags;
    if (err)
        return err;
    *e = calloc(1, sizeof(**e));
    if (!*e)
        return CU_ERROR_OUT_OF_MEMORY;
    (*e)->magic = EVENT_MAGIC;
    (*e)->ctx = c;
    pthread_mutex_lock(&fake.lock);
    (*e)->next = fake.events;
    fake.events = *e;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static int event_check(const char *symbol, cu_event e)
{
    int err = fake_enter(symbol);

    if (err)
        return err;
    if (!e || e->magic != EVENT_MAGIC || e->destroyed)
        return CU_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&fake.lock);
    err = fake_ctx_check(e->ctx);
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuEventRecord(cu_event e, cu_stream s)
{
    int err = event_check("cuEventRecord", e);

    if (!err)
        err = enter_stream("", &s);
    if (err)
        return err;
    if (s->ctx != e->ctx)
        return CU_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&s->lock);
    e->at.stream = s;
    e->at.ticket = s->submitted;
    pthread_mutex_unlock(&s->lock);
    e->capture = fake_capture_of(s);
    return 0;
}

cu_result cuEventQuery(cu_event e)
{
    int err = event_check("cuEventQuery", e);

    if (err || !e->at.stream)
        return err;
    return e->at.stream->completed >= e->at.ticket ? e->ctx->err : CU_ERROR_NOT_READY;
}

cu_result cuEventSynchronize(cu_event e)
{
    int err = event_check("cuEventSynchronize", e);

    if (err || !e->at.stream)
        return err;
    fake_stream_wait(e->at.stream, e->at.ticket);
    return e->ctx->err;
}

cu_result cuEventDestroy_v2(cu_event e)
{
    int err = event_check("cuEventDestroy_v2", e);

    if (err)
        return err;
    e->destroyed = true;
    return 0;
}
