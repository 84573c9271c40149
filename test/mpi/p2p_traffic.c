/* SPDX-License-Identifier: BSD-3-Clause */
/* Traffic patterns and layouts: both directions at once, rings, random all-to-all, vectors on
 * either side, counts of received elements, truncation.  Random sizes come from the seed that a
 * failure prints. */
#include "test/mpi/mpitest.h"

enum { TAG = 51, MIB = 1024 * 1024 };

static int right(void) { return (mt_rank + 1) % mt_size; }
static int left(void) { return (mt_rank + mt_size - 1) % mt_size; }

/* 4 MiB in both directions at once, over and over: must not deadlock. */
static void both_directions(void)
{
    size_t n = 4 * MIB;
    unsigned char *out = mt_alloc(n), *in = mt_alloc(n);
    MPI_Request r[2];
    int i;

    for (i = 0; i < 4 && mt_peer != MPI_PROC_NULL; i++) {
        mt_fill(out, n, (unsigned)(mt_rank + i));
        memset(in, 0, n);
        if (i % 2) {
            OK(MPI_Irecv(in, (int)n, MPI_BYTE, mt_peer, TAG, mt_comm, &r[0]));
            OK(MPI_Isend(out, (int)n, MPI_BYTE, mt_peer, TAG, mt_comm, &r[1]));
            OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        } else {
            OK(MPI_Isend(out, (int)n, MPI_BYTE, mt_peer, TAG, mt_comm, &r[1]));
            OK(MPI_Recv(in, (int)n, MPI_BYTE, mt_peer, TAG, mt_comm, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&r[1], MPI_STATUS_IGNORE));
        }
        CHECK_DATA(in, n, (unsigned)(mt_peer + i));
        CHECK(mt_guard_intact(in, n));
    }
    free(out);
    free(in);
}

/* A token grows while it travels round the ring. */
static void ring_token(void)
{
    int token = 0, lap, hops = 0;

    for (lap = 0; lap < 50 && mt_size > 1; lap++) {
        if (mt_rank == 0) {
            token++;
            OK(MPI_Send(&token, 1, MPI_INT, right(), TAG, mt_comm));
            OK(MPI_Recv(&token, 1, MPI_INT, left(), TAG, mt_comm, MPI_STATUS_IGNORE));
            CHECK_EQ(token, (lap + 1) * mt_size);
        } else {
            OK(MPI_Recv(&token, 1, MPI_INT, left(), TAG, mt_comm, MPI_STATUS_IGNORE));
            token++;
            hops++;
            OK(MPI_Send(&token, 1, MPI_INT, right(), TAG, mt_comm));
        }
    }
    CHECK_EQ(hops, mt_rank == 0 || mt_size == 1 ? 0 : 50);
}

/* Size of message `i` from rank a to rank b: known to both. */
static int random_size(int a, int b, int i)
{
    unsigned state = mt_seed + (unsigned)(a * 1009 + b * 31 + i * 7);
    static const unsigned limits[] = { 1, 50, 300, 9000, 20000, 150000 };

    mt_random(&state);
    mt_random(&state);
    return (int)(mt_random(&state) % limits[mt_random(&state) % 6]);
}

static void all_to_all_random(void)
{
    enum { ROUNDS = 6, PER_PEER = 4, MAX = 150000, MOST = 64 * PER_PEER };
    unsigned char *in[MOST], *out[MOST];
    MPI_Request r[2 * MOST];
    MPI_Status st[2 * MOST];
    int round, i, k, p, n = mt_size * PER_PEER, got;

    for (round = 0; round < ROUNDS; round++) {
        for (k = 0; k < n; k++) {
            p = k / PER_PEER;
            i = round * PER_PEER + k % PER_PEER;
            in[k] = mt_alloc(MAX);
            OK(MPI_Irecv(in[k], MAX, MPI_BYTE, p, i, mt_comm, &r[k]));
        }
        for (k = 0; k < n; k++) {
            p = k / PER_PEER;
            i = round * PER_PEER + k % PER_PEER;
            out[k] = mt_alloc((size_t)random_size(mt_rank, p, i));
            mt_fill(out[k], (size_t)random_size(mt_rank, p, i), (unsigned)(mt_rank * 17 + i));
            OK(MPI_Isend(out[k], random_size(mt_rank, p, i), MPI_BYTE, p, i, mt_comm, &r[n + k]));
        }
        OK(MPI_Waitall(2 * n, r, st));
        for (k = 0; k < n; k++) {
            p = k / PER_PEER;
            i = round * PER_PEER + k % PER_PEER;
            got = -1;
            OK(MPI_Get_count(&st[k], MPI_BYTE, &got));
            CHECK_EQ(got, random_size(p, mt_rank, i));
            CHECK_DATA(in[k], (size_t)random_size(p, mt_rank, i), (unsigned)(p * 17 + i));
            free(in[k]);
            free(out[k]);
        }
    }
}

/* Sends `count` ints from a vector (or not) and receives into a vector (or not). */
static void vector_case(int count, int block, int stride, bool send_vector, bool recv_vector)
{
    int span = count * stride, i, wrong = 0, got = -1, at;
    int *out = malloc((size_t)span * sizeof(int) + 4), *in = malloc((size_t)span * sizeof(int) + 4);
    MPI_Datatype t;
    MPI_Request r;
    MPI_Status st;

    for (i = 0; i < span; i++) {
        out[i] = mt_rank * 1000000 + i;
        in[i] = -7;
    }
    OK(MPI_Type_vector(count, block, stride, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Isend(out, send_vector ? 1 : count * block, send_vector ? t : MPI_INT, right(), TAG,
                 mt_comm, &r));
    OK(MPI_Recv(in, recv_vector ? 1 : count * block, recv_vector ? t : MPI_INT, left(), TAG,
                mt_comm, &st));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Get_elements(&st, recv_vector ? t : MPI_INT, &got));
    CHECK_EQ(got, count * block);
    OK(MPI_Get_count(&st, MPI_INT, &got));
    CHECK_EQ(got, count * block);
    for (i = 0; i < count * block; i++) {
        at = recv_vector ? i / block * stride + i % block : i;
        wrong += in[at] != left() * 1000000 + (send_vector ? i / block * stride + i % block : i);
        in[at] = -7;
    }
    for (i = 0; i < span; i++)
        wrong += in[i] != -7; /* the gaps are untouched */
    CHECK_MSG(wrong == 0, "%d of %d ints wrong: vector %d x %d of %d, sent as %s, received as %s",
              wrong, count * block, count, block, stride, send_vector ? "vector" : "ints",
              recv_vector ? "vector" : "ints");
    OK(MPI_Type_free(&t));
    free(out);
    free(in);
}

static void vectors(void)
{
    static const int counts[] = { 1, 2, 7, 100, 1000, 5000, 50000 };
    size_t i;
    int side;

    for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        for (side = 0; side < 4; side++) {
            vector_case(counts[i], 1, 2, side & 1, side & 2);
            vector_case(counts[i], 3, 5, side & 1, side & 2);
            vector_case(counts[i], 4, 4, side & 1, side & 2);
        }
}

static void contiguous(void)
{
    double out[300], in[300];
    MPI_Datatype t;
    MPI_Request r;
    MPI_Status st;
    int i, n = -1, wrong = 0;

    for (i = 0; i < 300; i++) {
        out[i] = mt_rank + i * 0.5;
        in[i] = -1;
    }
    OK(MPI_Type_contiguous(3, MPI_DOUBLE, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Isend(out, 50, t, right(), TAG, mt_comm, &r));
    OK(MPI_Recv(in, 100, t, left(), TAG, mt_comm, &st));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Get_count(&st, t, &n));
    CHECK_EQ(n, 50);
    OK(MPI_Get_elements(&st, t, &n));
    CHECK_EQ(n, 150);
    for (i = 0; i < 300; i++)
        wrong += in[i] != (i < 150 ? left() + i * 0.5 : -1);
    CHECK_EQ(wrong, 0);
    OK(MPI_Type_free(&t));
}

/* A message that is no whole number of elements: MPI_UNDEFINED elements, but countable basic ones.
 */
static void partial_elements(void)
{
    int out[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, in[12] = { 0 }, n = 0;
    MPI_Datatype t;
    MPI_Request r;
    MPI_Status st;

    OK(MPI_Type_contiguous(4, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Isend(out, 10, MPI_INT, right(), TAG, mt_comm, &r));
    OK(MPI_Recv(in, 3, t, left(), TAG, mt_comm, &st));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Get_count(&st, t, &n));
    CHECK_EQ(n, MPI_UNDEFINED);
    OK(MPI_Get_elements(&st, t, &n));
    CHECK_EQ(n, 10);
    CHECK_EQ(in[9], 10);
    CHECK_EQ(in[10], 0);
    OK(MPI_Type_free(&t));
}

/* Too long a message: the error class, nothing behind the buffer, and the next message unharmed. */
static void truncated(void)
{
    static const int sent[] = { 9, 100, 5000, 8193, 100000, 2000000 };
    unsigned char *out = mt_alloc(2000000), *in = mt_alloc(2000000);
    MPI_Request r;
    MPI_Status st;
    int i, posted, x = 0, token = 31;

    for (i = 0; i < 12; i++) {
        int n = sent[i / 2], room = n / 2;
        posted = i % 2;
        mt_fill(out, (size_t)n, (unsigned)i);
        memset(in, 0xee, 2000000);
        if (mt_first) {
            if (posted)
                OK(MPI_Recv(&x, 1, MPI_INT, mt_peer, TAG + 1, mt_comm, &st));
            OK(MPI_Isend(out, n, MPI_BYTE, mt_peer, TAG, mt_comm, &r));
            OK(MPI_Send(&token, 1, MPI_INT, mt_peer, TAG + 2, mt_comm));
            MPI_Wait(&r, &st); /* success or an error: the standard leaves it open, it must end */
        } else if (mt_peer != MPI_PROC_NULL) {
            if (posted) {
                OK(MPI_Irecv(in, room, MPI_BYTE, mt_peer, TAG, mt_comm, &r));
                OK(MPI_Send(&x, 1, MPI_INT, mt_peer, TAG + 1, mt_comm));
                FAILS(MPI_Wait(&r, &st), MPI_ERR_TRUNCATE);
            } else {
                FAILS(MPI_Recv(in, room, MPI_BYTE, mt_peer, TAG, mt_comm, &st), MPI_ERR_TRUNCATE);
            }
            CHECK_MSG(mt_guard_intact(in, (size_t)room), "%d bytes into %d wrote behind the buffer",
                      n, room);
            CHECK_EQ(st.MPI_SOURCE, mt_peer);
            CHECK_EQ(st.MPI_TAG, TAG);
            OK(MPI_Recv(&x, 1, MPI_INT, mt_peer, TAG + 2, mt_comm, &st));
            CHECK_EQ(x, 31);
        }
    }
    free(out);
    free(in);
}

/* All predefined C types travel with their size. */
static void basic_types(void)
{
    MPI_Datatype types[] = { MPI_CHAR,
                             MPI_SIGNED_CHAR,
                             MPI_UNSIGNED_CHAR,
                             MPI_SHORT,
                             MPI_UNSIGNED_SHORT,
                             MPI_INT,
                             MPI_UNSIGNED,
                             MPI_LONG,
                             MPI_UNSIGNED_LONG,
                             MPI_LONG_LONG,
                             MPI_UNSIGNED_LONG_LONG,
                             MPI_FLOAT,
                             MPI_DOUBLE,
                             MPI_LONG_DOUBLE,
                             MPI_C_BOOL,
                             MPI_INT8_T,
                             MPI_INT16_T,
                             MPI_INT32_T,
                             MPI_INT64_T,
                             MPI_UINT8_T,
                             MPI_UINT16_T,
                             MPI_UINT32_T,
                             MPI_UINT64_T,
                             MPI_AINT,
                             MPI_COUNT,
                             MPI_OFFSET,
                             MPI_WCHAR,
                             MPI_BYTE,
                             MPI_C_FLOAT_COMPLEX,
                             MPI_C_DOUBLE_COMPLEX };
    unsigned char out[100 * 32], in[100 * 32];
    MPI_Status st;
    size_t i;
    int nbytes, n;

    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        nbytes = n = -1;
        OK(MPI_Type_size(types[i], &nbytes));
        CHECK(nbytes > 0 && nbytes <= 32);
        mt_fill(out, sizeof(out), (unsigned)(mt_rank + (int)i));
        memset(in, 0xee, sizeof(in));
        OK(MPI_Sendrecv(out, 99, types[i], right(), TAG, in, 100, types[i], left(), TAG, mt_comm,
                        &st));
        OK(MPI_Get_count(&st, types[i], &n));
        CHECK_EQ(n, 99);
        CHECK_DATA(in, (size_t)(99 * nbytes), (unsigned)(left() + (int)i));
        CHECK_EQ(in[99 * nbytes], 0xee);
    }
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    if (argc > 1)
        mt_seed = (unsigned)strtoul(argv[1], NULL, 0);
    MT_RUN(both_directions);
    MT_RUN(ring_token);
    MT_RUN(all_to_all_random);
    MT_RUN(vectors);
    MT_RUN(contiguous);
    MT_RUN(partial_elements);
    MT_RUN(truncated);
    MT_RUN(basic_types);
    return mt_end();
}
