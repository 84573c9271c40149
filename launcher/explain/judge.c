/* SPDX-License-Identifier: BSD-3-Clause */
/* Which fault a wait-for graph shows.  Facts that are faults on their own come first, a different
 * collective and a message that matches nothing; then deadlocks; then ranks that are late. */
#include "launcher/explain/graph.h"
#include "runtime/base/err.h"

#include <stdlib.h>
#include <string.h>

static struct explain_ref ref(const struct graph_wait *w)
{
    return (struct explain_ref){ w->rank, w->wait, NULL };
}

/* The wait can never end, and others than the end of the job are needed for it. */
static bool is_stuck(const struct graph *g, int i)
{
    const struct rt_wait_note *n = &g->waits[i].wait->note;
    return !g->live[g->first_wait + i] && !g->live[g->waits[i].rank->rank] &&
           (!explain_in_finalize(n) || n->nreqs || n->item.world >= 0);
}

/* How surely the message `here` of rank `from` was meant for the receive `asked`; 0: it was not, or
 * it matches. */
static int misfit(const struct graph *g, const struct rt_wait_item *asked,
                  const struct rt_wait_item *here, int from)
{
    bool tag = asked->tag == EXPLAIN_ANY_TAG || asked->tag == here->tag,
         ctx = asked->ctx == here->ctx;
    if (here->kind == RT_WAIT_COLL || here->tag < 0 || from < 0)
        return 0;
    if (asked->world == from)
        return ctx && !tag ? 3 : tag && !ctx ? 2 : 0;
    return asked->world >= 0 && asked->world < g->total && g->gone[asked->world] && tag && ctx;
}

struct match {
    int score;
    struct explain_ref asked, here;
};

static void consider(const struct graph *g, struct match *best, const struct explain_ref *asked,
                     const struct explain_ref *sender, const struct rt_wait_item *here, int from)
{
    int score = misfit(g, asked->item, here, from);
    if (score > best->score)
        *best = (struct match){ score, *asked, { sender->rank, sender->wait, here } };
}

/* The messages that have arrived, and the one that the other process waits to send. */
static void match_receive(const struct graph *g, struct match *best,
                          const struct explain_ref *asked)
{
    const struct rt_wait_note *n = &asked->wait->note;
    for (uint32_t k = 0; k < n->nunex && k < RT_ACTIVITY_UNEX; k++) {
        int from = n->unex[k].world;
        struct explain_ref sender = { .rank = from >= 0 && from < g->total ? g->at[from] : NULL };
        consider(g, best, asked, &sender, &n->unex[k], from);
    }
    int from = asked->item->world;
    const struct explain_rank *r = from >= 0 && from < g->total ? g->at[from] : NULL;
    for (int i = 0; r && i < r->nwaits; i++) {
        const struct rt_wait_note *m = &r->waits[i].note;
        struct explain_ref sender = { r, &r->waits[i], NULL };
        for (uint32_t k = 0; k < m->nreqs && k < RT_ACTIVITY_REQS; k++)
            if (m->reqs[k].kind == RT_WAIT_SEND && m->reqs[k].world == asked->rank->rank)
                consider(g, best, asked, &sender, &m->reqs[k], from);
        if (m->item.kind == RT_WAIT_SEND && m->item.world == asked->rank->rank)
            consider(g, best, asked, &sender, &m->item, from);
    }
}

static bool receives(const struct rt_wait_item *item)
{
    return item->kind == RT_WAIT_RECV || item->kind == RT_WAIT_PROBE;
}

static bool find_unmatched(const struct graph *g, struct explain_verdict *v)
{
    struct match best = { 0 };
    for (int i = 0; i < g->nwaits; i++) {
        const struct rt_wait_note *n = &g->waits[i].wait->note;
        struct explain_ref asked = ref(&g->waits[i]);
        if (!is_stuck(g, i))
            continue;
        if (receives(&n->item)) {
            asked.item = &n->item;
            match_receive(g, &best, &asked);
        }
        for (uint32_t k = 0; k < n->nreqs && k < RT_ACTIVITY_REQS; k++)
            if (receives(&n->reqs[k])) {
                asked.item = &n->reqs[k];
                match_receive(g, &best, &asked);
            }
    }
    if (!best.score)
        return false;
    v->kind = EXPLAIN_UNMATCHED;
    v->a = best.asked;
    v->b = best.here;
    v->roots[v->nroots++] = best.asked.item->world;
    return true;
}

/* Ranks that are gone, for which a wait asks directly or through sets. */
static bool find_gone(struct graph *g, struct explain_verdict *v)
{
    int n = 0;
    memset(g->seen, 0, (size_t)g->nnodes * sizeof *g->seen);
    for (int i = 0; i < g->nwaits; i++)
        if (is_stuck(g, i) && g->lost[g->first_wait + i]) {
            g->queue[n++] = g->first_wait + i;
            if (!v->a.rank)
                v->a = ref(&g->waits[i]);
        }
    for (int i = 0; i < n; i++)
        for (int k = g->out.begin[g->queue[i]]; k < g->out.begin[g->queue[i] + 1]; k++) {
            int to = g->out.to[k];
            if (to >= g->total && g->lost[to] && !g->seen[to])
                g->queue[n++] = to;
            g->seen[to] = true;
        }
    for (int r = 0; r < g->total; r++)
        if (g->gone[r] && g->seen[r])
            v->roots[v->nroots++] = r;
    v->kind = EXPLAIN_GONE;
    return n > 0;
}

/* The kind of a cycle, and where in it the wait is that shows it. */
static enum explain_kind cycle_kind(const struct graph *g, const int *path, int n, int *at)
{
    int coll = -1;
    bool order = false;
    for (int i = 0; i < n; i++) {
        if (path[i] < g->first_wait)
            continue;
        const struct graph_wait *w = &g->waits[path[i] - g->first_wait];
        bool lock = explain_is_lock(&w->wait->note);
        *at = i;
        if (lock || explain_is_pscw(&w->wait->note))
            return lock ? EXPLAIN_LOCK : EXPLAIN_PSCW;
        if (explain_is_enqueue(&w->wait->note))
            return EXPLAIN_STREAM;
        if (explain_is_partitioned(&w->wait->note))
            return EXPLAIN_PARTS;
        if (w->coll && coll < 0)
            coll = i;
        order |= w->coll && explain_comm_cmp(&w->wait->note.comm,
                                             &g->waits[path[coll] - g->first_wait].wait->note.comm);
    }
    *at = coll < 0 ? 1 : coll;
    return coll < 0 ? EXPLAIN_CYCLE : order ? EXPLAIN_ORDER : EXPLAIN_MISSED;
}

/* Turns the cycle so that its lowest rank is first, and that rank's wait the next one. */
static void turn(struct graph *g, int *path, int n)
{
    int low = 0;
    for (int i = 0; i < n; i++)
        if (path[i] < path[low])
            low = i;
    memcpy(g->queue, path, (size_t)n * sizeof *path);
    for (int i = 0; i < n; i++)
        path[i] = g->queue[(i + low) % n];
}

static void describe_cycle(struct graph *g, struct explain_verdict *v, int *path, int n)
{
    int at;
    turn(g, path, n);
    v->kind = cycle_kind(g, path, n, &at);
    for (int i = 0; i < n; i++)
        v->knot |= path[i] >= g->total && g->mode[path[i]] == GRAPH_ANY_OTHER;
    v->a = ref(&g->waits[path[at] - g->first_wait]);
    int next = at;
    while (path[next % n] >= g->total)
        next++;
    v->b = ref(&g->waits[path[(next + 1) % n] - g->first_wait]);
    if (v->knot) {
        v->kind = EXPLAIN_CYCLE;
        graph_reach(g, &g->out, path, n, true);
        for (int r = 0; r < g->total; r++)
            if (g->seen[r] && !g->gone[r])
                v->roots[v->nroots++] = r;
    } else if (v->kind == EXPLAIN_CYCLE || v->kind == EXPLAIN_ORDER) {
        for (int i = 0; i < n; i++)
            if (path[i] < g->total)
                v->roots[v->nroots++] = path[i];
    } else
        v->roots[v->nroots++] = path[next % n];
}

/* 1: there is a cycle. */
static int find_cycle(struct graph *g, struct explain_verdict *v)
{
    int n, *path = graph_cycle(g, &n);
    if (!path)
        return -RT_ENOMEM;
    if (n > 0)
        describe_cycle(g, v, path, n);
    free(path);
    return n > 0;
}

static bool find_number(const struct graph *g, struct explain_verdict *v)
{
    v->kind = EXPLAIN_NUMBER;
    v->a = g->behind;
    v->b = g->ahead;
    return v->a.rank != NULL;
}

/* No rank is in a deadlock: who keeps the others waiting?  Outside MPI for the longest time. */
static void find_late(struct graph *g, struct explain_verdict *v)
{
    int n = 0;
    for (int r = 0; r < g->total; r++)
        if (g->at[r] && g->at[r]->nwaits)
            v->roots[n++] = r;
    graph_reach(g, &g->out, v->roots, n, false);
    for (int r = 0; r < g->total; r++) {
        const struct explain_rank *p = g->at[r], *a = v->a.rank;
        bool outside = p && explain_is_outside(p);
        if (!g->source[r] || (!g->seen[r] && !(p && p->nwaits)))
            continue;
        v->roots[v->nroots++] = r;
        if (!p || (a && outside < explain_is_outside(a)))
            continue;
        if (!a || outside > explain_is_outside(a) ||
            p->now_ns - p->left_ns > a->now_ns - a->left_ns)
            v->a = (struct explain_ref){ p, outside || !p->nwaits ? NULL : &p->waits[0], NULL };
    }
    v->kind = v->a.rank && explain_is_outside(v->a.rank) ? EXPLAIN_LATE : EXPLAIN_UNKNOWN;
    if (v->a.wait && v->a.wait->note.item.kind == RT_WAIT_COLL)
        v->nroots = 0; /* they wait for none of them, but for what carries the collective out */
}

/* Ranks that wait for the roots; those of a cycle are among them. */
static void count(struct graph *g, struct explain_verdict *v, bool dead)
{
    bool among = v->kind == EXPLAIN_CYCLE || v->kind == EXPLAIN_ORDER || v->kind == EXPLAIN_PARTS;
    graph_reach(g, &g->in, v->roots, v->nroots, dead);
    for (int i = 0; i < v->nroots && !among; i++)
        if (v->roots[i] >= 0)
            g->seen[v->roots[i]] = false;
    for (int r = 0; r < g->total; r++)
        v->nwait += g->at[r] && g->at[r]->nwaits && (g->seen[r] || !v->nroots);
}

static int judge(struct graph *g, struct explain_verdict *v)
{
    int found = g->differ_a.rank != NULL;
    if (found) {
        v->kind = EXPLAIN_MISMATCH;
        v->a = g->differ_a;
        v->b = g->differ_b;
    }
    found = found || find_unmatched(g, v) || find_gone(g, v);
    if (!found)
        found = find_cycle(g, v);
    if (found < 0)
        return found;
    found = found || find_number(g, v);
    if (!found)
        find_late(g, v);
    count(g, v, found);
    return 0;
}

int explain_judge(const struct explain_job *job, struct explain_verdict *out)
{
    struct graph g;
    *out = (struct explain_verdict){ .roots = malloc(((size_t)job->total + 1) * sizeof(int)) };
    int err = out->roots ? graph_build(&g, job) : -RT_ENOMEM;
    if (!err)
        err = judge(&g, out);
    if (out->roots)
        graph_fini(&g);
    if (err < 0)
        explain_verdict_fini(out);
    return err;
}

void explain_verdict_fini(struct explain_verdict *v)
{
    free(v->roots);
    *v = (struct explain_verdict){ 0 };
}
