/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes and edges: see edges.h. */
#include "launcher/explain/edges.h"

#include <stdlib.h>
#include <string.h>

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

int graph_node(struct graph *g, enum graph_mode mode)
{
    g->mode[g->nnodes] = (uint8_t)mode;
    return g->nnodes++;
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

/* All ranks of the communicator have entered this collective, in which none can stay behind the
 * others, and some of them have left it for the next one long ago. */
static void compare_numbers(struct graph *g, const struct graph_wait *low,
                            const struct graph_wait *high)
{
    const struct rt_wait_note *m = &low->wait->note, *n = &high->wait->note;
    if (g->behind.rank || m->number == n->number || !explain_coll_meets(m) ||
        strcmp(m->what, n->what) || !explain_is_old(low->rank, m) || !explain_is_old(high->rank, n))
        return;
    g->behind = (struct explain_ref){ low->rank, low->wait, NULL };
    g->ahead = (struct explain_ref){ high->rank, high->wait, NULL };
}

/* The collective waits w[0] to w[n - 1] of a communicator.  Those with the lowest number wait for
 * the ranks that are not among them, those with the next one for these and for the lowest, and so
 * on.  Each set exists twice: collectives that a rank may leave early wait for any of its ranks,
 * because it is not known which ones have left already. */
static void collectives(struct graph *g, struct graph_wait *w, int n, int mark)
{
    const struct rt_wait_comm *c = &w->wait->note.comm;
    int present = 0, set[2] = { graph_node(g, GRAPH_ALL), graph_node(g, GRAPH_ANY) };
    for (int i = 0; i < n; i++) {
        present += g->mark[w[i].rank->rank] != mark;
        g->mark[w[i].rank->rank] = mark;
    }
    bool empty = present >= c->size || !members(g, c, mark, set, 2);
    if (present >= c->size)
        compare_numbers(g, &w[0], &w[n - 1]);
    for (int i = 0, end; i < n; i = end) {
        for (end = i; end < n && w[end].wait->note.number == w[i].wait->note.number; end++) {
            w[end].before = empty ? -1 : set[!explain_coll_meets(&w[end].wait->note)];
            compare(g, &w[i], &w[end]);
        }
        for (int m = 0; m < 2 && end < n; m++) {
            int next = graph_node(g, m ? GRAPH_ANY : GRAPH_ALL);
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
    bool any = n->item.world == RT_WAIT_ANY || explain_is_lock(n);
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
            int set = graph_node(g, GRAPH_ANY_OTHER);
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
           (recv->kind == RT_WAIT_RECV || recv->kind == RT_WAIT_PROBE ||
            recv->kind == RT_WAIT_PARTS) &&
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
    if (item->kind == RT_WAIT_READY) /* only this rank marks its partitions */
        edge(g, from, w->rank->rank);
    else if (item->world >= 0 && item->world < g->total)
        edge(g, from, item->world);
    else if (item->world == RT_WAIT_ANY || item->kind == RT_WAIT_COLL)
        edge(g, from, item->ctx == w->wait->note.comm.ctx ? w->any : EVERY(g));
    else
        return false;
    return true;
}

/* Edges to the ranks that have published that they hold the lock; a rank outside MPI publishes
 * nothing.  False: none. */
static bool holders(struct graph *g, const struct graph_wait *w, int v)
{
    size_t before = g->nedges;
    for (int i = 0; i < g->nholders && g->nedges < EDGES_MAX(g); i++) {
        const struct graph_wait *h = &g->waits[g->holders[i]];
        if (h->rank != w->rank && explain_holds(&h->wait->note, &w->wait->note))
            edge(g, v, h->rank->rank);
    }
    return g->nedges > before;
}

/* The wait for a lock of a window is for its holders; the target has no part in it. */
static void lock_edges(struct graph *g, struct graph_wait *w, int v)
{
    w->unheld = !holders(g, w, v);
    if (w->unheld)
        edge(g, v, w->any);
}

static void wait_edges(struct graph *g, struct graph_wait *w, int v)
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
    if (!w->coll && !n->nreqs && explain_is_lock(n))
        lock_edges(g, w, v);
    else if (!w->coll && !n->nreqs && explain_in_finalize(n) && n->item.world < 0)
        edge(g, v, UNFINISHED(g));
    else if (!w->coll && !n->nreqs)
        item_edge(g, v, w, &n->item);
    bool target_gone = n->item.world >= 0 && n->item.world < g->total && g->gone[n->item.world];
    if (g->nedges == before || (other && g->mode[v] == GRAPH_ANY) ||
        (explain_polls(n) && !target_gone)) {
        g->live[v] = true;
        g->source[w->rank->rank] = !g->gone[w->rank->rank];
    }
    g->live[v] |= w->unheld;
}

/* A lock whose holder has not published it is held by a rank outside MPI; if there is none, nothing
 * is known. */
static void unheld_locks(struct graph *g)
{
    bool outside = false;
    for (int r = 0; r < g->total; r++)
        outside |= g->source[r];
    for (int i = 0; i < g->nwaits && !outside; i++)
        if (g->waits[i].unheld)
            g->source[g->waits[i].rank->rank] = g->live[g->waits[i].rank->rank] = true;
}

/* Nodes and edges of waits and ranks. */
static void waits_and_ranks(struct graph *g)
{
    g->first_wait = g->nnodes;
    for (int i = 0; i < g->nwaits; i++) {
        const char *call = g->waits[i].wait->note.call;
        bool any = !strcmp(call, "MPI_Waitany") || !strcmp(call, "MPI_Waitsome");
        int v = graph_node(g, any ? GRAPH_ANY : GRAPH_ALL);
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
    unheld_locks(g);
    for (int r = 0; r < g->total; r++) {
        if (g->needs_every)
            edge(g, EVERY(g), r);
        if (g->needs_unfinished && !g->gone[r])
            edge(g, UNFINISHED(g), r);
    }
}

void graph_edges(struct graph *g)
{
    for (int i = 0; i < g->nwaits; i++)
        if (g->waits[i].wait->note.nheld)
            g->holders[g->nholders++] = i;
    communicators(g);
    waits_and_ranks(g);
}
