/* SPDX-License-Identifier: BSD-3-Clause */
/* A sentence for each kind of fault: which ranks, in which calls, and what to do. */
#include "launcher/explain/print.h"

#include <stdlib.h>
#include <string.h>

static void print_gone(FILE *f, const struct explain_job *job, const struct explain_verdict *v)
{
    const struct explain_rank *r = print_find(job, v->roots[0]);
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
static void print_coll(FILE *f, const struct print_all *all, int *ranks,
                       const struct explain_ref *w)
{
    const struct rt_wait_note *n = &w->wait->note;
    int count = 0;
    char text[PRINT_RANGES];
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

static void print_number(FILE *f, const struct print_all *all, int *ranks,
                         const struct explain_verdict *v)
{
    uint64_t more = v->b.wait->note.number - v->a.wait->note.number;
    fprintf(f, "different numbers of collective calls: ");
    print_coll(f, all, ranks, &v->a);
    fprintf(f, "; ");
    print_coll(f, all, ranks, &v->b);
    fprintf(f,
            "; rank %d has made %llu more call%s on this communicator: look for the one that "
            "rank %d has left out",
            v->b.rank->rank, (unsigned long long)more, more == 1 ? "" : "s", v->a.rank->rank);
}

static void print_cycle(FILE *f, const struct explain_verdict *v)
{
    enum { SHOWN = 8 };
    uint32_t kind = print_front(&v->a)->kind, next = print_front(&v->b)->kind;
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

static void print_parts(FILE *f, const struct explain_verdict *v)
{
    fprintf(f, "partitions that are not marked ready: ");
    print_is_in(f, &v->b);
    if (v->a.wait != v->b.wait) {
        fprintf(f, "; ");
        print_is_in(f, &v->a);
    }
    fprintf(f,
            "; let rank %d call MPI_Pready for each partition, after MPI_Start and before it waits",
            v->b.rank->rank);
}

/* A ring or a connection has no room for messages to the rank. */
static bool is_full(const struct print_all *all, int rank)
{
    bool found = false;
    for (int i = 0; i < all->nwaits; i++) {
        const struct rt_wait_note *n = &all->waits[i].wait->note;
        found = found || (n->item.queued && n->item.world == rank);
        for (uint32_t k = 0; k < n->nreqs && k < RT_ACTIVITY_REQS; k++)
            found = found || (n->reqs[k].queued && n->reqs[k].world == rank);
    }
    return found;
}

static void print_late(FILE *f, const struct print_all *all, const struct explain_verdict *v)
{
    const struct explain_rank *r = v->a.rank;
    if (r->state == EXPLAIN_STOPPED) {
        fprintf(f, "a stopped process: continue it with kill -CONT %d on %s", r->pid, r->host);
        return;
    }
    fprintf(f, "a late rank, no deadlock is proven: look at what rank %d does outside MPI",
            r->rank);
    print_place(f, r);
    if (is_full(all, r->rank))
        fprintf(f, "; messages to it are queued, because its ring or socket is full: it reads them "
                   "only in MPI calls");
}

/* A wait for a process of another job, which this picture does not show. */
static void print_foreign(FILE *f, const struct rt_wait_note *n)
{
    fprintf(f, "a wait for another job: ");
    if (strstr(n->call, "accept"))
        fprintf(f, "no process has called MPI_Comm_connect with the name of this port; ");
    else if (strstr(n->call, "connect"))
        fprintf(f, "the process that has opened this port has not called MPI_Comm_accept; ");
    else if (n->item.kind == RT_WAIT_START)
        fprintf(f, "mpirun has not started the processes yet: it waits until their hosts have "
                   "answered its remote shell, or for the slots of a job that is ending; ");
    else if (strstr(n->call, "spawn"))
        fprintf(f, "the started processes have not called MPI_Init yet; look at what they do; ");
    else
        fprintf(f, "look there with weft_info --job; ");
}

static void print_unknown(FILE *f, const struct explain_verdict *v)
{
    if (v->a.wait && v->a.wait->note.item.kind == RT_WAIT_COLL)
        fprintf(f, "unknown: all ranks of the communicator are in the same collective; ");
    else if (v->a.wait && explain_is_lock(&v->a.wait->note))
        fprintf(f, "unknown: the holder of the lock is not known; ");
    else if (v->a.wait && print_front(&v->a)->world == RT_WAIT_FOREIGN)
        print_foreign(f, &v->a.wait->note);
    else if (v->a.wait && explain_polls(&v->a.wait->note))
        fprintf(f, "unknown, no deadlock is proven: look at what the loop of rank %d asks for; ",
                v->a.rank->rank);
    else if (v->a.wait)
        fprintf(f, "unknown, no deadlock is proven: the wait is for no rank of this job; ");
    else if (v->nroots)
        fprintf(f, "unknown: too little is known of the ranks that the others wait for");
    else
        fprintf(f, "no deadlock: no rank waits for another one");
    if (v->a.wait)
        print_is_in(f, &v->a);
}

void print_kind(FILE *f, const struct explain_job *job, const struct print_all *all, int *ranks,
                const struct explain_verdict *v)
{
    static const char *const pairs[] = {
        [EXPLAIN_ORDER] = "collectives in different orders: ",
        [EXPLAIN_MISSED] = "a rank misses a collective: ",
        [EXPLAIN_STREAM] = "a rank has not enqueued its part of a call on a stream: ",
        [EXPLAIN_LOCK] = "a rank waits while it holds the lock of a window: ",
        [EXPLAIN_PSCW] = "groups of MPI_Win_post and MPI_Win_start that do not meet: ",
    };
    fprintf(f, "kind: ");
    switch (v->kind) {
    case EXPLAIN_UNKNOWN:
        print_unknown(f, v);
        break;
    case EXPLAIN_LATE:
        print_late(f, all, v);
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
    case EXPLAIN_PARTS:
        print_parts(f, v);
        break;
    case EXPLAIN_NUMBER:
        print_number(f, all, ranks, v);
        break;
    case EXPLAIN_ORDER:
    case EXPLAIN_MISSED:
    case EXPLAIN_LOCK:
    case EXPLAIN_STREAM:
    case EXPLAIN_PSCW:
        fputs(pairs[v->kind], f);
        print_is_in(f, &v->b);
        fprintf(f, "; ");
        print_is_in(f, &v->a);
        break;
    }
    fprintf(f, "\n");
}
