/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of the agents to the head, and failed hosts: see head.h.  Every frame is checked; an
 * invalid frame is marked bad, which makes its host fail.  Main thread only. */
#include "launcher/host/spawn.h"
#include "launcher/mpirun/family.h"
#include "launcher/mpirun/deaths.h"
#include "launcher/mpirun/job_end.h"
#include "launcher/mpirun/head_state.h"
#include "launcher/mpirun/forward.h"
#include "launcher/tree/describe.h"
#include "runtime/base/clock.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages of hosts ---- */

/* The name of a host as other programs write it in their messages. */
static const char *name_of(const struct head *h, int node)
{
    return launch_bare_name(h->job->hosts[node].name);
}

/* Length of the host name at `p` in `text`, if it is a whole word there; otherwise 0. */
static size_t named_at(const char *text, const char *p, const char *name)
{
    size_t len = strlen(name);
    bool begins = p == text || !isalnum((unsigned char)p[-1]);
    return begins && !strncmp(p, name, len) && !isalnum((unsigned char)p[len]) ? len : 0;
}

/* Whether two texts are equal except for the names of their hosts. */
static bool same_but_names(const char *a, const char *name_a, const char *b, const char *name_b)
{
    const char *p = a, *q = b;
    while (*p || *q) {
        size_t m = named_at(a, p, name_a), n = named_at(b, q, name_b);
        if (!(m && n) && *p != *q)
            return false;
        p += m && n ? m : 1;
        q += m && n ? n : 1;
    }
    return true;
}

/* Stores a text of a host; the same text of several hosts is printed once. */
static void add_note(struct head *h, int node, const char *text)
{
    for (int i = 0; i < h->nnotes; i++)
        if (same_but_names(h->notes[i].text, name_of(h, h->notes[i].first), text,
                           name_of(h, node))) {
            h->notes[i].of[node] = true;
            return;
        }
    struct head_note *notes = realloc(h->notes, (size_t)(h->nnotes + 1) * sizeof *notes);
    char *copy = strdup(text);
    bool *of = calloc((size_t)h->job->nhosts, sizeof *of);
    if (notes)
        h->notes = notes;
    if (!notes || !copy || !of) {
        free(copy), free(of);
        return;
    }
    of[node] = true;
    notes[h->nnotes++] = (struct head_note){ .text = copy, .of = of, .first = node };
}

/* The text without the name of its host, to print it for several hosts. */
static char *without_name(const char *text, const char *name)
{
    char *out = malloc(4 * strlen(text) + 1), *to = out;
    for (const char *p = text; out && *p;) {
        size_t len = named_at(text, p, name);
        to = len ? stpcpy(to, "HOST") : stpncpy(to, p, 1);
        p += len ? len : 1;
    }
    if (out)
        *to = '\0';
    return out;
}

void head_print_notes(struct head *h)
{
    enum { NAMES = 8 };
    for (int i = 0; i < h->nnotes; i++) {
        struct head_note *note = &h->notes[i];
        char names[NAMES * 64] = "", more[32] = "";
        size_t at = 0;
        int n = 0;
        for (int k = 0; k < h->job->nhosts; k++)
            if (note->of[k] && n++ < NAMES)
                at += (size_t)snprintf(names + at, sizeof names - at, "%s%.60s", n > 1 ? ", " : "",
                                       h->job->hosts[k].name);
        if (n > NAMES)
            snprintf(more, sizeof more, " and %d more", n - NAMES);
        char *text = n > 1 ? without_name(note->text, name_of(h, note->first)) : NULL;
        launch_say(h->job, "host%s %s%s: %s", n > 1 ? "s" : "", names, more,
                   text ? text : note->text);
        free(text);
        free(note->text);
        free(note->of);
    }
    h->nnotes = 0;
}

/* ---- frames ---- */

static void on_info(struct head *h, struct frame *f)
{
    struct head_host *host = &h->hosts[f->node];
    struct launch_host *known = &h->job->hosts[f->node];
    int err = frame_get_int(&f->in);

    const char *name = frame_get_text(&f->in);
    for (int i = 0; i < LAUNCH_UNSET; i++) {
        known->nobj[i] = frame_get_int(&f->in);
        if (known->nobj[i] < 0 || known->nobj[i] > 1 << 20)
            f->in.bad = true;
    }
    host->port = frame_get_int(&f->in);
    if (name)
        snprintf(host->own_name, sizeof host->own_name, "%s", name);
    if (!frame_in_ok(&f->in) || host->answered || host->port < 0 || host->port > 65535)
        f->in.bad = true;
    if (f->in.bad)
        return;
    if (err < 0) {
        head_fail_host(h, (int)f->node, "found no core that the agent may use");
        return;
    }
    host->answered = true;
    h->nanswered++;
}

static void take_said(struct head *h, struct frame *f)
{
    size_t n = frame_get_count(&f->in, 5);
    for (size_t i = 0; i < n; i++) {
        const char *text = frame_get_text(&f->in);
        if (text)
            add_note(h, (int)f->node, text);
    }
}

static char *take_text(struct frame *f)
{
    const char *text = frame_get_str(&f->in);
    return text ? strdup(text) : NULL;
}

static void on_ready(struct head *h, struct frame *f)
{
    struct head_host *host = &h->hosts[f->node];
    if (host->ready || !host->answered) {
        f->in.bad = true;
        return;
    }
    host->code = frame_get_int(&f->in);
    take_said(h, f);
    host->map = take_text(f);
    host->bindings = take_text(f);
    host->ready = true;
    h->nready++;
    if (host->code && h->nnotes == 0)
        add_note(h, (int)f->node,
                 "could not prepare the job; the lines above may say why; nothing was started");
    if (!frame_in_ok(&f->in))
        f->in.bad = true;
}

/* The rank that a frame names; NULL, and the frame is bad, if the rank is not on that host. */
static struct launch_rank *get_rank(struct head *h, struct frame *f)
{
    int rank = frame_get_int(&f->in);
    if (!h->running || rank < 0 || rank >= h->job->n || h->job->ranks[rank].node != (int)f->node) {
        f->in.bad = true;
        return NULL;
    }
    return &h->job->ranks[rank];
}

static void rank_gone(struct launch_job *job, struct launch_rank *r)
{
    if (!r->running)
        return;
    r->running = false;
    job->nrunning--;
}

static void on_started(struct head *h, struct frame *f)
{
    struct launch_job *job = h->job;
    int code = frame_get_int(&f->in);

    take_said(h, f);
    size_t n = frame_get_count(&f->in, 8);
    for (size_t i = 0; i < n; i++) {
        struct launch_rank *r = get_rank(h, f);
        int pid = frame_get_int(&f->in);
        if (!r || f->in.bad)
            return;
        r->pid = pid;
        if (pid <= 0) { /* not started */
            rank_gone(job, r);
            launch_io_feed(job, r->rank, false, NULL, 0);
            launch_io_feed(job, r->rank, true, NULL, 0);
        }
    }
    if (!frame_in_ok(&f->in)) {
        f->in.bad = true;
        return;
    }
    if (!code)
        return;
    if (!job->ending)
        head_print_notes(h);
    launch_end_begin(job, code);
}

static void on_event(struct head *h, struct frame *f)
{
    struct launch_event e = { .kind = (enum launch_event_kind)frame_get_u8(&f->in) };
    struct launch_rank *r = get_rank(h, f);
    e.code = frame_get_int(&f->in);
    const char *text = frame_get_text(&f->in);

    if (!frame_in_ok(&f->in) || !r || e.kind > LAUNCH_LOST) {
        f->in.bad = true;
        return;
    }
    e.rank = r->rank;
    snprintf(e.text, sizeof e.text, "%s", text);
    launch_end_event(h->job, &e);
}

static void on_exit_of(struct head *h, struct frame *f)
{
    struct launch_rank *r = get_rank(h, f);
    int status = frame_get_int(&f->in);

    if (!frame_in_ok(&f->in) || !r) {
        f->in.bad = true;
        return;
    }
    launch_rank_ended(h->job, r, status);
}

static void on_out(struct head *h, struct frame *f)
{
    struct launch_rank *r = get_rank(h, f);
    bool is_err = frame_get_u8(&f->in);
    size_t len;
    const void *data = frame_get_bytes(&f->in, &len);

    if (!frame_in_ok(&f->in) || !r) {
        f->in.bad = true;
        return;
    }
    launch_io_feed(h->job, r->rank, is_err, data, len);
    h->hosts[f->node].owed += (uint32_t)len;
}

static void on_ask(struct head *h, struct frame *f)
{
    struct launch_list words = { 0 };
    uint32_t number = frame_get_u32(&f->in);
    struct launch_rank *r = get_rank(h, f);

    launch_get_list(&f->in, &words);
    if (!frame_in_ok(&f->in) || !r || words.n == 0)
        f->in.bad = true;
    else
        family_ask_from(h->job, f->node, number, r->rank, &words);
    launch_list_fini(&words);
}

static void on_say(struct head *h, struct frame *f)
{
    const char *text = frame_get_text(&f->in);
    if (frame_in_ok(&f->in))
        launch_say(h->job, "host %s: %s", h->job->hosts[f->node].name, text);
    else
        f->in.bad = true;
}

void head_host_done(struct head *h, int node)
{
    h->ndone += !h->hosts[node].done;
    h->hosts[node].done = true;
}

static void on_lost(struct head *h, int first, int end, bool was_up, const char *why);

static void on_lost_frame(struct head *h, struct frame *f)
{
    int first = frame_get_int(&f->in), end = frame_get_int(&f->in);
    bool was_up = frame_get_u8(&f->in);
    const char *why = frame_get_text(&f->in);
    if (!frame_in_ok(&f->in) || first < 0 || first >= end || end > h->job->nhosts ||
        first != (int)f->node)
        f->in.bad = true;
    else
        on_lost(h, first, end, was_up, why);
}

void head_take_frame(void *arg, struct frame *f)
{
    struct head *h = arg;
    switch (f->type) {
    case FRAME_INFO:
        on_info(h, f);
        break;
    case FRAME_LOST:
        on_lost_frame(h, f);
        break;
    case FRAME_READY:
        on_ready(h, f);
        break;
    case FRAME_STARTED:
        on_started(h, f);
        break;
    case FRAME_EVENT:
        on_event(h, f);
        break;
    case FRAME_EXIT:
        on_exit_of(h, f);
        break;
    case FRAME_OUT:
        on_out(h, f);
        break;
    case FRAME_SAY:
        on_say(h, f);
        break;
    case FRAME_IN_DONE:
        h->input_pending -= h->input_pending > 0;
        break;
    case FRAME_DONE:
        head_host_done(h, (int)f->node);
        break;
    case FRAME_ASK:
        on_ask(h, f);
        break;
    case FRAME_MOVED:
    case FRAME_PICTURE:
        head_look_frame(h, f);
        break;
    case FRAME_FENCE:
    case FRAME_FENCE_WAITS:
    case FRAME_FETCH:
    case FRAME_FETCHED:
        relay_frame(&h->relay, f);
        break;
    default:
        f->in.bad = true;
        break;
    }
}

/* ---- failed hosts ---- */

void head_fail_host(struct head *h, int node, const char *why)
{
    if (h->hosts[node].failed)
        return;
    h->hosts[node].failed = true;
    h->nfailed++;
    if (!h->failed_ns)
        h->failed_ns = rt_now_ns();
    add_note(h, node, why);
}

/* The ranks of these hosts count as dead: their agents end them as soon as they can. */
int head_drop_ranks(struct head *h, int first, int end)
{
    struct launch_job *job = h->job;
    int n = 0;
    for (int r = 0; r < job->n; r++)
        if (job->ranks[r].node >= first && job->ranks[r].node < end) {
            n += job->ranks[r].running;
            rank_gone(job, &job->ranks[r]);
            job->ranks[r].reported = true;
            launch_io_feed(job, r, false, NULL, 0);
            launch_io_feed(job, r, true, NULL, 0);
        }
    return n;
}

static void on_lost(struct head *h, int first, int end, bool was_up, const char *why)
{
    struct launch_job *job = h->job;
    char more[64] = "", text[256];

    if (!h->running) {
        if (!*why)
            why = was_up ? "its agent ended" : "its agent did not start";
        head_fail_host(h, first, why);
        snprintf(text, sizeof text, "not started, because host %.200s was to start it",
                 job->hosts[first].name);
        for (int i = first + 1; i < end; i++)
            head_fail_host(h, i, text);
        return;
    }
    bool done = true;
    for (int i = first; i < end; i++)
        done = done && h->hosts[i].done;
    bool goes_on = !done && launch_death_of_hosts(job, first, end);
    int n = head_drop_ranks(h, first, end);
    for (int i = first; i < end; i++)
        head_host_done(h, i);
    if (done || job->ending)
        return;
    if (end - first > 1)
        snprintf(more, sizeof more, " and the %d that were reached through it", end - first - 1);
    if (goes_on) {
        launch_report(job, "lost host %s%s, with %d rank%s that ran: %s; the job continues (--ft)",
                      job->hosts[first].name, more, n, n == 1 ? "" : "s",
                      *why ? why : "its agent ended");
        return;
    }
    if (job->nrunning)
        snprintf(text, sizeof text, "; ending the other %d rank%s", job->nrunning,
                 job->nrunning == 1 ? "" : "s");
    launch_report(job, "lost host %s%s, with %d rank%s that ran: %s%s; exit code %d",
                  job->hosts[first].name, more, n, n == 1 ? "" : "s",
                  *why ? why : "its agent ended", job->nrunning ? text : "", LAUNCH_EXIT_FAIL);
    launch_end_begin(job, LAUNCH_EXIT_FAIL);
}

void head_child_lost(void *arg, const struct tree_child *c, const char *why)
{
    on_lost(arg, c->first, c->end, c->was_up, why);
}

/* Log lines of agents, and warnings of remote shells. */
void head_child_output(void *arg, const char *text, size_t len)
{
    char line[4097];
    (void)arg;
    snprintf(line, sizeof line, "%.*s", (int)len, text);
    launch_io_print(line);
}
