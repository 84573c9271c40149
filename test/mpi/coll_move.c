/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that move data (MPI-5.0 sections 6.3 to 6.8): barrier, bcast, gather, scatter,
 * allgather, alltoall, over counts, roots and layouts, in place and empty, and their nonblocking
 * forms.  Item i that rank a sends to rank b is item(a, b, i). */
#include "test/mpi/mpitest.h"

enum { MAX_RANKS = 64 };
static const int counts[] = { 0, 1, 3, 12, 13, 100, 1000, 2048, 5003, 40000 };
#define NCOUNTS ((int)(sizeof(counts) / sizeof(counts[0])))

static int item(int from, int to, int i) { return from * 1000003 + to * 10007 + i * 3; }

static int *ints(size_t n) { return (int *)(void *)mt_alloc(n * sizeof(int)); }

static bool ints_guard(const int *p, size_t n)
{
    return mt_guard_intact((const unsigned char *)p, n * sizeof(int));
}

static int wrong_items(const int *p, int from, int to, int n)
{
    int i, wrong = 0;

    for (i = 0; i < n; i++)
        wrong += p[i] != item(from, to, i);
    return wrong;
}

static void put_items(int *p, int from, int to, int n)
{
    int i;

    for (i = 0; i < n; i++)
        p[i] = item(from, to, i);
}

static int nb; /* 1: use the nonblocking form and wait */
static int finish(int rc, MPI_Request *r)
{
    return rc == MPI_SUCCESS && nb ? MPI_Wait(r, MPI_STATUS_IGNORE) : rc;
}

/* No rank leaves a barrier before the last has entered: a rank that enters late must not have
 * received the message that every other rank sends after the barrier. */
static void barrier(void)
{
    int i, late, flag, x = 0;
    MPI_Request r = MPI_REQUEST_NULL, sent[20];

    for (i = 0; i < 20; i++) {
        sent[i] = MPI_REQUEST_NULL;
        late = i % mt_size;
        if (mt_rank == late) {
            mt_sleep_ms(i < mt_size ? 5 : 0);
            OK(MPI_Iprobe(MPI_ANY_SOURCE, i, mt_comm, &flag, MPI_STATUS_IGNORE));
            CHECK_MSG(!flag, "a rank left barrier %d before rank %d entered it", i, late);
        }
        OK(finish(nb ? MPI_Ibarrier(mt_comm, &r) : MPI_Barrier(mt_comm), &r));
        if (mt_rank != late)
            OK(MPI_Isend(&x, 1, MPI_INT, late, i, mt_comm, &sent[i]));
    }
    for (i = 0; i < 20; i++)
        for (int n = 0; i % mt_size == mt_rank && n < mt_size - 1; n++)
            OK(MPI_Recv(&flag, 1, MPI_INT, MPI_ANY_SOURCE, i, mt_comm, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(20, sent, MPI_STATUSES_IGNORE));
}

static void bcast(void)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int c, root, n;

    for (c = 0; c < NCOUNTS; c++)
        for (root = 0; root < mt_size; root++) {
            int *p = ints((size_t)(n = counts[c]));
            if (mt_rank == root)
                put_items(p, root, c, n);
            OK(finish(nb ? MPI_Ibcast(p, n, MPI_INT, root, mt_comm, &r)
                         : MPI_Bcast(p, n, MPI_INT, root, mt_comm),
                      &r));
            CHECK_EQ(wrong_items(p, root, c, n), 0);
            CHECK(ints_guard(p, (size_t)n));
            free(p);
        }
}

static void bcast_large(void)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int n = 1 << 20, root = mt_size - 1;
    int *p = ints((size_t)n);

    if (mt_rank == root)
        put_items(p, root, 9, n);
    OK(finish(nb ? MPI_Ibcast(p, n, MPI_INT, root, mt_comm, &r)
                 : MPI_Bcast(p, n, MPI_INT, root, mt_comm),
              &r));
    CHECK_EQ(wrong_items(p, root, 9, n), 0);
    free(p);
}

/* The root sends from a vector, the others receive plain ints, then the reverse. */
static void bcast_vector(void)
{
    enum { N = 3000 };
    int root, i, wrong, *p = ints(2 * N);
    bool strided;
    MPI_Datatype t;

    OK(MPI_Type_vector(N, 1, 2, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    for (root = 0; root < mt_size; root++) {
        strided = (mt_rank == root) == (root % 2 == 0);
        for (i = 0; i < 2 * N; i++)
            p[i] = -1;
        for (i = 0; mt_rank == root && i < N; i++)
            p[strided ? 2 * i : i] = item(root, 0, i);
        OK(strided ? MPI_Bcast(p, 1, t, root, mt_comm) : MPI_Bcast(p, N, MPI_INT, root, mt_comm));
        for (wrong = i = 0; i < N; i++)
            wrong += p[strided ? 2 * i : i] != item(root, 0, i);
        for (i = 0; strided && i < N; i++)
            wrong += p[2 * i + 1] != -1;
        CHECK_EQ(wrong, 0);
    }
    OK(MPI_Type_free(&t));
    free(p);
}

static void gather_one(int n, int root, bool in_place)
{
    MPI_Request r = MPI_REQUEST_NULL;
    bool at_root = mt_rank == root;
    int *in = at_root ? ints((size_t)(n * mt_size)) : NULL, *out = ints((size_t)n), k, wrong = 0;
    const void *send = out;

    put_items(out, mt_rank, root, n);
    if (at_root && in_place) {
        put_items(in + n * root, root, root, n);
        send = MPI_IN_PLACE;
    }
    OK(finish(nb ? MPI_Igather(send, n, MPI_INT, in, n, MPI_INT, root, mt_comm, &r)
                 : MPI_Gather(send, n, MPI_INT, in, n, MPI_INT, root, mt_comm),
              &r));
    for (k = 0; at_root && k < mt_size; k++)
        wrong += wrong_items(in + n * k, k, root, n);
    CHECK_MSG(wrong == 0, "gather of %d to %d%s: %d items wrong", n, root,
              in_place ? " in place" : "", wrong);
    CHECK(!at_root || ints_guard(in, (size_t)(n * mt_size)));
    free(in);
    free(out);
}

static void gather(void)
{
    int c, root;

    for (c = 0; c < NCOUNTS; c++)
        for (root = 0; root < mt_size; root++) {
            gather_one(counts[c], root, false);
            gather_one(counts[c], root, true);
        }
}

static void scatter_one(int n, int root, bool in_place)
{
    MPI_Request r = MPI_REQUEST_NULL;
    bool at_root = mt_rank == root;
    int *out = at_root ? ints((size_t)(n * mt_size)) : NULL, *in = ints((size_t)n), k;
    void *recv = at_root && in_place ? MPI_IN_PLACE : in;

    for (k = 0; at_root && k < mt_size; k++)
        put_items(out + n * k, root, k, n);
    OK(finish(nb ? MPI_Iscatter(out, n, MPI_INT, recv, n, MPI_INT, root, mt_comm, &r)
                 : MPI_Scatter(out, n, MPI_INT, recv, n, MPI_INT, root, mt_comm),
              &r));
    CHECK_EQ(wrong_items(at_root && in_place ? out + n * root : in, root, mt_rank, n), 0);
    CHECK(ints_guard(in, (size_t)n));
    free(in);
    free(out);
}

static void scatter(void)
{
    int c, root;

    for (c = 0; c < NCOUNTS; c++)
        for (root = 0; root < mt_size; root++) {
            scatter_one(counts[c], root, false);
            scatter_one(counts[c], root, true);
        }
}

static void allgather_one(int n, bool in_place)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int *in = ints((size_t)(n * mt_size)), *out = ints((size_t)n), k, wrong = 0;
    const void *send = in_place ? MPI_IN_PLACE : out;

    put_items(in_place ? in + n * mt_rank : out, mt_rank, 0, n);
    OK(finish(nb ? MPI_Iallgather(send, n, MPI_INT, in, n, MPI_INT, mt_comm, &r)
                 : MPI_Allgather(send, n, MPI_INT, in, n, MPI_INT, mt_comm),
              &r));
    for (k = 0; k < mt_size; k++)
        wrong += wrong_items(in + n * k, k, 0, n);
    CHECK_MSG(wrong == 0, "allgather of %d%s: %d items wrong", n, in_place ? " in place" : "",
              wrong);
    CHECK(ints_guard(in, (size_t)(n * mt_size)));
    free(in);
    free(out);
}

static void allgather(void)
{
    int c;

    for (c = 0; c < NCOUNTS; c++) {
        allgather_one(counts[c], false);
        allgather_one(counts[c], true);
    }
}

static void alltoall_one(int n, bool in_place)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int *in = ints((size_t)(n * mt_size)), *out = ints((size_t)(n * mt_size)), k, wrong = 0;
    const void *send = in_place ? MPI_IN_PLACE : out;

    for (k = 0; k < mt_size; k++)
        put_items((in_place ? in : out) + n * k, mt_rank, k, n);
    OK(finish(nb ? MPI_Ialltoall(send, n, MPI_INT, in, n, MPI_INT, mt_comm, &r)
                 : MPI_Alltoall(send, n, MPI_INT, in, n, MPI_INT, mt_comm),
              &r));
    for (k = 0; k < mt_size; k++)
        wrong += wrong_items(in + n * k, k, mt_rank, n);
    CHECK_MSG(wrong == 0, "alltoall of %d%s: %d items wrong", n, in_place ? " in place" : "",
              wrong);
    CHECK(ints_guard(in, (size_t)(n * mt_size)));
    free(in);
    free(out);
}

static void alltoall(void)
{
    int c;

    for (c = 0; c < NCOUNTS; c++) {
        alltoall_one(counts[c], false);
        alltoall_one(counts[c], true);
    }
}

/* Vectors on the sending side, ints on the receiving side; the extent of the type places the parts.
 */
static void layouts(void)
{
    enum { N = 50 };
    int *out = ints((size_t)(mt_size * 2 * N)), *in = ints((size_t)(mt_size * N)), i, k, wrong = 0;
    MPI_Datatype t, row;

    OK(MPI_Type_vector(N, 1, 2, MPI_INT, &t));
    OK(MPI_Type_create_resized(t, 0, (MPI_Aint)(2 * N * sizeof(int)), &row));
    OK(MPI_Type_commit(&row));
    for (k = 0; k < mt_size; k++)
        for (i = 0; i < N; i++)
            out[k * 2 * N + 2 * i] = item(mt_rank, k, i);
    OK(MPI_Alltoall(out, 1, row, in, N, MPI_INT, mt_comm));
    for (k = 0; k < mt_size; k++)
        wrong += wrong_items(in + k * N, k, mt_rank, N);
    OK(MPI_Allgather(out, 1, row, in, N, MPI_INT, mt_comm));
    for (k = 0; k < mt_size; k++)
        wrong += wrong_items(in + k * N, k, 0, N);
    CHECK_EQ(wrong, 0);
    OK(MPI_Type_free(&t));
    OK(MPI_Type_free(&row));
    free(out);
    free(in);
}

/* On communicators of other sizes and orders than the world. */
static void sub_communicators(void)
{
    MPI_Comm c, world = mt_comm;
    int rank = mt_rank, size = mt_size;

    OK(MPI_Comm_split(mt_comm, mt_rank % 2, -mt_rank, &c));
    mt_comm = c;
    MPI_Comm_rank(c, &mt_rank);
    MPI_Comm_size(c, &mt_size);
    bcast();
    allgather();
    alltoall();
    mt_comm = world;
    mt_rank = rank;
    mt_size = size;
    OK(MPI_Comm_free(&c));
}

/* A root that is ahead of the others must not overtake their unfinished collectives. */
static void many_in_a_row(void)
{
    int i, v, wrong = 0, all[MAX_RANKS];

    for (i = 0; i < 2000; i++) {
        v = mt_rank == i % mt_size ? i : -1;
        OK(MPI_Bcast(&v, 1, MPI_INT, i % mt_size, mt_comm));
        wrong += v != i;
        if (i % 10 == 0) {
            OK(MPI_Gather(&i, 1, MPI_INT, all, 1, MPI_INT, i % mt_size, mt_comm));
            wrong += mt_rank == i % mt_size && all[mt_size - 1] != i;
        }
    }
    CHECK_EQ(wrong, 0);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    for (nb = 0; nb < 2; nb++) {
        if (mt_rank == 0)
            printf("# %s forms\n", nb ? "nonblocking" : "blocking");
        MT_RUN(barrier);
        MT_RUN(bcast);
        MT_RUN(bcast_large);
        MT_RUN(gather);
        MT_RUN(scatter);
        MT_RUN(allgather);
        MT_RUN(alltoall);
    }
    nb = 0;
    MT_RUN(bcast_vector);
    MT_RUN(layouts);
    MT_RUN(sub_communicators);
    MT_RUN(many_in_a_row);
    return mt_end();
}
