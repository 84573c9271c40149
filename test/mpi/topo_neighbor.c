/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbourhood collectives in all forms over grids, graphs and random distributed graphs, against
 * a reference that looks up who sent each block and as which of its own. */
#include "test/mpi/mpitest.h"
#include "test/mpi/topo_bind.h"

#define RANKS_MAX 8
#define NB_MAX 48
#define ROOM 8 /* ints a block may take */
#define K 3    /* ints in a block of equal length */

enum op { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, OPS };
enum form { BLOCKING, NONBLOCKING, PERSISTENT, LARGE, FORMS };

/* The communicator under test as its members see it. */
static struct {
    MPI_Comm c;
    bool grid;
    int me, size, nin, nout, in[NB_MAX], out[NB_MAX];
    int all_out[RANKS_MAX][NB_MAX + 1]; /* of every rank: number, then destinations */
} t;

static MPI_Datatype spaced; /* one int in every two */

static void load_lists(void)
{
    int kind, w, ndims;
    OK(MPI_Topo_test(t.c, &kind));
    t.grid = kind == MPI_CART;
    if (t.grid) {
        OK(MPI_Cartdim_get(t.c, &ndims));
        t.nin = t.nout = 2 * ndims;
        for (int d = 0; d < ndims; d++)
            OK(MPI_Cart_shift(t.c, d, 1, &t.in[2 * d], &t.in[2 * d + 1]));
        memcpy(t.out, t.in, sizeof t.out);
    } else if (kind == MPI_GRAPH) {
        OK(MPI_Graph_neighbors_count(t.c, t.me, &t.nin));
        OK(MPI_Graph_neighbors(t.c, t.me, NB_MAX, t.in));
        t.nout = t.nin;
        memcpy(t.out, t.in, sizeof t.out);
    } else {
        OK(MPI_Dist_graph_neighbors_count(t.c, &t.nin, &t.nout, &w));
        OK(MPI_Dist_graph_neighbors(t.c, NB_MAX, t.in, MPI_UNWEIGHTED, NB_MAX, t.out,
                                    MPI_UNWEIGHTED));
    }
}

static void load(MPI_Comm c)
{
    int mine[NB_MAX + 1];
    t.c = c;
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    OK(MPI_Comm_rank(c, &t.me));
    OK(MPI_Comm_size(c, &t.size));
    load_lists();
    mine[0] = t.nout;
    memcpy(mine + 1, t.out, sizeof t.out);
    OK(MPI_Allgather(mine, NB_MAX + 1, MPI_INT, t.all_out, NB_MAX + 1, MPI_INT, c));
}

/* Which of its blocks the source of block `slot` sends here. */
static int sent_as(int slot)
{
    int nth = 0, from = t.in[slot];
    if (t.grid) /* down arrives from above */
        return slot ^ 1;
    for (int i = 0; i < slot; i++)
        nth += t.in[i] == from;
    for (int i = 0; i < t.all_out[from][0]; i++)
        if (t.all_out[from][i + 1] == t.me && nth-- == 0)
            return i;
    CHECK_MSG(false, "rank %d does not send as often to %d", from, t.me);
    return 0;
}

static int length(enum op op, int from, int slot)
{
    return op == ALLGATHERV ? from % 3 * 2 : op < ALLTOALLV ? K : (from + slot) % 4;
}

static int value(int from, int slot, int e, int salt)
{
    return from * 1000000 + slot * 10000 + salt * 100 + e;
}

/* Arguments of one call, alive until it has ended. */
struct call {
    enum op op;
    int send[NB_MAX * ROOM * 2], recv[NB_MAX * ROOM], want[NB_MAX * ROOM];
    int sc[NB_MAX], sd[NB_MAX], rc[NB_MAX], rd[NB_MAX];
    MPI_Count lsc[NB_MAX], lrc[NB_MAX];
    MPI_Aint bsd[NB_MAX], brd[NB_MAX];
    MPI_Datatype st[NB_MAX], rt[NB_MAX];
    MPI_Request req;
};

static void fill(struct call *k, int salt)
{
    bool gathers = k->op <= ALLGATHERV, w = k->op == ALLTOALLW;
    memset(k->recv, 0xff, sizeof k->recv);
    memset(k->want, 0xff, sizeof k->want);
    memset(k->send, 0xee, sizeof k->send);
    for (int i = 0; i < (gathers ? 1 : t.nout); i++) {
        int slot = gathers ? 0 : i, at = k->op == ALLTOALL ? i * K : i * ROOM * (w ? 2 : 1);
        k->sc[i] = length(k->op, t.me, slot);
        k->sd[i] = at;
        k->bsd[i] = at * (int)sizeof(int);
        for (int e = 0; e < k->sc[i]; e++)
            k->send[at + e * (w ? 2 : 1)] = value(t.me, slot, e, salt);
    }
    for (int i = 0; i < t.nin; i++) {
        bool equal = k->op == ALLGATHER || k->op == ALLTOALL, none = t.in[i] < 0;
        int slot = gathers || none ? 0 : sent_as(i);
        int at = equal ? i * K : (t.nin - 1 - i) * ROOM; /* v forms: from behind */
        k->rc[i] = none ? 2 : length(k->op, t.in[i], slot);
        k->rd[i] = at;
        k->brd[i] = at * (int)sizeof(int);
        for (int e = 0; !none && e < k->rc[i]; e++)
            k->want[at + e] = value(t.in[i], slot, e, salt);
    }
    for (int i = 0; i < NB_MAX; i++) {
        k->lsc[i] = k->sc[i];
        k->lrc[i] = k->rc[i];
        k->st[i] = i < t.nout && t.out[i] < 0 ? MPI_DATATYPE_NULL : spaced;
        k->rt[i] = MPI_INT;
    }
}

static void start_equal(struct call *k, enum form f)
{
    int n = length(k->op, t.me, 0);
#define ARGS k->send, n, MPI_INT, k->recv, K, MPI_INT, t.c
    bool g = k->op == ALLGATHER;
    if (f == BLOCKING)
        OK(g ? MPI_Neighbor_allgather(ARGS) : MPI_Neighbor_alltoall(ARGS));
    else if (f == LARGE)
        OK(g ? MPI_Neighbor_allgather_c(ARGS) : MPI_Neighbor_alltoall_c(ARGS));
    else if (f == NONBLOCKING)
        OK(g ? MPI_Ineighbor_allgather(ARGS, &k->req) : MPI_Ineighbor_alltoall(ARGS, &k->req));
    else
        OK(g ? MPI_Neighbor_allgather_init(ARGS, MPI_INFO_NULL, &k->req)
             : MPI_Neighbor_alltoall_init(ARGS, MPI_INFO_NULL, &k->req));
#undef ARGS
}

static void start_gatherv(struct call *k, enum form f)
{
#define ARGS k->send, k->sc[0], MPI_INT, k->recv, k->rc, k->rd, MPI_INT, t.c
    MPI_Aint ld[NB_MAX];
    for (int i = 0; i < NB_MAX; i++)
        ld[i] = k->rd[i];
    if (f == BLOCKING)
        OK(MPI_Neighbor_allgatherv(ARGS));
    else if (f == LARGE)
        OK(MPI_Neighbor_allgatherv_c(k->send, k->sc[0], MPI_INT, k->recv, k->lrc, ld, MPI_INT,
                                     t.c));
    else if (f == NONBLOCKING)
        OK(MPI_Ineighbor_allgatherv(ARGS, &k->req));
    else
        OK(MPI_Neighbor_allgatherv_init(ARGS, MPI_INFO_NULL, &k->req));
#undef ARGS
}

static void start_v(struct call *k, enum form f)
{
#define ARGS k->send, k->sc, k->sd, MPI_INT, k->recv, k->rc, k->rd, MPI_INT, t.c
    MPI_Aint ls[NB_MAX], lr[NB_MAX];
    for (int i = 0; i < NB_MAX; i++) {
        ls[i] = k->sd[i];
        lr[i] = k->rd[i];
    }
    if (f == BLOCKING)
        OK(MPI_Neighbor_alltoallv(ARGS));
    else if (f == LARGE)
        OK(MPI_Neighbor_alltoallv_c(k->send, k->lsc, ls, MPI_INT, k->recv, k->lrc, lr, MPI_INT,
                                    t.c));
    else if (f == NONBLOCKING)
        OK(MPI_Ineighbor_alltoallv(ARGS, &k->req));
    else
        OK(MPI_Neighbor_alltoallv_init(ARGS, MPI_INFO_NULL, &k->req));
#undef ARGS
}

static void start_w(struct call *k, enum form f)
{
#define ARGS k->send, k->sc, k->bsd, k->st, k->recv, k->rc, k->brd, k->rt, t.c
    if (f == BLOCKING)
        OK(MPI_Neighbor_alltoallw(ARGS));
    else if (f == LARGE)
        OK(MPI_Neighbor_alltoallw_c(k->send, k->lsc, k->bsd, k->st, k->recv, k->lrc, k->brd, k->rt,
                                    t.c));
    else if (f == NONBLOCKING)
        OK(MPI_Ineighbor_alltoallw(ARGS, &k->req));
    else
        OK(MPI_Neighbor_alltoallw_init(ARGS, MPI_INFO_NULL, &k->req));
#undef ARGS
}

static void start(struct call *k, enum form f)
{
    k->req = MPI_REQUEST_NULL;
    if (k->op == ALLGATHER || k->op == ALLTOALL)
        start_equal(k, f);
    else if (k->op == ALLGATHERV)
        start_gatherv(k, f);
    else if (k->op == ALLTOALLV)
        start_v(k, f);
    else
        start_w(k, f);
}

static void check_call(const struct call *k, enum form f)
{
    for (int i = 0; i < NB_MAX * ROOM; i++)
        if (k->recv[i] != k->want[i]) {
            CHECK_MSG(false, "rank %d of %d, operation %d, form %d: element %d is %d, expected %d",
                      t.me, t.size, (int)k->op, (int)f, i, k->recv[i], k->want[i]);
            return;
        }
}

static void all_calls(void)
{
    static struct call k;
    for (int op = 0; op < OPS; op++)
        for (int f = 0; f < FORMS; f++) {
            k.op = (enum op)op;
            fill(&k, f);
            start(&k, (enum form)f);
            for (int again = 0; f == PERSISTENT && again < 3; again++) {
                fill(&k, 10 + again);
                OK(MPI_Start(&k.req));
                OK(MPI_Wait(&k.req, MPI_STATUS_IGNORE));
                CHECK(k.req != MPI_REQUEST_NULL);
                check_call(&k, PERSISTENT);
            }
            if (f == PERSISTENT)
                OK(MPI_Request_free(&k.req));
            OK(MPI_Wait(&k.req, MPI_STATUS_IGNORE));
            check_call(&k, (enum form)f);
        }
}

/* Many under way at a time, ended in another order, with blocking calls and a barrier between; the
 * communicator is freed before they end. */
static void many_calls(void)
{
    enum { N = 10 };
    struct call *k = malloc((N + 1) * sizeof *k);
    MPI_Comm c = t.c;
    for (int i = 0; i < N; i++) {
        k[i].op = (enum op)(i % OPS);
        fill(&k[i], 20 + i);
        start(&k[i], i < OPS ? NONBLOCKING : PERSISTENT);
    }
    for (int i = N - 1; i >= OPS; i--)
        OK(MPI_Start(&k[i].req));
    k[N].op = ALLTOALLV;
    fill(&k[N], 40);
    start(&k[N], BLOCKING);
    check_call(&k[N], BLOCKING);
    OK(MPI_Barrier(t.c));
    OK(MPI_Comm_free(&c));
    for (int i = N - 1; i >= 0; i--) {
        OK(MPI_Wait(&k[i].req, MPI_STATUS_IGNORE));
        check_call(&k[i], i < OPS ? NONBLOCKING : PERSISTENT);
        if (i >= OPS)
            OK(MPI_Request_free(&k[i].req));
    }
    free(k);
}

static void exercise(MPI_Comm c)
{
    MPI_Comm d;
    load(c);
    all_calls();
    OK(MPI_Comm_dup(c, &d));
    OK(MPI_Comm_free(&c));
    load(d);
    many_calls(); /* frees it */
}

static void on_grids(void)
{
    for (int ndims = 0; ndims <= 3; ndims++)
        for (int periodic = 0; periodic < 1 << ndims; periodic++) {
            int dims[3] = { 0 }, per[3] = { 0 };
            MPI_Comm c;
            for (int d = 0; d < ndims; d++)
                per[d] = periodic >> d & 1;
            if (ndims)
                OK(MPI_Dims_create(mt_size, ndims, dims));
            OK(MPI_Cart_create(mt_comm, ndims, dims, per, ndims & 1, &c));
            if (c != MPI_COMM_NULL)
                exercise(c);
        }
}

/* Parts of a grid: rings of one and two among them. */
static void on_parts_of_grids(void)
{
    int dims[2] = { 0 }, per[2] = { 1, 1 };
    MPI_Comm c, s;
    OK(MPI_Dims_create(mt_size, 2, dims));
    OK(MPI_Cart_create(mt_comm, 2, dims, per, 0, &c));
    for (int keep = 0; keep < 4; keep++) {
        int remain[2] = { keep & 1, keep & 2 };
        OK(MPI_Cart_sub(c, remain, &s));
        exercise(s);
    }
    OK(MPI_Comm_free(&c));
}

static void on_graphs(void)
{
    int index[RANKS_MAX], edges[4 * RANKS_MAX];
    MPI_Comm c;
    for (int i = 0; i < mt_size; i++) { /* a ring, a self-loop, and a second edge to the next */
        int odd = i % 2 || i + 1 == mt_size ? -1 : 1; /* pairs are joined twice */
        int twin = i + odd >= 0 && !(odd < 0 && i % 2 == 0) ? i + odd : i;
        edges[4 * i] = (i + 1) % mt_size;
        edges[4 * i + 1] = i;
        edges[4 * i + 2] = (i + mt_size - 1) % mt_size;
        edges[4 * i + 3] = twin;
        index[i] = 4 * i + 4;
    }
    for (int reorder = 0; reorder < 2; reorder++) {
        OK(MPI_Graph_create(mt_comm, mt_size, index, edges, reorder, &c));
        exercise(c);
    }
}

/* The same random edges on every rank; each gives those that it starts. */
static void on_random_dist_graphs(void)
{
    for (unsigned round = 0; round < 6; round++) {
        unsigned seed = mt_seed + round;
        int n = 0, deg[1], src[1] = { mt_rank }, dst[NB_MAX];
        MPI_Comm c;
        for (unsigned e = 0; e < round * (unsigned)mt_size; e++) {
            int from = (int)(mt_random(&seed) % (unsigned)mt_size);
            int to = (int)(mt_random(&seed) % (unsigned)mt_size);
            if (from == mt_rank)
                dst[n++] = to;
        }
        deg[0] = n;
        OK(MPI_Dist_graph_create(mt_comm, 1, src, deg, dst, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                 round & 1, &c));
        exercise(c);
    }
}

/* Blocks beyond the eager size, rings of one and two included. */
static void large_blocks(void)
{
    enum { N = 100000 };
    int dims[1] = { mt_size }, per[1] = { 1 };
    int *s = malloc(2 * N * sizeof *s), *r = malloc(2 * N * sizeof *r);
    MPI_Comm c;
    OK(MPI_Cart_create(mt_comm, 1, dims, per, 0, &c));
    for (int i = 0; i < 2 * N; i++) {
        s[i] = mt_rank * 2 * N + i;
        r[i] = -1;
    }
    OK(MPI_Neighbor_alltoall(s, N, MPI_INT, r, N, MPI_INT, c));
    int down = (mt_rank + mt_size - 1) % mt_size, up = (mt_rank + 1) % mt_size, bad = 0;
    for (int i = 0; i < N; i++)
        bad += r[i] != down * 2 * N + N + i || r[N + i] != up * 2 * N + i;
    CHECK_EQ(bad, 0);
    OK(MPI_Comm_free(&c));
    free(s);
    free(r);
}

/* A buffer means nothing without neighbours. */
static void nobody_around(void)
{
    MPI_Comm c;
    int v = 1;
    OK(MPI_Dist_graph_create_adjacent(mt_comm, 0, NULL, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED,
                                      MPI_INFO_NULL, 0, &c));
    OK(MPI_Neighbor_allgather(&v, 1, MPI_INT, NULL, 1, MPI_INT, c));
    OK(MPI_Neighbor_alltoall(NULL, 1, MPI_INT, NULL, 1, MPI_INT, c));
    OK(MPI_Neighbor_allgatherv(NULL, 0, MPI_INT, NULL, NULL, NULL, MPI_INT, c));
    OK(MPI_Neighbor_alltoallv(NULL, NULL, NULL, MPI_INT, NULL, NULL, NULL, MPI_INT, c));
    OK(MPI_Neighbor_alltoallw(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, c));
    OK(MPI_Comm_free(&c));
}

static void wrong_arguments(void)
{
    int dims[1] = { mt_size }, per[1] = { 1 }, s[4] = { 0 }, r[4], one[2] = { 1, 1 };
    int neg[2] = { 1, -1 }, d[2] = { 0, 1 };
    MPI_Aint b[2] = { 0, 4 };
    MPI_Datatype ty[2] = { MPI_INT, MPI_INT }, bad[2] = { MPI_INT, MPI_DATATYPE_NULL };
    MPI_Request q;
    MPI_Comm c;
    FAILS(MPI_Neighbor_allgather(s, 1, MPI_INT, r, 1, MPI_INT, mt_comm), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_allgatherv(s, 1, MPI_INT, r, one, d, MPI_INT, mt_comm), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Ineighbor_alltoall(s, 1, MPI_INT, r, 1, MPI_INT, mt_comm, &q), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_alltoallw(s, one, b, ty, r, one, b, ty, mt_comm), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_alltoallv_init(s, one, d, MPI_INT, r, one, d, MPI_INT, mt_comm,
                                      MPI_INFO_NULL, &q),
          MPI_ERR_TOPOLOGY);
    OK(MPI_Cart_create(mt_comm, 1, dims, per, 0, &c));
    FAILS(MPI_Neighbor_allgather(s, -1, MPI_INT, r, 1, MPI_INT, c), MPI_ERR_COUNT);
    FAILS(MPI_Neighbor_allgather(s, 1, MPI_INT, r, -1, MPI_INT, c), MPI_ERR_COUNT);
    FAILS(MPI_Neighbor_allgather(s, 1, MPI_DATATYPE_NULL, r, 1, MPI_INT, c), MPI_ERR_TYPE);
    FAILS(MPI_Neighbor_alltoall(MPI_IN_PLACE, 1, MPI_INT, r, 1, MPI_INT, c), MPI_ERR_BUFFER);
    FAILS(MPI_Neighbor_alltoall(s, 1, MPI_INT, NULL, 1, MPI_INT, c), MPI_ERR_BUFFER);
    FAILS(MPI_Neighbor_allgatherv(s, 1, MPI_INT, r, neg, d, MPI_INT, c), MPI_ERR_COUNT);
    FAILS(MPI_Neighbor_allgatherv(s, 1, MPI_INT, r, NULL, d, MPI_INT, c), MPI_ERR_ARG);
    FAILS(MPI_Neighbor_allgatherv(s, 1, MPI_INT, r, one, NULL, MPI_INT, c), MPI_ERR_ARG);
    FAILS(MPI_Neighbor_allgatherv(s, 1, MPI_INT, NULL, one, d, MPI_INT, c), MPI_ERR_BUFFER);
    FAILS(MPI_Neighbor_alltoallv(s, neg, d, MPI_INT, r, one, d, MPI_INT, c), MPI_ERR_COUNT);
    FAILS(MPI_Neighbor_alltoallv(s, one, d, MPI_INT, r, one, NULL, MPI_INT, c), MPI_ERR_ARG);
    FAILS(MPI_Neighbor_alltoallv(NULL, one, d, MPI_INT, r, one, d, MPI_INT, c), MPI_ERR_BUFFER);
    FAILS(MPI_Neighbor_alltoallw(s, one, b, bad, r, one, b, ty, c), MPI_ERR_TYPE);
    FAILS(MPI_Neighbor_alltoallw(s, one, b, ty, r, one, b, NULL, c), MPI_ERR_ARG);
    FAILS(MPI_Neighbor_alltoallw(s, one, b, ty, MPI_IN_PLACE, one, b, ty, c), MPI_ERR_BUFFER);
    OK(MPI_Neighbor_alltoallw(s, one, b, ty, r, one, b, ty, c));
    OK(MPI_Comm_free(&c));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    bind_in_turn(argc, argv, mt_rank);
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced));
    OK(MPI_Type_commit(&spaced));
    MT_RUN(on_grids);
    MT_RUN(on_parts_of_grids);
    MT_RUN(on_graphs);
    MT_RUN(on_random_dist_graphs);
    MT_RUN(large_blocks);
    MT_RUN(nobody_around);
    MT_RUN(wrong_arguments);
    OK(MPI_Type_free(&spaced));
    return mt_end();
}
