/* SPDX-License-Identifier: BSD-3-Clause */
/* The verdict as a text: the ranks for which others wait, groups of equal waits, the kind. */
#include "launcher/explain/explain.h"
#include "runtime/base/err.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
    GROUPS_MAX = 5, /* lines: with the others at most 12 */
    RANGES = 48,    /* bytes of the text of ranks */
    TEXT = 256
};

/* Waits that a line describes, of which `first` is one. */
struct group {
    int first, n;
};

struct all {
    struct explain_ref *waits; /* groups in succession, each by rank */
    int nwaits;
    struct group *groups; /* the largest first */
    int ngroups;
};

/* "0-3,7,9-4095"; what does not fit is left out: "0,2,4,... (17)". */
static void print_ranges(char buf[RANGES], const int *ranks, int n)
{
    int len = 0;
    buf[0] = '\0';
    for (int i = 0, last; i < n; i = last + 1) {
        for (last = i; last + 1 < n && ranks[last + 1] <= ranks[last] + 1; last++)
            ;
        const char *comma = i ? "," : "";
        if (len > RANGES - 30) {
            snprintf(buf + len, (size_t)(RANGES - len), ",... (%d)", n);
            return;
        }
        len += snprintf(buf + len, (size_t)(RANGES - len), "%s%d", comma, ranks[i]);
        if (ranks[last] > ranks[i])
            len += snprintf(buf + len, (size_t)(RANGES - len), "-%d", ranks[last]);
    }
}

static const char *bytes(char buf[32], int64_t n)
{
    static const char *const unit[] = { "B", "KiB", "MiB", "GiB" };
    int u = 0;
    while (u < 3 && n >= 1024 && n % 1024 == 0) {
        n /= 1024;
        u++;
    }
    snprintf(buf, 32, "%lld %s", (long long)n, unit[u]);
    return buf;
}

static double age(const struct explain_rank *r, uint64_t since)
{
    return since && r->now_ns > since ? (double)(r->now_ns - since) / 1e9 : 0;
}

static const struct explain_rank *find(const struct explain_job *job, int rank)
{
    for (int i = 0; i < job->nranks; i++)
        if (job->ranks[i].rank == rank)
            return &job->ranks[i];
    return NULL;
}

/* The wait's message, or its first request. */
static const struct rt_wait_item *front(const struct explain_ref *w)
{
    const struct rt_wait_note *n = &w->wait->note;
    return w->item ? w->item : n->nreqs ? &n->reqs[0] : &n->item;
}

/* ---- equal waits: the rows of one MPI_Comm_split() are together ---- */

static int by_kind(const struct explain_ref *x, const struct explain_ref *y)
{
    const struct rt_wait_note *m = &x->wait->note, *n = &y->wait->note;
    const struct rt_wait_item *a = front(x), *b = front(y);
    const int64_t diff[] = { (int64_t)m->item.kind - n->item.kind,
                             (int64_t)a->kind - b->kind,
                             m->root - n->root,
                             (int64_t)a->tag - b->tag,
                             a->nbytes - b->nbytes,
                             (int64_t)m->comm.ctx - n->comm.ctx,
                             m->comm.size - n->comm.size };
    int cmp = strcmp(m->call, n->call);
    for (size_t i = 0; i < sizeof diff / sizeof diff[0] && !cmp; i++)
        cmp = (diff[i] > 0) - (diff[i] < 0);
    if (!cmp)
        cmp = strcmp(m->comm.name, n->comm.name);
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
    const struct group *x = a, *y = b;
    return x->n != y->n ? y->n - x->n : x->first - y->first;
}

static int group(const struct explain_job *job, struct all *all)
{
    int n = 0;
    for (int i = 0; i < job->nranks; i++)
        n += job->ranks[i].nwaits;
    *all = (struct all){ malloc(((size_t)n + 1) * sizeof *all->waits), 0,
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
            all->groups[all->ngroups++] = (struct group){ i, 0 };
        all->groups[all->ngroups - 1].n++;
    }
    qsort(all->groups, (size_t)all->ngroups, sizeof *all->groups, by_number);
    return 0;
}

/* ---- one wait ---- */

/* The peers of n equal waits: one rank, or the same distance from each. */
static void peers(char buf[32], const struct explain_ref *w, int n)
{
    const struct rt_wait_item *item = front(w);
    int size = w->wait->note.comm.size, off = 0;
    bool same = true, shifted = item->peer >= 0 && size > 0;
    for (int i = 0; i < n; i++) {
        const struct rt_wait_item *other = front(&w[i]);
        int o = shifted ? (other->peer - w[i].wait->note.comm.rank + size) % size : 0;
        off = i ? off : o;
        same &= other->world == item->world;
        shifted &= other->peer >= 0 && o == off;
    }
    if (same && item->world >= 0)
        snprintf(buf, 32, "rank %d", item->world);
    else if (same)
        snprintf(buf, 32, "%s", item->world == RT_WAIT_ANY ? "any rank" : "another job");
    else if (shifted)
        snprintf(buf, 32, "rank r%+d of each rank r", off > size / 2 ? off - size : off);
    else
        snprintf(buf, 32, "different ranks");
}

static void print_comm(FILE *f, const struct rt_wait_comm *c, bool brief)
{
    const char *quote = strncmp(c->name, "MPI_COMM_", 9) ? "\"" : "";
    if (c->ctx && c->name[0])
        fprintf(f, " on %s%s%s", quote, c->name, quote);
    else if (c->ctx)
        fprintf(f, " on communicator %u", c->ctx);
    if (c->ctx && !brief)
        fprintf(f, " (%d rank%s)", c->size, c->size == 1 ? "" : "s");
}

static void print_item(FILE *f, const struct rt_wait_item *item, const char *peer, bool brief)
{
    char size[32];
    if (item->kind == RT_WAIT_TARGET && item->world != RT_WAIT_NOBODY)
        fprintf(f, " for %s", peer);
    if (item->kind != RT_WAIT_RECV && item->kind != RT_WAIT_SEND && item->kind != RT_WAIT_PROBE)
        return;
    fprintf(f, " %s %s", item->kind == RT_WAIT_SEND ? "to" : "from", peer);
    if (item->tag == EXPLAIN_ANY_TAG)
        fprintf(f, " any tag");
    else
        fprintf(f, " tag %d", item->tag);
    if (item->kind != RT_WAIT_PROBE && !brief)
        fprintf(f, ", %s", bytes(size, item->nbytes));
}

/* "MPI_Recv from rank 1 tag 3, 4 B on MPI_COMM_WORLD (2 ranks) at halo.c:88", for n equal waits.
 * n 0: one wait, in brief. */
static void print_waits(FILE *f, const struct explain_ref *w, int n)
{
    static const char *const verb[RT_WAIT_KINDS] = {
        [RT_WAIT_RECV] = "receive", [RT_WAIT_SEND] = "send", [RT_WAIT_COLL] = "collective"
    };
    const struct rt_wait_note *note = &w->wait->note;
    const struct rt_wait_item *item = front(w);
    char peer[32], size[32];
    peers(peer, w, n ? n : 1);
    fputs(note->call[0] ? note->call : "a call of MPI", f);
    if (note->item.kind == RT_WAIT_COLL) {
        fprintf(f, " #%llu", (unsigned long long)note->number);
        if (note->root >= 0)
            fprintf(f, " root %d", note->root);
        if (item->nbytes > 0)
            fprintf(f, ", %s", bytes(size, item->nbytes));
    } else {
        const char *what = item->kind < RT_WAIT_KINDS ? verb[item->kind] : NULL;
        if (note->nreqs)
            fprintf(f, ", %s%s", note->nreqs > 1 ? "first request: " : "", what ? what : "request");
        print_item(f, item, peer, !n);
    }
    print_comm(f, &note->comm, !n);
    if (w->wait->place[0])
        fprintf(f, " at %s", w->wait->place);
}

/* ---- ranks ---- */

static void print_rank(FILE *f, const struct explain_job *job, int rank)
{
    const struct explain_rank *r = find(job, rank);
    fprintf(f, "rank %d", rank);
    if (r)
        fprintf(f, " (%s, pid %d)", r->host, r->pid);
}

static void print_roots(FILE *f, const struct explain_verdict *v)
{
    char ranks[RANGES];
    print_ranges(ranks, v->roots, v->nroots);
    fprintf(f, "rank%s %s", v->nroots > 1 ? "s" : "", ranks);
}

static void print_place(FILE *f, const struct explain_rank *r)
{
    if (r->function[0])
        fprintf(f, " in %s()", r->function);
    if (r->place[0])
        fprintf(f, " at %s", r->place);
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

/* ---- kinds ---- */

static void print_is_in(FILE *f, const struct explain_ref *w)
{
    fprintf(f, "rank %d is in ", w->rank->rank);
    print_waits(f, w, 0);
}

static void print_gone(FILE *f, const struct explain_job *job, const struct explain_verdict *v)
{
    const struct explain_rank *r = find(job, v->roots[0]);
    bool many = v->nroots > 1, ended = r && r->state == EXPLAIN_ENDED, left = r && r->use == 2;
    fprintf(f, "left too early: ");
    print_roots(f, v);
    fprintf(f, " %s %s, and rank %d still waits for %s in ", many ? "have" : "has",
            ended  ? "ended"
            : left ? "left MPI"
                   : "called MPI_Finalize",
            v->a.rank->rank, many ? "them" : "it");
    print_waits(f, &v->a, 0);
}

static void print_unmatched(FILE *f, const struct explain_verdict *v)
{
    const struct rt_wait_item *asked = v->a.item, *here = v->b.item;
    fprintf(f, "a message that matches nothing: ");
    if (v->b.rank && v->b.rank->rank != asked->world)
        fprintf(f, "source %d is here, source %d is asked", v->b.rank->rank, asked->world);
    else if (asked->ctx != here->ctx)
        fprintf(f, "communicator %u is here, communicator %u is asked", here->ctx, asked->ctx);
    else
        fprintf(f, "tag %d is here, tag %d is asked", here->tag, asked->tag);
    fprintf(f, "; ");
    print_is_in(f, &v->a);
    if (v->b.wait && v->b.wait->place[0]) {
        fprintf(f, "; ");
        print_is_in(f, &v->b);
    }
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* The ranks that are in the same collective as `w`: those that it does not differ from. */
static void print_coll(FILE *f, const struct all *all, int *ranks, const struct explain_ref *w)
{
    const struct rt_wait_note *n = &w->wait->note;
    int count = 0;
    char text[RANGES];
    for (int i = 0; i < all->nwaits; i++) {
        const struct rt_wait_note *m = &all->waits[i].wait->note;
        if (m->item.kind == RT_WAIT_COLL && m->number == n->number &&
            !explain_comm_cmp(&m->comm, &n->comm) && !explain_coll_differs(n, m))
            ranks[count++] = all->waits[i].rank->rank;
    }
    qsort(ranks, (size_t)count, sizeof *ranks, by_value);
    print_ranges(text, ranks, count);
    fprintf(f, count > 1 ? "ranks %s are in " : "rank %s is in ", text);
    print_waits(f, w, 0);
}

static void print_cycle(FILE *f, const struct explain_verdict *v)
{
    enum { SHOWN = 8 };
    uint32_t kind = front(&v->a)->kind, next = front(&v->b)->kind;
    if (v->knot) {
        fprintf(f, "no sender is left: ");
        print_roots(f, v);
        fprintf(f, " wait for messages of any of them, and none sends; ");
        print_is_in(f, &v->a);
        return;
    }
    if (v->nroots == 1) {
        fprintf(f, "a rank waits for itself: ");
        print_is_in(f, &v->a);
        return;
    }
    fprintf(f, "cycle of waits: ranks ");
    for (int i = 0; i < v->nroots && i < SHOWN; i++)
        fprintf(f, "%d -> ", v->roots[i]);
    if (v->nroots > SHOWN)
        fprintf(f, "... (%d ranks) -> ", v->nroots);
    fprintf(f, "%d; ", v->roots[0]);
    if (kind == RT_WAIT_SEND && next == kind)
        fprintf(f, "all send first; let one receive first, or use MPI_Sendrecv");
    else if (kind == RT_WAIT_RECV && next == kind)
        fprintf(f, "all receive first; let one send first, or use MPI_Sendrecv");
    else
        print_is_in(f, &v->a);
}

static void print_late(FILE *f, const struct explain_verdict *v)
{
    const struct explain_rank *r = v->a.rank;
    if (r->state == EXPLAIN_STOPPED) {
        fprintf(f, "a stopped process: continue it with kill -CONT %d on %s", r->pid, r->host);
        return;
    }
    fprintf(f, "a late rank, no deadlock is proven: look at what rank %d does outside MPI",
            r->rank);
    print_place(f, r);
}

static void print_unknown(FILE *f, const struct explain_verdict *v)
{
    if (v->a.wait && v->a.wait->note.item.kind == RT_WAIT_COLL)
        fprintf(f, "unknown: all ranks of the communicator are in the same collective; ");
    else if (v->a.wait)
        fprintf(f, "unknown, no deadlock is proven: the wait is for no rank of this job; ");
    else if (v->nroots)
        fprintf(f, "unknown: too little is known of the ranks that the others wait for");
    else
        fprintf(f, "no deadlock: no rank waits for another one");
    if (v->a.wait)
        print_is_in(f, &v->a);
}

static void print_kind(FILE *f, const struct explain_job *job, const struct all *all, int *ranks,
                       const struct explain_verdict *v)
{
    static const char *const pairs[] = {
        [EXPLAIN_ORDER] = "collectives in different orders: ",
        [EXPLAIN_MISSED] = "a rank misses a collective: ",
        [EXPLAIN_LOCK] = "a rank waits while it holds the lock of a window: ",
        [EXPLAIN_PSCW] = "groups of MPI_Win_post and MPI_Win_start that do not meet: ",
    };
    fprintf(f, "kind: ");
    switch (v->kind) {
    case EXPLAIN_UNKNOWN:
        print_unknown(f, v);
        break;
    case EXPLAIN_LATE:
        print_late(f, v);
        break;
    case EXPLAIN_GONE:
        print_gone(f, job, v);
        break;
    case EXPLAIN_CYCLE:
        print_cycle(f, v);
        break;
    case EXPLAIN_UNMATCHED:
        print_unmatched(f, v);
        break;
    case EXPLAIN_MISMATCH:
        fprintf(f, "different %s of one collective: ",
                explain_coll_differs(&v->a.wait->note, &v->b.wait->note));
        print_coll(f, all, ranks, &v->a);
        fprintf(f, "; ");
        print_coll(f, all, ranks, &v->b);
        break;
    case EXPLAIN_ORDER:
    case EXPLAIN_MISSED:
    case EXPLAIN_LOCK:
    case EXPLAIN_PSCW:
        fputs(pairs[v->kind], f);
        print_is_in(f, &v->b);
        fprintf(f, "; ");
        print_is_in(f, &v->a);
        break;
    }
    fprintf(f, "\n");
}

static void print_head(FILE *f, const struct explain_job *job, const struct explain_verdict *v)
{
    if (job->seconds >= 0)
        fprintf(f, "no progress for %.0f s: ", job->seconds);
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

/* A line for each: its ranks, the wait, and the age of the longest. */
static void print_groups(FILE *f, const struct all *all, int *ranks)
{
    char text[GROUPS_MAX][RANGES];
    int shown = all->ngroups < GROUPS_MAX ? all->ngroups : GROUPS_MAX, rest = all->nwaits;
    size_t width = 0;
    double longest[GROUPS_MAX] = { 0 };
    for (int i = 0; i < shown; i++) {
        const struct group *g = &all->groups[i];
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
    struct all all;
    int *ranks = group(job, &all) ? NULL : malloc(((size_t)all.nwaits + 1) * sizeof *ranks);
    if (!ranks)
        fprintf(f, "out of memory while the waits of the job are described\n");
    else {
        print_head(f, job, v);
        print_groups(f, &all, ranks);
        for (int i = 0, lines = 0; i < v->nroots && lines < 2; i++) {
            const struct explain_rank *r = find(job, v->roots[i]);
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
