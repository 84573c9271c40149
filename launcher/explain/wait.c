/* SPDX-License-Identifier: BSD-3-Clause */
/* What a published wait means: explain.h. */
#include "launcher/explain/explain.h"

#include <string.h>

bool explain_comm_known(const struct rt_wait_comm *c)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < c->nruns && i < RT_ACTIVITY_RUNS; i++) {
        if (c->runs[i].count < 0)
            return false;
        n += c->runs[i].count;
    }
    return c->nruns > 0 && c->nruns <= RT_ACTIVITY_RUNS && n == c->size;
}

int explain_comm_member(const struct rt_wait_comm *c, int i)
{
    uint32_t run = 0;
    for (; i >= c->runs[run].count; run++)
        i -= c->runs[run].count;
    return c->runs[run].first + i * c->runs[run].stride;
}

int explain_comm_cmp(const struct rt_wait_comm *a, const struct rt_wait_comm *b)
{
    if (a->ctx != b->ctx)
        return a->ctx < b->ctx ? -1 : 1;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return memcmp(a->runs, b->runs, sizeof a->runs);
}

static bool starts(const char *call, const char *with)
{
    return !strncmp(call, with, strlen(with));
}

static bool one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(name, *list))
            return true;
    return false;
}

/* The name of the procedure, without the "_c" of large counts.  A nonblocking collective is waited
 * for by another procedure, which says nothing. */
static const char *coll_call(const struct rt_wait_note *n, char buf[sizeof n->call])
{
    snprintf(buf, sizeof n->call, "%s", n->call);
    size_t len = strlen(buf);
    if (len > 2 && !strcmp(buf + len - 2, "_c"))
        buf[len - 2] = '\0';
    return starts(buf, "MPI_Wait") || explain_polls(n) ? "" : buf;
}

const char *explain_coll_differs(const struct rt_wait_note *a, const struct rt_wait_note *b)
{
    static const char *const equal_sizes[] = { "bcast",     "reduce",   "allreduce",
                                               "scan",      "exscan",   "reduce_scatter_block",
                                               "allgather", "alltoall", NULL };
    char x[sizeof a->call], y[sizeof b->call];
    const char *call_a = coll_call(a, x), *call_b = coll_call(b, y);
    if (strcmp(a->what, b->what) || (*call_a && *call_b && strcmp(call_a, call_b)))
        return "calls";
    if (a->root != b->root)
        return "roots";
    return a->item.nbytes != b->item.nbytes && one_of(a->what, equal_sizes) ? "sizes" : NULL;
}

bool explain_coll_meets(const struct rt_wait_note *n)
{
    static const char *const leave_early[] = { "bcast",     "scatter",   "scatterv", "reduce",
                                               "gather",    "gatherv",   "scan",     "exscan",
                                               "alltoallv", "alltoallw", NULL };
    return !one_of(n->what, leave_early) && !starts(n->what, "neighbor");
}

bool explain_polls(const struct rt_wait_note *n)
{
    return starts(n->call, "MPI_Test") || starts(n->call, "MPI_Iprobe") ||
           starts(n->call, "MPI_Improbe") || starts(n->call, "MPI_Request_get_status") ||
           starts(n->call, "MPI_Parrived");
}

/* A lock may be asked for at its first use, so that the unlock or flush waits for it. */
bool explain_is_lock(const struct rt_wait_note *n)
{
    return n->item.kind == RT_WAIT_TARGET &&
           (n->what[0] ? !strcmp(n->what, "lock")
                       : starts(n->call, "MPI_Win_lock") || starts(n->call, "MPI_Win_unlock"));
}

bool explain_holds(const struct rt_wait_note *n, const struct rt_wait_note *asked)
{
    bool found = false;
    for (uint32_t i = 0; i < n->nheld && i < RT_ACTIVITY_HELD; i++)
        found |= n->held[i].ctx == asked->comm.ctx &&
                 (n->held[i].world == RT_WAIT_ANY || asked->item.world == RT_WAIT_NOBODY ||
                  n->held[i].world == asked->item.world);
    return found;
}

/* Nanoseconds.  A program that makes thousands of collective calls a second is often seen with
 * some ranks a call ahead. */
#define OLD_NS 1000000000u
bool explain_is_old(const struct explain_rank *r, const struct rt_wait_note *n)
{
    return n->since_ns && r->now_ns > n->since_ns && r->now_ns - n->since_ns >= OLD_NS;
}

bool explain_is_enqueue(const struct rt_wait_note *n) { return strstr(n->call, "_enqueue"); }

bool explain_is_partitioned(const struct rt_wait_note *n)
{
    uint32_t kind = n->nreqs ? n->reqs[0].kind : n->item.kind;
    return kind == RT_WAIT_READY || kind == RT_WAIT_PARTS;
}

bool explain_is_pscw(const struct rt_wait_note *n)
{
    static const char *const calls[] = { "MPI_Win_post", "MPI_Win_start", "MPI_Win_complete",
                                         "MPI_Win_wait", NULL };
    return n->item.kind == RT_WAIT_TARGET &&
           (n->what[0] ? !strcmp(n->what, "pscw") : one_of(n->call, calls));
}

bool explain_in_finalize(const struct rt_wait_note *n)
{
    return n->item.kind == RT_WAIT_FINALIZE || !strcmp(n->call, "MPI_Finalize");
}

/* A thread in futex() waits for another one of its process. */
bool explain_is_outside(const struct explain_rank *r)
{
    if (r->state == EXPLAIN_BLOCKED && r->nwaits && !strcmp(r->detail, "futex"))
        return false;
    return r->state == EXPLAIN_RUNNING || r->state == EXPLAIN_SLEEPING ||
           r->state == EXPLAIN_BLOCKED || r->state == EXPLAIN_STOPPED;
}

bool explain_is_gone(const struct explain_rank *r)
{
    bool finalize = r->state == EXPLAIN_ENDED || (r->published && r->use == 2);
    for (int i = 0; i < r->nwaits && !finalize; i++)
        finalize = explain_in_finalize(&r->waits[i].note);
    return finalize;
}
