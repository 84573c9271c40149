/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on intercommunicators (MPI-5.0 section 6.2.2 and on): every kind, blocking,
 * nonblocking and persistent, over cuts of the ranks into two groups, both sides as root, counts
 * and layouts, against what the definition says.  Item i that rank a of mt_comm sends to rank b of
 * the other group is item(a, b, i). */
#include "test/mpi/inter.h"

static const int counts[] = { 0, 1, 5, 1000, 20000 };
#define NCOUNTS ((int)(sizeof(counts) / sizeof(counts[0])))
enum { BLOCKING, NONBLOCKING, PERSISTENT, FORMS, GUARD_WORDS = 4, EMPTY = -77 };

static int form, stride;  /* of the call; ints from one element to the next */
static MPI_Datatype type; /* an int every `stride` ints */
static struct halves h;
static MPI_Comm c;
static int *in, *out;      /* receive and send buffer */
static size_t in_n, out_n; /* ints */

static int item(int from, int to, int i) { return from * 1000003 + to * 10007 + i * 3; }

static int *ints(size_t n)
{
    int *p = malloc((n + GUARD_WORDS) * sizeof(int));
    size_t i;

    for (i = 0; p && i < n + GUARD_WORDS; i++)
        p[i] = EMPTY;
    return p;
}

/* Room for that many elements. */
static void buffers(int nsend, int nrecv)
{
    in_n = (size_t)(nrecv * stride);
    out_n = (size_t)(nsend * stride);
    in = ints(in_n);
    out = ints(out_n);
}

/* What lies between the elements, and behind the last, stays as it was. */
static void buffers_done(const char *what)
{
    size_t i;
    int bad = 0;

    for (i = 0; i < in_n + GUARD_WORDS; i++)
        bad += (i >= in_n || (stride > 1 && i % (size_t)stride)) && in[i] != EMPTY;
    CHECK_MSG(!bad, "rank %d: %s wrote %d ints outside its elements", mt_rank, what, bad);
    free(in);
    free(out);
}

static void clear(void)
{
    size_t i;

    for (i = 0; i < in_n; i++)
        in[i] = EMPTY;
}

static void put(int at, int from, int to, int n)
{
    int i;

    for (i = 0; i < n; i++)
        out[(at + i) * stride] = item(from, to, i);
}

static void check(const char *what, int at, int from, int to, int n)
{
    int i, wrong = 0;

    for (i = 0; i < n; i++)
        wrong += in[(at + i) * stride] != item(from, to, i);
    CHECK_MSG(!wrong, "rank %d of %d|%d: %s form %d: %d of %d items from %d are wrong", mt_rank,
              h.k, mt_size - h.k, what, form, wrong, n, from);
}

static void check_untouched(const char *what)
{
    size_t i;
    int bad = 0;

    for (i = 0; i < in_n; i++)
        bad += in[i] != EMPTY;
    CHECK_MSG(!bad, "rank %d: %s form %d wrote %d ints here", mt_rank, what, form, bad);
}

static void finish(MPI_Request *r)
{
    int i;

    if (form == NONBLOCKING)
        OK(MPI_Wait(r, MPI_STATUS_IGNORE));
    for (i = 0; form == PERSISTENT && i < 3; i++) {
        clear();
        OK(MPI_Start(r));
        OK(MPI_Wait(r, MPI_STATUS_IGNORE));
    }
    if (form == PERSISTENT)
        OK(MPI_Request_free(r));
}

#define CALL(name, small, ...) \
    do { \
        MPI_Request rq; \
        OK(form == BLOCKING      ? MPI_##name(__VA_ARGS__) \
           : form == NONBLOCKING ? MPI_I##small(__VA_ARGS__, &rq) \
                                 : MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &rq)); \
        finish(&rq); \
    } while (0)

/* The root argument of this rank when rank `r` of the left or the right group is the root. */
static int root_arg(bool left, int r)
{
    return h.left != left ? r : h.rank == r ? MPI_ROOT : MPI_PROC_NULL;
}

/* Rank in mt_comm of rank r of the remote group. */
static int far(int r) { return h.far_first + r; }

static void test_bcast(int n, int root, int r)
{
    bool is_root = root == MPI_ROOT;

    buffers(0, n);
    if (is_root && form != PERSISTENT) {
        for (int i = 0; i < n; i++)
            in[i * stride] = item(mt_rank, 0, i);
        CALL(Bcast, bcast, in, n, type, root, c);
    } else if (is_root) {
        free(out);
        out = ints((size_t)(n * stride));
        put(0, mt_rank, 0, n);
        CALL(Bcast, bcast, out, n, type, root, c);
    } else {
        CALL(Bcast, bcast, root == MPI_PROC_NULL ? NULL : in, n,
             root == MPI_PROC_NULL ? MPI_DATATYPE_NULL : type, root, c);
    }
    if (root >= 0)
        check("bcast", 0, far(r), 0, n);
    else if (!is_root)
        check_untouched("bcast");
    buffers_done("bcast");
}

static void test_gather(int n, int root, int r)
{
    int i;

    buffers(n, root == MPI_ROOT ? n * h.m : 0);
    put(0, mt_rank, r, n);
    if (root == MPI_ROOT)
        CALL(Gather, gather, NULL, -1, MPI_DATATYPE_NULL, in, n, type, root, c);
    else
        CALL(Gather, gather, out, n, type, NULL, -1, MPI_DATATYPE_NULL, root, c);
    for (i = 0; root == MPI_ROOT && i < h.m; i++)
        check("gather", i * n, far(i), r, n);
    buffers_done("gather");
}

static void test_scatter(int n, int root, int r)
{
    int i;

    buffers(n * h.m, root >= 0 ? n : 0);
    for (i = 0; i < h.m; i++)
        put(i * n, mt_rank, i, n);
    if (root == MPI_ROOT)
        CALL(Scatter, scatter, out, n, type, NULL, -1, MPI_DATATYPE_NULL, root, c);
    else
        CALL(Scatter, scatter, NULL, -1, MPI_DATATYPE_NULL, in, n, type, root, c);
    if (root >= 0)
        check("scatter", 0, far(r), h.rank, n);
    buffers_done("scatter");
}

/* Remote rank i has n + i elements, in reverse order with a hole of one element between them. */
static int vectors(int n, int *cnt, int *displ)
{
    int i, at = 0;

    for (i = h.m - 1; i >= 0; i--) {
        cnt[i] = n ? n + i : 0;
        displ[i] = at;
        at += cnt[i] + 1;
    }
    return at;
}

static void test_gatherv(int n, int root, int r)
{
    int cnt[64], displ[64], i, all = vectors(n, cnt, displ), mine = n ? n + h.rank : 0;

    buffers(mine, root == MPI_ROOT ? all : 0);
    put(0, mt_rank, r, mine);
    if (root == MPI_ROOT)
        CALL(Gatherv, gatherv, NULL, 0, MPI_DATATYPE_NULL, in, cnt, displ, type, root, c);
    else
        CALL(Gatherv, gatherv, out, mine, type, NULL, NULL, NULL, MPI_DATATYPE_NULL, root, c);
    for (i = 0; root == MPI_ROOT && i < h.m; i++)
        check("gatherv", displ[i], far(i), r, cnt[i]);
    buffers_done("gatherv");
}

static void test_scatterv(int n, int root, int r)
{
    int cnt[64], displ[64], i, all = vectors(n, cnt, displ), mine = n ? n + h.rank : 0;

    buffers(all, root >= 0 ? mine : 0);
    for (i = 0; i < h.m; i++)
        put(displ[i], mt_rank, i, cnt[i]);
    if (root == MPI_ROOT)
        CALL(Scatterv, scatterv, out, cnt, displ, type, NULL, 0, MPI_DATATYPE_NULL, root, c);
    else
        CALL(Scatterv, scatterv, NULL, NULL, NULL, MPI_DATATYPE_NULL, in, mine, type, root, c);
    if (root >= 0)
        check("scatterv", 0, far(r), h.rank, mine);
    buffers_done("scatterv");
}

/* The two directions have different lengths: n from the left group, 2n from the right one. */
static void test_allgather(int n)
{
    int mine = h.left ? n : 2 * n, his = h.left ? 2 * n : n, i;

    buffers(mine, his * h.m);
    put(0, mt_rank, 0, mine);
    CALL(Allgather, allgather, out, mine, type, in, his, type, c);
    for (i = 0; i < h.m; i++)
        check("allgather", i * his, far(i), 0, his);
    buffers_done("allgather");
}

static void test_allgatherv(int n)
{
    int cnt[64], displ[64], i, all = vectors(n, cnt, displ), mine = n ? n + h.rank : 0;

    buffers(mine, all);
    put(0, mt_rank, 0, mine);
    CALL(Allgatherv, allgatherv, out, mine, type, in, cnt, displ, type, c);
    for (i = 0; i < h.m; i++)
        check("allgatherv", displ[i], far(i), 0, cnt[i]);
    buffers_done("allgatherv");
}

static void test_alltoall(int n)
{
    int mine = h.left ? n : 3 * n, his = h.left ? 3 * n : n, i;

    buffers(mine * h.m, his * h.m);
    for (i = 0; i < h.m; i++)
        put(i * mine, mt_rank, i, mine);
    CALL(Alltoall, alltoall, out, mine, type, in, his, type, c);
    for (i = 0; i < h.m; i++)
        check("alltoall", i * his, far(i), h.rank, his);
    buffers_done("alltoall");
}

/* Rank a sends a + b + n elements to rank b; the receiver knows the same sum. */
static void test_alltoallv(int n, bool w)
{
    int cnt[64], displ[64], bytes[64], i, at = 0;
    MPI_Datatype types[64];

    for (i = 0; i < h.m; i++) {
        cnt[i] = n ? n + i + h.rank : 0;
        displ[i] = at;
        bytes[i] = at * stride * (int)sizeof(int);
        types[i] = type;
        at += cnt[i] + 1;
    }
    buffers(at, at);
    for (i = 0; i < h.m; i++)
        put(displ[i], mt_rank, i, cnt[i]);
    if (w)
        CALL(Alltoallw, alltoallw, out, cnt, bytes, types, in, cnt, bytes, types, c);
    else
        CALL(Alltoallv, alltoallv, out, cnt, displ, type, in, cnt, displ, type, c);
    for (i = 0; i < h.m; i++)
        check(w ? "alltoallw" : "alltoallv", displ[i], far(i), h.rank, cnt[i]);
    buffers_done(w ? "alltoallw" : "alltoallv");
}

/* x -> a x + b modulo 2^32 as a pair: composition is associative and does not commute. */
struct map {
    unsigned a, b;
};
static MPI_Datatype map_type;
static MPI_Op compose;

static struct map map_of(int rank, int i)
{
    return (struct map){ (unsigned)(rank * 2 + 3), (unsigned)(i + rank * 7 + 1) };
}
static struct map then(struct map f, struct map g)
{
    return (struct map){ f.a * g.a, f.a * g.b + f.b };
}
static void compose_fn(void *vin, void *vinout, int *len, MPI_Datatype *t)
{
    struct map *a = vin, *b = vinout;

    (void)t;
    for (int i = 0; i < *len; i++)
        b[i] = then(a[i], b[i]);
}

/* The remote group's result for element i. */
static struct map far_total(int i)
{
    struct map t = map_of(far(0), i);

    for (int r = 1; r < h.m; r++)
        t = then(t, map_of(far(r), i));
    return t;
}
static int far_sum(int i)
{
    int s = 0;

    for (int r = 0; r < h.m; r++)
        s += item(far(r), 0, i);
    return s;
}

static void put_terms(bool maps, int n)
{
    for (int i = 0; i < n; i++)
        if (maps)
            ((struct map *)(void *)out)[i] = map_of(mt_rank, i);
        else
            out[i] = item(mt_rank, 0, i);
}

static void check_terms(const char *what, bool maps, int first, int n)
{
    int wrong = 0;

    for (int i = 0; i < n; i++) {
        struct map m = far_total(first + i), *got = (struct map *)(void *)in + i;
        wrong += maps ? got->a != m.a || got->b != m.b : in[i] != far_sum(first + i);
    }
    CHECK_MSG(!wrong, "rank %d of %d|%d: %s form %d maps %d: %d of %d results are wrong", mt_rank,
              h.k, mt_size - h.k, what, form, maps, wrong, n);
}

static void test_reduce(int n, int root, bool maps)
{
    MPI_Datatype t = maps ? map_type : MPI_INT;
    MPI_Op op = maps ? compose : MPI_SUM;
    int words = maps ? 2 : 1;

    buffers(n * words, n * words);
    put_terms(maps, n);
    if (root == MPI_PROC_NULL)
        CALL(Reduce, reduce, NULL, NULL, -1, MPI_DATATYPE_NULL, MPI_OP_NULL, root, c);
    else
        CALL(Reduce, reduce, root == MPI_ROOT ? NULL : out, root == MPI_ROOT ? in : NULL, n, t, op,
             root, c);
    if (root == MPI_ROOT)
        check_terms("reduce", maps, 0, n);
    else
        check_untouched("reduce");
    buffers_done("reduce");
}

static void test_allreduce(int n, bool maps)
{
    int words = maps ? 2 : 1;

    buffers(n * words, n * words);
    put_terms(maps, n);
    CALL(Allreduce, allreduce, out, in, n, maps ? map_type : MPI_INT, maps ? compose : MPI_SUM, c);
    check_terms("allreduce", maps, 0, n);
    buffers_done("allreduce");
}

/* Both sides have n elements for each pair of ranks, so that the lengths agree. */
static void test_reduce_scatter(int n, bool maps, bool block)
{
    int words = maps ? 2 : 1, all = n * h.n * h.m, cnt[64], first = 0, i;
    MPI_Datatype t = maps ? map_type : MPI_INT;
    MPI_Op op = maps ? compose : MPI_SUM;

    for (i = 0; i < h.n; i++) /* all but one element to the last ranks */
        cnt[i] = block ? n * h.m : i < h.n - 1 ? (n > 0) : all - (h.n - 1) * (n > 0);
    for (i = 0; i < h.rank; i++)
        first += cnt[i];
    buffers(all * words, cnt[h.rank] * words);
    put_terms(maps, all);
    if (block)
        CALL(Reduce_scatter_block, reduce_scatter_block, out, in, n * h.m, t, op, c);
    else
        CALL(Reduce_scatter, reduce_scatter, out, in, cnt, t, op, c);
    check_terms(block ? "reduce_scatter_block" : "reduce_scatter", maps, first, cnt[h.rank]);
    buffers_done("reduce_scatter");
}

static void each_cut(void (*fn)(int n))
{
    int cuts[3] = { 1, mt_size / 2, mt_size - 1 }, i, k;

    for (k = 0; k < 3; k++) {
        if (k && cuts[k] <= cuts[k - 1])
            continue;
        h = inter_halves(cuts[k]);
        c = h.inter;
        for (form = 0; form < FORMS; form++)
            for (i = 0; i < NCOUNTS; i++)
                for (stride = 1; stride <= (counts[i] > 1000 ? 1 : 2); stride++) {
                    OK(MPI_Type_create_resized(MPI_INT, 0, stride * (MPI_Aint)sizeof(int), &type));
                    OK(MPI_Type_commit(&type));
                    fn(counts[i]);
                    OK(MPI_Type_free(&type));
                }
        inter_done(&h);
    }
}

static void rooted_one(int n)
{
    for (int left = 0; left < 2; left++) {
        int size = left ? h.k : mt_size - h.k;
        for (int r = 0; r<size; r += size> 1 ? size - 1 : 1) {
            int root = root_arg(left, r);
            test_bcast(n, root, r);
            test_gather(n, root, r);
            test_scatter(n, root, r);
            test_gatherv(n, root, r);
            test_scatterv(n, root, r);
            if (stride == 1) {
                test_reduce(n, root, false);
                test_reduce(n, root, true);
            }
        }
    }
}
static void rooted(void) { each_cut(rooted_one); }

static void all_one(int n)
{
    test_allgather(n);
    test_allgatherv(n);
    test_alltoall(n);
    test_alltoallv(n, false);
    test_alltoallv(n, true);
}
static void all(void) { each_cut(all_one); }

static void reductions_one(int n)
{
    if (stride > 1 || n > 1000)
        return;
    for (int maps = 0; maps < 2; maps++) {
        test_allreduce(n, maps);
        test_reduce_scatter(n, maps, false);
        test_reduce_scatter(n, maps, true);
    }
}
static void reductions(void)
{
    OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &map_type));
    OK(MPI_Type_commit(&map_type));
    OK(MPI_Op_create(compose_fn, 0, &compose));
    each_cut(reductions_one);
    OK(MPI_Op_free(&compose));
    OK(MPI_Type_free(&map_type));
}
static void rooted_with_maps(void)
{
    OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &map_type));
    OK(MPI_Type_commit(&map_type));
    OK(MPI_Op_create(compose_fn, 0, &compose));
    rooted();
    OK(MPI_Op_free(&compose));
    OK(MPI_Type_free(&map_type));
}

/* No rank leaves a barrier before the last rank of the other group has entered; until then that
 * rank has received no message of another. */
static void barrier(void)
{
    int i, x = 0, flag;
    MPI_Request r, sent[8];

    for (form = 0; form < 2; form++) {
        h = inter_halves(mt_size / 2);
        for (i = 0; i < 8; i++) {
            sent[i] = MPI_REQUEST_NULL;
            int late = i % mt_size;
            bool late_left = late < h.k;
            if (mt_rank == late) {
                mt_sleep_ms(5);
                OK(MPI_Iprobe(MPI_ANY_SOURCE, i, mt_comm, &flag, MPI_STATUS_IGNORE));
                CHECK_MSG(!flag, "a rank left barrier %d before rank %d entered it", i, late);
            }
            OK(form ? MPI_Ibarrier(h.inter, &r) : MPI_Barrier(h.inter));
            if (form)
                OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
            if (h.left != late_left)
                OK(MPI_Isend(&x, 1, MPI_INT, late, i, mt_comm, &sent[i]));
        }
        for (i = 0; i < 8; i++)
            for (int k = 0; mt_rank == i % mt_size && k < h.m; k++)
                OK(MPI_Recv(&flag, 1, MPI_INT, MPI_ANY_SOURCE, i, mt_comm, MPI_STATUS_IGNORE));
        OK(MPI_Waitall(8, sent, MPI_STATUSES_IGNORE));
        inter_done(&h);
    }
}

/* Many calls under way at once, waited for from the last to the first; the communicator and the
 * datatype are freed meanwhile. */
static void outstanding(void)
{
    enum { N = 6, LEN = 700 };
    static int s[N][LEN], got[N][LEN], sum[N];
    MPI_Request r[4 * N];
    MPI_Datatype t;
    int i, nr = 0, root;

    h = inter_halves((mt_size + 1) / 2);
    OK(MPI_Type_contiguous(LEN, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    for (i = 0; i < N; i++) {
        for (int j = 0; j < LEN; j++)
            s[i][j] = item(mt_rank, i, j);
        root = root_arg(i % 2, 0);
        OK(MPI_Ibarrier(h.inter, &r[nr++]));
        OK(MPI_Ibcast(root == MPI_ROOT ? s[i] : got[i], 1, t, root, h.inter, &r[nr++]));
        OK(MPI_Iallreduce(&mt_rank, &sum[i], 1, MPI_INT, MPI_SUM, h.inter, &r[nr++]));
        OK(MPI_Ibarrier(h.inter, &r[nr++]));
    }
    OK(MPI_Type_free(&t));
    inter_done(&h);
    while (nr-- > 0)
        OK(MPI_Wait(&r[nr], MPI_STATUS_IGNORE));
    for (i = 0; i < N; i++) {
        int want = 0, wrong = 0;
        for (int j = 0; j < h.m; j++)
            want += h.far_first + j;
        CHECK_EQ(sum[i], want);
        for (int j = 0; h.left != (i % 2) && j < LEN; j++)
            wrong += got[i][j] != item(h.far_first, i, j);
        CHECK_EQ(wrong, 0);
    }
}

/* Two persistent calls started in different orders by the ranks. */
static void persistent_orders(void)
{
    MPI_Request r[2];
    int a = mt_rank + 1, x, y, want = 0, i;

    h = inter_halves(mt_size / 2);
    for (i = 0; i < h.m; i++)
        want += h.far_first + i + 1;
    OK(MPI_Allreduce_init(&a, &x, 1, MPI_INT, MPI_SUM, h.inter, MPI_INFO_NULL, &r[0]));
    OK(MPI_Allreduce_init(&a, &y, 1, MPI_INT, MPI_MAX, h.inter, MPI_INFO_NULL, &r[1]));
    for (i = 0; i < 10; i++) {
        x = y = -1;
        OK(MPI_Start(&r[(i + mt_rank) % 2]));
        OK(MPI_Start(&r[(i + mt_rank + 1) % 2]));
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        CHECK_EQ(x, want);
        CHECK_EQ(y, h.far_first + h.m);
    }
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
    inter_done(&h);
}

static void wrong_arguments(void)
{
    int a = 1, x = 2, pair[64] = { 0 };
    MPI_Request r;

    h = inter_halves(1);
    c = h.inter;
    FAILS(MPI_Scan(&a, &x, 1, MPI_INT, MPI_SUM, c), MPI_ERR_COMM);
    FAILS(MPI_Exscan(&a, &x, 1, MPI_INT, MPI_SUM, c), MPI_ERR_COMM);
    FAILS(MPI_Iscan(&a, &x, 1, MPI_INT, MPI_SUM, c, &r), MPI_ERR_COMM);
    FAILS(MPI_Exscan_init(&a, &x, 1, MPI_INT, MPI_SUM, c, MPI_INFO_NULL, &r), MPI_ERR_COMM);
    FAILS(MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_INT, MPI_SUM, c), MPI_ERR_BUFFER);
    FAILS(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, &x, 1, MPI_INT, c), MPI_ERR_BUFFER);
    FAILS(MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, &x, 1, MPI_INT, root_arg(true, 0), c),
          MPI_ERR_BUFFER);
    FAILS(MPI_Allreduce(&a, &a, 1, MPI_INT, MPI_SUM, c), MPI_ERR_BUFFER);
    FAILS(MPI_Alltoall(pair, 1, MPI_INT, &pair[h.m - 1], 1, MPI_INT, c), MPI_ERR_BUFFER);
    FAILS(MPI_Bcast(&a, 1, MPI_INT, h.m, c), MPI_ERR_ROOT);
    FAILS(MPI_Bcast(&a, 1, MPI_INT, -1, c), MPI_ERR_ROOT);
    FAILS(MPI_Bcast(&a, 1, MPI_INT, MPI_ROOT, h.local), MPI_ERR_ROOT);
    CHECK_EQ(x, 2);
    OK(MPI_Barrier(c)); /* the calls left nothing behind */
    OK(MPI_Allreduce(&a, &x, 1, MPI_INT, MPI_SUM, c));
    CHECK_EQ(x, h.m);
    inter_done(&h);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(barrier);
    MT_RUN(rooted_with_maps);
    MT_RUN(all);
    MT_RUN(reductions);
    MT_RUN(outstanding);
    MT_RUN(persistent_orders);
    MT_RUN(wrong_arguments);
    return mt_end();
}
