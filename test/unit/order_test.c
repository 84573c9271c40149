/* SPDX-License-Identifier: BSD-3-Clause */
/* Reordering of ranks: invented machines, grids and graphs whose best cut is known. */
#include "mpi/topo/order.h"
#include <stdlib.h>
#include "test/check.h"

#define N_MAX 256

static int idx[N_MAX], edge[4 * N_MAX];

/* A torus or open grid of rows x cols. */
static struct wm_adj grid(int rows, int cols, bool torus)
{
    int n = 0;
    for (int i = 0; i < rows * cols; i++) {
        int r = i / cols, c = i % cols;
        const int to[4][2] = { { r - 1, c }, { r + 1, c }, { r, c - 1 }, { r, c + 1 } };
        for (int k = 0; k < 4; k++) {
            bool in = to[k][0] >= 0 && to[k][0] < rows && to[k][1] >= 0 && to[k][1] < cols;
            if (in || torus)
                edge[n++] = (to[k][0] + rows) % rows * cols + (to[k][1] + cols) % cols;
        }
        idx[i] = n;
    }
    return (struct wm_adj){ .n = rows * cols, .index = idx, .edges = edge };
}

/* Process i is on host i / (n / hosts), or on host i % hosts if `dealt`; a cache has `per_cache`
 * processes. */
static void machine(struct wm_place *p, int n, int hosts, bool dealt, int per_cache)
{
    for (int i = 0; i < n; i++) {
        int host = dealt ? i % hosts : i / (n / hosts), nth = dealt ? i / hosts : i % (n / hosts);
        p[i] = (struct wm_place){ { (uint64_t)host * 7919 + 5, (uint64_t)(nth / (4 * per_cache)),
                                    (uint64_t)(nth / per_cache), (uint64_t)nth } };
    }
}

static void is_permutation(const int *order, int n)
{
    bool seen[N_MAX] = { false };
    for (int i = 0; i < n; i++) {
        CHECK(order[i] >= 0 && order[i] < n && !seen[order[i]]);
        seen[order[i]] = true;
    }
}

/* The number of edges between hosts. */
static int cut(const struct wm_adj *g, const struct wm_place *p, const int *order)
{
    int n = 0;
    for (int i = 0, e = 0; i < g->n; i++)
        for (; e < g->index[i]; e++)
            n += p[order ? order[i] : i].at[0] != p[order ? order[g->edges[e]] : g->edges[e]].at[0];
    return n;
}

static void nothing_to_gain(void)
{
    struct wm_place p[N_MAX];
    int *order = (int *)1;
    struct wm_adj g = grid(4, 4, true);
    memset(p, 0, sizeof p); /* unbound ranks of one host */
    CHECK_EQ(wm_topo_arrange(&g, p, &order), 0);
    CHECK(order == NULL);
    g = grid(1, 16, false); /* a line along the hosts: optimal already */
    machine(p, 16, 4, false, 2);
    CHECK_EQ(wm_topo_arrange(&g, p, &order), 0);
    CHECK(order == NULL);
    g = grid(1, 1, false);
    CHECK_EQ(wm_topo_arrange(&g, p, &order), 0);
    CHECK(order == NULL);
    memset(idx, 0, sizeof idx); /* no edges */
    g = (struct wm_adj){ .n = 8, .index = idx, .edges = edge };
    CHECK_EQ(wm_topo_arrange(&g, p, &order), 0);
    CHECK(order == NULL);
}

/* Ranks distributed round-robin over the hosts: a line gets one piece per host. */
static void dealt_ranks_are_gathered(void)
{
    struct wm_place p[N_MAX];
    int *order;
    struct wm_adj g = grid(1, 32, false);
    machine(p, 32, 4, true, 2);
    CHECK_EQ(wm_topo_arrange(&g, p, &order), 0);
    CHECK(order != NULL);
    if (!order)
        return;
    is_permutation(order, 32);
    CHECK_EQ(cut(&g, p, order), 2 * 3);
    CHECK(wm_topo_cost(&g, p, order) < wm_topo_cost(&g, p, NULL));
    free(order);
}

/* An open grid of 8 x 8 on four hosts: rows cut 48 edges (both directions counted), blocks 32. */
static void grids_are_cut_into_blocks(void)
{
    struct wm_place p[N_MAX];
    int *order;
    struct wm_adj g = grid(8, 8, false);
    machine(p, 64, 4, false, 4);
    CHECK_EQ(cut(&g, p, NULL), 48);
    CHECK_EQ(wm_topo_arrange(&g, p, &order), 0);
    CHECK(order != NULL);
    if (!order)
        return;
    is_permutation(order, 64);
    CHECK_MSG(cut(&g, p, order) <= 36, "%d edges are cut", cut(&g, p, order));
    free(order);
}

/* Never worse than before, for any machine and graph. */
static void random_graphs_never_lose(void)
{
    unsigned seed = 12345;
    for (int round = 0; round < 200; round++) {
        struct wm_place p[N_MAX];
        int n = 2 + round % 40, *order, weight[4 * N_MAX], at = 0;
        for (int i = 0; i < n; i++) {
            for (int l = 0; l < WM_PLACE_LEVELS; l++)
                p[i].at[l] = (seed = seed * 1664525u + 1013904223u) >> 20 & 3;
            for (int k = (int)(seed >> 9 & 3); k > 0; k--) {
                seed = seed * 1664525u + 1013904223u;
                weight[at] = (int)(seed >> 28);
                edge[at++] = (int)(seed >> 8) % n;
            }
            idx[i] = at;
        }
        struct wm_adj g = { .n = n, .index = idx, .edges = edge, .weights = weight };
        CHECK_EQ(wm_topo_arrange(&g, p, &order), 0);
        if (!order)
            continue;
        is_permutation(order, n);
        CHECK(wm_topo_cost(&g, p, order) < wm_topo_cost(&g, p, NULL));
        free(order);
    }
}

int main(void)
{
    RUN(nothing_to_gain);
    RUN(dealt_ranks_are_gathered);
    RUN(grids_are_cut_into_blocks);
    RUN(random_graphs_never_lose);
    return check_end();
}
