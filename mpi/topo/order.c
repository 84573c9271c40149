/* SPDX-License-Identifier: BSD-3-Clause */
/* Places processes on the nodes of a graph.  Two orders are tried.  The first gives the nodes, in
 * their order, to the processes sorted by place in the hardware.  The second divides the graph into
 * regions, one for each host, and each of these into one for each package, and so on; a region
 * grows by the node that adds least to the edges across its border.  The cheaper order is used if
 * it costs less than the ranks as they are.  All processes compute the same result from the same
 * data.  wm_topo_order() is called without the domain's lock. */
#include "mpi/topo/order.h"
#include "mpi/coll/exch.h"
#include "mpi/p2p/domain.h"
#include "runtime/topo/topo.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Growing takes time that is quadratic in the nodes: a tenth of a second for this many. */
#define GROW_NODES_MAX 8192

/* Cost of a message between processes that share everything down to the level before.  Half round
 * trips between cores of one L3 take about 50 ns, across L3 caches twice that, across packages
 * twice again, and between hosts 1 us and more; hardware threads of one core are nearest. */
static const int level_cost[WM_PLACE_LEVELS] = { 64, 8, 4, 2 };

static int distance(const struct wm_place *a, const struct wm_place *b)
{
    for (int i = 0; i < WM_PLACE_LEVELS; i++)
        if (a->at[i] != b->at[i])
            return level_cost[i];
    return 1;
}

int64_t wm_topo_cost(const struct wm_adj *g, const struct wm_place *places, const int *order)
{
    int64_t sum = 0;
    for (int i = 0, e = 0; i < g->n; i++)
        for (; e < g->index[i]; e++) {
            int a = order ? order[i] : i, b = order ? order[g->edges[e]] : g->edges[e];
            if (a != b)
                sum += (int64_t)(g->weights ? g->weights[e] : 1) * distance(&places[a], &places[b]);
        }
    return sum;
}

struct grown {
    const struct wm_place *places;
    int *start, *to; /* neighbours of node i in both directions: to[start[i] .. start[i+1]) */
    int *weight;     /* of these edges */
    int *part;       /* of each node; a region takes nodes of one part and makes a new one */
    int *hops;       /* from the region's first node */
    int *queue;
    int64_t *gain; /* weight of edges into the region, less that of edges out of it */
    int *order;    /* the result */
    int nparts;
};

/* How far the nodes of the part are from `first`.  Among nodes of equal gain pick() takes the
 * nearest, so that regions stay compact. */
static void count_hops(struct grown *s, int part, const int *nodes, int n, int first)
{
    int head = 0, tail = 0;
    for (int i = 0; i < n; i++)
        s->hops[nodes[i]] = INT_MAX;
    s->hops[first] = 0;
    s->queue[tail++] = first;
    while (head < tail) {
        int v = s->queue[head++];
        for (int e = s->start[v]; e < s->start[v + 1]; e++) {
            int w = s->to[e];
            if (s->part[w] != part || s->hops[w] != INT_MAX)
                continue;
            s->hops[w] = s->hops[v] + 1;
            s->queue[tail++] = w;
        }
    }
}

/* The node of the part that is best for the region. */
static int pick(const struct grown *s, int part, const int *nodes, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++) {
        int v = nodes[i];
        if (s->part[v] != part)
            continue;
        if (best < 0 || s->gain[v] > s->gain[best] ||
            (s->gain[v] == s->gain[best] && s->hops[v] < s->hops[best]))
            best = v;
    }
    return best;
}

/* Takes m of the n nodes, all of one part, into a new part, and moves them to the front; both
 * halves stay in ascending order. */
static void grow(struct grown *s, int *nodes, int n, int m)
{
    int part = s->part[nodes[0]], fresh = ++s->nparts, at = 0, rest = 0;
    for (int i = 0; i < n; i++) {
        int v = nodes[i];
        s->hops[v] = 0;
        s->gain[v] = 0;
        for (int e = s->start[v]; e < s->start[v + 1]; e++)
            if (s->part[s->to[e]] == part)
                s->gain[v] -= s->weight[e];
    }
    for (int k = 0; k < m; k++) {
        int v = pick(s, part, nodes, n);
        if (k == 0)
            count_hops(s, part, nodes, n, v);
        s->part[v] = fresh;
        for (int e = s->start[v]; e < s->start[v + 1]; e++)
            s->gain[s->to[e]] += 2 * (int64_t)s->weight[e];
    }
    for (int i = 0; i < n; i++) {
        int v = nodes[i];
        if (s->part[v] == fresh)
            nodes[at++] = v;
        else
            s->queue[rest++] = v;
    }
    memcpy(nodes + at, s->queue, (size_t)rest * sizeof *nodes);
}

/* Gives n nodes of one part to n processes, sorted by place and equal above `level`. */
static void assign(struct grown *s, int *nodes, const int *procs, int n, int level)
{
    if (level == WM_PLACE_LEVELS || n == 1) {
        for (int i = 0; i < n; i++)
            s->order[nodes[i]] = procs[i];
        return;
    }
    for (int from = 0, to; from < n; from = to) {
        uint64_t here = s->places[procs[from]].at[level];
        for (to = from + 1; to < n && s->places[procs[to]].at[level] == here;)
            to++;
        if (to < n)
            grow(s, nodes + from, n - from, to - from);
        assign(s, nodes + from, procs + from, to - from, level + 1);
    }
}

/* Both directions of every edge but self-loops.  start[i + 1] first counts the edges of node i,
 * then is where they begin, and advances with each edge that is stored: at the end it is where the
 * edges of node i end and those of node i + 1 begin. */
static void both_ways(struct grown *s, const struct wm_adj *g)
{
    for (int i = 0, e = 0; i < g->n; i++)
        for (; e < g->index[i]; e++) {
            s->start[i + 1] += g->edges[e] != i;
            s->start[g->edges[e] + 1] += g->edges[e] != i;
        }
    for (int i = 1, at = 0; i <= g->n; i++) {
        int count = s->start[i];
        s->start[i] = at;
        at += count;
    }
    for (int i = 0, e = 0; i < g->n; i++)
        for (; e < g->index[i]; e++) {
            int j = g->edges[e];
            if (i == j)
                continue;
            int a = s->start[i + 1]++, b = s->start[j + 1]++;
            s->to[a] = j;
            s->to[b] = i;
            s->weight[a] = s->weight[b] = g->weights ? g->weights[e] : 1;
        }
}

/* procs[] is the processes sorted by place. */
static int grow_all(const struct wm_adj *g, const struct wm_place *places, const int *procs,
                    int *order)
{
    size_t n = (size_t)g->n, nedges = 2 * (size_t)g->index[g->n - 1];
    int *v = calloc(6 * n + 3 + 2 * nedges, sizeof *v);
    struct grown s = { .places = places,
                       .order = order,
                       .gain = calloc(n, sizeof *s.gain),
                       .start = v,
                       .part = v + n + 2,
                       .hops = v + 2 * n + 2,
                       .queue = v + 3 * n + 2,
                       .to = v + 5 * n + 3,
                       .weight = v + 5 * n + 3 + nedges };
    int *nodes = v + 4 * n + 2;
    if (v && s.gain) {
        both_ways(&s, g);
        for (int i = 0; i < g->n; i++)
            nodes[i] = i;
        assign(&s, nodes, procs, g->n, 0);
    }
    bool ok = v && s.gain;
    free(v);
    free(s.gain);
    return ok ? MPI_SUCCESS : wm_err(MPI_ERR_NO_MEM, "no memory to place %d processes", g->n);
}

struct seat {
    struct wm_place place;
    int proc;
};

static int by_place(const void *pa, const void *pb)
{
    const struct seat *a = pa, *b = pb;
    for (int i = 0; i < WM_PLACE_LEVELS; i++)
        if (a->place.at[i] != b->place.at[i])
            return a->place.at[i] < b->place.at[i] ? -1 : 1;
    return a->proc < b->proc ? -1 : a->proc > b->proc;
}

/* The processes by place, those of one place in the order of their ranks. */
static void sort_by_place(const struct wm_place *places, struct seat *seats, int n, int *procs)
{
    for (int i = 0; i < n; i++)
        seats[i] = (struct seat){ places[i], i };
    qsort(seats, (size_t)n, sizeof *seats, by_place);
    for (int i = 0; i < n; i++)
        procs[i] = seats[i].proc;
}

int wm_topo_arrange(const struct wm_adj *g, const struct wm_place *places, int **order)
{
    size_t n = (size_t)g->n;
    *order = NULL;
    if (g->n < 2 || g->index[g->n - 1] == 0)
        return MPI_SUCCESS;
    int *sorted = malloc(n * sizeof *sorted), *grown = malloc(n * sizeof *grown);
    struct seat *seats = malloc(n * sizeof *seats);
    int err = sorted && grown && seats
                  ? MPI_SUCCESS
                  : wm_err(MPI_ERR_NO_MEM, "no memory to place %d processes", g->n);
    if (!err) {
        int64_t best = wm_topo_cost(g, places, NULL), cost;
        sort_by_place(places, seats, g->n, sorted);
        if (g->n <= GROW_NODES_MAX)
            err = grow_all(g, places, sorted, grown);
        cost = wm_topo_cost(g, places, sorted);
        if (cost < best) {
            best = cost;
            *order = sorted;
        }
        if (!err && g->n <= GROW_NODES_MAX && wm_topo_cost(g, places, grown) < best)
            *order = grown;
    }
    if (err)
        *order = NULL;
    if (*order != sorted)
        free(sorted);
    if (*order != grown)
        free(grown);
    free(seats);
    return err;
}

/* Where this process runs.  A level that the process is not bound to has the same number in all
 * processes. */
static struct wm_place my_place(void)
{
    struct wm_place p = { { 0xcbf29ce484222325u } };
    int ids[WM_PLACE_LEVELS - 1];
    for (const char *c = rt_boot.host; *c; c++)
        p.at[0] = (p.at[0] ^ (unsigned char)*c) * 0x100000001b3u;
    rt_topo_place(ids);
    for (int i = 1; i < WM_PLACE_LEVELS; i++)
        p.at[i] = (uint64_t)(ids[i - 1] + 1);
    return p;
}

int wm_topo_order(struct wm_comm *comm, const struct wm_adj *g, int **order)
{
    *order = NULL;
    struct wm_place *places = malloc((size_t)comm->size * sizeof *places);
    struct wm_exch x = wm_exch_all(comm);
    int32_t missing = !places || !g;
    rt_lock(&comm->dom->lock);
    struct wm_place mine = my_place();
    int rc = wm_exch_max(&x, &missing);
    if (!rc && !missing)
        rc = wm_exch_allgather(&x, &mine, sizeof mine, places);
    rt_unlock(&comm->dom->lock);
    int err = rc        ? wm_err_rt(rc, "exchanging the places of %d processes", comm->size)
              : missing ? wm_err(MPI_ERR_NO_MEM,
                                 "no memory for the places of %d processes, here or "
                                 "in another process",
                                 comm->size)
                        : wm_topo_arrange(g, places, order);
    free(places);
    return err;
}
