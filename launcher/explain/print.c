/* SPDX-License-Identifier: BSD-3-Clause */
/* The verdict as a text: the ranks for which others wait, groups of equal waits. */
#include "launcher/explain/print.h"
#include "runtime/base/err.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define GROUPS_MAX 5 /* lines: with the others at most 12 */

static double age(const struct explain_rank *r, uint64_t since)
{
    return since && r->now_ns > since ? (double)(r->now_ns - since) / 1e9 : 0;
}

/* ---- equal waits: the rows of one MPI_Comm_split() are together ---- */

static int by_kind(const struct explain_ref *x, const struct explain_ref *y)
{
    const struct rt_wait_note *m = &x->wait->note, *n = &y->wait->note;
    const struct rt_wait_item *a = print_front(x), *b = print_front(y);
    const int64_t diff[] = { (int64_t)m->item.kind - n->item.kind,
                             (int64_t)a->kind - b->kind,
                             m->root - n->root,
                             (int64_t)a->tag - b->tag,
                             a->nbytes - b->nbytes,
                             (a->queued != 0) - (b->queued != 0),
                             (int64_t)m->comm.ctx - n->comm.ctx,
                             m->comm.size - n->comm.size };
    int cmp = strcmp(m->call, n->call);
    for (size_t i = 0; i < sizeof diff / sizeof diff[0] && !cmp; i++)
        cmp = (diff[i] > 0) - (diff[i] < 0);
    if (!cmp)
        cmp = strcmp(m->comm.name, n->comm.name);
    if (!cmp && explain_is_partitioned(m))
        cmp = strcmp(m->what, n->what);
    if (!cmp && m->item.kind == RT_WAIT_COLL)
        cmp = (m->number > n->number) - (m->number < n->number);
    return cmp ? cmp : strcmp(x->wait->place, y->wait->place);
}

static int by_kind_and_rank(const void *a, const void *b)
{
    const struct explain_ref *x = a, *y = b;
    int cmp = by_kind(x, y);
    return cmp ? cmp : x->rank->rank - y->rank->rank;
}

static int by_number(const void *a, const void *b)
{
    const struct print_group *x = a, *y = b;
    return x->n != y->n ? y->n - x->n : x->first - y->first;
}

static int group(const struct explain_job *job, struct print_all *all)
{
    int n = 0;
    for (int i = 0; i < job->nranks; i++)
        n += job->ranks[i].nwaits;
    *all = (struct print_all){ malloc(((size_t)n + 1) * sizeof *all->waits), 0,
                               malloc(((size_t)n + 1) * sizeof *all->groups), 0 };
    if (!all->waits || !all->groups)
        return -RT_ENOMEM;
    for (int i = 0; i < job->nranks; i++)
        for (int k = 0; k < job->ranks[i].nwaits; k++)
            all->waits[all->nwaits++] = (struct explain_ref){ &job->ranks[i],
                                                              &job->ranks[i].waits[k], NULL };
    qsort(all->waits, (size_t)n, sizeof *all->waits, by_kind_and_rank);
    for (int i = 0; i < n; i++) {
        if (!i || by_kind(&all->waits[i - 1], &all->waits[i]))
            all->groups[all->ngroups++] = (struct print_group){ i, 0 };
        all->groups[all->ngroups - 1].n++;
    }
    qsort(all->groups, (size_t)all->ngroups, sizeof *all->groups, by_number);
    return 0;
}

/* ---- ranks ---- */

static void print_rank(FILE *f, const struct explain_job *job, int rank)
{
    const struct explain_rank *r = print_find(job, rank);
    fprintf(f, "rank %d", rank);
    if (r)
        fprintf(f, " (%s, pid %d)", r->host, r->pid);
}

/* What a rank does that is in no wait: "is computing (100 % cpu)". */
static void print_state(FILE *f, const struct explain_rank *r)
{
    switch (r->state) {
    case EXPLAIN_RUNNING:
        fprintf(f, "is computing");
        if (r->cpu >= 0)
            fprintf(f, " (%.0f %% cpu)", 100 * r->cpu);
        break;
    case EXPLAIN_SLEEPING:
        fprintf(f, "is sleeping");
        break;
    case EXPLAIN_BLOCKED:
        fprintf(f, "is blocked in the system call %s", r->detail);
        break;
    case EXPLAIN_STOPPED:
        fprintf(f, "is stopped by SIGSTOP");
        break;
    case EXPLAIN_ENDED:
        if (WIFSIGNALED(r->status))
            fprintf(f, "was ended by signal %d", WTERMSIG(r->status));
        else
            fprintf(f, "has ended with exit status %d", WEXITSTATUS(r->status));
        break;
    case EXPLAIN_UNREADABLE:
        fprintf(f, "could not be read: %s", r->detail);
        break;
    case EXPLAIN_IN_MPI:
        fprintf(f, "is in no published wait");
        break;
    }
    print_place(f, r);
}

static void print_rank_line(FILE *f, const struct explain_job *job, const struct explain_rank *r)
{
    fprintf(f, "  ");
    print_rank(f, job, r->rank);
    fputc(' ', f);
    print_state(f, r);
    if (r->published && r->use == 0)
        fprintf(f, "; it has not called MPI_Init yet");
    else if (r->published && r->use == 2 && r->state != EXPLAIN_ENDED)
        fprintf(f, "; it has left MPI");
    if (r->published && r->last_call[0])
        fprintf(f, "; its last wait was in %s, %.0f s ago", r->last_call, age(r, r->left_ns));
    fputc('\n', f);
}

static void print_head(FILE *f, const struct explain_job *job, const struct explain_verdict *v)
{
    if (job->seconds >= 0)
        fprintf(f, "no progress for %.*f s: ", job->seconds < 1, job->seconds);
    fprintf(f, "%d of %d rank%s wait%s", v->nwait, job->total, job->total == 1 ? "" : "s",
            v->nwait == 1 ? "s" : "");
    if (v->nroots && v->nwait)
        fprintf(f, ", directly or through others, for ");
    if (!v->nwait)
        ;
    else if (v->kind == EXPLAIN_CYCLE || v->kind == EXPLAIN_ORDER)
        fprintf(f, v->nroots == 1 ? "itself" : "each other");
    else if (v->nroots == 1)
        print_rank(f, job, v->roots[0]);
    else if (v->nroots)
        print_roots(f, v);
    fprintf(f, "\n");
}

/* ---- faults (mpirun --ft) ---- */

static int by_value(const void *a, const void *b)
{
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

/* "failed: ranks 2,5, known to 0-1,3-4". */
static int print_failed(FILE *f, const struct explain_job *job, int *known)
{
    int *failed = malloc(((size_t)job->nranks * RT_ACTIVITY_FAILED + 1) * sizeof *failed);
    char text[PRINT_RANGES], by[PRINT_RANGES];
    int n = 0, nknown = 0;
    bool others = false;
    for (int i = 0; i < job->nranks && failed; i++) {
        const struct rt_activity_faults *a = &job->ranks[i].faults;
        if (a->nfailed)
            known[nknown++] = job->ranks[i].rank;
        for (uint32_t k = 0; k < a->nfailed && k < RT_ACTIVITY_FAILED; k++)
            if (a->failed[k] >= 0)
                failed[n++] = a->failed[k];
            else
                others = true;
    }
    if (n)
        qsort(failed, (size_t)n, sizeof *failed, by_value);
    print_ranges(text, failed, n);
    qsort(known, (size_t)nknown, sizeof *known, by_value);
    print_ranges(by, known, nknown);
    if (nknown)
        fprintf(f, "  failed: %s%s%s%s, known to %s\n", n ? "rank " : "", text,
                n && others ? " and " : "", others ? "ranks of other jobs" : "", by);
    free(failed);
    return nknown > 0;
}

/* "revoked: "halo" (context 6) in 0-1": the communicator that the lowest rank names first, and the
 * number of communicators in the rank that knows most. */
static int print_revoked(FILE *f, const struct explain_job *job, int *known)
{
    const struct rt_activity_faults *first = NULL;
    char by[PRINT_RANGES];
    uint32_t most = 0;
    int nknown = 0, at = 0;
    for (int i = 0; i < job->nranks; i++) {
        const struct rt_activity_faults *a = &job->ranks[i].faults;
        most = a->nrevoked > most ? a->nrevoked : most;
        for (int k = 0; k < RT_ACTIVITY_REVOKED; k++) {
            if (!a->revoked[k].ctx)
                continue;
            if (!first) {
                first = a;
                at = k;
            }
            if (a->revoked[k].ctx == first->revoked[at].ctx)
                known[nknown++] = job->ranks[i].rank;
        }
    }
    if (!first)
        return 0;
    qsort(known, (size_t)nknown, sizeof *known, by_value);
    print_ranges(by, known, nknown);
    fprintf(f, "  revoked: \"%s\" (context %u), known to %s", first->revoked[at].name,
            first->revoked[at].ctx, by);
    if (most > 1)
        fprintf(f, ", and %u more", most - 1);
    fputc('\n', f);
    return 1;
}

/* A line for each: its ranks, the wait, and the age of the longest. */
static void print_groups(FILE *f, const struct print_all *all, int *ranks, int max)
{
    char text[GROUPS_MAX][PRINT_RANGES];
    int shown = all->ngroups < max ? all->ngroups : max, rest = all->nwaits;
    size_t width = 0;
    double longest[GROUPS_MAX] = { 0 };
    for (int i = 0; i < shown; i++) {
        const struct print_group *g = &all->groups[i];
        for (int k = 0; k < g->n; k++) {
            const struct explain_ref *w = &all->waits[g->first + k];
            double s = age(w->rank, w->wait->note.since_ns);
            longest[i] = s > longest[i] ? s : longest[i];
            ranks[k] = w->rank->rank;
        }
        print_ranges(text[i], ranks, g->n);
        width = strlen(text[i]) > width ? strlen(text[i]) : width;
    }
    for (int i = 0; i < shown; i++) {
        const struct explain_ref *w = &all->waits[all->groups[i].first];
        fprintf(f, "  %-*s  ", (int)width, text[i]);
        print_waits(f, w, all->groups[i].n);
        fprintf(f, ", for %.0f s\n", longest[i]);
        rest -= all->groups[i].n;
    }
    if (rest)
        fprintf(f, "  and %d waits of %d other kinds\n", rest, all->ngroups - shown);
}

void explain_print(const struct explain_job *job, const struct explain_verdict *v, FILE *f)
{
    struct print_all all;
    size_t room = group(job, &all) ? 0 : (size_t)(all.nwaits + job->nranks) + 1;
    int *ranks = room ? malloc(room * sizeof *ranks) : NULL;
    if (!ranks)
        fprintf(f, "out of memory while the waits of the job are described\n");
    else {
        print_head(f, job, v);
        int nfaults = print_failed(f, job, ranks);
        nfaults += print_revoked(f, job, ranks);
        print_groups(f, &all, ranks, GROUPS_MAX - nfaults);
        for (int i = 0, lines = 0; i < v->nroots && lines < 2; i++) {
            const struct explain_rank *r = print_find(job, v->roots[i]);
            if (r && !r->nwaits && (v->kind != EXPLAIN_LATE || r == v->a.rank)) {
                print_rank_line(f, job, r);
                lines++;
            }
        }
        print_kind(f, job, &all, ranks, v);
    }
    free(ranks);
    free(all.waits);
    free(all.groups);
}
