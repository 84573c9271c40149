/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective with device buffers, against the same call with host buffers, which gives the
 * expected value of every byte, including the receive buffer's gaps and rest, and the send buffer.
 * Each rank's two buffers are of any kind, independently of the other ranks.  Buffers that a rank
 * does not use are invalid addresses.
 *     coll_device [seed=N] [CASE]   (CASE: outside, no_memory; these log errors) */
#include <sched.h>
#include <sys/resource.h>
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { ROOM = 2 << 20, MAX_RANKS = 16, COUNT = 33, LARGE = 6000 };
enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
enum what {
    BCAST,
    REDUCE,
    ALLREDUCE,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLGATHER,
    ALLGATHERV,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    SCAN,
    EXSCAN,
    N_ALLGATHER,
    N_ALLGATHERV,
    N_ALLTOALL,
    N_ALLTOALLV,
    N_ALLTOALLW,
    WHATS
};
static const char *const names[WHATS] = { "bcast",
                                          "reduce",
                                          "allreduce",
                                          "gather",
                                          "gatherv",
                                          "scatter",
                                          "scatterv",
                                          "allgather",
                                          "allgatherv",
                                          "alltoall",
                                          "alltoallv",
                                          "alltoallw",
                                          "reduce_scatter",
                                          "reduce_scatter_block",
                                          "scan",
                                          "exscan",
                                          "neighbor_allgather",
                                          "neighbor_allgatherv",
                                          "neighbor_alltoall",
                                          "neighbor_alltoallv",
                                          "neighbor_alltoallw" };
enum mix { ALL_DEVICE, ONE_HOST, ONE_DEVICE, SEND_DEVICE, RECV_DEVICE, ANY, MIXES };

static int dev;
static uint64_t state;
static MPI_Comm ring; /* a line of neighbours, without neighbours beyond its ends */
static unsigned char *kept[GT_ALL_KINDS][2];
static unsigned char host_s[ROOM], host_r[ROOM], seen[ROOM];
#define NOTHING ((unsigned char *)48)

static unsigned rnd(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 40) % n;
}

static unsigned char *buffer(enum gt_kind kind, int which)
{
    if (!kept[kind][which])
        kept[kind][which] = gt_alloc(kind, dev, ROOM, 0);
    return kept[kind][which];
}

/* ---- one call ---- */

struct call {
    enum what what;
    enum form form;
    int n, root;
    bool in_place;
    MPI_Datatype st, rt; /* for calls that only move data */
    MPI_Comm comm;
    MPI_Op op;
};

/* For the v and w forms. */
struct vectors {
    int counts[MAX_RANKS], displs[MAX_RANKS], mine;
    int sbytes[MAX_RANKS], rbytes[MAX_RANKS];
    MPI_Aint sfar[MAX_RANKS], rfar[MAX_RANKS];
    MPI_Datatype st[MAX_RANKS], rt[MAX_RANKS];
};

static int unequal(const struct call *c, int k) { return c->n ? c->n - k % 3 : 0; }

/* Blocks in reverse order, with gaps between them. */
static struct vectors *make_vectors(const struct call *c)
{
    static struct vectors ring_of[8];
    static int next;
    struct vectors *v = &ring_of[next++ % 8];
    MPI_Aint lb, se, re;
    bool pairs = c->what == ALLTOALLV || c->what == ALLTOALLW, near = c->what >= N_ALLGATHER;

    MPI_Type_get_extent(c->st, &lb, &se);
    MPI_Type_get_extent(c->rt, &lb, &re);
    for (int i = 0; i < MAX_RANKS; i++) {
        v->counts[i] = near ? c->n : unequal(c, pairs ? i + mt_rank : i);
        v->displs[i] = (near ? 1 - i % 2 : (mt_size - 1 - i + MAX_RANKS) % MAX_RANKS) * (c->n + 2);
        v->sbytes[i] = (int)(v->sfar[i] = v->displs[i] * se);
        v->rbytes[i] = (int)(v->rfar[i] = v->displs[i] * re);
        v->st[i] = c->st;
        v->rt[i] = c->rt;
    }
    v->mine = near ? c->n : v->counts[mt_rank];
    return v;
}

/* Replaces buffer arguments: in place at the root or everywhere, an invalid address where
 * unused. */
static void significant(const struct call *c, const void **s, void **r)
{
    bool root = mt_rank == c->root,
         to_root = c->what == GATHER || c->what == GATHERV || c->what == REDUCE;
    bool from_root = c->what == SCATTER || c->what == SCATTERV;

    if (to_root && !root)
        *r = NOTHING;
    if (from_root && !root)
        *s = NOTHING;
    if (c->in_place && from_root && root)
        *r = MPI_IN_PLACE;
    else if (c->in_place && !from_root && (!to_root || root))
        *s = MPI_IN_PLACE;
}

#define FORM_OF(Name, name, ...) \
    (c->form == BLOCKING      ? MPI_##Name(__VA_ARGS__) \
     : c->form == NONBLOCKING ? MPI_I##name(__VA_ARGS__, q) \
                              : MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, q))

static int call_vector(const struct call *c, const void *s, void *r, MPI_Request *q)
{
    struct vectors *v = make_vectors(c);
    MPI_Datatype st = c->st, rt = c->rt;
    MPI_Comm comm = c->comm;

    switch (c->what) {
    case GATHERV:
        return FORM_OF(Gatherv, gatherv, s, v->mine, st, r, v->counts, v->displs, rt, c->root,
                       comm);
    case SCATTERV:
        return FORM_OF(Scatterv, scatterv, s, v->counts, v->displs, st, r, v->mine, rt, c->root,
                       comm);
    case ALLGATHERV:
        return FORM_OF(Allgatherv, allgatherv, s, v->mine, st, r, v->counts, v->displs, rt, comm);
    case ALLTOALLV:
        return FORM_OF(Alltoallv, alltoallv, s, v->counts, v->displs, st, r, v->counts, v->displs,
                       rt, comm);
    case ALLTOALLW:
        return FORM_OF(Alltoallw, alltoallw, s, v->counts, v->sbytes, v->st, r, v->counts,
                       v->rbytes, v->rt, comm);
    case N_ALLGATHERV:
        return FORM_OF(Neighbor_allgatherv, neighbor_allgatherv, s, v->mine, st, r, v->counts,
                       v->displs, rt, ring);
    case N_ALLTOALLV:
        return FORM_OF(Neighbor_alltoallv, neighbor_alltoallv, s, v->counts, v->displs, st, r,
                       v->counts, v->displs, rt, ring);
    case N_ALLTOALLW:
        return FORM_OF(Neighbor_alltoallw, neighbor_alltoallw, s, v->counts, v->sfar, v->st, r,
                       v->counts, v->rfar, v->rt, ring);
    default: /* its counts are those of the blocks */
        return FORM_OF(Reduce_scatter, reduce_scatter, s, r, v->counts, MPI_INT, c->op, comm);
    }
}

static int call(const struct call *c, const void *s, void *r, MPI_Request *q)
{
    MPI_Datatype st = c->st, rt = c->rt;
    MPI_Comm comm = c->comm;
    int n = c->n;

    significant(c, &s, &r);
    switch (c->what) {
    case BCAST:
        return FORM_OF(Bcast, bcast, r, n, rt, c->root, comm);
    case REDUCE:
        return FORM_OF(Reduce, reduce, s, r, n, MPI_INT, c->op, c->root, comm);
    case ALLREDUCE:
        return FORM_OF(Allreduce, allreduce, s, r, n, MPI_INT, c->op, comm);
    case GATHER:
        return FORM_OF(Gather, gather, s, n, st, r, n, rt, c->root, comm);
    case SCATTER:
        return FORM_OF(Scatter, scatter, s, n, st, r, n, rt, c->root, comm);
    case ALLGATHER:
        return FORM_OF(Allgather, allgather, s, n, st, r, n, rt, comm);
    case ALLTOALL:
        return FORM_OF(Alltoall, alltoall, s, n, st, r, n, rt, comm);
    case REDUCE_SCATTER_BLOCK:
        return FORM_OF(Reduce_scatter_block, reduce_scatter_block, s, r, n, MPI_INT, c->op, comm);
    case SCAN:
        return FORM_OF(Scan, scan, s, r, n, MPI_INT, c->op, comm);
    case EXSCAN:
        return FORM_OF(Exscan, exscan, s, r, n, MPI_INT, c->op, comm);
    case N_ALLGATHER:
        return FORM_OF(Neighbor_allgather, neighbor_allgather, s, n, st, r, n, rt, ring);
    case N_ALLTOALL:
        return FORM_OF(Neighbor_alltoall, neighbor_alltoall, s, n, st, r, n, rt, ring);
    default:
        return call_vector(c, s, r, q);
    }
}

/* ---- the call with device buffers against that with host buffers ---- */

/* Small numbers: sums are the same in any order. */
static void fill(unsigned char *host, unsigned char *p, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++)
        host[i] = gt_byte(i, key + 1000 * (uint64_t)mt_rank) & 7;
    gt_write(p, host, n);
}

static void compare(const struct call *c, const char *which, const unsigned char *want,
                    const unsigned char *p, size_t n)
{
    size_t at = 0;

    gt_read(seen, p, n);
    while (at < n && seen[at] == want[at])
        at++;
    CHECK_MSG(at == n, "%s, form %d, %d elements%s: byte %zu of the %s buffer is %d, not %d",
              names[c->what], c->form, c->n, c->in_place ? " in place" : "", at, which, seen[at],
              want[at]);
}

static void wait_for(const struct call *c, MPI_Request *q)
{
    int done = 0;

    if (c->form == PERSISTENT)
        OK(MPI_Start(q));
    if (c->what % 2)
        OK(MPI_Wait(q, MPI_STATUS_IGNORE));
    else
        for (; !done; sched_yield())
            OK(MPI_Test(q, &done, MPI_STATUS_IGNORE));
}

static void one(const struct call *c, enum gt_kind sk, enum gt_kind rk)
{
    unsigned char *s = buffer(sk, 0) + 4 * rnd(5), *r = buffer(rk, 1) + 4 * rnd(5);
    MPI_Request qh = MPI_REQUEST_NULL, q = MPI_REQUEST_NULL;
    MPI_Aint lb, extent;
    size_t room;

    MPI_Type_get_extent(c->rt, &lb, &extent);
    room = (size_t)extent * (size_t)(c->n + 2) * (size_t)(mt_size > 2 ? mt_size : 2) + 64;
    room = room < ROOM - 16 ? room : ROOM - 16;
    for (int round = 0; round < (c->form == PERSISTENT ? 3 : 1); round++) {
        fill(host_s, s, room, rnd(1000));
        fill(host_r, r, room, rnd(1000));
        if (!round) {
            OK(call(c, host_s, host_r, &qh));
            if (c->form == BLOCKING) {
                OK(call(c, s, r, &q));
                break;
            }
            OK(call(c, s, r, &q));
        }
        wait_for(c, &q);
        wait_for(c, &qh);
        compare(c, "receive", host_r, r, room);
    }
    compare(c, "receive", host_r, r, room);
    compare(c, "send", host_s, s, room);
    if (c->form == PERSISTENT) {
        OK(MPI_Request_free(&q));
        OK(MPI_Request_free(&qh));
    }
}

static void kinds_of(enum mix m, enum gt_kind *s, enum gt_kind *r)
{
    static const enum gt_kind any[] = { GT_HOST, GT_PINNED, GT_MANAGED, GT_CUDA, GT_VMM, GT_POOL };
    bool chosen = mt_rank == (int)(m + 1) % mt_size;

    *s = m == RECV_DEVICE || (m == ONE_DEVICE && !chosen) || (m == ONE_HOST && chosen) ? GT_HOST
                                                                                       : GT_CUDA;
    *r = m == SEND_DEVICE ? GT_HOST : m == RECV_DEVICE ? GT_CUDA : *s;
    if (m == ANY) {
        *s = any[rnd(6)];
        *r = any[rnd(6)];
    }
}

static bool knows_in_place(enum what w) { return w != BCAST && w < N_ALLGATHER; }

/* All calls and forms; with `all` every mix of memory, else two mixes for each. */
static void every(int n, MPI_Datatype st, MPI_Datatype rt, bool in_place, bool all)
{
    int dims[1] = { mt_size }, periodic[1] = { 0 };
    enum gt_kind s, r;

    OK(MPI_Cart_create(mt_comm, 1, dims, periodic, 0, &ring));
    for (int w = 0; w < WHATS; w++)
        for (int f = 0; f < FORMS; f++)
            for (int m = 0; m < MIXES; m++) {
                struct call c = { (enum what)w, (enum form)f, n,  (w + f + m) % mt_size,
                                  in_place,     st,           rt, mt_comm,
                                  MPI_SUM };
                if ((in_place && !knows_in_place(c.what)) ||
                    (!all && m != ALL_DEVICE && m != 1 + (w + f) % (MIXES - 1)))
                    continue;
                kinds_of((enum mix)m, &s, &r);
                one(&c, s, r);
            }
    OK(MPI_Comm_free(&ring));
}

static void contiguous(void) { every(COUNT, MPI_INT, MPI_INT, false, true); }
static void in_place(void) { every(COUNT, MPI_INT, MPI_INT, true, false); }
static void nothing(void) { every(0, MPI_INT, MPI_INT, false, false); }

static MPI_Datatype pair_type(int first, int second, int extent)
{
    MPI_Datatype plain, t;
    int lens[2] = { 1, 1 }, at[2] = { first, second };

    OK(MPI_Type_indexed(2, lens, at, MPI_INT, &plain));
    OK(MPI_Type_create_resized(plain, 0, extent * (MPI_Aint)sizeof(int), &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Type_free(&plain));
    return t;
}

static void with_gaps(void)
{
    MPI_Datatype a = pair_type(2, 1, 4), b = pair_type(0, 3, 5);

    every(COUNT, a, b, false, false);
    every(COUNT, b, b, true, false);
    OK(MPI_Type_free(&a));
    OK(MPI_Type_free(&b));
}

/* Large enough for other algorithms, and for several pieces of packed data. */
static void large(void)
{
    MPI_Datatype t = pair_type(0, 2, 3);
    enum gt_kind s, r;
    struct call c = { ALLTOALL, BLOCKING, LARGE, 0, false, t, t, mt_comm, MPI_SUM };

    for (int w = 0; w < N_ALLGATHER; w++) {
        c = (struct call){ (enum what)w, BLOCKING, LARGE,   0,      w % 3 == 1 && w != BCAST,
                           MPI_INT,      MPI_INT,  mt_comm, MPI_SUM };
        kinds_of(w % 2 ? ALL_DEVICE : ANY, &s, &r);
        one(&c, s, r);
    }
    c = (struct call){ BCAST, NONBLOCKING, 150000, 0, false, t, t, mt_comm, MPI_SUM };
    one(&c, GT_CUDA, GT_CUDA);
    OK(MPI_Type_free(&t));
}

/* Persistent calls use messages; with this much data the device takes part in the algorithms.
 */
static void by_messages(void)
{
    enum { N = 20011 };
    MPI_Datatype t = pair_type(0, 2, 3);
    enum gt_kind s, r;

    for (int w = 0; w < N_ALLGATHER; w++)
        for (int k = 0; k < 4; k++) {
            MPI_Datatype st = k == 3 ? t : MPI_INT, rt = k == 2 ? t : st;
            struct call c = { (enum what)w, PERSISTENT, k > 1 ? N / 2 : N, w % mt_size, k == 1,
                              st,           rt,         mt_comm,           MPI_SUM };
            if ((c.in_place && !knows_in_place(c.what)) || (k == 2 && w != ALLGATHER))
                continue;
            if (k == 2)
                OK(MPI_Type_contiguous(2, MPI_INT, &c.st));
            if (k == 2)
                OK(MPI_Type_commit(&c.st));
            kinds_of(w % 3 ? ALL_DEVICE : (enum mix)(1 + (w / 3 + k) % (MIXES - 1)), &s, &r);
            one(&c, s, r);
            if (k == 2)
                OK(MPI_Type_free(&c.st));
        }
    OK(MPI_Type_free(&t));
}

/* Pairs with a hole, which kernels reduce in their C layout and messages pack; and the vectors of
 * two groups. */
static void pairs_by_messages(void)
{
    enum { N = 9001 };
    struct pair {
        double v;
        int i;
    };
    struct call c = { .what = REDUCE_SCATTER_BLOCK, .form = PERSISTENT, .n = N };
    size_t room = N * sizeof(struct pair) * (size_t)mt_size;
    unsigned char *s = gt_alloc(GT_CUDA, dev, room, 0), *r = gt_alloc(GT_CUDA, dev, room, 0);
    MPI_Comm half, inter;
    MPI_Request q;

    CHECK(room <= ROOM);
    for (int k = 0; k < 2; k++) {
        fill(host_s, s, room, 11);
        fill(host_r, r, room, 12);
        for (size_t i = 0; i < room / sizeof(struct pair); i++) {
            struct pair *p = (struct pair *)(void *)host_s + i;
            p->v = (double)(rnd(5) + 1);
            p->i = (int)rnd(100);
        }
        gt_write(s, host_s, room);
        for (int device = 0; device < 2; device++) {
            void *a = device ? s : host_s, *b = device ? r : host_r;
            if (k)
                OK(MPI_Allreduce_init(a, b, N, MPI_DOUBLE_INT, MPI_MINLOC, mt_comm, MPI_INFO_NULL,
                                      &q));
            else
                OK(MPI_Reduce_scatter_block_init(a, b, N, MPI_DOUBLE_INT, MPI_MAXLOC, mt_comm,
                                                 MPI_INFO_NULL, &q));
            OK(MPI_Start(&q));
            OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
            OK(MPI_Request_free(&q));
        }
        for (int i = 0; i < N; i++) { /* the contents of holes are undefined */
            struct pair *want = (struct pair *)(void *)host_r + i, got;
            gt_read(&got, r + (size_t)i * sizeof got, sizeof got);
            CHECK_MSG(got.v == want->v && got.i == want->i, "element %d: %g at %d, not %g at %d", i,
                      got.v, got.i, want->v, want->i);
        }
        compare(&c, "send", host_s, s, room);
    }
    if (mt_size > 1) {
        OK(MPI_Comm_split(mt_comm, mt_rank % 2, 0, &half));
        OK(MPI_Intercomm_create(half, 0, mt_comm, 1 - mt_rank % 2, 3, &inter));
        fill(host_s, s, room, 13);
        fill(host_r, r, room, 14);
        OK(MPI_Allreduce(host_s, host_r, 4 * N, MPI_INT, MPI_SUM, inter));
        OK(MPI_Allreduce(s, r, 4 * N, MPI_INT, MPI_SUM, inter));
        compare(&c, "receive", host_r, r, room);
        OK(MPI_Comm_free(&inter));
        OK(MPI_Comm_free(&half));
    }
    gt_free(s);
    gt_free(r);
}

/* ---- other cases ---- */

/* Several calls in progress at once, completed in a different order. */
static void outstanding(void)
{
    enum { N = 8 };
    static const enum what what[N] = { ALLREDUCE, ALLGATHER, BCAST,          SCAN,
                                       ALLTOALL,  EXSCAN,    REDUCE_SCATTER, GATHER };
    unsigned char *s = gt_alloc(GT_CUDA, dev, N * 4096, 0),
                  *r = gt_alloc(GT_CUDA, dev, N * 4096, 4);
    MPI_Request q[2][N];

    for (int persistent = 0; persistent < 2; persistent++) {
        fill(host_s, s, N * 4096, 7);
        fill(host_r, r, N * 4096, 8);
        for (int i = 0; i < N; i++) {
            struct call c = { what[i], persistent ? PERSISTENT : NONBLOCKING,
                              10,      0,
                              false,   MPI_INT,
                              MPI_INT, mt_comm,
                              MPI_SUM };
            OK(call(&c, host_s + i * 4096, host_r + i * 4096, &q[0][i]));
            OK(call(&c, s + i * 4096, r + i * 4096, &q[1][i]));
        }
        if (persistent)
            OK(MPI_Startall(2 * N, q[0]));
        for (int i = N - 1; i >= N / 2; i--)
            OK(MPI_Wait(&q[1][i], MPI_STATUS_IGNORE));
        OK(MPI_Waitall(N, q[0], MPI_STATUSES_IGNORE));
        OK(MPI_Waitall(N / 2, q[1], MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++) {
            struct call c = { .what = what[i], .form = NONBLOCKING, .n = 10 };
            compare(&c, "receive", host_r + i * 4096, r + i * 4096, 4096);
            if (persistent) {
                OK(MPI_Request_free(&q[0][i]));
                OK(MPI_Request_free(&q[1][i]));
            }
        }
    }
    gt_free(s);
    gt_free(r);
}

/* The bytes between the data do not belong to the buffer: the program may write them during the
 * call. */
static void gaps_are_the_programs(void)
{
    enum { N = 50 };
    MPI_Datatype t = pair_type(0, 2, 4);
    unsigned char *r = gt_alloc(GT_CUDA, dev, N * 16, 0), word[16];
    MPI_Request q;

    gt_set(r, mt_rank ? 1 : 2, N * 16);
    mt_sync();
    if (mt_rank)
        OK(MPI_Ibcast(r, N, t, 0, mt_comm, &q));
    for (int i = 0; i < N; i++)
        gt_set(r + i * 16 + 4, 3, 4);
    mt_sync();
    if (!mt_rank)
        OK(MPI_Ibcast(r, N, t, 0, mt_comm, &q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++) {
        gt_read(word, r + i * 16, 16);
        CHECK_EQ(word[0], 2);
        CHECK_EQ(word[4], 3);
        CHECK_EQ(word[8], 2);
        CHECK_EQ(word[12], mt_rank ? 1 : 2);
    }
    OK(MPI_Type_free(&t));
    gt_free(r);
}

/* For pairs with gaps: user functions get aligned host memory. */
static void multiply(void *in, void *inout, int *len, MPI_Datatype *t)
{
    unsigned *a = in, *b = inout;

    (void)t;
    CHECK_MSG(((uintptr_t)in | (uintptr_t)inout) % sizeof(int) == 0, "%p, %p", in, inout);
    for (int i = 0; i < *len; i++, a += 4, b += 4) { /* not commutative */
        b[2] = a[2] * b[0] + b[2];
        b[0] *= a[0];
    }
}

static void user_operation(void)
{
    enum { N = 20 };
    MPI_Datatype t = pair_type(0, 2, 4);
    MPI_Op op;
    int *hs = (int *)(void *)host_s, *hr = (int *)(void *)host_r;
    unsigned char *s = gt_alloc(GT_CUDA, dev, N * 16, 4), *r = gt_alloc(GT_MANAGED, dev, N * 16, 8);
    struct call c = { .n = N };

    OK(MPI_Op_create(multiply, 0, &op));
    for (int k = 0; k < 4; k++) {
        fill(host_s, s, N * 16, 3);
        fill(host_r, r, N * 16, 4);
        if (k == 0) {
            OK(MPI_Allreduce(hs, hr, N, t, op, mt_comm));
            OK(MPI_Allreduce(s, r, N, t, op, mt_comm));
        } else if (k == 1) {
            OK(MPI_Scan(MPI_IN_PLACE, hr, N, t, op, mt_comm));
            OK(MPI_Scan(MPI_IN_PLACE, r, N, t, op, mt_comm));
        } else if (k == 2) {
            OK(MPI_Reduce_local(hs, hr, N, t, op));
            OK(MPI_Reduce_local(s, r, N, t, op));
        } else {
            OK(MPI_Reduce(hs, hr, N, t, op, mt_size - 1, mt_comm));
            OK(MPI_Reduce(s, r, N, t, op, mt_size - 1, mt_comm));
        }
        c.what = k == 1 ? SCAN : ALLREDUCE;
        compare(&c, "receive", host_r, r, N * 16);
        compare(&c, "send", host_s, s, N * 16);
    }
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&t));
    gt_free(s);
    gt_free(r);
}

static void reduce_local(void)
{
    struct call c = { .what = REDUCE, .n = 77 };
    enum gt_kind s, r;

    for (int m = 0; m < MIXES; m++) {
        kinds_of((enum mix)m, &s, &r);
        unsigned char *ps = buffer(s, 0) + 4, *pr = buffer(r, 1) + 12;
        fill(host_s, ps, 400, 1);
        fill(host_r, pr, 400, 2);
        OK(MPI_Reduce_local(host_s, host_r, 77, MPI_INT, MPI_SUM));
        OK(MPI_Reduce_local(ps, pr, 77, MPI_INT, MPI_SUM));
        OK(MPI_Reduce_local(NOTHING, pr, 0, MPI_INT, MPI_SUM));
        compare(&c, "receive", host_r, pr, 400);
        compare(&c, "send", host_s, ps, 400);
    }
}

/* Two groups: the even and the odd ranks. */
static void between_groups(void)
{
    enum { N = 40 };
    MPI_Comm half, inter;
    MPI_Request q;
    int group = mt_rank % 2, others, root;
    unsigned char *s = buffer(GT_CUDA, 0), *r = buffer(GT_CUDA, 1);

    if (mt_size < 2) {
        mt_skip("two groups need two ranks");
        return;
    }
    OK(MPI_Comm_split(mt_comm, group, 0, &half));
    OK(MPI_Intercomm_create(half, 0, mt_comm, 1 - group, 3, &inter));
    MPI_Comm_remote_size(inter, &others);
    root = group ? 0 : mt_rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    for (int k = 0; k < 8; k++) {
        struct call c = { .what = k == 0 ? BCAST : ALLREDUCE, .n = N };
        unsigned char *to = r;
        fill(host_s, s, 8192, 1);
        fill(host_r, r, 8192, 2);
        for (int device = 0; device < 2; device++) {
            void *a = device ? s : host_s, *b = device ? to : host_r;
            if (k == 0)
                OK(MPI_Bcast(root == MPI_PROC_NULL ? NOTHING : b, N, MPI_INT, root, inter));
            else if (k == 1)
                OK(MPI_Allreduce(a, b, N, MPI_INT, MPI_SUM, inter));
            else if (k == 2)
                OK(MPI_Allgather(a, N, MPI_INT, b, N, MPI_INT, inter));
            else if (k == 3)
                OK(MPI_Alltoall(a, N, MPI_INT, b, N, MPI_INT, inter));
            else if (k == 4)
                OK(MPI_Reduce_scatter_block(a, b, others, MPI_INT, MPI_SUM, inter));
            else if (k == 5)
                OK(MPI_Gather(a, N, MPI_INT, b, N, MPI_INT, root, inter));
            else if (k == 6)
                OK(MPI_Scatter(a, N, MPI_INT, b, N, MPI_INT, root, inter));
            else
                OK(MPI_Reduce(a, b, N, MPI_INT, MPI_SUM, root, inter));
        }
        compare(&c, "receive", host_r, r, 8192);
        compare(&c, "send", host_s, s, 8192);
    }
    OK(MPI_Iallreduce(s, r, N, MPI_INT, MPI_SUM, inter, &q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
}

/* Absolute addresses: one block in each of several host and device allocations. */
static void absolute(void)
{
    enum { N = 100 };
    static const enum gt_kind kinds[4] = { GT_CUDA, GT_HOST, GT_VMM, GT_MANAGED };
    MPI_Datatype st[MAX_RANKS], rt[MAX_RANKS];
    unsigned char *s[MAX_RANKS], *r[MAX_RANKS];
    int one_each[MAX_RANKS], zero[MAX_RANKS] = { 0 }, len = N;
    MPI_Aint at;

    for (int i = 0; i < mt_size; i++) {
        s[i] = gt_alloc(kinds[(i + mt_rank) % 4], dev, N, 3);
        r[i] = gt_alloc(kinds[(i + mt_rank + 1) % 4], dev, N, 5);
        gt_fill(s[i], N, (uint64_t)(mt_rank * MAX_RANKS + i));
        OK(MPI_Get_address(s[i], &at));
        OK(MPI_Type_create_hindexed(1, &len, &at, MPI_BYTE, &st[i]));
        OK(MPI_Get_address(r[i], &at));
        OK(MPI_Type_create_hindexed(1, &len, &at, MPI_BYTE, &rt[i]));
        OK(MPI_Type_commit(&st[i]));
        OK(MPI_Type_commit(&rt[i]));
        one_each[i] = 1;
    }
    OK(MPI_Alltoallw(MPI_BOTTOM, one_each, zero, st, MPI_BOTTOM, one_each, zero, rt, mt_comm));
    for (int i = 0; i < mt_size; i++) {
        GT_CHECK_DATA(r[i], N, (uint64_t)(i * MAX_RANKS + mt_rank));
        CHECK(gt_guards_intact(r[i]));
        gt_free(s[i]);
        gt_free(r[i]);
        OK(MPI_Type_free(&st[i]));
        OK(MPI_Type_free(&rt[i]));
    }
}

/* One datatype with pieces in several allocations. */
static void several_allocations(void)
{
    enum { N = 500, PIECES = 3 };
    static const enum gt_kind kinds[PIECES] = { GT_CUDA, GT_HOST, GT_VMM };
    unsigned char *p[PIECES], *all = buffer(GT_CUDA, 1);
    int lens[PIECES] = { N, N - 1, N - 2 }, total = 3 * N - 3;
    MPI_Datatype t;
    MPI_Aint at[PIECES];

    for (int i = 0; i < PIECES; i++) {
        p[i] = gt_alloc(kinds[i], dev, N, 1);
        gt_fill(p[i], N, (uint64_t)(10 * mt_rank + i));
        OK(MPI_Get_address(p[i], &at[i]));
    }
    OK(MPI_Type_create_hindexed(PIECES, lens, at, MPI_BYTE, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Allgather(MPI_BOTTOM, 1, t, all, total, MPI_BYTE, mt_comm));
    for (int from = 0; from < mt_size; from++)
        for (int i = 0, k = from * total; i < PIECES; k += lens[i++])
            GT_CHECK_DATA(all + k, (size_t)lens[i], (uint64_t)(10 * from + i));
    OK(MPI_Bcast(MPI_BOTTOM, 1, t, mt_size - 1, mt_comm));
    for (int i = 0; i < PIECES; i++) {
        GT_CHECK_DATA(p[i], (size_t)lens[i], (uint64_t)(10 * (mt_size - 1) + i));
        CHECK(gt_guards_intact(p[i]));
        gt_free(p[i]);
    }
    OK(MPI_Type_free(&t));
}

/* An error on every rank: no data are sent, and the communicator stays usable. */
static void still_works(unsigned char *p)
{
    int got = 0, one = 1;

    gt_write(p, &one, sizeof one);
    OK(MPI_Allreduce(MPI_IN_PLACE, p, 1, MPI_INT, MPI_SUM, mt_comm));
    gt_read(&got, p, sizeof got);
    CHECK_EQ(got, mt_size);
}

static void outside(void)
{
    MPI_Request q = MPI_REQUEST_NULL;
    unsigned char *p = gt_alloc(GT_CUDA, dev, 4u << 20, 0), *s = gt_alloc(GT_CUDA, dev, 64, 0);
    int n = 3 << 20;

    FAILS(MPI_Allreduce(MPI_IN_PLACE, p, n, MPI_INT, MPI_SUM, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Bcast(p, n, MPI_INT, 0, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Alltoall(p, 999, MPI_INT, p + (4u << 20) - 4, 999, MPI_INT, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Iallreduce(MPI_IN_PLACE, p, n, MPI_INT, MPI_SUM, mt_comm, &q), MPI_ERR_BUFFER);
    CHECK(q == MPI_REQUEST_NULL);
    FAILS(MPI_Reduce_local(p, s, n, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    OK(MPI_Allreduce_init(MPI_IN_PLACE, p, n, MPI_INT, MPI_SUM, mt_comm, MPI_INFO_NULL, &q));
    FAILS(MPI_Start(&q), MPI_ERR_BUFFER);
    OK(MPI_Request_free(&q));
    still_works(p);
    gt_free(p);
    gt_free(s);
}

/* Calls that need host memory: with a user function, and with gaps in the data that several ranks
 * send. */
static void no_memory(void)
{
    enum { NBYTES = 1 << 30 }; /* more than idle staging memory can release */
    MPI_Datatype t;
    MPI_Op op;
    unsigned char *p = gt_try_alloc(GT_CUDA, dev, NBYTES, 0);
    struct rlimit old, now;
    long pages = 0;
    MPI_Request q;
    FILE *f = mt_size > 1 ? fopen("/proc/self/statm", "r") : NULL;

    if (!p || !f || fscanf(f, "%ld", &pages) != 1 || getrlimit(RLIMIT_AS, &old) != 0)
        mt_skip("no way to run out of memory");
    if (f)
        fclose(f);
    mt_sync();
    if (!p || !pages)
        return;
    t = pair_type(0, 2, 4);
    OK(MPI_Op_create(multiply, 0, &op));
    now = old;
    now.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (16u << 20);
    CHECK_EQ(setrlimit(RLIMIT_AS, &now), 0);
    FAILS(MPI_Allreduce(MPI_IN_PLACE, p, NBYTES / 16, t, op, mt_comm), MPI_ERR_NO_MEM);
    OK(MPI_Ibcast(p, NBYTES / 16, t, 0, mt_comm, &q)); /* takes part, and sends poison */
    FAILS(MPI_Wait(&q, MPI_STATUS_IGNORE), MPI_ERR_NO_MEM);
    CHECK_EQ(setrlimit(RLIMIT_AS, &old), 0);
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&t));
    still_works(p);
    gt_free(p);
}

static void nobody_wrote_elsewhere(void)
{
    for (int k = 0; k < GT_ALL_KINDS; k++)
        for (int i = 0; i < 2; i++)
            if (kept[k][i]) {
                CHECK_MSG(gt_guards_intact(kept[k][i]), "%s", gt_kind_names[k]);
                gt_free(kept[k][i]);
            }
}

int main(int argc, char **argv)
{
    unsigned seed = 1;
    const char *only = NULL; /* a case that logs errors */

    gt_need(1);
    mt_init(argc, argv);
    for (int i = 1; i < argc; i++)
        if (sscanf(argv[i], "seed=%u", &seed) != 1)
            only = argv[i];
    mt_seed = seed;
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    state = seed * 1000u + (unsigned)mt_rank;
    if (only) {
        if (!strcmp(only, "outside"))
            MT_RUN(outside);
        else
            MT_RUN(no_memory);
        return mt_end();
    }
    MT_RUN(contiguous);
    MT_RUN(in_place);
    MT_RUN(with_gaps);
    MT_RUN(nothing);
    MT_RUN(large);
    MT_RUN(by_messages);
    MT_RUN(pairs_by_messages);
    MT_RUN(outstanding);
    MT_RUN(gaps_are_the_programs);
    MT_RUN(user_operation);
    MT_RUN(reduce_local);
    MT_RUN(between_groups);
    MT_RUN(absolute);
    MT_RUN(several_allocations);
    MT_RUN(nobody_wrote_elsewhere);
    return mt_end();
}
