/* SPDX-License-Identifier: BSD-3-Clause */
/* The wait-for graph: see graph.h. */
#include "launcher/explain/graph.h"
#include "runtime/base/err.h"

#include <stdlib.h>
#include <string.h>

/* The first sets. */
#define EVERY(g) ((g)->total)          /* any rank of the job */
#define UNFINISHED(g) ((g)->total + 1) /* all ranks that are not in MPI_Finalize */

/* From here on a communicator's ranks are not listed, but taken to be any ranks of the job. */
#define EDGES_MAX(g) (64 * ((size_t)(g)->total + (size_t)(g)->nwaits))

static void edge(struct graph *g, int from, int to)
{
    if (g->nedges == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 1024;
        void *p = realloc(g->edges, cap * sizeof *g->edges);
        if (!p) {
            g->nomem = true;
            return;
        }
        g->edges = p;
        g->cap = cap;
    }
    g->needs_every |= to == EVERY(g);
    g->needs_unfinished |= to == UNFINISHED(g);
    g->edges[g->nedges][0] = from;
    g->edges[g->nedges++][1] = to;
}

static int node(struct graph *g, enum graph_mode mode)
{
    g->mode[g->nnodes] = (uint8_t)mode;
    return g->nnodes++;
}

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
    if (!g->at || !g->waits || !g->gone || !g->source || !g->mode || !g->live || !g->lost ||
        !g->seen || !g->queue || !g->mark)
        return -RT_ENOMEM;
    struct graph_wait *w = g->waits;
    for (int i = 0; i < job->nranks; i++) {
        const struct explain_rank *r = &job->ranks[i];
        g->at[r->rank] = r;
        g->gone[r->rank] = explain_is_gone(r);
        for (int k = 0; k < r->nwaits; k++)
            *w++ = (struct graph_wait){ r, &r->waits[k],
                                        r->waits[k].note.item.kind == RT_WAIT_COLL &&
                                            !g->gone[r->rank],
                                        EVERY(g), -1 };
    }
    qsort(g->waits, (size_t)g->nwaits, sizeof *g->waits, by_comm);
    memset(g->mode, GRAPH_ANY, total);
    g->nnodes = g->total;
    node(g, GRAPH_ANY_OTHER);
    node(g, GRAPH_ALL);
    return 0;
}

/* Edges from the nodes from[] to the communicator's ranks without this mark.  False: there are
 * none.
 */
static bool members(struct graph *g, const struct rt_wait_comm *c, int mark, const int *from,
                    int nfrom)
{
    size_t before = g->nedges;
    bool listed = explain_comm_known(c) && c->size <= g->total && g->nedges < EDGES_MAX(g);
    for (int k = 0; k < nfrom && !listed; k++)
        edge(g, from[k], EVERY(g));
    for (int i = 0; i < c->size && listed; i++) {
        int r = explain_comm_member(c, i);
        for (int k = 0; k < nfrom && r >= 0 && r < g->total && g->mark[r] != mark; k++)
            edge(g, from[k], r);
    }
    return g->nedges > before;
}

static void compare(struct graph *g, const struct graph_wait *a, const struct graph_wait *b)
{
    if (!g->differ_a.rank && explain_comm_known(&a->wait->note.comm) &&
        explain_coll_differs(&a->wait->note, &b->wait->note)) {
        g->differ_a = (struct explain_ref){ a->rank, a->wait, NULL };
        g->differ_b = (struct explain_ref){ b->rank, b->wait, NULL };
    }
}

/* The collective waits w[0] to w[n - 1] of a communicator.  Those with the lowest number wait for
 * the ranks that are not among them, those with the next one for these and for the lowest, and so
 * on.  Each set exists twice: collectives that a rank may leave early wait for any of its ranks,
 * because it is not known which ones have left already. */
static void collectives(struct graph *g, struct graph_wait *w, int n, int mark)
{
    const struct rt_wait_comm *c = &w->wait->note.comm;
    int present = 0, set[2] = { node(g, GRAPH_ALL), node(g, GRAPH_ANY) };
    for (int i = 0; i < n; i++) {
        present += g->mark[w[i].rank->rank] != mark;
        g->mark[w[i].rank->rank] = mark;
    }
    bool empty = present >= c->size || !members(g, c, mark, set, 2);
    for (int i = 0, end; i < n; i = end) {
        for (end = i; end < n && w[end].wait->note.number == w[i].wait->note.number; end++) {
            w[end].before = empty ? -1 : set[!explain_coll_meets(&w[end].wait->note)];
            compare(g, &w[i], &w[end]);
        }
        for (int m = 0; m < 2 && end < n; m++) {
            int next = node(g, m ? GRAPH_ANY : GRAPH_ALL);
            if (!empty)
                edge(g, next, set[m]);
            set[m] = next;
            for (int k = i; k < end; k++)
                edge(g, next, w[k].rank->rank);
        }
        empty = false;
    }
}

static bool names_any(const struct rt_wait_note *n)
{
    bool any = n->item.world == RT_WAIT_ANY;
    for (uint32_t i = 0; i < n->nreqs && i < RT_ACTIVITY_REQS; i++)
        any |= n->reqs[i].world == RT_WAIT_ANY || n->reqs[i].kind == RT_WAIT_COLL;
    return any;
}

/* The sets of all communicators. */
static void communicators(struct graph *g)
{
    for (int i = 0, end; i < g->nwaits; i = end) {
        const struct rt_wait_comm *c = &g->waits[i].wait->note.comm;
        int ncoll = 0;
        bool any = false;
        for (end = i; end < g->nwaits && !explain_comm_cmp(&g->waits[end].wait->note.comm, c);
             end++) {
            ncoll += g->waits[end].coll;
            any |= names_any(&g->waits[end].wait->note);
        }
        if (ncoll)
            collectives(g, &g->waits[i], ncoll, i + 1);
        if (any && c->ctx) {
            int set = node(g, GRAPH_ANY_OTHER);
            members(g, c, -1, &set, 1);
            for (int k = i; k < end; k++)
                g->waits[k].any = set;
        }
    }
}

/* Whether `there` is the other half of `mine`, a message of rank `me`. */
static bool is_half(const struct rt_wait_item *mine, int me, const struct rt_wait_item *there)
{
    const struct rt_wait_item *send = mine->kind == RT_WAIT_SEND ? mine : there;
    const struct rt_wait_item *recv = mine->kind == RT_WAIT_SEND ? there : mine;
    return send->kind == RT_WAIT_SEND &&
           (recv->kind == RT_WAIT_RECV || recv->kind == RT_WAIT_PROBE) &&
           (there->world == me || there->world == RT_WAIT_ANY) && send->ctx == recv->ctx &&
           (send->tag == recv->tag || recv->tag == EXPLAIN_ANY_TAG);
}

/* Whether `item` is one half of a long message that is being transferred: the peer waits in the
 * matching send or receive. */
static bool is_under_way(const struct graph *g, const struct graph_wait *w,
                         const struct rt_wait_item *item)
{
    const struct explain_rank *peer = item->world >= 0 && item->world < g->total
                                          ? g->at[item->world]
                                          : NULL;
    bool found = false;
    for (int i = 0; peer && i < peer->nwaits; i++) {
        const struct rt_wait_note *n = &peer->waits[i].note;
        found = found || is_half(item, w->rank->rank, &n->item);
        for (uint32_t k = 0; k < n->nreqs && k < RT_ACTIVITY_REQS; k++)
            found = found || is_half(item, w->rank->rank, &n->reqs[k]);
    }
    return found;
}

/* Whether `item` names a process of this job. */
static bool item_edge(struct graph *g, int from, const struct graph_wait *w,
                      const struct rt_wait_item *item)
{
    if (is_under_way(g, w, item))
        return g->mode[from] != GRAPH_ANY;
    if (item->world >= 0 && item->world < g->total)
        edge(g, from, item->world);
    else if (item->world == RT_WAIT_ANY || item->kind == RT_WAIT_COLL)
        edge(g, from, item->ctx == w->wait->note.comm.ctx ? w->any : EVERY(g));
    else
        return false;
    return true;
}

static void wait_edges(struct graph *g, const struct graph_wait *w, int v)
{
    const struct rt_wait_note *n = &w->wait->note;
    size_t before = g->nedges;
    bool other = false; /* something that is no process of this job may end the wait, too */
    if (w->coll && w->before >= 0)
        edge(g, v, w->before);
    for (uint32_t i = 0; i < n->nreqs && i < RT_ACTIVITY_REQS && !w->coll; i++)
        other |= !item_edge(g, v, w, &n->reqs[i]);
    if (n->nreqs > RT_ACTIVITY_REQS && g->mode[v] == GRAPH_ANY)
        edge(g, v, EVERY(g));
    if (!w->coll && !n->nreqs && explain_in_finalize(n) && n->item.world < 0)
        edge(g, v, UNFINISHED(g));
    else if (!w->coll && !n->nreqs)
        item_edge(g, v, w, &n->item);
    bool target_gone = n->item.world >= 0 && n->item.world < g->total && g->gone[n->item.world];
    if (g->nedges == before || (other && g->mode[v] == GRAPH_ANY) ||
        (explain_polls(n) && !target_gone)) {
        g->live[v] = true;
        g->source[w->rank->rank] = !g->gone[w->rank->rank];
    }
}

/* Nodes and edges of waits and ranks. */
static void waits_and_ranks(struct graph *g)
{
    g->first_wait = g->nnodes;
    for (int i = 0; i < g->nwaits; i++) {
        const char *call = g->waits[i].wait->note.call;
        bool any = !strcmp(call, "MPI_Waitany") || !strcmp(call, "MPI_Waitsome");
        int v = node(g, any ? GRAPH_ANY : GRAPH_ALL);
        wait_edges(g, &g->waits[i], v);
        edge(g, g->waits[i].rank->rank, v);
    }
    for (int r = 0; r < g->total; r++) {
        const struct explain_rank *p = g->at[r];
        g->source[r] |= !p || (!g->gone[r] && (!p->nwaits || explain_is_outside(p)));
        g->live[r] = g->source[r];
        if (p && p->nwaits && p->nhidden)
            edge(g, r, EVERY(g));
    }
    for (int r = 0; r < g->total; r++) {
        if (g->needs_every)
            edge(g, EVERY(g), r);
        if (g->needs_unfinished && !g->gone[r])
            edge(g, UNFINISHED(g), r);
    }
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
    communicators(g);
    waits_and_ranks(g);
    if (g->nomem || sort_links(g, &g->out, 0) < 0 || sort_links(g, &g->in, 1) < 0)
        return -RT_ENOMEM;
    spread(g);
    lose(g);
    return 0;
}

void graph_fini(struct graph *g)
{
    void *all[] = { g->at,        g->waits,  g->gone,     g->source, g->mode,
                    g->live,      g->lost,   g->seen,     g->queue,  g->edges,
                    g->out.begin, g->out.to, g->in.begin, g->in.to,  g->mark };
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
