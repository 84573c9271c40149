/* SPDX-License-Identifier: BSD-3-Clause */
/* The wait-for graph: see graph.h. */
#include "launcher/explain/graph.h"
#include "launcher/explain/edges.h"
#include "runtime/base/err.h"

#include <stdlib.h>
#include <string.h>

static int by_comm(const void *a, const void *b)
{
    const struct graph_wait *x = a, *y = b;
    const struct rt_wait_note *m = &x->wait->note, *n = &y->wait->note;
    int cmp = explain_comm_cmp(&m->comm, &n->comm);
    if (cmp)
        return cmp;
    if (x->coll != y->coll)
        return x->coll ? -1 : 1;
    if (x->coll && m->number != n->number)
        return m->number < n->number ? -1 : 1;
    return x->rank->rank - y->rank->rank;
}

/* Ranks, waits, and room for all nodes: each wait needs at most four. */
static int init(struct graph *g, const struct explain_job *job)
{
    *g = (struct graph){ .job = job, .total = job->total };
    for (int i = 0; i < job->nranks; i++)
        g->nwaits += job->ranks[i].nwaits;
    size_t total = (size_t)g->total, n = total + 2 + 4 * (size_t)g->nwaits;
    g->at = calloc(total + 1, sizeof *g->at);
    g->waits = calloc((size_t)g->nwaits + 1, sizeof *g->waits);
    g->gone = calloc(total + 1, sizeof *g->gone);
    g->source = calloc(total + 1, sizeof *g->source);
    g->mode = calloc(n, sizeof *g->mode);
    g->live = calloc(n, sizeof *g->live);
    g->lost = calloc(n, sizeof *g->lost);
    g->seen = calloc(n, sizeof *g->seen);
    g->queue = calloc(n + total, sizeof *g->queue);
    g->mark = calloc(n, sizeof *g->mark);
    g->holders = calloc((size_t)g->nwaits + 1, sizeof *g->holders);
    if (!g->at || !g->waits || !g->gone || !g->source || !g->mode || !g->live || !g->lost ||
        !g->seen || !g->queue || !g->mark || !g->holders)
        return -RT_ENOMEM;
    struct graph_wait *w = g->waits;
    for (int i = 0; i < job->nranks; i++) {
        const struct explain_rank *r = &job->ranks[i];
        g->at[r->rank] = r;
        g->gone[r->rank] = explain_is_gone(r);
        for (int k = 0; k < r->nwaits; k++)
            *w++ = (struct graph_wait){
                r,
                &r->waits[k],
                r->waits[k].note.item.kind == RT_WAIT_COLL && !g->gone[r->rank],
                EVERY(g),
                -1,
                false
            };
    }
    qsort(g->waits, (size_t)g->nwaits, sizeof *g->waits, by_comm);
    memset(g->mode, GRAPH_ANY, total);
    g->nnodes = g->total;
    graph_node(g, GRAPH_ANY_OTHER);
    graph_node(g, GRAPH_ALL);
    return 0;
}

/* Sorts the edges by their end `from`, and keeps their order otherwise. */
static int sort_links(const struct graph *g, struct graph_links *l, int from)
{
    l->begin = calloc((size_t)g->nnodes + 2, sizeof *l->begin);
    l->to = malloc((g->nedges + 1) * sizeof *l->to);
    if (!l->begin || !l->to)
        return -RT_ENOMEM;
    for (size_t i = 0; i < g->nedges; i++)
        l->begin[g->edges[i][from] + 2]++;
    for (int v = 0; v < g->nnodes; v++)
        l->begin[v + 2] += l->begin[v + 1];
    for (size_t i = 0; i < g->nedges; i++)
        l->to[l->begin[g->edges[i][from] + 1]++] = g->edges[i][!from];
    return 0;
}

/* From the nodes that may continue to those that wait for them. */
static void spread(struct graph *g)
{
    int n = 0;
    for (int v = 0; v < g->nnodes; v++) {
        g->mark[v] = g->out.begin[v + 1] - g->out.begin[v];
        g->live[v] |= g->mode[v] == GRAPH_ALL && !g->mark[v];
        if (g->live[v])
            g->queue[n++] = v;
    }
    for (int i = 0; i < n; i++)
        for (int k = g->in.begin[g->queue[i]]; k < g->in.begin[g->queue[i] + 1]; k++) {
            int v = g->in.to[k];
            if (g->live[v] || (v < g->total && g->gone[v]))
                continue;
            if (g->mode[v] != GRAPH_ALL || !--g->mark[v]) {
                g->live[v] = true;
                g->queue[n++] = v;
            }
        }
}

/* Sets lead only to sets with lower numbers and to ranks, waits only to sets and ranks. */
static void lose(struct graph *g)
{
    for (int v = g->total; v < g->nnodes; v++) {
        int n = g->out.begin[v + 1] - g->out.begin[v], nlost = 0;
        for (int k = g->out.begin[v]; k < g->out.begin[v + 1]; k++) {
            int to = g->out.to[k];
            nlost += to < g->total ? g->gone[to] : g->lost[to];
        }
        g->lost[v] = !g->live[v] && nlost &&
                     nlost >= (g->mode[v] == GRAPH_ALL   ? 1
                               : g->mode[v] == GRAPH_ANY ? n
                                                         : n - 1);
    }
}

int graph_build(struct graph *g, const struct explain_job *job)
{
    if (init(g, job) < 0)
        return -RT_ENOMEM;
    graph_edges(g);
    if (g->nomem || sort_links(g, &g->out, 0) < 0 || sort_links(g, &g->in, 1) < 0)
        return -RT_ENOMEM;
    spread(g);
    lose(g);
    return 0;
}

void graph_fini(struct graph *g)
{
    void *all[] = { g->at,       g->waits, g->gone,  g->source, g->mode,      g->live,
                    g->lost,     g->seen,  g->queue, g->edges,  g->out.begin, g->out.to,
                    g->in.begin, g->in.to, g->mark,  g->holders };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

void graph_reach(struct graph *g, const struct graph_links *l, const int *roots, int n, bool dead)
{
    memset(g->seen, 0, (size_t)g->nnodes * sizeof *g->seen);
    memcpy(g->queue, roots, (size_t)n * sizeof *roots);
    for (int i = 0; i < n; i++)
        for (int k = l->begin[g->queue[i]]; k < l->begin[g->queue[i] + 1]; k++)
            if (!g->seen[l->to[k]] && !(dead && g->live[l->to[k]])) {
                g->seen[l->to[k]] = true;
                g->queue[n++] = l->to[k];
            }
}

/* The k-th successor of v, if a deadlock can lead there; otherwise -1. */
static int dead_end(const struct graph *g, int k)
{
    int v = g->out.to[k];
    return g->live[v] || (v < g->total && g->gone[v]) ? -1 : v;
}

/* Follows waits until a node occurs again, and leaves the cycle at the end of path[].  Its length;
 * 0: the way ends, or reaches an earlier one. */
static int walk(const struct graph *g, int from, int *path, int *len)
{
    int begin = *len, v = from;
    while (v >= 0 && !g->mark[v]) {
        path[(*len)++] = v;
        g->mark[v] = *len;
        int next = -1;
        for (int k = g->out.begin[v]; k < g->out.begin[v + 1] && next < 0; k++)
            next = dead_end(g, k);
        v = next;
    }
    return v < 0 || g->mark[v] <= begin ? 0 : *len - g->mark[v] + 1;
}

/* The shortest cycle through `from`, if it is shorter than *n. */
static void shorten(struct graph *g, int from, int *path, int *n)
{
    int len = 1, end = -1;
    memset(g->mark, -1, (size_t)g->nnodes * sizeof *g->mark);
    g->queue[0] = from;
    for (int i = 0; i < len && end < 0; i++)
        for (int v = g->queue[i], k = g->out.begin[v]; k < g->out.begin[v + 1] && end < 0; k++) {
            int to = dead_end(g, k);
            if (to == from)
                end = v;
            else if (to >= 0 && g->mark[to] < 0) {
                g->mark[to] = v; /* the way back */
                g->queue[len++] = to;
            }
        }
    int steps = 1;
    for (int v = end; v >= 0 && v != from; v = g->mark[v])
        steps++;
    if (end < 0 || steps >= *n)
        return;
    *n = steps;
    for (int v = end; steps--; v = g->mark[v])
        path[steps] = v;
}

int *graph_cycle(struct graph *g, int *n)
{
    enum { TRIES = 8 }; /* ranks of the first cycle through which a shorter one is sought */
    int *path = malloc((size_t)g->nnodes * sizeof *path + 1), tries[TRIES], ntries = 0, len = 0;
    *n = 0;
    if (!path)
        return NULL;
    memset(g->mark, 0, (size_t)g->nnodes * sizeof *g->mark);
    for (int r = 0; r < g->total && !*n; r++)
        if (!g->live[r] && !g->gone[r])
            *n = walk(g, r, path, &len);
    memmove(path, path + len - *n, (size_t)*n * sizeof *path);
    for (int i = 0; i < *n && ntries < TRIES; i++)
        if (path[i] < g->total)
            tries[ntries++] = path[i];
    for (int i = 0; i < ntries; i++)
        shorten(g, tries[i], path, n);
    return path;
}
