/* SPDX-License-Identifier: BSD-3-Clause */
#include "launcher/explain/collect.h"
#include "launcher/explain/place.h"
#include "launcher/explain/process.h"
#include "launcher/explain/python.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A rank may be started through shells and tools; this many processes below it are looked at. */
#define CHILDREN_MAX 64
#define PROCESSES_MAX 4096 /* of a job on one host */
/* A loop of polls that has not looked for this long has ended, or computes. */
#define POLL_OLD_NS 1000000000u
/* Between two readings of processor time.  The kernel counts in steps of 10 ms. */
#define SHARE_US 100000
/* Places in the sources that one picture looks up: ranks at the same place are looked up once. */
#define PLACES_MAX 48
#define OUTSIDE_MAX 8 /* ranks outside MPI whose stacks are read for it: each may take seconds */
#define STACK_MAX 64

struct explain_pages {
    int n;
    struct rt_activity_view *views; /* one for each segment; mostly one */
    int nviews;
    struct {
        int view, local; /* where the rank's page is; view -1: not found yet */
        bool read;
        pid_t pid; /* of the process in MPI; 0: unknown */
        struct rt_activity page;
    } * ranks;
};

struct text { /* what struct explain_rank and explain_wait point to */
    char place[RT_ACTIVITY_NOTES + 1][96], function[RT_ACTIVITY_NOTES + 1][64];
    char detail[208], last_call[32];
    struct explain_wait waits[RT_ACTIVITY_NOTES];
};

struct explain_picture {
    struct explain_job job;
    struct explain_rank *ranks;
    struct text *texts;
    char *host;
    char lacks[240];
    struct place_of { /* of the stacks that have been looked up */
        uint64_t key;
        const char *place, *function;
        bool python; /* the place is in Python code: each process is asked */
    } places[PLACES_MAX];
    int nplaces, noutside;
};

struct explain_pages *explain_pages_new(int n)
{
    struct explain_pages *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->n = n;
    p->ranks = calloc((size_t)n + 1, sizeof *p->ranks);
    p->views = calloc((size_t)n + 1, sizeof *p->views);
    if (!p->ranks || !p->views) {
        explain_pages_free(p);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        p->ranks[i].view = -1;
    return p;
}

void explain_pages_free(struct explain_pages *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->nviews; i++)
        rt_activity_close(&p->views[i]);
    free(p->views);
    free(p->ranks);
    free(p);
}

/* The processes below `pid`, and it itself; returns their number. */
static int family(pid_t pid, pid_t *out, int max)
{
    int n = 0;
    out[n++] = pid;
    for (int i = 0; i < n; i++) {
        char path[64];
        long child;
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)out[i], (int)out[i]);
        FILE *f = fopen(path, "re");
        while (f && n < max && fscanf(f, "%ld", &child) == 1)
            out[n++] = (pid_t)child;
        if (f)
            fclose(f);
    }
    return n;
}

static int index_of(const struct explain_known *known, int n, uint32_t rank)
{
    for (int i = 0; i < n; i++)
        if ((uint32_t)known[i].rank == rank)
            return i;
    return -1;
}

/* A segment that a process of the job maps: it has the pages of further ranks, too. */
static void found_segment(struct explain_pages *p, const struct explain_known *known)
{
    struct rt_activity page;
    for (int r = 0; r < p->views[p->nviews].size; r++) {
        int i = rt_activity_read(&p->views[p->nviews], r, &page) ? index_of(known, p->n, page.rank)
                                                                 : -1;
        if (i >= 0 && p->ranks[i].view < 0) {
            p->ranks[i].view = p->nviews;
            p->ranks[i].local = r;
        }
    }
    p->nviews++;
}

static void find(struct explain_pages *p, const struct explain_known *known, int i)
{
    pid_t pids[CHILDREN_MAX];
    int n = known[i].pid ? family(known[i].pid, pids, CHILDREN_MAX) : 0;
    for (int k = 0; k < n && p->ranks[i].view < 0 && p->nviews < p->n; k++)
        if (rt_activity_open(pids[k], &p->views[p->nviews]) == 0)
            found_segment(p, known);
}

/* A segment in which this rank has not attached when it was found. */
static void find_in_views(struct explain_pages *p, const struct explain_known *known, int i)
{
    struct rt_activity page;
    for (int v = 0; v < p->nviews && p->ranks[i].view < 0; v++)
        for (int r = 0; r < p->views[v].size && p->ranks[i].view < 0; r++)
            if (rt_activity_read(&p->views[v], r, &page) && page.rank == (uint32_t)known[i].rank) {
                p->ranks[i].view = v;
                p->ranks[i].local = r;
            }
}

static int by_rank(const void *a, const void *b)
{
    const struct explain_known *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Adds the ranks of a segment. */
static int add_known(struct explain_known **list, int n, const struct rt_activity_view *v)
{
    struct rt_activity page;
    struct explain_known *grown = realloc(*list, (size_t)(n + v->size + 1) * sizeof **list);
    if (!grown)
        return -RT_ENOMEM;
    *list = grown;
    for (int r = 0; r < v->size; r++)
        if (rt_activity_read(v, r, &page))
            grown[n++] = (struct explain_known){ .rank = (int)page.rank, .pid = (pid_t)page.pid };
    return n;
}

static bool is_known(const struct explain_known *list, int n, pid_t pid)
{
    for (int i = 0; i < n; i++)
        if (list[i].pid == pid)
            return true;
    return false;
}

int explain_find(pid_t pid, struct explain_known **out)
{
    pid_t *pids = calloc(PROCESSES_MAX, sizeof *pids);
    bool forbidden = false;
    int n = 0;
    *out = NULL;
    if (!pids)
        return -RT_ENOMEM;
    for (int i = 0, npids = family(pid, pids, PROCESSES_MAX); i < npids && n >= 0; i++) {
        struct rt_activity_view v;
        int err = is_known(*out, n, pids[i]) ? -RT_EEXIST : rt_activity_open(pids[i], &v);
        forbidden = forbidden || err == -RT_EPERM;
        if (err)
            continue;
        n = add_known(out, n, &v);
        rt_activity_close(&v);
    }
    free(pids);
    if (n > 0)
        qsort(*out, (size_t)n, sizeof **out, by_rank);
    return n == 0 && forbidden ? -RT_EPERM : n;
}

void explain_pages_read(struct explain_pages *p, const struct explain_known *known)
{
    uint64_t now = rt_now_ns();
    for (int i = 0; i < p->n; i++) {
        if (p->ranks[i].view < 0)
            find_in_views(p, known, i);
        if (p->ranks[i].view < 0 && !known[i].ended)
            find(p, known, i);
        struct rt_activity *a = &p->ranks[i].page;
        p->ranks[i].read = p->ranks[i].view >= 0 &&
                           rt_activity_read(&p->views[p->ranks[i].view], p->ranks[i].local, a);
        if (!p->ranks[i].read)
            continue;
        p->ranks[i].pid = a->pid ? (pid_t)a->pid : known[i].pid;
        for (int k = 0; k < RT_ACTIVITY_NOTES; k++)
            if (a->notes[k].polled_ns && now - a->notes[k].polled_ns > POLL_OLD_NS)
                a->notes[k].since_ns = 0;
    }
}

/* Reads the pages again.  Waits that have changed meanwhile do not belong to one picture with the
 * others: a running job would show cycles. */
static void keep_unchanged(struct explain_pages *p, const struct explain_known *known)
{
    struct version {
        uint32_t of[RT_ACTIVITY_NOTES];
        uint64_t since_ns[RT_ACTIVITY_NOTES];
    } *before = calloc((size_t)p->n + 1, sizeof *before);
    for (int i = 0; before && i < p->n; i++)
        for (int k = 0; p->ranks[i].read && k < RT_ACTIVITY_NOTES; k++) {
            before[i].of[k] = p->ranks[i].page.notes[k].version;
            before[i].since_ns[k] = p->ranks[i].page.notes[k].since_ns;
        }
    explain_pages_read(p, known);
    for (int i = 0; before && i < p->n; i++)
        for (int k = 0; p->ranks[i].read && k < RT_ACTIVITY_NOTES; k++) {
            struct rt_wait_note *n = &p->ranks[i].page.notes[k];
            if (n->version != before[i].of[k] || n->since_ns != before[i].since_ns[k])
                n->since_ns = 0;
        }
    free(before);
}

static uint64_t mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x100000001b3u; }

uint64_t explain_pages_movement(const struct explain_pages *p)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a over words */
    for (int i = 0; i < p->n; i++) {
        const struct rt_activity *a = &p->ranks[i].page;
        h = mix(h, p->ranks[i].read);
        if (!p->ranks[i].read)
            continue;
        h = mix(mix(mix(h, a->state), a->nwaits), a->moved);
        uint64_t moving = a->ncounters < RT_ACTIVITY_COUNTERS ? a->ncounters : RT_ACTIVITY_COUNTERS;
        for (int k = 0; k < (int)moving; k++)
            h = mix(h, a->counters[k]);
        for (int k = 0; k < RT_ACTIVITY_NOTES; k++)
            h = mix(h, a->notes[k].since_ns);
    }
    return h;
}

uint64_t explain_pages_oldest_ns(const struct explain_pages *p)
{
    uint64_t oldest = 0;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; p->ranks[i].read && k < RT_ACTIVITY_NOTES; k++) {
            uint64_t since = p->ranks[i].page.notes[k].since_ns;
            oldest = since && (!oldest || since < oldest) ? since : oldest;
        }
    return oldest;
}

/* Libraries lie at addresses of their own in each process, but at whole pages. */
static uint64_t stack_key(const char *call, const uint64_t *stack, int n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *c = call; *c; c++)
        h = mix(h, (unsigned char)*c);
    for (int i = 0; i < n; i++)
        h = mix(h, stack[i] & 0xfff);
    return h;
}

/* The place is in the interpreter, or in a module in C that Python code has called. */
static bool is_python(const struct explain_place *at)
{
    return at->python || strstr(at->module, ".cpython-");
}

static void look_at_python(pid_t pid, pid_t tid, char *place, size_t len, char *function,
                           size_t flen)
{
    struct explain_place at;
    if (!explain_python_find(pid, tid, &at))
        return;
    snprintf(place, len, "%s:%d", at.file, at.line);
    snprintf(function, flen, "%s", at.function);
}

static void look_up(struct explain_picture *p, pid_t pid, pid_t tid, uint64_t key,
                    const uint64_t *stack, int n, char *place, size_t len, char *function,
                    size_t flen)
{
    struct explain_source s;
    struct explain_place at;
    for (int i = 0; i < p->nplaces; i++)
        if (p->places[i].key == key) {
            if (p->places[i].python) {
                look_at_python(pid, tid, place, len, function, flen);
                return;
            }
            snprintf(place, len, "%s", p->places[i].place);
            snprintf(function, flen, "%s", p->places[i].function);
            return;
        }
    if (p->nplaces == PLACES_MAX || n == 0)
        return;
    if (explain_source_open(&s, pid, EXPLAIN_DW_SO) < 0) {
        snprintf(p->lacks, sizeof p->lacks, "%s", s.why);
        return;
    }
    if (explain_place_find(&s, stack, n, &at)) {
        if (at.line)
            snprintf(place, len, "%s:%d", at.file, at.line);
        snprintf(function, flen, "%s", at.function);
    }
    explain_source_close(&s);
    bool python = is_python(&at);
    if (python)
        look_at_python(pid, tid, place, len, function, flen);
    p->places[p->nplaces++] = (struct place_of){ key, place, function, python };
}

static void add_wait(struct explain_picture *p, struct explain_rank *r, struct text *t,
                     const struct rt_wait_note *note)
{
    int i = r->nwaits++;
    struct explain_wait *w = &t->waits[i];
    w->note = *note;
    w->note.call[sizeof w->note.call - 1] = '\0';
    w->note.what[sizeof w->note.what - 1] = '\0';
    w->note.comm.name[sizeof w->note.comm.name - 1] = '\0';
    int n = note->nstack < RT_ACTIVITY_STACK ? (int)note->nstack : RT_ACTIVITY_STACK;
    look_up(p, r->pid, (pid_t)note->tid, stack_key(w->note.call, note->stack, n), note->stack, n,
            t->place[i], sizeof t->place[i], t->function[i], sizeof t->function[i]);
    w->place = t->place[i];
    w->function = t->function[i];
}

/* A process that is not in MPI: what it does, and where. */
static void look_outside(struct explain_picture *p, struct explain_rank *r, struct text *t)
{
    struct explain_source s;
    uint64_t stack[STACK_MAX];
    if (p->noutside++ >= OUTSIDE_MAX)
        return;
    if (explain_source_open(&s, r->pid, EXPLAIN_DW_SO) < 0) {
        snprintf(p->lacks, sizeof p->lacks, "%s", s.why);
        return;
    }
    int n = explain_source_stack(&s, r->pid, stack, STACK_MAX);
    struct explain_place at;
    if (n < 0) {
        snprintf(p->lacks, sizeof p->lacks, "%s", s.why);
    } else if (explain_place_find(&s, stack, n, &at)) {
        if (at.line)
            snprintf(t->place[RT_ACTIVITY_NOTES], sizeof t->place[0], "%s:%d", at.file, at.line);
        snprintf(t->function[RT_ACTIVITY_NOTES], sizeof t->function[0], "%s", at.function);
        if (is_python(&at))
            look_at_python(r->pid, r->pid, t->place[RT_ACTIVITY_NOTES], sizeof t->place[0],
                           t->function[RT_ACTIVITY_NOTES], sizeof t->function[0]);
    }
    explain_source_close(&s);
}

static enum explain_state state_of(const struct explain_process *p, char *detail, size_t len)
{
    switch (p->state) {
    case PROCESS_RUNNING:
        return EXPLAIN_RUNNING;
    case PROCESS_STOPPED:
    case PROCESS_TRACED:
        return EXPLAIN_STOPPED;
    case PROCESS_BLOCKED:
        snprintf(detail, len, "%s", p->call);
        return strstr(p->call, "nanosleep") ? EXPLAIN_SLEEPING : EXPLAIN_BLOCKED;
    case PROCESS_SLEEPING:
        return EXPLAIN_SLEEPING;
    case PROCESS_GONE:
    case PROCESS_ZOMBIE:
        break;
    }
    return EXPLAIN_ENDED;
}

/* Whether the main thread is in a published wait. */
static bool main_waits(const struct explain_rank *r)
{
    bool found = false;
    for (int i = 0; i < r->nwaits; i++)
        found = found || r->waits[i].note.tid == (uint32_t)r->pid;
    return found;
}

/* Does not sleep itself: `before` is of a moment ago. */
static void describe_process(struct explain_picture *p, struct explain_rank *r, struct text *t,
                             const struct explain_process *before)
{
    struct explain_process now;
    explain_process_read(r->pid, 0, &now);
    r->state = state_of(&now, t->detail, sizeof t->detail);
    r->cpu = explain_process_share(before, &now);
    if (main_waits(r) && r->state != EXPLAIN_STOPPED && r->state != EXPLAIN_ENDED)
        r->state = EXPLAIN_IN_MPI;
    else if (r->state == EXPLAIN_RUNNING || r->state == EXPLAIN_SLEEPING ||
             r->state == EXPLAIN_BLOCKED)
        look_outside(p, r, t);
}

static void describe_rank(struct explain_picture *p, const struct explain_pages *pages, int i,
                          const struct explain_known *known, const struct explain_process *before)
{
    struct explain_rank *r = &p->ranks[i];
    struct text *t = &p->texts[i];
    const struct rt_activity *a = &pages->ranks[i].page;
    *r = (struct explain_rank){ .rank = known->rank,
                                .host = p->host,
                                .pid = pages->ranks[i].pid ? pages->ranks[i].pid : known->pid,
                                .status = known->status,
                                .cpu = -1,
                                .place = t->place[RT_ACTIVITY_NOTES],
                                .function = t->function[RT_ACTIVITY_NOTES],
                                .detail = t->detail,
                                .last_call = t->last_call,
                                .waits = t->waits,
                                .now_ns = rt_now_ns(),
                                .published = pages->ranks[i].read };
    if (r->published) {
        r->use = a->state;
        r->nhidden = a->nhidden;
        r->left_ns = a->left_ns;
        snprintf(t->last_call, sizeof t->last_call, "%.*s", (int)sizeof a->last_call - 1,
                 a->last_call);
        for (int k = 0; k < RT_ACTIVITY_NOTES; k++)
            if (a->notes[k].since_ns)
                add_wait(p, r, t, &a->notes[k]);
    }
    if (known->ended)
        r->state = EXPLAIN_ENDED;
    else
        describe_process(p, r, t, before);
}

struct explain_picture *explain_picture_take(struct explain_pages *pages,
                                             const struct explain_known *known, const char *host,
                                             int total)
{
    size_t n = (size_t)pages->n + 1;
    struct explain_picture *p = calloc(1, sizeof *p);
    struct explain_process *before = calloc(n, sizeof *before);
    if (!p || !before)
        goto err;
    p->ranks = calloc(n, sizeof *p->ranks);
    p->texts = calloc(n, sizeof *p->texts);
    p->host = strdup(host);
    if (!p->ranks || !p->texts || !p->host)
        goto err;
    for (int i = 0; i < pages->n; i++)
        explain_process_read(pages->ranks[i].pid ? pages->ranks[i].pid : known[i].pid, 0,
                             &before[i]);
    usleep(SHARE_US);
    keep_unchanged(pages, known);
    for (int i = 0; i < pages->n; i++)
        describe_rank(p, pages, i, &known[i], &before[i]);
    free(before);
    p->job = (struct explain_job){ .ranks = p->ranks, .nranks = pages->n, .total = total };
    return p;
err:
    free(before);
    explain_picture_free(p);
    return NULL;
}

void explain_picture_free(struct explain_picture *p)
{
    if (!p)
        return;
    free(p->ranks);
    free(p->texts);
    free(p->host);
    free(p);
}

/* Where the kernel forbids to look, the stack that the process has published itself. */
static void print_stack(const struct explain_rank *r, FILE *f)
{
    struct explain_source s;
    uint64_t stack[STACK_MAX];
    char text[STACK_MAX * 200] = "";
    fprintf(f, "stack of rank %d (%s, pid %d):\n", r->rank, r->host, r->pid);
    if (explain_source_open(&s, r->pid, EXPLAIN_DW_SO) < 0) {
        fprintf(f, "  %s\n", s.why);
        return;
    }
    int n = explain_source_stack(&s, r->pid, stack, STACK_MAX);
    if (n < 0 && r->nwaits) {
        const struct rt_wait_note *note = &r->waits[0].note;
        n = note->nstack < RT_ACTIVITY_STACK ? (int)note->nstack : RT_ACTIVITY_STACK;
        memcpy(stack, note->stack, (size_t)n * sizeof *stack);
    }
    if (n > 0)
        explain_place_text(&s, stack, n, text, sizeof text);
    else
        snprintf(text, sizeof text, "%s\n", s.why);
    for (const char *line = text; *line;) {
        int len = (int)strcspn(line, "\n");
        fprintf(f, "  %.*s\n", len, line);
        line += len + (line[len] != '\0');
    }
    explain_source_close(&s);
}

void explain_picture_stacks(const struct explain_picture *p, FILE *f)
{
    for (int i = 0; i < p->job.nranks && i < EXPLAIN_STACKS; i++)
        if (p->ranks[i].state != EXPLAIN_ENDED)
            print_stack(&p->ranks[i], f);
    if (p->job.nranks > EXPLAIN_STACKS)
        fprintf(f, "and %d further ranks\n", p->job.nranks - EXPLAIN_STACKS);
}

struct explain_job *explain_picture_job(struct explain_picture *p) { return &p->job; }

const char *explain_picture_lacks(const struct explain_picture *p) { return p->lacks; }
