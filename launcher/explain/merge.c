/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes, reads and merges pictures: merge.h.  Both directions stand side by side, field by field
 * in the same order.  A field of struct explain_rank or struct rt_wait_note that judges or printers
 * use is a line in each direction and a new FRAME_VERSION. */
#include "launcher/explain/merge.h"
#include "runtime/base/err.h"

#include <stdlib.h>
#include <string.h>

/* Sums and differences of two such numbers fit an int, and so on for bytes. */
#define NUMBER_MAX ((1 << 30) - 1)
#define NBYTES_MAX ((INT64_C(1) << 61) - 1)
/* Share of a core in a frame: thousandths.  A process has up to a thousand threads. */
#define CPU_MAX 1000000

_Static_assert(sizeof(struct rt_wait_note) == 824,
               "a new field of the note: put_wait() and get_wait(), or the picture of a job over "
               "several hosts lacks it");

struct host {
    const char *name; /* NULL: no picture */
    uint8_t *copy;    /* of the frame: strings point into it */
    struct explain_rank *ranks;
    struct explain_wait *waits;
    int nranks;
    const char *lacks, *stacks;
};

struct explain_merge {
    int nhosts, total;
    struct host *hosts;
    struct explain_rank *ranks; /* of all hosts */
    struct explain_job job;
};

/* ---- numbers and strings ---- */

/* A number from min to max. */
static int get_number(struct frame_in *in, int min, int max)
{
    int v = frame_get_int(in);
    in->bad |= v < min || v > max;
    return in->bad ? 0 : v;
}

/* A text for a terminal: without control characters.  The frame is our copy. */
static const char *get_text(struct frame_in *in)
{
    const char *text = frame_get_text(in);
    for (char *p = (char *)text; p && *p; p++)
        if ((unsigned char)*p < ' ' && *p != '\n')
            *p = '?';
    return text ? text : "";
}

static void get_name(struct frame_in *in, char *to, size_t len)
{
    const char *text = get_text(in);
    in->bad |= strlen(text) >= len;
    snprintf(to, len, "%s", in->bad ? "" : text);
}

/* ---- one wait ---- */

static void put_item(struct frame_out *o, const struct rt_wait_item *item)
{
    int64_t nbytes = item->nbytes < 0 ? -1 : item->nbytes;
    frame_put_u8(o, item->kind);
    frame_put_u32(o, item->ctx);
    frame_put_int(o, item->peer);
    frame_put_int(o, item->world);
    frame_put_int(o, item->tag);
    frame_put_u32(o, item->queued);
    frame_put_u64(o, (uint64_t)(nbytes > NBYTES_MAX ? NBYTES_MAX : nbytes));
}

static void get_item(struct frame_in *in, int total, struct rt_wait_item *item)
{
    item->kind = frame_get_u8(in);
    item->ctx = frame_get_u32(in);
    item->peer = get_number(in, -NUMBER_MAX, NUMBER_MAX);
    item->world = get_number(in, RT_WAIT_NOBODY, total - 1);
    item->tag = frame_get_int(in);
    item->queued = frame_get_u32(in);
    item->nbytes = (int64_t)frame_get_u64(in);
    in->bad |= item->kind >= RT_WAIT_KINDS || item->nbytes < -1 || item->nbytes > NBYTES_MAX;
}

/* `n` of them, of which the note has the first ones. */
static void put_items(struct frame_out *o, const struct rt_wait_item *items, uint32_t n,
                      uint32_t max)
{
    frame_put_u32(o, n);
    for (uint32_t i = 0; i < n && i < max; i++)
        put_item(o, &items[i]);
}

static uint32_t get_items(struct frame_in *in, int total, struct rt_wait_item *items, uint32_t max)
{
    uint32_t n = frame_get_u32(in);
    for (uint32_t i = 0; i < n && i < max && !in->bad; i++)
        get_item(in, total, &items[i]);
    return n;
}

static void put_comm(struct frame_out *o, const struct rt_wait_comm *c)
{
    uint32_t n = c->nruns < RT_ACTIVITY_RUNS ? c->nruns : RT_ACTIVITY_RUNS;
    frame_put_u32(o, c->ctx);
    frame_put_int(o, c->size);
    frame_put_int(o, c->rank);
    frame_put_str(o, c->name);
    frame_put_u8(o, n);
    for (uint32_t i = 0; i < n; i++) {
        frame_put_int(o, c->runs[i].first);
        frame_put_int(o, c->runs[i].stride);
        frame_put_int(o, c->runs[i].count);
    }
}

static void get_comm(struct frame_in *in, int total, struct rt_wait_comm *c)
{
    c->ctx = frame_get_u32(in);
    c->size = get_number(in, 0, NUMBER_MAX);
    c->rank = get_number(in, -1, NUMBER_MAX);
    get_name(in, c->name, sizeof c->name);
    c->nruns = frame_get_u8(in);
    in->bad |= c->nruns > RT_ACTIVITY_RUNS;
    for (uint32_t i = 0; i < c->nruns && !in->bad; i++) {
        c->runs[i].first = get_number(in, 0, total - 1);
        c->runs[i].stride = get_number(in, -total, total);
        c->runs[i].count = get_number(in, 1, total);
        int64_t last = c->runs[i].first + (c->runs[i].count - 1) * (int64_t)c->runs[i].stride;
        in->bad |= last < 0 || last >= total;
    }
}

static void put_held(struct frame_out *o, const struct rt_wait_note *n)
{
    frame_put_u32(o, n->nheld);
    for (uint32_t i = 0; i < n->nheld && i < RT_ACTIVITY_HELD; i++) {
        frame_put_u32(o, n->held[i].ctx);
        frame_put_int(o, n->held[i].world);
    }
}

static void get_held(struct frame_in *in, int total, struct rt_wait_note *n)
{
    n->nheld = frame_get_u32(in);
    for (uint32_t i = 0; i < n->nheld && i < RT_ACTIVITY_HELD && !in->bad; i++) {
        n->held[i].ctx = frame_get_u32(in);
        n->held[i].world = get_number(in, RT_WAIT_NOBODY, total - 1);
    }
}

static void put_wait(struct frame_out *o, const struct explain_wait *w)
{
    const struct rt_wait_note *n = &w->note;
    frame_put_str(o, w->place);
    frame_put_str(o, w->function);
    frame_put_u64(o, n->since_ns);
    frame_put_str(o, n->call);
    put_item(o, &n->item);
    put_comm(o, &n->comm);
    frame_put_u64(o, n->number);
    frame_put_str(o, n->what);
    frame_put_int(o, n->root);
    put_items(o, n->reqs, n->nreqs, RT_ACTIVITY_REQS);
    put_items(o, n->unex, n->nunex, RT_ACTIVITY_UNEX);
    put_held(o, n);
}

static void get_wait(struct frame_in *in, int total, struct explain_wait *w)
{
    struct rt_wait_note *n = &w->note;
    w->place = get_text(in);
    w->function = get_text(in);
    n->since_ns = frame_get_u64(in);
    get_name(in, n->call, sizeof n->call);
    get_item(in, total, &n->item);
    get_comm(in, total, &n->comm);
    n->number = frame_get_u64(in);
    get_name(in, n->what, sizeof n->what);
    n->root = get_number(in, -NUMBER_MAX, NUMBER_MAX);
    n->nreqs = get_items(in, total, n->reqs, RT_ACTIVITY_REQS);
    n->nunex = get_items(in, total, n->unex, RT_ACTIVITY_UNEX);
    get_held(in, total, n);
}

/* ---- one rank ---- */

static void put_faults(struct frame_out *o, const struct rt_activity_faults *f)
{
    frame_put_u32(o, f->nfailed);
    for (uint32_t i = 0; i < f->nfailed && i < RT_ACTIVITY_FAILED; i++)
        frame_put_int(o, f->failed[i]);
    frame_put_u32(o, f->nrevoked);
    for (int i = 0; i < RT_ACTIVITY_REVOKED && f->nrevoked; i++) {
        frame_put_u32(o, f->revoked[i].ctx);
        frame_put_str(o, f->revoked[i].name);
    }
}

static void get_faults(struct frame_in *in, int total, struct rt_activity_faults *f)
{
    f->nfailed = frame_get_u32(in);
    for (uint32_t i = 0; i < f->nfailed && i < RT_ACTIVITY_FAILED && !in->bad; i++)
        f->failed[i] = get_number(in, RT_WAIT_FOREIGN, total - 1);
    f->nrevoked = frame_get_u32(in);
    for (int i = 0; i < RT_ACTIVITY_REVOKED && f->nrevoked && !in->bad; i++) {
        f->revoked[i].ctx = frame_get_u32(in);
        get_name(in, f->revoked[i].name, sizeof f->revoked[i].name);
    }
}

static void put_rank(struct frame_out *o, const struct explain_rank *r)
{
    int cpu = r->cpu < 0 ? -1 : r->cpu * 1000 > CPU_MAX ? CPU_MAX : (int)(r->cpu * 1000);
    frame_put_int(o, r->rank);
    frame_put_int(o, r->pid);
    frame_put_u8(o, r->state);
    frame_put_str(o, r->detail);
    frame_put_int(o, r->status);
    frame_put_int(o, cpu);
    frame_put_str(o, r->place);
    frame_put_str(o, r->function);
    frame_put_u64(o, r->now_ns);
    frame_put_u8(o, r->published);
    frame_put_u8(o, r->use);
    frame_put_u32(o, r->nhidden);
    frame_put_u64(o, r->left_ns);
    frame_put_str(o, r->last_call);
    put_faults(o, &r->faults);
    frame_put_u8(o, (unsigned)r->nwaits);
    for (int i = 0; i < r->nwaits; i++)
        put_wait(o, &r->waits[i]);
}

static void get_rank(struct frame_in *in, int total, struct explain_rank *r)
{
    r->rank = frame_get_int(in);
    r->pid = get_number(in, 0, INT32_MAX);
    unsigned state = frame_get_u8(in);
    r->state = (enum explain_state)state;
    r->detail = get_text(in);
    r->status = frame_get_int(in);
    int cpu = get_number(in, -1, CPU_MAX);
    r->cpu = cpu < 0 ? -1 : cpu / 1000.0;
    r->place = get_text(in);
    r->function = get_text(in);
    r->now_ns = frame_get_u64(in);
    r->published = frame_get_u8(in);
    r->use = frame_get_u8(in);
    r->nhidden = frame_get_u32(in);
    r->left_ns = frame_get_u64(in);
    r->last_call = get_text(in);
    get_faults(in, total, &r->faults);
    r->nwaits = (int)frame_get_u8(in);
    in->bad |= state > EXPLAIN_UNREADABLE || r->use > 3 || r->nwaits > RT_ACTIVITY_NOTES;
    r->nwaits = in->bad ? 0 : r->nwaits;
    struct explain_wait *w = (struct explain_wait *)r->waits;
    for (int i = 0; i < r->nwaits; i++)
        get_wait(in, total, &w[i]);
}

/* ---- one host ---- */

void explain_put(struct frame_out *o, const struct explain_job *job, const char *lacks,
                 const char *stacks)
{
    int nwaits = 0;
    for (int i = 0; i < job->nranks; i++)
        nwaits += job->ranks[i].nwaits;
    frame_put_str(o, lacks);
    frame_put_str(o, stacks);
    frame_put_u32(o, (uint32_t)nwaits);
    for (int i = 0; i < job->nranks; i++)
        put_rank(o, &job->ranks[i]);
}

static void host_fini(struct host *h)
{
    free(h->copy);
    free(h->ranks);
    free(h->waits);
    *h = (struct host){ 0 };
}

/* Reads all ranks; false: the frame is malformed. */
static bool get_host(struct frame_in *in, int total, const uint32_t *ranks, struct host *h)
{
    h->lacks = get_text(in);
    h->stacks = get_text(in);
    uint32_t nwaits = frame_get_u32(in), at = 0;
    if (in->bad || nwaits > RT_ACTIVITY_NOTES * (uint32_t)h->nranks)
        return false;
    h->ranks = calloc((size_t)h->nranks + 1, sizeof *h->ranks);
    /* room for a rank with the most waits behind the last one, so that `nwaits` may be a lie */
    h->waits = calloc((size_t)nwaits + RT_ACTIVITY_NOTES, sizeof *h->waits);
    for (int i = 0; i < h->nranks && h->ranks && h->waits; i++) {
        struct explain_rank *r = &h->ranks[i];
        r->waits = &h->waits[at];
        r->host = h->name;
        get_rank(in, total, r);
        at += (uint32_t)r->nwaits;
        if (in->bad || at > nwaits || r->rank != (int)ranks[i])
            return false;
    }
    return frame_in_ok(in) && at == nwaits;
}

/* ---- all hosts ---- */

struct explain_merge *explain_merge_new(int nhosts, int total)
{
    struct explain_merge *m = calloc(1, sizeof *m);
    if (m) {
        m->nhosts = nhosts;
        m->total = total;
        m->hosts = calloc((size_t)nhosts + 1, sizeof *m->hosts);
    }
    if (m && m->hosts)
        return m;
    free(m);
    return NULL;
}

void explain_merge_free(struct explain_merge *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->nhosts; i++)
        host_fini(&m->hosts[i]);
    free(m->hosts);
    free(m->ranks);
    free(m);
}

int explain_merge_take(struct explain_merge *m, int host, const char *name, const uint32_t *ranks,
                       int nranks, struct frame_in *in)
{
    size_t len = (size_t)(in->end - in->at);
    struct host h = { .name = name, .copy = malloc(len + 1), .nranks = nranks };
    if (!h.copy)
        return -RT_ENOMEM;
    memcpy(h.copy, in->at, len);
    struct frame_in own = { h.copy, h.copy + len, in->bad };
    in->at = in->end;
    bool good = get_host(&own, m->total, ranks, &h), room = own.bad || (h.ranks && h.waits);
    if (!good || !room) {
        host_fini(&h);
        return room ? -RT_EINVAL : -RT_ENOMEM;
    }
    host_fini(&m->hosts[host]);
    m->hosts[host] = h;
    return 0;
}

int explain_merge_absent(struct explain_merge *m, int host, const char *name, const char *why,
                         const struct explain_known *known, int nranks)
{
    struct host h = { .name = name,
                      .copy = (uint8_t *)strdup(why),
                      .ranks = calloc((size_t)nranks + 1, sizeof *h.ranks),
                      .nranks = nranks,
                      .lacks = "",
                      .stacks = "" };
    if (!h.copy || !h.ranks) {
        host_fini(&h);
        return -RT_ENOMEM;
    }
    for (int i = 0; i < nranks; i++)
        h.ranks[i] = (struct explain_rank){ .rank = known[i].rank,
                                            .host = name,
                                            .pid = (int)known[i].pid,
                                            .state = known[i].ended ? EXPLAIN_ENDED
                                                                    : EXPLAIN_UNREADABLE,
                                            .detail = (const char *)h.copy,
                                            .status = known[i].status,
                                            .cpu = -1,
                                            .place = "",
                                            .function = "",
                                            .last_call = "" };
    host_fini(&m->hosts[host]);
    m->hosts[host] = h;
    return 0;
}

struct explain_job *explain_merge_job(struct explain_merge *m)
{
    int n = 0;
    free(m->ranks);
    m->ranks = calloc((size_t)m->total + 1, sizeof *m->ranks);
    for (int i = 0; i < m->nhosts && m->ranks; i++)
        for (int k = 0; k < m->hosts[i].nranks && n < m->total; k++)
            m->ranks[n++] = m->hosts[i].ranks[k];
    m->job = (struct explain_job){ m->ranks, n, m->total, -1 };
    return m->ranks ? &m->job : NULL;
}

void explain_merge_lacks(const struct explain_merge *m, char *text, size_t len)
{
    *text = '\0';
    for (int i = 0; i < m->nhosts && !*text; i++)
        if (m->hosts[i].name && *m->hosts[i].lacks)
            snprintf(text, len, "host %s: %s", m->hosts[i].name, m->hosts[i].lacks);
}

void explain_merge_stacks(const struct explain_merge *m, FILE *f)
{
    for (int i = 0; i < m->nhosts; i++)
        if (m->hosts[i].name)
            fputs(m->hosts[i].stacks, f);
}
