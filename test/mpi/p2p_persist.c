/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent requests (MPI-5.0 section 3.9): all modes, started many times with changing data,
 * together, inactive in the completion calls, freed while inactive
 * or active, cancelled.  Ranks work in pairs. */
#include "test/mpi/mpitest.h"

enum { TAG = 11, TAG_GO = 12, ROUNDS = 200, MANY = 16 };
typedef int init_fn(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static bool inactive(MPI_Request *r)
{
    MPI_Status st;
    int flag = 0, n = -1;

    OK(MPI_Test(r, &flag, &st));
    OK(MPI_Get_count(&st, MPI_BYTE, &n));
    CHECK(*r != MPI_REQUEST_NULL);
    CHECK_EQ(st.MPI_SOURCE, MPI_ANY_SOURCE);
    CHECK_EQ(st.MPI_TAG, MPI_ANY_TAG);
    CHECK_EQ(n, 0);
    return flag;
}

static void repeat(init_fn *init, bool ready, int nbytes, int rounds)
{
    unsigned char *buf = mt_alloc((size_t)nbytes);
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Status st;
    int i;

    if (mt_first)
        OK(init(buf, nbytes, MPI_BYTE, mt_peer, TAG, mt_comm, &r));
    else
        OK(MPI_Recv_init(buf, nbytes, MPI_BYTE, mt_peer, TAG, mt_comm, &r));
    CHECK(inactive(&r));
    for (i = 0; i < rounds; i++) {
        if (mt_first) {
            mt_fill(buf, (size_t)nbytes, (unsigned)i);
            if (ready)
                OK(MPI_Recv(NULL, 0, MPI_BYTE, mt_peer, TAG_GO, mt_comm, MPI_STATUS_IGNORE));
            OK(MPI_Start(&r));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        } else {
            memset(buf, 0xee, (size_t)nbytes);
            OK(MPI_Start(&r));
            if (ready)
                OK(MPI_Send(NULL, 0, MPI_BYTE, mt_peer, TAG_GO, mt_comm));
            OK(MPI_Wait(&r, &st));
            mt_check_status(&st, mt_peer, TAG, nbytes);
            CHECK_DATA(buf, (size_t)nbytes, (unsigned)i);
        }
        CHECK(r != MPI_REQUEST_NULL);
    }
    CHECK(inactive(&r));
    OK(MPI_Request_free(&r));
    CHECK(r == MPI_REQUEST_NULL);
    free(buf);
}

static void over_sizes(init_fn *init, bool ready)
{
    if (mt_peer == MPI_PROC_NULL)
        return;
    repeat(init, ready, 0, 5);
    repeat(init, ready, 8, ROUNDS);
    repeat(init, ready, 1000, ROUNDS);
    repeat(init, ready, 30000, 30);
    repeat(init, ready, 1000000, 5);
}

static void standard(void) { over_sizes(MPI_Send_init, false); }
static void synchronous(void) { over_sizes(MPI_Ssend_init, false); }
static void ready_mode(void) { over_sizes(MPI_Rsend_init, true); }

static void buffered(void)
{
    int got, room = 4 * (1000000 + MPI_BSEND_OVERHEAD) + 2 * ROUNDS * (1000 + MPI_BSEND_OVERHEAD);
    void *back, *space = malloc((size_t)room);

    OK(MPI_Buffer_attach(space, room));
    if (mt_peer != MPI_PROC_NULL) {
        repeat(MPI_Bsend_init, false, 8, ROUNDS);
        repeat(MPI_Bsend_init, false, 1000, ROUNDS);
        repeat(MPI_Bsend_init, false, 1000000, 3);
    }
    OK(MPI_Buffer_detach(&back, &got));
    free(space);
}

/* Each rank sends to its right neighbour and receives from its left one, MANY messages at a time.
 */
static void startall_ring(void)
{
    enum { LEN = 3000 };
    static unsigned char out[MANY][LEN], in[MANY][LEN];
    MPI_Request r[2 * MANY];
    int i, round, right = (mt_rank + 1) % mt_size, left = (mt_rank - 1 + mt_size) % mt_size;

    for (i = 0; i < MANY; i++) {
        OK(MPI_Recv_init(in[i], LEN, MPI_BYTE, left, i, mt_comm, &r[i]));
        OK(MPI_Send_init(out[i], LEN, MPI_BYTE, right, i, mt_comm, &r[MANY + i]));
    }
    for (round = 0; round < 50; round++) {
        for (i = 0; i < MANY; i++) {
            mt_fill(out[i], LEN, (unsigned)(round * 1000 + mt_rank * 20 + i));
            memset(in[i], 0, LEN);
        }
        OK(MPI_Startall(2 * MANY, r));
        OK(MPI_Waitall(2 * MANY, r, MPI_STATUSES_IGNORE));
        for (i = 0; i < MANY; i++)
            CHECK_DATA(in[i], LEN, (unsigned)(round * 1000 + left * 20 + i));
    }
    for (i = 0; i < 2 * MANY; i++)
        OK(MPI_Request_free(&r[i]));
}

/* Completion calls over a mix of active, inactive and null requests. */
static void mixed_with_inactive(void)
{
    MPI_Request r[4] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    int a = 0, b = 0, out = 42, index = -5, done = -5, where[4], flag = 0;
    MPI_Status st[4];

    OK(MPI_Recv_init(&a, 1, MPI_INT, mt_rank, 1, mt_comm, &r[1]));
    OK(MPI_Recv_init(&b, 1, MPI_INT, mt_rank, 2, mt_comm, &r[3]));
    OK(MPI_Waitany(4, r, &index, st));
    CHECK_EQ(index, MPI_UNDEFINED);
    OK(MPI_Testsome(4, r, &done, where, st));
    CHECK_EQ(done, MPI_UNDEFINED);
    OK(MPI_Start(&r[3]));
    OK(MPI_Testany(4, r, &index, &flag, st));
    CHECK(!flag && index == MPI_UNDEFINED);
    OK(MPI_Send(&out, 1, MPI_INT, mt_rank, 2, mt_comm));
    OK(MPI_Waitany(4, r, &index, st));
    CHECK_EQ(index, 3);
    CHECK_EQ(b, 42);
    OK(MPI_Waitall(4, r, st)); /* nothing active: returns at once with empty statuses */
    CHECK_EQ(st[3].MPI_SOURCE, MPI_ANY_SOURCE);
    OK(MPI_Testall(4, r, &flag, st));
    CHECK(flag);
    OK(MPI_Request_free(&r[1]));
    OK(MPI_Request_free(&r[3]));
}

static void proc_null(void)
{
    MPI_Request r[2];
    MPI_Status st[2];
    int x = 5, i;

    OK(MPI_Send_init(&x, 1, MPI_INT, MPI_PROC_NULL, 1, mt_comm, &r[0]));
    OK(MPI_Recv_init(&x, 1, MPI_INT, MPI_PROC_NULL, 1, mt_comm, &r[1]));
    for (i = 0; i < 3; i++) {
        OK(MPI_Startall(2, r));
        OK(MPI_Waitall(2, r, st));
        mt_check_status(&st[1], MPI_PROC_NULL, MPI_ANY_TAG, 0);
    }
    CHECK_EQ(x, 5);
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
}

/* Freeing an active persistent send lets it finish. */
static void free_active(void)
{
    static int out, in;
    MPI_Request r;

    out = 1234 + mt_rank;
    OK(MPI_Send_init(&out, 1, MPI_INT, (mt_rank + 1) % mt_size, TAG, mt_comm, &r));
    OK(MPI_Start(&r));
    OK(MPI_Request_free(&r));
    CHECK(r == MPI_REQUEST_NULL);
    OK(MPI_Recv(&in, 1, MPI_INT, (mt_rank - 1 + mt_size) % mt_size, TAG, mt_comm,
                MPI_STATUS_IGNORE));
    CHECK_EQ(in, 1234 + (mt_rank - 1 + mt_size) % mt_size);
    mt_sync();
}

/* The same with a message that has to be fetched, and in every mode that may be pending; the
 * receives come later than the frees. */
static void free_active_large(void)
{
    enum { LEN = 300000 };
    static unsigned char out[2][LEN], in[LEN];
    int right = (mt_rank + 1) % mt_size, left = (mt_rank - 1 + mt_size) % mt_size, i;
    MPI_Request r;

    for (i = 0; i < 2; i++) {
        mt_fill(out[i], LEN, (unsigned)(mt_rank * 2 + i));
        OK((i ? MPI_Ssend_init : MPI_Send_init)(out[i], LEN, MPI_BYTE, right, i, mt_comm, &r));
        OK(MPI_Start(&r));
        OK(MPI_Request_free(&r));
        CHECK(r == MPI_REQUEST_NULL);
    }
    mt_sync();
    for (i = 1; i >= 0; i--) {
        OK(MPI_Recv(in, LEN, MPI_BYTE, left, i, mt_comm, MPI_STATUS_IGNORE));
        CHECK_DATA(in, LEN, (unsigned)(left * 2 + i));
    }
    mt_sync();
}

static void free_active_receive(void)
{
    static int got;
    int x = 77 + mt_rank, left = (mt_rank - 1 + mt_size) % mt_size;
    MPI_Request r;

    got = 0;
    OK(MPI_Recv_init(&got, 1, MPI_INT, left, TAG, mt_comm, &r));
    OK(MPI_Start(&r));
    OK(MPI_Request_free(&r));
    CHECK(r == MPI_REQUEST_NULL);
    mt_sync();
    OK(MPI_Send(&x, 1, MPI_INT, (mt_rank + 1) % mt_size, TAG, mt_comm));
    OK(MPI_Send(&x, 1, MPI_INT, (mt_rank + 1) % mt_size, TAG_GO, mt_comm));
    OK(MPI_Recv(&x, 1, MPI_INT, left, TAG_GO, mt_comm, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 77 + left);
}

/* A cancelled receive is inactive after the wait, and good for the next start; cancelled and freed
 * it takes no message. */
static void cancel_active(void)
{
    int in = -1, other = -1, x = 5, cancelled, i, left = (mt_rank - 1 + mt_size) % mt_size;
    MPI_Request r;
    MPI_Status st;

    OK(MPI_Recv_init(&in, 1, MPI_INT, left, TAG, mt_comm, &r));
    for (i = 0; i < 3; i++) {
        cancelled = 0;
        OK(MPI_Start(&r));
        OK(MPI_Cancel(&r));
        OK(MPI_Wait(&r, &st));
        OK(MPI_Test_cancelled(&st, &cancelled));
        CHECK_EQ(cancelled, 1);
        CHECK(r != MPI_REQUEST_NULL);
        CHECK(inactive(&r));
        OK(MPI_Start(&r));
        mt_sync();
        OK(MPI_Send(&x, 1, MPI_INT, (mt_rank + 1) % mt_size, TAG, mt_comm));
        OK(MPI_Wait(&r, &st));
        OK(MPI_Test_cancelled(&st, &cancelled));
        CHECK_EQ(cancelled, 0);
        CHECK_EQ(in, 5);
        in = -1;
    }
    OK(MPI_Start(&r));
    OK(MPI_Cancel(&r));
    OK(MPI_Request_free(&r));
    mt_sync();
    OK(MPI_Send(&x, 1, MPI_INT, (mt_rank + 1) % mt_size, TAG, mt_comm));
    OK(MPI_Recv(&other, 1, MPI_INT, left, TAG, mt_comm, MPI_STATUS_IGNORE));
    CHECK_EQ(other, 5);
    CHECK_EQ(in, -1);
}

/* A flush whose request is freed while messages are in the buffer. */
static void free_active_flush(void)
{
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
    enum { LEN = 100000 };
    static unsigned char out[LEN], in[LEN];
    int right = (mt_rank + 1) % mt_size, left = (mt_rank - 1 + mt_size) % mt_size, size, i;
    void *back, *space = malloc(3 * (LEN + MPI_BSEND_OVERHEAD));
    MPI_Request r;

    OK(MPI_Buffer_attach(space, 3 * (LEN + MPI_BSEND_OVERHEAD)));
    mt_fill(out, LEN, (unsigned)mt_rank);
    for (i = 0; i < 2; i++)
        OK(MPI_Bsend(out, LEN, MPI_BYTE, right, i, mt_comm));
    OK(MPI_Buffer_iflush(&r));
    OK(MPI_Request_free(&r));
    CHECK(r == MPI_REQUEST_NULL);
    OK(MPI_Buffer_iflush(&r)); /* a second one, which is waited for */
    for (i = 0; i < 2; i++) {
        OK(MPI_Recv(in, LEN, MPI_BYTE, left, i, mt_comm, MPI_STATUS_IGNORE));
        CHECK_DATA(in, LEN, (unsigned)left);
    }
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_iflush(&r)); /* nothing is left to flush */
    OK(MPI_Request_free(&r));
    OK(MPI_Buffer_detach(&back, &size));
    free(space);
#else
    mt_skip("needs MPI 4.1");
#endif
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(standard);
    MT_RUN(synchronous);
    MT_RUN(ready_mode);
    MT_RUN(buffered);
    MT_RUN(startall_ring);
    MT_RUN(mixed_with_inactive);
    MT_RUN(proc_null);
    MT_RUN(free_active);
    MT_RUN(free_active_large);
    MT_RUN(free_active_receive);
    MT_RUN(cancel_active);
    MT_RUN(free_active_flush);
    return mt_end();
}
