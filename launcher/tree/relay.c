/* SPDX-License-Identifier: BSD-3-Clause */
/* Fences and fetches between the PMIx servers of a job's hosts: see relay.h.
 *
 * A fence is identified by its participants.  Each process of the tree waits until all
 * participating hosts below it have sent their parts, sends one combined part up, and deletes its
 * record.  A second fence of the same ranks cannot begin before the first has been completed
 * downwards, so it finds no record of the first.  The head is notified of a fence that takes longer
 * than NOTIFY_NS, because the head knows which ranks have ended.  Frames of a host arrive in order;
 * so a pending fence with a rank that has ended can never complete.
 *
 * A fetch is sent directly to the host of the rank.  PMIx on that host waits for the first value
 * that the rank publishes, which need not be the requested key.  If the answer lacks the key, the
 * request is repeated until the rank has ended or the time limit has passed. */
#include "launcher/host/server.h"
#include "launcher/tree/relay.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1000000000ull
#define NOTIFY_NS 1000000000   /* longer than a fence of ranks that arrive normally */
#define ENDED_S 1              /* for PMIx to read what a rank that has ended has published */
#define AGAIN_NS 10000000      /* time before a fetch is first repeated; doubled each time */
#define AGAIN_MAX_NS 200000000 /* the longest pause */

struct ranks {
    uint32_t *v;
    size_t n;
}; /* ascending; none: all ranks of the job */

struct relay_fence {
    struct relay_fence *next;
    struct ranks who;
    int nhosts, want;   /* hosts that have sent their part; hosts below that take part */
    uint64_t notify_ns; /* when to notify the head; 0: it has been notified */
    struct frame_queue data;
};

struct relay_call {
    struct relay_call *next;
    struct launch_call *call;
    bool fetch;
    struct ranks who;  /* for a fence; owned by call */
    uint32_t number;   /* for a fetch */
    uint64_t until_ns; /* 0: no limit */
};

struct relay_query {
    struct relay_query *next;
    uint32_t number, their_number, from;
    int rank;
    char *key;
    bool asked; /* PMIx has not answered yet */
    /* When to ask PMIx again; the pause before the repetition after that; limit, 0: none. */
    uint64_t again_ns, wait_ns, until_ns;
};

/* ---- ranks ---- */

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool same_ranks(const struct ranks *a, const struct ranks *b)
{
    return a->n == b->n && (a->n == 0 || !memcmp(a->v, b->v, a->n * sizeof *a->v));
}

/* Number of hosts below, including this one, that have one of these ranks. */
static int count_hosts(const struct relay *r, const struct ranks *who)
{
    const struct launch_job *job = r->job;
    int n = 0;
    bool *seen = who->n ? calloc((size_t)job->nhosts, sizeof *seen) : NULL;
    for (size_t i = 0; i < who->n && seen; i++)
        seen[job->host_of[who->v[i]]] = true;
    for (int h = r->first; h < r->end; h++)
        n += who->n ? seen && seen[h] : job->hosts[h].nranks > 0;
    free(seen);
    return n;
}

static void put_ranks(struct frame_out *o, const struct ranks *who)
{
    frame_put_u32(o, (uint32_t)who->n);
    for (size_t i = 0; i < who->n; i++)
        frame_put_u32(o, who->v[i]);
}

/* Checks the ranks: ascending, and of the job. */
static int get_ranks(const struct relay *r, struct frame_in *in, struct ranks *who)
{
    who->n = frame_get_count(in, 4);
    who->v = malloc((who->n + 1) * sizeof *who->v);
    if (!who->v)
        in->bad = true;
    for (size_t i = 0; i < who->n && !in->bad; i++) {
        who->v[i] = frame_get_u32(in);
        if (who->v[i] >= (uint32_t)r->job->total || (i && who->v[i] <= who->v[i - 1]))
            in->bad = true;
    }
    if (!in->bad)
        return 0;
    free(who->v);
    *who = (struct ranks){ 0 };
    return -RT_EINVAL;
}

static void send_frame(struct relay *r, uint32_t node, struct frame_out *o)
{
    if (frame_end(o) < 0) {
        log_error(LAUNCH,
                  "out of memory while relaying a PMIx message of %zu bytes; "
                  "ranks will hang",
                  o->len);
        return;
    }
    if (node == FRAME_ALL || tree_send(r->tree, node, o->buf, o->len) != -RT_ENOENT)
        return;
    if (r->up)
        r->up(r->arg, o);
}

/* ---- fences ---- */

static void fence_done(struct relay *r, const struct ranks *who, const void *data, size_t len)
{
    for (struct relay_call **p = &r->calls; *p; p = &(*p)->next) {
        struct relay_call *c = *p;
        if (c->fetch || !same_ranks(&c->who, who))
            continue;
        *p = c->next;
        launch_server_answer(c->call, 0, data, len);
        free(c);
        return;
    }
}

/* All parts from below have arrived. */
static void fence_complete(struct relay *r, struct relay_fence *f)
{
    struct frame_out o = { 0 };
    frame_begin(&o, r->up ? FRAME_FENCE : FRAME_FENCE_DONE, r->up ? (uint32_t)r->self : FRAME_ALL);
    put_ranks(&o, &f->who);
    if (r->up)
        frame_put_int(&o, f->nhosts);
    frame_put_bytes(&o, f->data.buf, f->data.len);
    if (frame_end(&o) < 0)
        log_error(LAUNCH, "a PMIx fence with %zu bytes is too long; its ranks will hang",
                  f->data.len);
    else if (r->up)
        r->up(r->arg, &o);
    else
        tree_send(r->tree, FRAME_ALL, o.buf, o.len);
    frame_out_fini(&o);
}

static void fence_free(struct relay_fence *f)
{
    free(f->who.v);
    free(f->data.buf);
    free(f);
}

static struct relay_fence *fence_find(struct relay *r, const struct ranks *who)
{
    struct relay_fence *f = r->fences;
    while (f && !same_ranks(&f->who, who))
        f = f->next;
    if (f)
        return f;
    f = calloc(1, sizeof *f);
    if (!f || !(f->who.v = malloc((who->n + 1) * sizeof *who->v))) {
        free(f);
        return NULL;
    }
    if (who->n)
        memcpy(f->who.v, who->v, who->n * sizeof *who->v);
    f->who.n = who->n;
    f->want = count_hosts(r, who);
    f->notify_ns = r->up ? rt_now_ns() + NOTIFY_NS : 0;
    f->next = r->fences;
    r->fences = f;
    return f;
}

/* Adds the part of `nhosts` hosts. */
static void fence_add(struct relay *r, const struct ranks *who, int nhosts, const void *data,
                      size_t len)
{
    struct relay_fence *f = fence_find(r, who);
    uint8_t *p = f ? realloc(f->data.buf, f->data.len + len + 1) : NULL;
    if (!p) {
        log_error(LAUNCH, "out of memory for %zu bytes of a PMIx fence; its ranks will hang", len);
        return;
    }
    f->data.buf = p;
    if (len)
        memcpy(p + f->data.len, data, len);
    f->data.len += len;
    f->nhosts += nhosts;
    if (f->nhosts < f->want)
        return;
    for (struct relay_fence **at = &r->fences; *at; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            break;
        }
    fence_complete(r, f);
    fence_free(f);
}

/* Notifies the head, which keeps its own record of each fence that has begun. */
static void fence_notify(struct relay *r, struct relay_fence *f)
{
    struct frame_out o = { 0 };
    f->notify_ns = 0;
    frame_begin(&o, FRAME_FENCE_WAITS, (uint32_t)r->self);
    put_ranks(&o, &f->who);
    if (frame_end(&o) == 0)
        r->up(r->arg, &o);
    frame_out_fini(&o);
}

struct launch_rank *relay_missing(const struct relay *r)
{
    struct launch_job *job = r->job;
    for (const struct relay_fence *f = r->fences; f; f = f->next)
        for (size_t i = 0; i < (f->who.n ? f->who.n : (size_t)job->n); i++) {
            struct launch_rank *rank = &job->ranks[f->who.n ? f->who.v[i] : i];
            if (!rank->running)
                return rank;
        }
    return NULL;
}

/* ---- fetches, at the requesting host ---- */

static uint64_t deadline(int seconds)
{
    return seconds > 0 ? rt_now_ns() + (uint64_t)seconds * SECOND_NS : 0;
}

static void fetch_start(struct relay *r, const struct launch_event *e)
{
    struct relay_call *c = calloc(1, sizeof *c);
    struct frame_out o = { 0 };
    uint32_t node = e->rank >= 0 && e->rank < r->job->total ? r->job->host_of[e->rank] : FRAME_ALL;

    if (!c || node == FRAME_ALL || node == (uint32_t)r->self) {
        launch_server_answer(e->call, -RT_ENOENT, NULL, 0);
        free(c);
        return;
    }
    c->call = e->call;
    c->fetch = true;
    c->number = ++r->number;
    c->until_ns = deadline(e->code);
    c->next = r->calls;
    r->calls = c;
    frame_begin(&o, FRAME_FETCH, node);
    frame_put_u32(&o, c->number);
    frame_put_u32(&o, (uint32_t)r->self);
    frame_put_int(&o, e->rank);
    frame_put_int(&o, e->code);
    frame_put_str(&o, e->call->data);
    send_frame(r, node, &o);
    frame_out_fini(&o);
}

static void fetch_done(struct relay *r, struct frame_in *in)
{
    size_t len;
    uint32_t number = frame_get_u32(in);
    int err = frame_get_int(in);
    const void *data = frame_get_bytes(in, &len);

    if (!frame_in_ok(in)) {
        in->bad = true;
        return;
    }
    for (struct relay_call **p = &r->calls; *p; p = &(*p)->next) {
        struct relay_call *c = *p;
        if (!c->fetch || c->number != number)
            continue;
        *p = c->next;
        launch_server_answer(c->call, err ? -RT_ENOENT : 0, data, len);
        free(c);
        return;
    }
}

/* ---- fetches, at the host of the rank ---- */

static void query_free(struct relay_query *q)
{
    free(q->key);
    free(q);
}

static void query_answer(struct relay *r, struct relay_query **p, int err, const void *data,
                         size_t len)
{
    struct relay_query *q = *p;
    struct frame_out o = { 0 };

    *p = q->next;
    frame_begin(&o, FRAME_FETCHED, q->from);
    frame_put_u32(&o, q->their_number);
    frame_put_int(&o, err);
    frame_put_bytes(&o, data, len);
    send_frame(r, q->from, &o);
    frame_out_fini(&o);
    query_free(q);
}

static bool is_running(const struct relay *r, int rank)
{
    for (int i = 0; i < r->job->n; i++)
        if (r->job->ranks[i].rank == rank)
            return r->job->ranks[i].running;
    return false;
}

/* PMIx answers at once if the rank has published anything, else when it does so: a rank that has
 * ended will not. */
static void query_ask(struct relay *r, struct relay_query **p)
{
    struct relay_query *q = *p;
    q->asked = true;
    if (!is_running(r, q->rank))
        q->until_ns = deadline(ENDED_S);
    if (launch_server_fetch(q->rank, q->number) < 0)
        query_answer(r, p, -RT_ENOENT, NULL, 0);
}

static void query_start(struct relay *r, struct frame_in *in)
{
    struct relay_query *q = calloc(1, sizeof *q);
    uint32_t number = frame_get_u32(in), from = frame_get_u32(in);
    int rank = frame_get_int(in), seconds = frame_get_int(in);
    const char *key = frame_get_text(in);

    if (!frame_in_ok(in) || rank < 0 || rank >= r->job->total || from >= (uint32_t)r->job->nhosts ||
        r->job->host_of[rank] != (uint32_t)r->self || !q || !(q->key = strdup(key))) {
        in->bad = true;
        free(q);
        return;
    }
    q->number = ++r->number;
    q->their_number = number;
    q->from = from;
    q->rank = rank;
    q->wait_ns = AGAIN_NS;
    q->until_ns = deadline(seconds);
    q->next = r->queries;
    r->queries = q;
    query_ask(r, &r->queries);
}

/* PMIx packs what a rank has published; keys are text with a terminating zero. */
static void query_published(struct relay *r, const struct launch_event *e)
{
    const struct launch_call *call = e->call;
    struct relay_query **p = &r->queries;

    while (*p && (*p)->number != e->number)
        p = &(*p)->next;
    if (!*p)
        return; /* given up meanwhile */
    struct relay_query *q = *p;
    bool there = !e->code &&
                 (!*q->key || memmem(call->data, call->len, q->key, strlen(q->key) + 1));
    q->asked = false;
    if (there)
        query_answer(r, p, 0, call->data, call->len);
    else if (!is_running(r, q->rank))
        query_answer(r, p, -RT_ENOENT, NULL, 0);
    else {
        q->again_ns = rt_now_ns() + q->wait_ns;
        q->wait_ns = q->wait_ns < AGAIN_MAX_NS ? 2 * q->wait_ns : AGAIN_MAX_NS;
    }
}

void relay_rank_ended(struct relay *r, int rank)
{
    for (struct relay_query **p = &r->queries; *p;) {
        struct relay_query *q = *p;
        if (q->rank == rank && q->asked)
            query_answer(r, p, -RT_ENOENT, NULL, 0);
        else if (q->rank == rank)
            query_ask(r, p); /* once more, for values published last */
        if (*p == q)
            p = &q->next;
    }
}

/* ---- both ---- */

static void fence_frame(struct relay *r, struct frame *f)
{
    struct ranks who;
    size_t len = 0;
    if (get_ranks(r, &f->in, &who) < 0)
        return;
    int nhosts = f->type == FRAME_FENCE ? frame_get_int(&f->in) : 1;
    const void *data = f->type == FRAME_FENCE_WAITS ? NULL : frame_get_bytes(&f->in, &len);
    if (!frame_in_ok(&f->in) || nhosts < 1)
        f->in.bad = true;
    else if (f->type == FRAME_FENCE)
        fence_add(r, &who, nhosts, data, len);
    else if (f->type == FRAME_FENCE_WAITS)
        fence_find(r, &who);
    else
        fence_done(r, &who, data, len);
    free(who.v);
}

void relay_frame(struct relay *r, struct frame *f)
{
    bool direct = f->type == FRAME_FETCH || f->type == FRAME_FETCHED;
    if (f->type == FRAME_FENCE_DONE)
        tree_send(r->tree, FRAME_ALL, f->raw, f->raw_len);
    if (direct && f->node != (uint32_t)r->self) {
        struct frame_out o = { .buf = (uint8_t *)f->raw, .len = f->raw_len };
        if (tree_send(r->tree, f->node, f->raw, f->raw_len) == -RT_ENOENT && r->up)
            r->up(r->arg, &o);
        return;
    }
    if (!r->job->host_of) /* the job is not known yet */
        f->in.bad = true;
    else if (f->type == FRAME_FETCH)
        query_start(r, &f->in);
    else if (f->type == FRAME_FETCHED)
        fetch_done(r, &f->in);
    else
        fence_frame(r, f);
}

static void fence_start(struct relay *r, const struct launch_event *e)
{
    struct launch_call *call = e->call;
    struct relay_call *c = calloc(1, sizeof *c);
    if (!c) {
        launch_server_answer(call, -RT_ENOMEM, NULL, 0);
        return;
    }
    if (call->nranks)
        qsort(call->ranks, call->nranks, sizeof *call->ranks, compare);
    if (call->nranks == (size_t)r->job->total)
        call->nranks = 0; /* all ranks, each named */
    c->call = call;
    c->who = (struct ranks){ call->ranks, call->nranks };
    c->next = r->calls;
    r->calls = c;
    fence_add(r, &c->who, 1, call->data, call->len);
}

void relay_event(struct relay *r, const struct launch_event *e)
{
    switch (e->kind) {
    case LAUNCH_FENCE:
        fence_start(r, e);
        break;
    case LAUNCH_FETCH:
        fetch_start(r, e);
        break;
    default:
        query_published(r, e);
        if (e->call)
            launch_call_free(e->call);
        break;
    }
}

void relay_step(struct relay *r)
{
    uint64_t now = r->fences || r->calls || r->queries ? rt_now_ns() : 0;

    for (struct relay_fence *f = r->fences; f; f = f->next)
        if (f->notify_ns && now >= f->notify_ns)
            fence_notify(r, f);
    for (struct relay_call **p = &r->calls; *p;) {
        struct relay_call *c = *p;
        if (!c->until_ns || now < c->until_ns) {
            p = &c->next;
            continue;
        }
        *p = c->next;
        launch_server_answer(c->call, -RT_ETIMEOUT, NULL, 0);
        free(c);
    }
    for (struct relay_query **p = &r->queries; *p;) {
        struct relay_query *q = *p;
        if (q->until_ns && now >= q->until_ns)
            query_answer(r, p, -RT_ETIMEOUT, NULL, 0);
        else if (!q->asked && now >= q->again_ns)
            query_ask(r, p);
        if (*p == q)
            p = &q->next;
    }
}

int relay_timeout_ms(const struct relay *r)
{
    for (const struct relay_query *q = r->queries; q; q = q->next)
        if (!q->asked)
            return AGAIN_NS / 1000000;
    for (const struct relay_call *c = r->calls; c; c = c->next)
        if (c->until_ns)
            return 100;
    for (const struct relay_fence *f = r->fences; f; f = f->next)
        if (f->notify_ns)
            return 100;
    return r->queries ? 100 : -1;
}

void relay_fini(struct relay *r)
{
    for (struct relay_fence *f = r->fences, *next; f; f = next) {
        next = f->next;
        fence_free(f);
    }
    for (struct relay_call *c = r->calls, *next; c; c = next) {
        next = c->next;
        launch_call_free(c->call);
        free(c);
    }
    for (struct relay_query *q = r->queries, *next; q; q = next) {
        next = q->next;
        query_free(q);
    }
    r->fences = NULL;
    r->calls = NULL;
    r->queries = NULL;
}
