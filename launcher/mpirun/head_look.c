/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of all hosts do, asked of their agents: launcher/explain/merge.h.  Main thread
 * only. */
#include "launcher/explain/pages.h"
#include "launcher/mpirun/head_state.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"

#include <stdlib.h>
#include <string.h>

enum { NAMES_SHOWN = 4 };

struct looked { /* at a host */
    uint64_t movement, age_ns;
    bool silent;             /* it has not answered the look before this picture */
    bool answered, complete; /* of the current look */
    bool malformed;          /* its answer was, to this look or that before this picture */
};

struct head_look {
    struct looked *hosts;
    enum explain_look kind;
    uint32_t number; /* of the current look */
    uint64_t asked_ns;
    struct explain_merge *merge; /* LOOK_PICTURE and LOOK_STACKS; NULL: no memory */
};

static struct head_look *get(struct head *h)
{
    if (!h->look && (h->look = calloc(1, sizeof *h->look)) &&
        !(h->look->hosts = calloc((size_t)h->job->nhosts, sizeof *h->look->hosts))) {
        free(h->look);
        h->look = NULL;
    }
    return h->look;
}

void head_look_fini(struct head *h)
{
    if (!h->look)
        return;
    explain_merge_free(h->look->merge);
    free(h->look->hosts);
    free(h->look);
    h->look = NULL;
}

/* Whether the agent has ranks to look at, and has not been lost. */
static bool is_asked(const struct head *h, int i)
{
    return h->job->hosts[i].nranks && !h->hosts[i].done;
}

int head_look(struct head *h, enum explain_look kind)
{
    struct head_look *l = get(h);
    uint8_t buf[FRAME_HEADER + 5];
    struct frame_out o = { .buf = buf, .cap = sizeof buf };
    if (!l)
        return -RT_ENOMEM;
    explain_merge_free(l->merge);
    l->merge = kind == LOOK_MOVEMENT ? NULL : explain_merge_new(h->job->nhosts, h->job->n);
    l->kind = kind;
    l->number++;
    l->asked_ns = rt_now_ns();
    for (int i = 0; i < h->job->nhosts; i++) {
        struct looked *host = &l->hosts[i];
        host->silent = kind != LOOK_MOVEMENT && !host->answered;
        host->answered = host->complete = false;
        host->malformed &= kind != LOOK_MOVEMENT;
    }
    frame_begin(&o, FRAME_LOOK, FRAME_ALL);
    frame_put_u32(&o, l->number);
    frame_put_u8(&o, kind);
    frame_end(&o);
    tree_send(&h->tree, FRAME_ALL, o.buf, o.len);
    return 0;
}

/* ---- answers ---- */

static void on_moved(struct looked *host, const struct head_look *l, struct frame *f)
{
    uint32_t number = frame_get_u32(&f->in);
    uint64_t movement = frame_get_u64(&f->in), age_ns = frame_get_u64(&f->in);
    if (!frame_in_ok(&f->in)) {
        host->malformed = true;
        return;
    }
    host->movement = movement; /* a late answer, too, says that ranks have moved */
    host->age_ns = age_ns;
    host->answered |= l->kind == LOOK_MOVEMENT && number == l->number;
}

static void on_picture(struct head *h, struct looked *host, struct frame *f)
{
    struct head_look *l = h->look;
    const struct launch_host *known = &h->job->hosts[f->node];
    uint32_t number = frame_get_u32(&f->in);
    bool complete = frame_get_u8(&f->in);
    if (!f->in.bad &&
        (l->kind == LOOK_MOVEMENT || number != l->number || host->silent || !l->merge))
        return; /* too late */
    int err = f->in.bad ? -RT_EINVAL
                        : explain_merge_take(l->merge, (int)f->node, launch_bare_name(known->name),
                                             h->job->by_host + known->begin, known->nranks, &f->in);
    host->malformed |= err == -RT_EINVAL;
    host->answered = true;
    host->complete |= complete || err < 0;
}

void head_look_frame(struct head *h, struct frame *f)
{
    struct looked *host = h->look ? &h->look->hosts[f->node] : NULL;
    if (host && f->type == FRAME_MOVED)
        on_moved(host, h->look, f);
    else if (host)
        on_picture(h, host, f);
    f->in.bad = false; /* the report names the host, and the job continues */
}

/* ---- results ---- */

/* When the look is over even if nothing more arrives; 0: it is over. */
uint64_t head_look_until_ns(const struct head *h)
{
    const struct head_look *l = h->look;
    bool wait = false, wait_complete = false;
    for (int i = 0; i < h->job->nhosts; i++) {
        const struct looked *host = &l->hosts[i];
        if (!is_asked(h, i) || host->silent || host->malformed)
            continue;
        wait |= !host->answered;
        wait_complete |= host->answered && !host->complete;
    }
    uint64_t now = rt_now_ns(), until = l->asked_ns + EXPLAIN_ANSWER_NS;
    if (wait && now < until)
        return until;
    until = l->asked_ns + EXPLAIN_COMPLETE_NS;
    return l->kind != LOOK_MOVEMENT && wait_complete && now < until ? until : 0;
}

uint64_t head_look_movement(const struct head *h, uint64_t *age_ns)
{
    uint64_t sum = EXPLAIN_HASH;
    *age_ns = 0;
    for (int i = 0; i < h->job->nhosts; i++) {
        const struct looked *host = &h->look->hosts[i];
        sum = explain_mix(sum, host->movement);
        if (is_asked(h, i) && host->age_ns > *age_ns)
            *age_ns = host->age_ns;
    }
    return sum;
}

static const char *why_absent(const struct looked *host)
{
    return host->malformed ? "sent a malformed state" : host->answered ? NULL : "did not answer";
}

static void add_absent(struct head *h, int i, const char *why)
{
    const struct launch_host *host = &h->job->hosts[i];
    struct explain_known *known = calloc((size_t)host->nranks, sizeof *known);
    char text[320];
    for (int k = 0; k < host->nranks && known; k++) {
        const struct launch_rank *r = &h->job->ranks[h->job->by_host[host->begin + k]];
        known[k] = (struct explain_known){ r->rank, r->pid, !r->running, r->status };
    }
    const char *name = launch_bare_name(host->name);
    snprintf(text, sizeof text, "host %.255s %s", name, why);
    if (known)
        explain_merge_absent(h->look->merge, i, name, text, known, host->nranks);
    free(known);
}

struct explain_merge *head_look_pictures(struct head *h)
{
    struct head_look *l = h->look;
    for (int i = 0; i < h->job->nhosts && l && l->merge; i++)
        if (is_asked(h, i) && why_absent(&l->hosts[i]))
            add_absent(h, i, why_absent(&l->hosts[i]));
    return l ? l->merge : NULL;
}

/* "host n1 did not answer", "hosts n1, n2 and 3 more ..."; nothing if there are none. */
static size_t put_hosts(const struct head *h, const char *why, char *text, size_t len)
{
    char names[NAMES_SHOWN * 64] = "", more[32] = "";
    size_t at = 0;
    int n = 0;
    *text = '\0';
    for (int i = 0; i < h->job->nhosts; i++) {
        const char *his = is_asked(h, i) ? why_absent(&h->look->hosts[i]) : NULL;
        if (his && !strcmp(his, why) && n++ < NAMES_SHOWN)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s%.60s", n > 1 ? ", " : "",
                                   launch_bare_name(h->job->hosts[i].name));
    }
    if (n > NAMES_SHOWN)
        snprintf(more, sizeof more, " and %d more", n - NAMES_SHOWN);
    return n ? (size_t)snprintf(text, len, "host%s %s%s %s", n > 1 ? "s" : "", names, more, why)
             : 0;
}

void head_look_missing(const struct head *h, char *text, size_t len)
{
    size_t at = put_hosts(h, "did not answer", text, len);
    if (at && at + 2 < len)
        at = (size_t)(stpcpy(text + at, "; ") - text);
    if (at < len && !put_hosts(h, "sent a malformed state", text + at, len - at) && at)
        text[at - 2] = '\0';
}
