/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds and reads the pages of the ranks of this host: pages.h. */
#include "launcher/explain/pages.h"
#include "launcher/job.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rank may be started through shells and tools; this many processes below it are looked at. */
#define CHILDREN_MAX 64
#define PROCESSES_MAX 4096 /* of a job on one host */
/* A loop of polls that has not looked for this long has ended, or computes. */
#define POLL_OLD_NS 1000000000u

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

void explain_known_of(const struct launch_job *job, struct explain_known *out)
{
    for (int i = 0; i < job->n; i++) {
        const struct launch_rank *r = &job->ranks[i];
        out[i] = (struct explain_known){
            .rank = r->rank, .pid = r->pid, .ended = !r->running, .status = r->status
        };
    }
}

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

void explain_pages_keep(struct explain_pages *p, const struct explain_known *known)
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

uint64_t explain_pages_movement(const struct explain_pages *p)
{
    uint64_t h = EXPLAIN_HASH;
    for (int i = 0; i < p->n; i++) {
        const struct rt_activity *a = &p->ranks[i].page;
        h = explain_mix(h, p->ranks[i].read);
        if (!p->ranks[i].read)
            continue;
        h = explain_mix(explain_mix(explain_mix(h, a->state), a->nwaits), a->moved);
        uint64_t moving = a->ncounters < RT_ACTIVITY_COUNTERS ? a->ncounters : RT_ACTIVITY_COUNTERS;
        for (int k = 0; k < (int)moving; k++)
            h = explain_mix(h, a->counters[k]);
        for (int k = 0; k < RT_ACTIVITY_NOTES; k++)
            h = explain_mix(h, a->notes[k].since_ns);
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

const struct rt_activity *explain_pages_of(const struct explain_pages *p, int i)
{
    return p->ranks[i].read ? &p->ranks[i].page : NULL;
}

pid_t explain_pages_pid(const struct explain_pages *p, int i, const struct explain_known *known)
{
    return p->ranks[i].pid ? p->ranks[i].pid : known->pid;
}

int explain_pages_n(const struct explain_pages *p) { return p->n; }
