/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion (MPI-5.0 sections 3.7 and 3.8.4): the wait and test families with null, pending and
 * finished requests, MPI_Request_get_status, MPI_Request_free and MPI_Cancel.  Each rank receives
 * from its left and sends to its right. */
#include "test/mpi/mpitest.h"

enum { N = 12, TAG_GO = 400, BIG = 100000 };

static int right(void) { return (mt_rank + 1) % mt_size; }
static int left(void) { return (mt_rank + mt_size - 1) % mt_size; }

static int in[N], out[N];
static MPI_Request rr[N], sr[N];

static void post_receives(void)
{
    int i;

    for (i = 0; i < N; i++) {
        in[i] = -1;
        out[i] = 1000 * mt_rank + i;
        OK(MPI_Irecv(&in[i], 1, MPI_INT, left(), i, mt_comm, &rr[i]));
        sr[i] = MPI_REQUEST_NULL;
    }
    mt_sync();
}

static void send_number(int i) { OK(MPI_Isend(&out[i], 1, MPI_INT, right(), i, mt_comm, &sr[i])); }

static void check_received(int i, const MPI_Status *st)
{
    CHECK_EQ(in[i], 1000 * left() + i);
    mt_check_status(st, left(), i, (int)sizeof(int));
}

static void finish_sends(void)
{
    int i;

    OK(MPI_Waitall(N, sr, MPI_STATUSES_IGNORE));
    for (i = 0; i < N; i++) {
        CHECK(sr[i] == MPI_REQUEST_NULL);
        CHECK(rr[i] == MPI_REQUEST_NULL);
    }
}

static void check_empty(const MPI_Status *st)
{
    int n = -1, cancelled = -1;

    CHECK_EQ(st->MPI_SOURCE, MPI_ANY_SOURCE);
    CHECK_EQ(st->MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Get_count(st, MPI_INT, &n));
    CHECK_EQ(n, 0);
    OK(MPI_Test_cancelled(st, &cancelled));
    CHECK_EQ(cancelled, 0);
}

static void null_requests(void)
{
    MPI_Request r[3] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    MPI_Status st[3];
    int flag = 0, index = 0, done = 0, where[3];

    OK(MPI_Wait(&r[0], &st[0]));
    check_empty(&st[0]);
    OK(MPI_Test(&r[0], &flag, &st[0]));
    CHECK_EQ(flag, 1);
    check_empty(&st[0]);
    OK(MPI_Waitany(3, r, &index, &st[0]));
    CHECK_EQ(index, MPI_UNDEFINED);
    check_empty(&st[0]);
    OK(MPI_Testany(3, r, &index, &flag, &st[0]));
    CHECK(flag && index == MPI_UNDEFINED);
    OK(MPI_Waitsome(3, r, &done, where, st));
    CHECK_EQ(done, MPI_UNDEFINED);
    OK(MPI_Testsome(3, r, &done, where, st));
    CHECK_EQ(done, MPI_UNDEFINED);
    OK(MPI_Waitall(3, r, st));
    check_empty(&st[2]);
    OK(MPI_Testall(3, r, &flag, st));
    CHECK_EQ(flag, 1);
    OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    OK(MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE));
    CHECK_EQ(index, MPI_UNDEFINED);
    OK(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &st[0]));
    CHECK_EQ(flag, 1);
    check_empty(&st[0]);
}

static void wait_each(void)
{
    MPI_Status st;
    int i;

    post_receives();
    for (i = N - 1; i >= 0; i--)
        send_number(i);
    for (i = 0; i < N; i++) {
        OK(MPI_Wait(&rr[i], &st));
        check_received(i, &st);
    }
    finish_sends();
}

static void test_each(void)
{
    MPI_Status st;
    int i, flag, early = 0;

    post_receives();
    for (i = 0; i < N; i++) {
        OK(MPI_Test(&rr[i], &flag, MPI_STATUS_IGNORE));
        early += flag;
    }
    CHECK_EQ(early, 0);
    mt_sync();
    for (i = 0; i < N; i++)
        send_number(i);
    for (i = 0; i < N; i++) {
        for (flag = 0; !flag;)
            OK(MPI_Test(&rr[i], &flag, &st));
        check_received(i, &st);
    }
    finish_sends();
}

static void waitall_statuses(void)
{
    MPI_Status st[2 * N];
    MPI_Request all[2 * N];
    int i;

    post_receives();
    for (i = 0; i < N; i++) {
        send_number(i);
        all[2 * i] = rr[i];
        all[2 * i + 1] = sr[i];
        rr[i] = sr[i] = MPI_REQUEST_NULL;
    }
    OK(MPI_Waitall(2 * N, all, st));
    for (i = 0; i < N; i++) {
        check_received(i, &st[2 * i]);
        CHECK(all[2 * i] == MPI_REQUEST_NULL && all[2 * i + 1] == MPI_REQUEST_NULL);
    }
    finish_sends();
}

static void testall_is_all_or_nothing(void)
{
    MPI_Status st[N];
    int i, flag = 1;

    post_receives();
    for (i = 0; i < N - 1; i++)
        send_number(i);
    mt_sync();
    OK(MPI_Testall(N, rr, &flag, st));
    CHECK_EQ(flag, 0);
    for (i = 0; i < N; i++)
        CHECK(rr[i] != MPI_REQUEST_NULL);
    mt_sync();
    send_number(N - 1);
    for (flag = 0; !flag;)
        OK(MPI_Testall(N, rr, &flag, st));
    for (i = 0; i < N; i++)
        check_received(i, &st[i]);
    finish_sends();
}

/* Each message completes the one request it belongs to; the others stay pending. */
static void waitany_one_by_one(void)
{
    MPI_Status st;
    int i, k, index, flag;

    post_receives();
    for (i = 0; i < N; i++) {
        k = i * 5 % N;
        OK(MPI_Testany(N, rr, &index, &flag, &st));
        CHECK(!flag && index == MPI_UNDEFINED);
        mt_sync();
        send_number(k);
        if (i % 2)
            OK(MPI_Waitany(N, rr, &index, &st));
        else
            for (flag = 0; !flag;)
                OK(MPI_Testany(N, rr, &index, &flag, &st));
        CHECK_EQ(index, k);
        check_received(k, &st);
        CHECK(rr[k] == MPI_REQUEST_NULL);
        mt_sync();
    }
    finish_sends();
}

static void some(bool wait)
{
    MPI_Status st[N];
    int i, done, total = 0, where[N];

    post_receives();
    OK(MPI_Testsome(N, rr, &done, where, st));
    CHECK_EQ(done, 0);
    mt_sync();
    for (i = 0; i < N; i++)
        send_number(i * 7 % N);
    while (total < N) {
        OK(wait ? MPI_Waitsome(N, rr, &done, where, st) : MPI_Testsome(N, rr, &done, where, st));
        CHECK_MSG(done <= N && (done > 0 || !wait), "%d requests finished", done);
        if (done == MPI_UNDEFINED || done > N)
            break;
        for (i = 0; i < done; i++)
            check_received(where[i], &st[i]);
        total += done;
    }
    CHECK_EQ(total, N);
    OK(MPI_Waitsome(N, rr, &done, where, st));
    CHECK_EQ(done, MPI_UNDEFINED);
    finish_sends();
}

static void waitsome(void) { some(true); }
static void testsome(void) { some(false); }

/* Looking at a request does not free it; the status stays the same until it is waited for. */
static void get_status(void)
{
    MPI_Status st;
    int i, flag;

    post_receives();
    OK(MPI_Request_get_status(rr[0], &flag, &st));
    CHECK_EQ(flag, 0);
    mt_sync();
    for (i = 0; i < N; i++)
        send_number(i);
    for (i = 0; i < N; i++) {
        for (flag = 0; !flag;)
            OK(MPI_Request_get_status(rr[i], &flag, &st));
        check_received(i, &st);
        CHECK(rr[i] != MPI_REQUEST_NULL);
        OK(MPI_Request_get_status(rr[i], &flag, &st));
        CHECK_EQ(flag, 1);
        OK(MPI_Wait(&rr[i], &st));
        check_received(i, &st);
    }
    finish_sends();
}

/* A send whose request is freed still arrives, small or large. */
static void free_active_send(void)
{
    static unsigned char small[100], big[BIG], got[BIG];
    MPI_Request r;

    mt_fill(small, sizeof(small), (unsigned)mt_rank);
    mt_fill(big, BIG, (unsigned)mt_rank + 50);
    OK(MPI_Isend(small, (int)sizeof(small), MPI_BYTE, right(), 1, mt_comm, &r));
    OK(MPI_Request_free(&r));
    CHECK(r == MPI_REQUEST_NULL);
    OK(MPI_Isend(big, BIG, MPI_BYTE, right(), 2, mt_comm, &r));
    OK(MPI_Request_free(&r));
    OK(MPI_Recv(got, BIG, MPI_BYTE, left(), 2, mt_comm, MPI_STATUS_IGNORE));
    CHECK_DATA(got, BIG, (unsigned)left() + 50);
    OK(MPI_Recv(got, BIG, MPI_BYTE, left(), 1, mt_comm, MPI_STATUS_IGNORE));
    CHECK_DATA(got, sizeof(small), (unsigned)left());
    mt_sync();
}

static void free_active_receive(void)
{
    static int got;
    int x = 4711;
    MPI_Request r;

    got = 0;
    OK(MPI_Irecv(&got, 1, MPI_INT, left(), 1, mt_comm, &r));
    OK(MPI_Request_free(&r));
    CHECK(r == MPI_REQUEST_NULL);
    mt_sync();
    OK(MPI_Send(&x, 1, MPI_INT, right(), 1, mt_comm));
    OK(MPI_Send(&x, 1, MPI_INT, right(), 2, mt_comm));
    OK(MPI_Recv(&x, 1, MPI_INT, left(), 2, mt_comm, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 4711); /* the earlier message has arrived before the later one was received */
    mt_sync();
}

static void cancel_receive(void)
{
    int a = -1, b = -1, x = 9, cancelled = 0, i;
    MPI_Request r, keep;
    MPI_Status st;

    for (i = 0; i < 4; i++) { /* the four forms of matching */
        int from = i & 1 ? MPI_ANY_SOURCE : left(), tag = i & 2 ? MPI_ANY_TAG : 3;
        OK(MPI_Irecv(&a, 1, MPI_INT, from, tag, mt_comm, &r));
        OK(MPI_Irecv(&b, 1, MPI_INT, from, tag, mt_comm, &keep));
        OK(MPI_Cancel(&r));
        CHECK(r != MPI_REQUEST_NULL);
        OK(MPI_Wait(&r, &st));
        OK(MPI_Test_cancelled(&st, &cancelled));
        CHECK_EQ(cancelled, 1);
        CHECK(r == MPI_REQUEST_NULL);
        mt_sync();
        OK(MPI_Send(&x, 1, MPI_INT, right(), 3, mt_comm));
        OK(MPI_Wait(&keep, &st)); /* the message goes to the receive that is left */
        OK(MPI_Test_cancelled(&st, &cancelled));
        CHECK_EQ(cancelled, 0);
        CHECK_EQ(b, 9);
        CHECK_EQ(a, -1);
        b = -1;
        mt_sync();
    }
}

/* Cancelling what is already complete changes nothing. */
static void cancel_too_late(void)
{
    int x = 5, got = 0, flag = 0, cancelled = -1;
    MPI_Request r;
    MPI_Status st;

    OK(MPI_Irecv(&got, 1, MPI_INT, left(), 1, mt_comm, &r));
    OK(MPI_Send(&x, 1, MPI_INT, right(), 1, mt_comm));
    while (!flag)
        OK(MPI_Request_get_status(r, &flag, &st));
    OK(MPI_Cancel(&r));
    OK(MPI_Wait(&r, &st));
    OK(MPI_Test_cancelled(&st, &cancelled));
    CHECK_EQ(cancelled, 0);
    CHECK_EQ(got, 5);
}

/* Waitall with one bad receive: MPI_ERR_IN_STATUS, and each status has its own error. */
static void error_in_status(void)
{
    MPI_Request r[3];
    MPI_Status st[3];
    int a = 0, c = 0, big[10] = { 0 }, b[4] = { 0 }, x = 6, cls = -1;

    OK(MPI_Irecv(&a, 1, MPI_INT, left(), 1, mt_comm, &r[0]));
    OK(MPI_Irecv(b, 4, MPI_INT, left(), 2, mt_comm, &r[1]));
    OK(MPI_Irecv(&c, 1, MPI_INT, left(), 3, mt_comm, &r[2]));
    mt_sync();
    OK(MPI_Send(&x, 1, MPI_INT, right(), 1, mt_comm));
    MPI_Send(big, 10, MPI_INT, right(), 2, mt_comm);
    OK(MPI_Send(&x, 1, MPI_INT, right(), 3, mt_comm));
    OK(MPI_Wait(&r[2], MPI_STATUS_IGNORE));
    FAILS(MPI_Waitall(3, r, st), MPI_ERR_IN_STATUS);
    CHECK_EQ(st[0].MPI_ERROR, MPI_SUCCESS);
    MPI_Error_class(st[1].MPI_ERROR, &cls);
    CHECK_EQ(cls, MPI_ERR_TRUNCATE);
    CHECK_EQ(st[2].MPI_ERROR, MPI_SUCCESS);
    CHECK(a == 6 && c == 6);
}

/* Two receives that are complete, a null request, and statuses with an error of the past. */
static void two_and_null(MPI_Request r[3], MPI_Status st[3], int got[2])
{
    int i, x[2] = { mt_rank, mt_rank + 1 };

    for (i = 0; i < 2; i++)
        OK(MPI_Irecv(&got[i], 1, MPI_INT, mt_rank, i, mt_comm, &r[i]));
    for (i = 0; i < 2; i++)
        OK(MPI_Send(&x[i], 1, MPI_INT, mt_rank, i, mt_comm));
    r[2] = MPI_REQUEST_NULL;
    for (i = 0; i < 3; i++)
        st[i].MPI_ERROR = MPI_ERR_OTHER;
}

/* Calls on arrays write MPI_SUCCESS into the statuses that they fill; calls on one request leave
 * MPI_ERROR alone. */
static void success_in_status(void)
{
    enum { WAITALL, TESTALL, WAITSOME, TESTSOME, CALLS };
    MPI_Request r[3];
    MPI_Status st[3];
    int call, got[2], n, i, flag, where[3];

    for (call = 0; call < CALLS; call++) {
        two_and_null(r, st, got);
        for (n = flag = 0; !n;) {
            if (call == WAITALL || call == TESTALL) {
                OK(call == WAITALL ? MPI_Waitall(3, r, st) : MPI_Testall(3, r, &flag, st));
                n = call == WAITALL || flag ? 3 : 0;
            } else
                OK(call == WAITSOME ? MPI_Waitsome(3, r, &n, where, st)
                                    : MPI_Testsome(3, r, &n, where, st));
        }
        for (i = 0; i < n; i++)
            CHECK_MSG(st[i].MPI_ERROR == MPI_SUCCESS, "call %d: status %d has %d", call, i,
                      st[i].MPI_ERROR);
        OK(MPI_Waitall(3, r, MPI_STATUSES_IGNORE));
    }
    two_and_null(r, st, got);
    OK(MPI_Wait(&r[0], &st[0]));
    OK(MPI_Waitany(2, r, &i, &st[1]));
    CHECK(st[0].MPI_ERROR == MPI_ERR_OTHER && st[1].MPI_ERROR == MPI_ERR_OTHER);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(null_requests);
    MT_RUN(wait_each);
    MT_RUN(test_each);
    MT_RUN(waitall_statuses);
    MT_RUN(testall_is_all_or_nothing);
    MT_RUN(waitany_one_by_one);
    MT_RUN(waitsome);
    MT_RUN(testsome);
    MT_RUN(get_status);
    MT_RUN(free_active_send);
    MT_RUN(free_active_receive);
    MT_RUN(cancel_receive);
    MT_RUN(cancel_too_late);
    MT_RUN(error_in_status);
    MT_RUN(success_in_status);
    return mt_end();
}
