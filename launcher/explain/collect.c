/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the picture of the ranks of this host: collect.h. */
#include "launcher/explain/collect.h"
#include "launcher/explain/source.h"
#include "launcher/explain/process.h"
#include "launcher/explain/python.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Between two readings of processor time.  The kernel counts in steps of 10 ms. */
#define SHARE_US 100000
/* Places in the sources that one picture looks up: ranks at the same place are looked up once. */
#define PLACES_MAX 48
#define OUTSIDE_MAX 8 /* ranks outside MPI whose stacks are read for it: each may take seconds */
#define STACK_MAX 64
/* Bytes of the texts of a place. */
#define PLACE 96
#define FUNCTION 64

struct text { /* what struct explain_rank and explain_wait point to */
    char place[RT_ACTIVITY_NOTES + 1][PLACE], function[RT_ACTIVITY_NOTES + 1][FUNCTION];
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
    int rank, part; /* of the next place: rank nwaits of its waits, then the process itself */
    int nstacks;    /* ranks whose stack has been printed, or is not to be */
};

/* Libraries lie at addresses of their own in each process, but at whole pages. */
static uint64_t stack_key(const char *call, const uint64_t *stack, int n)
{
    uint64_t h = EXPLAIN_HASH;
    for (const char *c = call; *c; c++)
        h = explain_mix(h, (unsigned char)*c);
    for (int i = 0; i < n; i++)
        h = explain_mix(h, stack[i] & 0xfff);
    return h;
}

/* A place that has been looked up already. */
static const struct place_of *known_place(const struct explain_picture *p, uint64_t key)
{
    for (int i = 0; i < p->nplaces; i++)
        if (p->places[i].key == key)
            return &p->places[i];
    return NULL;
}

/* The place is in the interpreter, or in a module in C that Python code has called. */
static bool is_python(const struct explain_place *at)
{
    return at->python || strstr(at->module, ".cpython-");
}

/* Whether the place is known now. */
static bool look_at_python(struct explain_picture *p, pid_t pid, pid_t tid, char place[PLACE],
                           char function[FUNCTION])
{
    struct explain_place at;
    char why[sizeof p->lacks];
    if (!explain_python_find(pid, tid, &at, why, sizeof why)) {
        if (*why)
            snprintf(p->lacks, sizeof p->lacks, "%s", why);
        return false;
    }
    snprintf(place, PLACE, "%s:%d", at.file, at.line);
    snprintf(function, FUNCTION, "%s", at.function);
    return true;
}

/* Keeps the place of a stack of thread `tid` in `place` and `function`.  Whether it is in Python
 * code. */
static bool find_place(struct explain_picture *p, struct explain_source *s, pid_t tid,
                       const uint64_t *stack, int n, char place[PLACE], char function[FUNCTION])
{
    struct explain_place at;
    if (explain_place_find(s, stack, n, &at)) {
        if (at.line)
            snprintf(place, PLACE, "%s:%d", at.file, at.line);
        snprintf(function, FUNCTION, "%s", at.function);
    }
    return is_python(&at) && look_at_python(p, s->pid, tid, place, function);
}

/* Whether that took time. */
static bool look_up_wait(struct explain_picture *p, const struct explain_rank *r, struct text *t,
                         int i)
{
    struct explain_source s;
    const struct rt_wait_note *note = &t->waits[i].note;
    int n = note->nstack < RT_ACTIVITY_STACK ? (int)note->nstack : RT_ACTIVITY_STACK;
    uint64_t key = stack_key(note->call, note->stack, n);
    const struct place_of *known = known_place(p, key);
    if (known && known->python) {
        look_at_python(p, r->pid, (pid_t)note->tid, t->place[i], t->function[i]);
        return true;
    }
    if (known) {
        memcpy(t->place[i], known->place, PLACE);
        memcpy(t->function[i], known->function, FUNCTION);
    }
    if (known || p->nplaces == PLACES_MAX || n == 0)
        return false;
    if (explain_source_open(&s, r->pid, RT_DW_SO) < 0) {
        snprintf(p->lacks, sizeof p->lacks, "%s", s.why);
        return true;
    }
    bool python = find_place(p, &s, (pid_t)note->tid, note->stack, n, t->place[i], t->function[i]);
    explain_source_close(&s);
    p->places[p->nplaces++] = (struct place_of){ key, t->place[i], t->function[i], python };
    return true;
}

/* A process that is not in MPI. */
static bool look_up_process(struct explain_picture *p, const struct explain_rank *r, struct text *t)
{
    struct explain_source s;
    uint64_t stack[STACK_MAX];
    if ((r->state != EXPLAIN_RUNNING && r->state != EXPLAIN_SLEEPING &&
         r->state != EXPLAIN_BLOCKED) ||
        p->noutside++ >= OUTSIDE_MAX)
        return false;
    if (explain_source_open(&s, r->pid, RT_DW_SO) < 0) {
        snprintf(p->lacks, sizeof p->lacks, "%s", s.why);
        return true;
    }
    int n = explain_source_stack(&s, r->pid, stack, STACK_MAX);
    if (n < 0)
        snprintf(p->lacks, sizeof p->lacks, "%s", s.why);
    else
        find_place(p, &s, r->pid, stack, n, t->place[RT_ACTIVITY_NOTES],
                   t->function[RT_ACTIVITY_NOTES]);
    explain_source_close(&s);
    return true;
}

bool explain_picture_look_up(struct explain_picture *p)
{
    bool done = false;
    while (!done && p->rank < p->job.nranks) {
        const struct explain_rank *r = &p->ranks[p->rank];
        struct text *t = &p->texts[p->rank];
        int i = p->part++;
        done = i < r->nwaits ? look_up_wait(p, r, t, i) : look_up_process(p, r, t);
        if (i >= r->nwaits) {
            p->rank++;
            p->part = 0;
        }
    }
    return done;
}

static void add_wait(struct explain_rank *r, struct text *t, const struct rt_wait_note *note)
{
    int i = r->nwaits++;
    struct explain_wait *w = &t->waits[i];
    w->note = *note;
    w->note.call[sizeof w->note.call - 1] = '\0';
    w->note.what[sizeof w->note.what - 1] = '\0';
    w->note.comm.name[sizeof w->note.comm.name - 1] = '\0';
    w->place = t->place[i];
    w->function = t->function[i];
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
static void describe_process(struct explain_rank *r, struct text *t,
                             const struct explain_process *before)
{
    struct explain_process now;
    explain_process_read(r->pid, 0, &now);
    r->state = state_of(&now, t->detail, sizeof t->detail);
    r->runs = before->nrunning || now.nrunning;
    r->cpu = explain_process_share(before, &now);
    if (main_waits(r) && r->state != EXPLAIN_STOPPED && r->state != EXPLAIN_ENDED)
        r->state = EXPLAIN_IN_MPI;
}

static void describe_rank(struct explain_picture *p, const struct explain_pages *pages, int i,
                          const struct explain_known *known, const struct explain_process *before)
{
    struct explain_rank *r = &p->ranks[i];
    struct text *t = &p->texts[i];
    const struct rt_activity *a = explain_pages_of(pages, i);
    *r = (struct explain_rank){ .rank = known->rank,
                                .host = p->host,
                                .pid = explain_pages_pid(pages, i, known),
                                .status = known->status,
                                .cpu = -1,
                                .place = t->place[RT_ACTIVITY_NOTES],
                                .function = t->function[RT_ACTIVITY_NOTES],
                                .detail = t->detail,
                                .last_call = t->last_call,
                                .waits = t->waits,
                                .now_ns = rt_now_ns(),
                                .published = a };
    if (a) {
        r->use = a->state;
        r->nhidden = a->nhidden;
        r->left_ns = a->left_ns;
        r->faults = a->faults;
        for (int k = 0; k < RT_ACTIVITY_REVOKED; k++)
            r->faults.revoked[k].name[sizeof r->faults.revoked[k].name - 1] = '\0';
        snprintf(t->last_call, sizeof t->last_call, "%.*s", (int)sizeof a->last_call - 1,
                 a->last_call);
        for (int k = 0; k < RT_ACTIVITY_NOTES; k++)
            if (a->notes[k].since_ns)
                add_wait(r, t, &a->notes[k]);
    }
    if (known->ended)
        r->state = EXPLAIN_ENDED;
    else
        describe_process(r, t, before);
}

struct explain_picture *explain_picture_take(struct explain_pages *pages,
                                             const struct explain_known *known, const char *host,
                                             int total)
{
    int nranks = explain_pages_n(pages);
    size_t n = (size_t)nranks + 1;
    struct explain_picture *p = calloc(1, sizeof *p);
    struct explain_process *before = calloc(n, sizeof *before);
    if (!p || !before)
        goto err;
    p->ranks = calloc(n, sizeof *p->ranks);
    p->texts = calloc(n, sizeof *p->texts);
    p->host = strdup(host);
    if (!p->ranks || !p->texts || !p->host)
        goto err;
    for (int i = 0; i < nranks; i++)
        explain_process_read(explain_pages_pid(pages, i, &known[i]), 0, &before[i]);
    usleep(SHARE_US);
    explain_pages_keep(pages, known);
    for (int i = 0; i < nranks; i++)
        describe_rank(p, pages, i, &known[i], &before[i]);
    free(before);
    p->job = (struct explain_job){ .ranks = p->ranks, .nranks = nranks, .total = total };
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
    if (explain_source_open(&s, r->pid, RT_DW_SO) < 0) {
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

bool explain_picture_stack(struct explain_picture *p, FILE *f)
{
    while (p->nstacks < p->job.nranks) {
        const struct explain_rank *r = &p->ranks[p->nstacks++];
        if (r->rank >= EXPLAIN_STACKS || r->state == EXPLAIN_ENDED)
            continue;
        print_stack(r, f);
        return true;
    }
    return false;
}

struct explain_job *explain_picture_job(struct explain_picture *p) { return &p->job; }

const char *explain_picture_lacks(const struct explain_picture *p) { return p->lacks; }
