/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitioned communication (MPI-5.0 chapter 4): partitions that differ between the sides, every
 * order of making, starting and marking, restarts, matching apart from messages, datatypes, empty
 * partitions, threads that mark, and wrong uses.  Each rank sends to its right neighbour. */
#include "test/mpi/mpitest.h"
#include <pthread.h>

enum { TAG = 5 };

static int right(void) { return (mt_rank + 1) % mt_size; }
static int left(void) { return (mt_rank + mt_size - 1) % mt_size; }

static void wait_arrived(MPI_Request r, int partition)
{
    int flag = 0;

    while (!flag)
        OK(MPI_Parrived(r, partition, &flag));
}

static void check_received(MPI_Status *st, MPI_Count nbytes)
{
    MPI_Count n = -1;

    OK(MPI_Get_count_c(st, MPI_BYTE, &n));
    CHECK_EQ(n, nbytes);
    CHECK_EQ(st->MPI_SOURCE, left());
    CHECK_EQ(st->MPI_TAG, TAG);
}

/* Partition counts of both sides, and bytes in all; the order in which partitions are marked
 * depends on the round. */
static void cut(int nsend, int nrecv, int total, bool recv_first)
{
    unsigned char *out = mt_alloc((size_t)total), *in = mt_alloc((size_t)total);
    MPI_Request s, r;
    MPI_Status st;
    int round, i, arrived, flag;

    if (recv_first)
        OK(MPI_Precv_init(in, nrecv, total / nrecv, MPI_BYTE, left(), TAG, mt_comm, MPI_INFO_NULL,
                          &r));
    OK(MPI_Psend_init(out, nsend, total / nsend, MPI_BYTE, right(), TAG, mt_comm, MPI_INFO_NULL,
                      &s));
    if (!recv_first)
        OK(MPI_Precv_init(in, nrecv, total / nrecv, MPI_BYTE, left(), TAG, mt_comm, MPI_INFO_NULL,
                          &r));
    for (round = 0; round < 6; round++) {
        mt_fill(out, (size_t)total, (unsigned)(round + 31 * mt_rank));
        memset(in, 0xee, (size_t)total);
        if (round % 2)
            OK(MPI_Start(&r));
        OK(MPI_Start(&s));
        for (i = 0; i < nsend; i++)
            OK(MPI_Pready(round % 3 ? nsend - 1 - i : i, s));
        if (round % 2 == 0)
            OK(MPI_Start(&r));
        for (i = 0; i < nrecv && round > 1; i++)
            wait_arrived(r, (i + round) % nrecv);
        for (arrived = i = 0; i < nrecv; i++) {
            OK(MPI_Parrived(r, i, &flag));
            arrived += flag;
        }
        CHECK(round < 2 || arrived == nrecv);
        OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&r, &st));
        check_received(&st, total);
        CHECK_DATA(in, (size_t)total, (unsigned)(round + 31 * left()));
        CHECK(s != MPI_REQUEST_NULL && r != MPI_REQUEST_NULL);
    }
    OK(MPI_Request_free(&s));
    OK(MPI_Request_free(&r));
    CHECK(s == MPI_REQUEST_NULL && r == MPI_REQUEST_NULL);
    free(out);
    free(in);
}

static void equal_partitions(void)
{
    cut(1, 1, 8, true);
    cut(4, 4, 64, false);
    cut(16, 16, 160000, true);
    cut(3, 3, 3000000, false);
}

static void different_partitions(void)
{
    cut(1, 6, 600, true);
    cut(6, 1, 600, false);
    cut(4, 6, 1200, true);
    cut(7, 5, 70000, false);
    cut(5, 12, 1200000, true);
    cut(100, 3, 30000, false);
}

/* A partition arrives while others have not been marked. */
static void one_by_one(void)
{
    int out[4] = { 1, 2, 3, 4 }, in[4], i, k, flag;
    MPI_Request s, r;

    OK(MPI_Psend_init(out, 8, 1, MPI_SHORT, right(), TAG, mt_comm, MPI_INFO_NULL, &s));
    OK(MPI_Precv_init(in, 4, 1, MPI_INT, left(), TAG, mt_comm, MPI_INFO_NULL, &r));
    OK(MPI_Startall(2, (MPI_Request[]){ s, r }));
    for (i = 0; i < 4; i++)
        for (k = 0; k < 2; k++) {
            OK(MPI_Parrived(r, i, &flag));
            CHECK_EQ(flag, 0);
            mt_sync();
            OK(MPI_Pready(2 * i + k, s));
            if (k) {
                wait_arrived(r, i);
                OK(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
                CHECK_EQ(flag, i == 3);
            }
            mt_sync();
        }
    OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&s));
    OK(MPI_Request_free(&r));
}

static void range_and_list(void)
{
    int out[10] = { 0 }, in[10], i, round;
    MPI_Request r[2];
    MPI_Status st[2];

    OK(MPI_Psend_init(out, 10, 1, MPI_INT, right(), TAG, mt_comm, MPI_INFO_NULL, &r[0]));
    OK(MPI_Precv_init(in, 5, 2, MPI_INT, left(), TAG, mt_comm, MPI_INFO_NULL, &r[1]));
    for (round = 0; round < 50; round++) {
        for (i = 0; i < 10; i++)
            out[i] = round * 100 + mt_rank * 10 + i;
        OK(MPI_Startall(2, r));
        OK(MPI_Pready_range(2, 6, r[0]));
        OK(MPI_Pready_list(0, NULL, r[0]));
        OK(MPI_Pready_list(4, (int[]){ 9, 0, 7, 1 }, r[0]));
        OK(MPI_Pready_range(8, 8, r[0]));
        OK(MPI_Waitall(2, r, st));
        check_received(&st[1], 10 * (int)sizeof(int));
        for (i = 0; i < 10; i++)
            CHECK_EQ(in[i], round * 100 + left() * 10 + i);
    }
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
}

/* Sender and receiver of the same tag are paired in the order in which they were made; messages and
 * probes of the same tag do not match them. */
static void match_in_order(bool early)
{
    int out[4] = { 0 }, in[4], x = 99, y = 0, i, flag = -1;
    MPI_Request s[4], r[4], m;

    for (i = 0; i < 4; i++)
        OK(MPI_Psend_init(&out[i], 1, 1, MPI_INT, right(), i / 2, mt_comm, MPI_INFO_NULL, &s[i]));
    OK(MPI_Irecv(&y, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &m));
    OK(MPI_Barrier(mt_comm));
    for (i = 0; early && i < 100; i++) /* all senders are known before a receive is made */
        OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &flag, MPI_STATUS_IGNORE));
    for (i = 3; i >= 2; i--) /* tag 1 first, in the order of its own calls: 2 before 3 */
        OK(MPI_Precv_init(&in[5 - i], 1, 1, MPI_INT, left(), 1, mt_comm, MPI_INFO_NULL, &r[5 - i]));
    for (i = 0; i < 2; i++)
        OK(MPI_Precv_init(&in[i], 1, 1, MPI_INT, left(), 0, mt_comm, MPI_INFO_NULL, &r[i]));
    for (i = 0; i < 4; i++)
        out[i] = mt_rank * 4 + i;
    OK(MPI_Startall(4, s));
    for (i = 3; i >= 0; i--)
        OK(MPI_Pready(0, s[i]));
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    OK(MPI_Startall(4, r));
    OK(MPI_Waitall(4, r, MPI_STATUSES_IGNORE));
    OK(MPI_Waitall(4, s, MPI_STATUSES_IGNORE));
    for (i = 0; i < 4; i++)
        CHECK_EQ(in[i], left() * 4 + i);
    OK(MPI_Test(&m, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    OK(MPI_Barrier(mt_comm)); /* the messages of a barrier would match the receive */
    OK(MPI_Send(&x, 1, MPI_INT, right(), 1, mt_comm));
    OK(MPI_Wait(&m, MPI_STATUS_IGNORE));
    CHECK_EQ(y, 99);
    for (i = 0; i < 4; i++) {
        OK(MPI_Request_free(&s[i]));
        OK(MPI_Request_free(&r[i]));
    }
}

static void matching(void)
{
    match_in_order(false);
    OK(MPI_Barrier(mt_comm));
    match_in_order(true);
}

/* A receive that is made and freed still takes its sender; the next pair is not confused. */
static void freed_unused(void)
{
    int out[2] = { 1, 2 }, in[2] = { 0, 0 };
    MPI_Request s[2], r[2];

    OK(MPI_Precv_init(&in[0], 1, 1, MPI_INT, left(), TAG, mt_comm, MPI_INFO_NULL, &r[0]));
    OK(MPI_Request_free(&r[0]));
    mt_sync();
    OK(MPI_Psend_init(&out[0], 1, 1, MPI_INT, right(), TAG, mt_comm, MPI_INFO_NULL, &s[0]));
    OK(MPI_Psend_init(&out[1], 1, 1, MPI_INT, right(), TAG, mt_comm, MPI_INFO_NULL, &s[1]));
    OK(MPI_Precv_init(&in[1], 1, 1, MPI_INT, left(), TAG, mt_comm, MPI_INFO_NULL, &r[1]));
    OK(MPI_Start(&s[1]));
    OK(MPI_Pready(0, s[1]));
    OK(MPI_Start(&r[1]));
    OK(MPI_Wait(&r[1], MPI_STATUS_IGNORE));
    OK(MPI_Wait(&s[1], MPI_STATUS_IGNORE));
    CHECK(in[0] == 0 && in[1] == 2);
    OK(MPI_Request_free(&s[0]));
    OK(MPI_Request_free(&s[1]));
    OK(MPI_Request_free(&r[1]));
}

/* Every second int on both sides, cut so that the sender's partitions end inside elements of the
 * receiver's type (pairs of ints with a hole). */
static void strided(void)
{
    enum { PARTS = 6, EACH = 500, N = PARTS * EACH };
    int *out = malloc(2 * N * sizeof(int)), *in = malloc(2 * N * sizeof(int)), i, k, nrecv;
    static const int cuts[] = { 6, 4, 10 };
    MPI_Datatype one, pair, hole;
    MPI_Request s, r;
    MPI_Status st;

    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &one));
    OK(MPI_Type_commit(&one));
    OK(MPI_Type_vector(2, 1, 3, MPI_INT, &hole));
    OK(MPI_Type_create_resized(hole, 0, 4 * sizeof(int), &pair)); /* ints 0 and 3 of 4 */
    OK(MPI_Type_commit(&pair));
    for (k = 0; k < 3; k++) {
        nrecv = cuts[k];
        for (i = 0; i < 2 * N; i++) {
            out[i] = i % 2 ? -1 : mt_rank * N + i / 2;
            in[i] = -2;
        }
        OK(MPI_Psend_init(out, PARTS, EACH - k, one, right(), TAG, mt_comm, MPI_INFO_NULL, &s));
        OK(MPI_Precv_init(in, nrecv, N / 2 / nrecv, pair, left(), TAG, mt_comm, MPI_INFO_NULL, &r));
        OK(MPI_Start(&r));
        OK(MPI_Start(&s));
        OK(MPI_Pready_range(0, PARTS - 1, s));
        OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&r, &st));
        check_received(&st, PARTS * (EACH - k) * (int)sizeof(int));
        for (i = 0; i < PARTS * (EACH - k); i++)
            CHECK_EQ(in[i / 2 * 4 + i % 2 * 3], left() * N + i);
        for (; i < N; i++)
            CHECK_EQ(in[i / 2 * 4 + i % 2 * 3], -2);
        for (i = 0; i < N / 2; i++)
            CHECK(in[4 * i + 1] == -2 && in[4 * i + 2] == -2);
        OK(MPI_Request_free(&s));
        OK(MPI_Request_free(&r));
    }
    OK(MPI_Type_free(&one));
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&hole));
    free(out);
    free(in);
}

/* The type may be freed as soon as the request has been made. */
static void freed_type(void)
{
    int out[12], in[12] = { 0 }, i;
    MPI_Datatype t;
    MPI_Request r[2];

    for (i = 0; i < 12; i++)
        out[i] = i;
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Psend_init(out, 4, 1, t, right(), TAG, mt_comm, MPI_INFO_NULL, &r[0]));
    OK(MPI_Precv_init(in, 4, 1, t, left(), TAG, mt_comm, MPI_INFO_NULL, &r[1]));
    OK(MPI_Type_free(&t));
    OK(MPI_Startall(2, r));
    OK(MPI_Pready_range(0, 3, r[0]));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    for (i = 0; i < 12; i++)
        CHECK_EQ(in[i], i % 3 == 1 ? 0 : i);
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
}

/* No data at all: partitions still arrive as they are marked. */
static void empty(void)
{
    MPI_Request s, r;
    MPI_Status st;
    int flag = -1, i;

    OK(MPI_Psend_init(NULL, 4, 0, MPI_INT, right(), TAG, mt_comm, MPI_INFO_NULL, &s));
    OK(MPI_Precv_init(NULL, 2, 0, MPI_INT, left(), TAG, mt_comm, MPI_INFO_NULL, &r));
    for (i = 0; i < 3; i++) {
        OK(MPI_Start(&r));
        OK(MPI_Start(&s));
        OK(MPI_Pready_range(2, 3, s));
        wait_arrived(r, 1);
        OK(MPI_Parrived(r, 0, &flag));
        CHECK_EQ(flag, 0);
        mt_sync();
        OK(MPI_Pready(0, s));
        OK(MPI_Pready(1, s));
        OK(MPI_Wait(&r, &st));
        check_received(&st, 0);
        OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&s));
    OK(MPI_Request_free(&r));
}

/* Less than there is room for is no error, more is one, at the receiver only. */
static void sizes_differ(void)
{
    char out[8] = "abcdefg", in[12];
    MPI_Request s, r;
    MPI_Status st;
    int flag = 0;

    memset(in, 'x', sizeof(in));
    OK(MPI_Psend_init(out, 2, 4, MPI_CHAR, right(), TAG, mt_comm, MPI_INFO_NULL, &s));
    OK(MPI_Precv_init(in, 3, 4, MPI_CHAR, left(), TAG, mt_comm, MPI_INFO_NULL, &r));
    OK(MPI_Start(&r));
    OK(MPI_Start(&s));
    OK(MPI_Pready_range(0, 1, s));
    OK(MPI_Wait(&r, &st));
    check_received(&st, 8);
    OK(MPI_Parrived(r, 2, &flag));
    CHECK(flag && !memcmp(in, "abcdefg\0xxxx", 12));
    OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&s));
    OK(MPI_Request_free(&r));
    memset(in, 'x', sizeof(in));
    OK(MPI_Psend_init(out, 2, 4, MPI_CHAR, right(), TAG, mt_comm, MPI_INFO_NULL, &s));
    OK(MPI_Precv_init(in, 3, 2, MPI_CHAR, left(), TAG, mt_comm, MPI_INFO_NULL, &r));
    OK(MPI_Start(&r));
    OK(MPI_Start(&s));
    OK(MPI_Pready_range(0, 1, s));
    FAILS(MPI_Wait(&r, &st), MPI_ERR_TRUNCATE);
    CHECK(!memcmp(in, "abcdefxx", 8));
    OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&s));
    OK(MPI_Request_free(&r));
}

static void proc_null(void)
{
    MPI_Request r[2];
    MPI_Status st[2];
    int x = 5, i, flag;

    OK(MPI_Psend_init(&x, 2, 1, MPI_SHORT, MPI_PROC_NULL, TAG, mt_comm, MPI_INFO_NULL, &r[0]));
    OK(MPI_Precv_init(&x, 2, 1, MPI_SHORT, MPI_PROC_NULL, TAG, mt_comm, MPI_INFO_NULL, &r[1]));
    for (i = 0; i < 3; i++) {
        OK(MPI_Startall(2, r));
        OK(MPI_Pready_range(0, 1, r[0]));
        OK(MPI_Parrived(r[1], 1, &flag));
        CHECK_EQ(flag, 1);
        OK(MPI_Waitall(2, r, st));
        mt_check_status(&st[1], MPI_PROC_NULL, MPI_ANY_TAG, 0);
    }
    CHECK_EQ(x, 5);
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
}

/* Between the halves of an intercommunicator: even ranks send to the odd ones after them. */
static void intercommunicator(void)
{
    int out[6], in[6] = { 0 }, i, color = mt_rank % 2, mine = mt_rank / 2, n_odd = mt_size / 2;
    MPI_Comm half, inter;
    MPI_Request r = MPI_REQUEST_NULL;

    if (mt_size < 2) {
        mt_skip("for two ranks and more");
        return;
    }
    OK(MPI_Comm_split(mt_comm, color, 0, &half));
    OK(MPI_Intercomm_create(half, 0, mt_comm, 1 - color, 8, &inter));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    for (i = 0; i < 6; i++)
        out[i] = mine * 10 + i;
    if (color)
        OK(MPI_Precv_init(in, 3, 2, MPI_INT, mine, TAG, inter, MPI_INFO_NULL, &r));
    else if (mine < n_odd)
        OK(MPI_Psend_init(out, 2, 3, MPI_INT, mine, TAG, inter, MPI_INFO_NULL, &r));
    if (r != MPI_REQUEST_NULL) {
        OK(MPI_Start(&r));
        if (!color)
            OK(MPI_Pready_range(0, 1, r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&r));
    }
    for (i = 0; i < 6 && color; i++)
        CHECK_EQ(in[i], mine * 10 + i);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
}

static void requests_as_such(void)
{
    int out[2] = { 1, 2 }, in[2], flag = -1;
    MPI_Request s, r;
    MPI_Status st;

    OK(MPI_Psend_init(out, 2, 1, MPI_INT, right(), TAG, mt_comm, MPI_INFO_NULL, &s));
    OK(MPI_Precv_init(in, 2, 1, MPI_INT, left(), TAG, mt_comm, MPI_INFO_NULL, &r));
    OK(MPI_Test(&r, &flag, &st)); /* inactive */
    CHECK_EQ(flag, 1);
    OK(MPI_Parrived(r, 1, &flag));
    CHECK_EQ(flag, 1);
    OK(MPI_Parrived(MPI_REQUEST_NULL, 7, &flag));
    CHECK_EQ(flag, 1);
    OK(MPI_Start(&r));
    OK(MPI_Parrived(r, 1, &flag));
    CHECK_EQ(flag, 0);
    OK(MPI_Request_get_status(r, &flag, &st));
    CHECK_EQ(flag, 0);
    mt_sync();
    OK(MPI_Start(&s));
    OK(MPI_Test(&s, &flag, &st));
    CHECK_EQ(flag, 0);
    OK(MPI_Pready_range(0, 1, s));
    OK(MPI_Wait(&s, &st));
    while (!flag)
        OK(MPI_Request_get_status(r, &flag, &st));
    check_received(&st, 2 * (int)sizeof(int));
    OK(MPI_Wait(&r, &st));
    check_received(&st, 2 * (int)sizeof(int));
    OK(MPI_Wait(&r, &st)); /* inactive again */
    CHECK_EQ(st.MPI_SOURCE, MPI_ANY_SOURCE);
    OK(MPI_Request_free(&s));
    OK(MPI_Request_free(&r));
}

static void wrong_uses(void)
{
    int out[4] = { 0 }, in[4], flag;
    MPI_Request s, r, n = MPI_REQUEST_NULL, other;

    FAILS(MPI_Psend_init(out, 0, 1, MPI_INT, right(), TAG, mt_comm, MPI_INFO_NULL, &n),
          MPI_ERR_ARG);
    FAILS(MPI_Precv_init(in, -1, 1, MPI_INT, left(), TAG, mt_comm, MPI_INFO_NULL, &n), MPI_ERR_ARG);
    FAILS(MPI_Precv_init(in, 1, 1, MPI_INT, MPI_ANY_SOURCE, TAG, mt_comm, MPI_INFO_NULL, &n),
          MPI_ERR_RANK);
    FAILS(MPI_Precv_init(in, 1, 1, MPI_INT, left(), MPI_ANY_TAG, mt_comm, MPI_INFO_NULL, &n),
          MPI_ERR_TAG);
    FAILS(MPI_Psend_init(out, 3, INT64_MAX / 8, MPI_INT, right(), TAG, mt_comm, MPI_INFO_NULL, &n),
          MPI_ERR_COUNT);
    CHECK(n == MPI_REQUEST_NULL);
    OK(MPI_Psend_init(out, 4, 1, MPI_INT, right(), TAG, mt_comm, MPI_INFO_NULL, &s));
    OK(MPI_Precv_init(in, 4, 1, MPI_INT, left(), TAG, mt_comm, MPI_INFO_NULL, &r));
    FAILS(MPI_Pready(0, s), MPI_ERR_REQUEST); /* not started */
    OK(MPI_Start(&r));
    OK(MPI_Start(&s));
    FAILS(MPI_Start(&s), MPI_ERR_REQUEST);
    FAILS(MPI_Pready(4, s), MPI_ERR_ARG);
    FAILS(MPI_Pready(-1, s), MPI_ERR_ARG);
    FAILS(MPI_Pready(0, r), MPI_ERR_REQUEST);
    FAILS(MPI_Pready(0, MPI_REQUEST_NULL), MPI_ERR_REQUEST);
    FAILS(MPI_Parrived(s, 0, &flag), MPI_ERR_REQUEST);
    FAILS(MPI_Parrived(r, 4, &flag), MPI_ERR_ARG);
    FAILS(MPI_Pready_range(1, 4, s), MPI_ERR_ARG);
    FAILS(MPI_Pready_range(2, 1, s), MPI_ERR_ARG);
    FAILS(MPI_Pready_list(3, (int[]){ 0, 1, 0 }, s), MPI_ERR_ARG);
    FAILS(MPI_Pready_list(2, (int[]){ 0, 9 }, s), MPI_ERR_ARG);
    OK(MPI_Pready(2, s));
    FAILS(MPI_Pready(2, s), MPI_ERR_ARG);
    FAILS(MPI_Pready_range(0, 3, s), MPI_ERR_ARG);
    FAILS(MPI_Cancel(&s), MPI_ERR_REQUEST);
    FAILS(MPI_Cancel(&r), MPI_ERR_REQUEST);
    FAILS(MPI_Request_free(&s), MPI_ERR_REQUEST);
    FAILS(MPI_Request_free(&r), MPI_ERR_REQUEST);
    CHECK(s != MPI_REQUEST_NULL && r != MPI_REQUEST_NULL);
    OK(MPI_Barrier(mt_comm));
    OK(MPI_Pready_list(3, (int[]){ 3, 0, 1 }, s)); /* the failed calls marked nothing */
    OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    FAILS(MPI_Pready(0, s), MPI_ERR_REQUEST);
    OK(MPI_Request_free(&s));
    OK(MPI_Request_free(&r));
    OK(MPI_Irecv(in, 1, MPI_INT, mt_rank, 9, mt_comm, &other));
    FAILS(MPI_Pready(0, other), MPI_ERR_REQUEST);
    FAILS(MPI_Parrived(other, 0, &flag), MPI_ERR_REQUEST);
    OK(MPI_Cancel(&other));
    OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
}

/* Threads mark, and one looks for what has arrived. */
enum { THREADS = 4, PER_THREAD = 8, LEN = 3000, RESTARTS = 12 };
static MPI_Request shared_send, shared_recv;
static pthread_barrier_t round_begin, round_end;
static int thread_errors[THREADS + 1];
static _Atomic int nmarked[THREADS * PER_THREAD];

static void *marker(void *arg)
{
    int id = (int)(intptr_t)arg, round, i;

    for (round = 0; round < RESTARTS; round++) {
        pthread_barrier_wait(&round_begin);
        for (i = 0; i < PER_THREAD; i++)
            thread_errors[id] += MPI_Pready(i * THREADS + id, shared_send) != MPI_SUCCESS;
        pthread_barrier_wait(&round_end);
    }
    return NULL;
}

/* A mistake: all mark the same partitions at once.  Each is sent once, and one mark succeeds. */
static void *rival(void *arg)
{
    int id = (int)(intptr_t)arg, round, i, cls;

    for (round = 0; round < RESTARTS; round++) {
        pthread_barrier_wait(&round_begin);
        for (i = 0; i < THREADS * PER_THREAD; i++) {
            int err = MPI_Pready(i, shared_send);
            MPI_Error_class(err, &cls);
            nmarked[i] += !err;
            thread_errors[id] += err && cls != MPI_ERR_ARG;
        }
        pthread_barrier_wait(&round_end);
    }
    return NULL;
}

static void *looker(void *arg)
{
    int round, i, flag;

    (void)arg;
    for (round = 0; round < RESTARTS; round++) {
        pthread_barrier_wait(&round_begin);
        for (i = 0; i < THREADS * PER_THREAD / 2; i++)
            for (flag = 0; !flag;)
                thread_errors[THREADS] += MPI_Parrived(shared_recv, i, &flag) != MPI_SUCCESS;
        pthread_barrier_wait(&round_end);
    }
    return NULL;
}

static void run_threads(void *(*mark)(void *))
{
    enum { N = THREADS * PER_THREAD };
    unsigned char *out = mt_alloc(N * LEN), *in = mt_alloc(N * LEN);
    pthread_t t[THREADS + 1];
    MPI_Request both[2];
    int i, round;

    memset(thread_errors, 0, sizeof(thread_errors));
    pthread_barrier_init(&round_begin, NULL, THREADS + 2);
    pthread_barrier_init(&round_end, NULL, THREADS + 2);
    OK(MPI_Psend_init(out, N, LEN, MPI_BYTE, right(), TAG, mt_comm, MPI_INFO_NULL, &shared_send));
    OK(MPI_Precv_init(in, N / 2, 2 * LEN, MPI_BYTE, left(), TAG, mt_comm, MPI_INFO_NULL,
                      &shared_recv));
    both[0] = shared_send;
    both[1] = shared_recv;
    for (i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&t[i], NULL, mark, (void *)(intptr_t)i), 0);
    CHECK_EQ(pthread_create(&t[THREADS], NULL, looker, NULL), 0);
    for (round = 0; round < RESTARTS; round++) {
        mt_fill(out, N * LEN, (unsigned)(round + mt_rank));
        memset(in, 0, N * LEN);
        OK(MPI_Startall(2, both));
        pthread_barrier_wait(&round_begin);
        pthread_barrier_wait(&round_end); /* all has arrived */
        CHECK_DATA(in, N * LEN, (unsigned)(round + left()));
        OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
    }
    for (i = 0; i <= THREADS; i++) {
        CHECK_EQ(pthread_join(t[i], NULL), 0);
        CHECK_EQ(thread_errors[i], 0);
    }
    OK(MPI_Request_free(&both[0]));
    OK(MPI_Request_free(&both[1]));
    pthread_barrier_destroy(&round_begin);
    pthread_barrier_destroy(&round_end);
    free(out);
    free(in);
}

static void threads(void) { run_threads(marker); }

static void rivals(void)
{
    run_threads(rival);
    for (int i = 0; i < THREADS * PER_THREAD; i++)
        CHECK(nmarked[i] >= RESTARTS);
}

int main(int argc, char **argv)
{
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mt_setup();
    MT_RUN(equal_partitions);
    MT_RUN(different_partitions);
    MT_RUN(one_by_one);
    MT_RUN(range_and_list);
    MT_RUN(matching);
    MT_RUN(freed_unused);
    MT_RUN(strided);
    MT_RUN(freed_type);
    MT_RUN(empty);
    MT_RUN(sizes_differ);
    MT_RUN(proc_null);
    MT_RUN(intercommunicator);
    MT_RUN(requests_as_such);
    MT_RUN(wrong_uses);
    MT_RUN(threads);
    MT_RUN(rivals);
    return mt_end();
}
