/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs and distributed graphs: queries return the edges that were given, in the order that the
 * standard requires; edges given by any process; weights; duplicates; wrong arguments, also in one
 * process only. */
#include "test/mpi/mpitest.h"
#include "test/mpi/topo_bind.h"

#define NODES_MAX 16
#define EDGES_MAX 1024

/* A ring where node i is joined to i - 1 and i + 1; of two nodes, twice. */
static int ring(int n, int *index, int *edges)
{
    for (int i = 0; i < n; i++) {
        edges[2 * i] = (i + n - 1) % n;
        edges[2 * i + 1] = (i + 1) % n;
        index[i] = 2 * i + 2;
    }
    return 2 * n;
}

static void check_ring(MPI_Comm c, int n)
{
    int kind, nnodes, nedges, index[NODES_MAX], edges[2 * NODES_MAX], count, nb[2];
    int want_index[NODES_MAX], want_edges[2 * NODES_MAX];
    ring(n, want_index, want_edges);
    OK(MPI_Topo_test(c, &kind));
    CHECK_EQ(kind, MPI_GRAPH);
    OK(MPI_Graphdims_get(c, &nnodes, &nedges));
    CHECK_EQ(nnodes, n);
    CHECK_EQ(nedges, 2 * n);
    OK(MPI_Graph_get(c, NODES_MAX, 2 * NODES_MAX, index, edges));
    CHECK(!memcmp(index, want_index, (size_t)n * sizeof(int)));
    CHECK(!memcmp(edges, want_edges, 2 * (size_t)n * sizeof(int)));
    for (int r = 0; r < n; r++) {
        OK(MPI_Graph_neighbors_count(c, r, &count));
        CHECK_EQ(count, 2);
        OK(MPI_Graph_neighbors(c, r, 2, nb));
        CHECK(nb[0] == (r + n - 1) % n && nb[1] == (r + 1) % n);
    }
}

static void graphs_answer_questions(void)
{
    int index[NODES_MAX], edges[2 * NODES_MAX], n = (mt_size + 1) / 2, map;
    for (int reorder = 0; reorder < 2; reorder++)
        for (int all = 0; all < 2; all++) {
            int nodes = all ? mt_size : n;
            MPI_Comm c, d;
            ring(nodes, index, edges);
            OK(MPI_Graph_create(mt_comm, nodes, index, edges, reorder, &c));
            CHECK((c != MPI_COMM_NULL) == (mt_rank < nodes));
            OK(MPI_Graph_map(mt_comm, nodes, index, edges, &map));
            CHECK_EQ(map, mt_rank < nodes ? mt_rank : MPI_UNDEFINED);
            if (c == MPI_COMM_NULL)
                continue;
            OK(MPI_Comm_dup(c, &d));
            check_ring(c, nodes);
            OK(MPI_Comm_free(&c));
            check_ring(d, nodes);
            OK(MPI_Comm_free(&d));
        }
}

static void graphs_without_nodes_or_edges(void)
{
    int index[NODES_MAX] = { 0 }, n, e;
    MPI_Comm c = (MPI_Comm)0;
    OK(MPI_Graph_create(mt_comm, 0, NULL, NULL, 1, &c));
    CHECK(c == MPI_COMM_NULL);
    OK(MPI_Graph_create(mt_comm, mt_size, index, NULL, 1, &c));
    OK(MPI_Graphdims_get(c, &n, &e));
    CHECK(n == mt_size && e == 0);
    OK(MPI_Graph_neighbors(c, mt_rank, 0, NULL));
    OK(MPI_Comm_free(&c));
}

static void wrong_graphs(void)
{
    int down[2] = { 1, 0 }, far[1] = { mt_size }, one[NODES_MAX + 1], n, v[4], none[1] = { 0 };
    MPI_Comm c = MPI_COMM_NULL;
    for (int i = 0; i <= NODES_MAX; i++)
        one[i] = i + 1;
    FAILS(MPI_Graph_create(mt_comm, -1, one, one, 0, &c), MPI_ERR_ARG);
    FAILS(MPI_Graph_create(mt_comm, mt_size + 1, one, one, 0, &c), MPI_ERR_ARG);
    if (mt_size > 1)
        FAILS(MPI_Graph_create(mt_comm, 2, down, none, 0, &c), MPI_ERR_ARG);
    FAILS(MPI_Graph_create(mt_comm, 1, one, far, 0, &c), MPI_ERR_ARG);
    FAILS(MPI_Graph_create(mt_comm, 1, one, NULL, 0, &c), MPI_ERR_ARG);
    FAILS(MPI_Graph_map(mt_comm, 1, one, far, &n), MPI_ERR_ARG);
    far[0] = mt_rank == mt_size - 1 ? -1 : 0; /* one process is wrong */
    FAILS(MPI_Graph_create(mt_comm, 1, one, far, 0, &c), MPI_ERR_ARG);
    CHECK(c == MPI_COMM_NULL);
    FAILS(MPI_Graphdims_get(mt_comm, &n, &n), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Graph_get(mt_comm, 1, 1, v, v), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Graph_neighbors_count(mt_comm, 0, &n), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Graph_neighbors(mt_comm, 0, 1, v), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Dist_graph_neighbors_count(mt_comm, v, v, v), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Dist_graph_neighbors(mt_comm, 1, v, v, 1, v, v), MPI_ERR_TOPOLOGY);
    int index[NODES_MAX], edges[2 * NODES_MAX];
    ring(mt_size, index, edges);
    OK(MPI_Graph_create(mt_comm, mt_size, index, edges, 0, &c));
    FAILS(MPI_Graph_get(c, mt_size - 1, 2 * mt_size, index, edges), MPI_ERR_ARG);
    FAILS(MPI_Graph_get(c, mt_size, 2 * mt_size - 1, index, edges), MPI_ERR_ARG);
    FAILS(MPI_Graph_neighbors(c, 0, 1, v), MPI_ERR_ARG);
    FAILS(MPI_Graph_neighbors_count(c, mt_size, &n), MPI_ERR_RANK);
    FAILS(MPI_Cartdim_get(c, &n), MPI_ERR_TOPOLOGY);
    OK(MPI_Comm_free(&c));
}

/* Edges of a random multigraph, the same on every rank; edge e is given by process giver[e]. */
static struct {
    int n, from[EDGES_MAX], to[EDGES_MAX], weight[EDGES_MAX], giver[EDGES_MAX];
} g;

static void random_graph(unsigned seed, int n)
{
    g.n = n;
    for (int e = 0; e < n; e++) {
        g.from[e] = (int)(mt_random(&seed) % (unsigned)mt_size);
        g.to[e] = (int)(mt_random(&seed) % (unsigned)mt_size);
        g.weight[e] = (int)(mt_random(&seed) % 1000);
        g.giver[e] = (int)(mt_random(&seed) % (unsigned)mt_size);
    }
}

/* Neighbours of `me` in the order in which the processes give the edges. */
static void expect(int me, bool in, int *n, int *ranks, int *weights)
{
    *n = 0;
    for (int p = 0; p < mt_size; p++)
        for (int e = 0; e < g.n; e++)
            if (g.giver[e] == p && (in ? g.to[e] : g.from[e]) == me) {
                ranks[*n] = in ? g.from[e] : g.to[e];
                weights[(*n)++] = g.weight[e];
            }
}

static void check_dist(MPI_Comm c, bool weighted)
{
    int kind, me, in, out, w, nin, nout, want[EDGES_MAX], ww[EDGES_MAX];
    int src[EDGES_MAX], sw[EDGES_MAX], dst[EDGES_MAX], dw[EDGES_MAX];
    OK(MPI_Comm_rank(c, &me));
    OK(MPI_Topo_test(c, &kind));
    CHECK_EQ(kind, MPI_DIST_GRAPH);
    OK(MPI_Dist_graph_neighbors_count(c, &in, &out, &w));
    CHECK_EQ(w != 0, weighted);
    memset(sw, 0x7f, sizeof sw);
    OK(MPI_Dist_graph_neighbors(c, in, src, sw, out, dst, weighted ? dw : MPI_UNWEIGHTED));
    expect(me, true, &nin, want, ww);
    CHECK_EQ(in, nin);
    CHECK(!memcmp(src, want, (size_t)nin * sizeof(int)));
    CHECK(weighted ? !memcmp(sw, ww, (size_t)nin * sizeof(int)) : sw[0] == 0x7f7f7f7f);
    expect(me, false, &nout, want, ww);
    CHECK_EQ(out, nout);
    CHECK(!memcmp(dst, want, (size_t)nout * sizeof(int)));
    CHECK(!weighted || !memcmp(dw, ww, (size_t)nout * sizeof(int)));
    if (nin > 1) { /* less room: the first ones */
        src[1] = -99;
        OK(MPI_Dist_graph_neighbors(c, 1, src, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED));
        CHECK_EQ(src[1], -99);
    }
}

/* Makes the random graph from what each process gives, one node of the list an edge. */
static MPI_Comm make_general(bool weighted, int reorder)
{
    int n = 0, src[EDGES_MAX], deg[EDGES_MAX], dst[EDGES_MAX], w[EDGES_MAX];
    MPI_Comm c = MPI_COMM_NULL;
    for (int e = 0; e < g.n; e++)
        if (g.giver[e] == mt_rank) {
            src[n] = g.from[e];
            dst[n] = g.to[e];
            w[n] = g.weight[e];
            deg[n++] = 1;
        }
    const int *weights = !weighted ? MPI_UNWEIGHTED : n ? w : MPI_WEIGHTS_EMPTY;
    OK(MPI_Dist_graph_create(mt_comm, n, src, deg, dst, weights, MPI_INFO_NULL, reorder, &c));
    return c;
}

static MPI_Comm make_adjacent(bool weighted, int reorder)
{
    int in, out, src[EDGES_MAX], sw[EDGES_MAX], dst[EDGES_MAX], dw[EDGES_MAX];
    MPI_Comm c = MPI_COMM_NULL;
    expect(mt_rank, true, &in, src, sw);
    expect(mt_rank, false, &out, dst, dw);
    const int *ws = !weighted ? MPI_UNWEIGHTED : in ? sw : MPI_WEIGHTS_EMPTY;
    const int *wd = !weighted ? MPI_UNWEIGHTED : out ? dw : MPI_WEIGHTS_EMPTY;
    OK(MPI_Dist_graph_create_adjacent(mt_comm, in, src, ws, out, dst, wd, MPI_INFO_NULL, reorder,
                                      &c));
    return c;
}

static void random_dist_graphs(void)
{
    for (unsigned seed = 1; seed <= 12; seed++)
        for (int v = 0; v < 8; v++) {
            random_graph(mt_seed + seed, seed == 1 ? 0 : (int)seed * mt_size);
            MPI_Comm d, c = v & 1 ? make_adjacent(v & 2, v & 4) : make_general(v & 2, v & 4);
            check_dist(c, v & 2);
            OK(MPI_Comm_dup(c, &d));
            OK(MPI_Comm_free(&c));
            check_dist(d, v & 2);
            OK(MPI_Comm_free(&d));
        }
}

/* One process gives the whole graph, several edges a list entry; the others give nothing. */
static void one_process_gives_all(void)
{
    int src[NODES_MAX], deg[NODES_MAX], dst[2 * NODES_MAX], n = 0, in, out, w, s[2], d[2];
    MPI_Comm c;
    for (int i = 0; i < mt_size && mt_rank == mt_size - 1; i++) {
        src[n] = i;
        deg[n++] = 2;
        dst[2 * i] = (i + 1) % mt_size;
        dst[2 * i + 1] = i;
    }
    OK(MPI_Dist_graph_create(mt_comm, n, n ? src : NULL, n ? deg : NULL, n ? dst : NULL,
                             MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c));
    OK(MPI_Dist_graph_neighbors_count(c, &in, &out, &w));
    CHECK(in == 2 && out == 2 && !w);
    OK(MPI_Dist_graph_neighbors(c, 2, s, MPI_UNWEIGHTED, 2, d, MPI_UNWEIGHTED));
    CHECK(d[0] == (mt_rank + 1) % mt_size && d[1] == mt_rank);
    CHECK(s[0] + s[1] == mt_rank + (mt_rank + mt_size - 1) % mt_size);
    OK(MPI_Comm_free(&c));
}

#define ADJACENT(in, s, sw, out, d, dw) \
    MPI_Dist_graph_create_adjacent(mt_comm, in, s, sw, out, d, dw, MPI_INFO_NULL, 0, &c)
#define GENERAL(n, s, deg, d, w) \
    MPI_Dist_graph_create(mt_comm, n, s, deg, d, w, MPI_INFO_NULL, 0, &c)

static void wrong_dist_graphs(void)
{
    bool last = mt_rank == mt_size - 1; /* the only one that is wrong */
    int ok[1] = { 0 }, bad[1] = { last ? mt_size : 0 }, one[1] = { 1 }, neg[1] = { last ? -1 : 0 };
    MPI_Comm c = MPI_COMM_NULL;
    FAILS(GENERAL(last ? -1 : 1, ok, one, ok, MPI_UNWEIGHTED), MPI_ERR_ARG);
    FAILS(GENERAL(1, last ? NULL : ok, one, ok, MPI_UNWEIGHTED), MPI_ERR_ARG);
    FAILS(GENERAL(1, ok, last ? NULL : one, ok, MPI_UNWEIGHTED), MPI_ERR_ARG);
    FAILS(GENERAL(1, ok, one, last ? NULL : ok, MPI_UNWEIGHTED), MPI_ERR_ARG);
    FAILS(GENERAL(1, bad, one, ok, MPI_UNWEIGHTED), MPI_ERR_RANK);
    FAILS(GENERAL(1, ok, one, bad, MPI_UNWEIGHTED), MPI_ERR_RANK);
    FAILS(GENERAL(1, ok, neg, ok, MPI_UNWEIGHTED), MPI_ERR_ARG);
    FAILS(GENERAL(1, ok, one, ok, neg), MPI_ERR_ARG);
    FAILS(GENERAL(1, ok, one, ok, last ? MPI_WEIGHTS_EMPTY : one), MPI_ERR_ARG);
    FAILS(ADJACENT(last ? -1 : 0, ok, one, 0, ok, one), MPI_ERR_ARG);
    FAILS(ADJACENT(0, ok, one, last ? -1 : 0, ok, one), MPI_ERR_ARG);
    FAILS(ADJACENT(1, bad, one, 0, ok, one), MPI_ERR_RANK);
    FAILS(ADJACENT(0, ok, one, 1, neg, one), last ? MPI_ERR_RANK : MPI_ERR_RANK);
    FAILS(ADJACENT(1, last ? NULL : ok, one, 0, ok, one), MPI_ERR_ARG);
    FAILS(ADJACENT(0, ok, last ? MPI_UNWEIGHTED : one, 0, ok, one), MPI_ERR_ARG);
    if (mt_size > 1) {
        FAILS(GENERAL(0, ok, one, ok, last ? MPI_UNWEIGHTED : one), MPI_ERR_ARG);
        FAILS(ADJACENT(0, ok, last ? MPI_UNWEIGHTED : one, 0, ok, last ? MPI_UNWEIGHTED : one),
              MPI_ERR_ARG);
    }
    CHECK(c == MPI_COMM_NULL);
    OK(MPI_Barrier(mt_comm));
}

/* An edge that one end alone declares: the graph is made, but exchanges over it would wait for ever
 * and are refused in all processes. */
static void one_sided_edges_are_refused(void)
{
    int to[1] = { 0 }, index[2] = { 1, 1 }, edges[1] = { 1 }, in[NODES_MAX], v = 1;
    MPI_Comm c;
    OK(ADJACENT(0, NULL, MPI_UNWEIGHTED, 1, to, MPI_UNWEIGHTED));
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    FAILS(MPI_Neighbor_allgather(&v, 1, MPI_INT, in, 1, MPI_INT, c), MPI_ERR_TOPOLOGY);
    OK(MPI_Comm_free(&c));
    if (mt_size < 2)
        return;
    OK(MPI_Graph_create(mt_comm, 2, index, edges, 0, &c));
    if (c == MPI_COMM_NULL)
        return;
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    FAILS(MPI_Neighbor_allgather(&v, 1, MPI_INT, in, 1, MPI_INT, c), MPI_ERR_TOPOLOGY);
    OK(MPI_Comm_free(&c));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    bind_in_turn(argc, argv, mt_rank);
    MT_RUN(graphs_answer_questions);
    MT_RUN(graphs_without_nodes_or_edges);
    MT_RUN(wrong_graphs);
    MT_RUN(random_dist_graphs);
    MT_RUN(one_process_gives_all);
    MT_RUN(wrong_dist_graphs);
    MT_RUN(one_sided_edges_are_refused);
    return mt_end();
}
