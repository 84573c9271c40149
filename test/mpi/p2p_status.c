/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking at requests without completing them (MPI-5.0 section 3.7.6): MPI_Request_get_status and
 * its forms for arrays over null, inactive, pending and complete requests of every kind; what
 * MPI_Cancel may be called for (section 3.8.4); MPI_Isendrecv as a request.  Each rank sends to
 * itself, so that it decides what is complete. */
#include "test/mpi/mpitest.h"

enum { N = 6, TAG = 20 };

static int in[N], out[N];

static MPI_Request receive(int i)
{
    MPI_Request r = MPI_REQUEST_NULL;

    in[i] = -1;
    OK(MPI_Irecv(&in[i], 1, MPI_INT, mt_rank, TAG + i, mt_comm, &r));
    return r;
}

static void send(int i)
{
    out[i] = 100 * mt_rank + i;
    OK(MPI_Send(&out[i], 1, MPI_INT, mt_rank, TAG + i, mt_comm));
}

static void check_empty(const MPI_Status *st)
{
    int n = -1;

    OK(MPI_Get_count(st, MPI_INT, &n));
    CHECK(n == 0 && st->MPI_SOURCE == MPI_ANY_SOURCE && st->MPI_TAG == MPI_ANY_TAG);
}

static void check_number(const MPI_Status *st, int i)
{
    mt_check_status(st, mt_rank, TAG + i, (int)sizeof(int));
    CHECK_EQ(in[i], 100 * mt_rank + i);
}

static bool done(MPI_Request r, MPI_Status *st)
{
    int flag = -1;

    OK(MPI_Request_get_status(r, &flag, st));
    CHECK(flag == 0 || flag == 1);
    return flag == 1;
}

static void one(void)
{
    MPI_Request r = receive(0);
    MPI_Status st;
    int k;

    CHECK(!done(r, &st));
    send(0);
    while (!done(r, MPI_STATUS_IGNORE))
        ;
    for (k = 0; k < 3; k++) { /* as often as one likes */
        CHECK(done(r, &st));
        check_number(&st, 0);
    }
    OK(MPI_Wait(&r, &st));
    check_number(&st, 0);
    CHECK(done(r, &st));
    check_empty(&st);
}

static void persistent(void)
{
    MPI_Request r, other;
    MPI_Status st;
    int round;

    OK(MPI_Recv_init(&in[0], 1, MPI_INT, mt_rank, TAG, mt_comm, &r));
    for (round = 0; round < 3; round++) {
        CHECK(done(r, &st)); /* inactive */
        check_empty(&st);
        OK(MPI_Start(&r));
        CHECK(!done(r, &st));
        send(0);
        while (!done(r, &st))
            ;
        check_number(&st, 0);
        FAILS(MPI_Start(&r), MPI_ERR_REQUEST); /* complete, but active until it is waited for */
        OK(MPI_Wait(&r, &st));
        check_number(&st, 0);
    }
    OK(MPI_Start(&r));
    send(0);
    while (!done(r, &st))
        ;
    OK(MPI_Request_free(&r)); /* complete and active */
    OK(MPI_Ibarrier(mt_comm, &other));
    while (!done(other, &st))
        ;
    OK(MPI_Wait(&other, &st));
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
static void arrays(void)
{
    MPI_Request r[N];
    MPI_Status st[N];
    int flag = -1, index = -5, n = -5, where[N], i;

    OK(MPI_Recv_init(&i, 1, MPI_INT, mt_rank, 1, mt_comm, &r[0])); /* inactive */
    r[1] = MPI_REQUEST_NULL;
    for (i = 2; i < N; i++)
        r[i] = receive(i);
    OK(MPI_Request_get_status_any(N, r, &index, &flag, st));
    CHECK(!flag && index == MPI_UNDEFINED);
    OK(MPI_Request_get_status_some(N, r, &n, where, st));
    CHECK_EQ(n, 0);
    OK(MPI_Request_get_status_all(N, r, &flag, st));
    CHECK_EQ(flag, 0);
    send(4);
    while (!done(r[4], &st[0]))
        ;
    OK(MPI_Request_get_status_any(N, r, &index, &flag, st));
    CHECK(flag && index == 4);
    check_number(st, 4);
    OK(MPI_Request_get_status_all(N, r, &flag, MPI_STATUSES_IGNORE));
    CHECK_EQ(flag, 0);
    send(2);
    while (!done(r[2], &st[0]))
        ;
    st[2].MPI_SOURCE = 77;
    OK(MPI_Request_get_status_some(N, r, &n, where, st));
    CHECK(n == 2 && where[0] == 2 && where[1] == 4);
    check_number(&st[0], 2);
    check_number(&st[1], 4);
    CHECK_EQ(st[2].MPI_SOURCE, 77); /* only as many as there are */
    send(3);
    send(5);
    for (flag = 0; !flag;)
        OK(MPI_Request_get_status_all(N, r, &flag, st));
    check_empty(&st[0]);
    check_empty(&st[1]);
    for (i = 2; i < N; i++)
        check_number(&st[i], i);
    CHECK(r[0] != MPI_REQUEST_NULL && r[5] != MPI_REQUEST_NULL);
    OK(MPI_Waitall(N, r, st));
    check_number(&st[5], 5);
    OK(MPI_Request_get_status_any(N, r, &index, &flag, st)); /* nothing is active */
    CHECK(flag && index == MPI_UNDEFINED);
    check_empty(st);
    OK(MPI_Request_get_status_some(N, r, &n, where, st));
    CHECK_EQ(n, MPI_UNDEFINED);
    OK(MPI_Request_get_status_all(N, r, &flag, st));
    CHECK_EQ(flag, 1);
    check_empty(&st[0]);
    OK(MPI_Request_get_status_all(0, NULL, &flag, MPI_STATUSES_IGNORE));
    CHECK_EQ(flag, 1);
    OK(MPI_Request_free(&r[0]));
}

static void wrong_arrays(void)
{
    MPI_Request r[2] = { receive(0), MPI_REQUEST_NULL };
    int flag, index, n, where[2];

    r[1] = r[0];
    OK(MPI_Cancel(&r[0]));
    OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE)); /* r[1] is stale now */
    FAILS(MPI_Request_get_status(r[1], &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    FAILS(MPI_Request_get_status_any(2, r, &index, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    FAILS(MPI_Request_get_status_all(2, r, &flag, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    FAILS(MPI_Request_get_status_some(2, r, &n, where, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
}
#endif

/* One request twice in an array is an error, not a crash. */
static void named_twice(void)
{
    MPI_Request r[2] = { receive(0), MPI_REQUEST_NULL };
    MPI_Status st[2];

    r[1] = r[0];
    send(0);
    FAILS(MPI_Waitall(2, r, st), MPI_ERR_IN_STATUS);
    CHECK(st[0].MPI_ERROR == MPI_SUCCESS && st[1].MPI_ERROR == MPI_ERR_REQUEST);
    check_number(&st[0], 0);
    OK(MPI_Recv_init(&in[1], 1, MPI_INT, mt_rank, TAG + 1, mt_comm, &r[0]));
    r[1] = r[0];
    FAILS(MPI_Startall(2, r), MPI_ERR_REQUEST);
    send(1);
    OK(MPI_Wait(&r[0], &st[0]));
    check_number(&st[0], 1);
    OK(MPI_Request_free(&r[0]));
}

/* MPI_Comm_disconnect waits for what is pending only: inactive persistent requests and those that
 * are complete may be given back later. */
static void disconnected(void)
{
    MPI_Comm c;
    MPI_Request r[4];
    int x = 3, y = 0, z = 0;

    OK(MPI_Comm_dup(mt_comm, &c));
    OK(MPI_Send_init(&x, 1, MPI_INT, mt_rank, 1, c, &r[0]));
    OK(MPI_Recv_init(&z, 1, MPI_INT, mt_rank, 1, c, &r[1]));
    OK(MPI_Startall(2, r));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    OK(MPI_Irecv(&y, 1, MPI_INT, mt_rank, 2, c, &r[2]));
    OK(MPI_Send(&x, 1, MPI_INT, mt_rank, 2, c));
    r[3] = MPI_REQUEST_NULL;
#if MPI_VERSION >= 4
    OK(MPI_Barrier_init(c, MPI_INFO_NULL, &r[3]));
#endif
    OK(MPI_Comm_disconnect(&c));
    CHECK(c == MPI_COMM_NULL && y == 3 && z == 3);
    OK(MPI_Wait(&r[2], MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
    if (r[3] != MPI_REQUEST_NULL)
        OK(MPI_Request_free(&r[3]));
}

static bool was_cancelled(const MPI_Status *st)
{
    int flag = -1;

    OK(MPI_Test_cancelled(st, &flag));
    return flag;
}

static void cancelling(void)
{
    MPI_Request r;
    MPI_Status st;
    int x = 3;

    r = receive(0); /* complete: nothing happens */
    send(0);
    while (!done(r, &st))
        ;
    OK(MPI_Cancel(&r));
    OK(MPI_Wait(&r, &st));
    CHECK(!was_cancelled(&st));
    check_number(&st, 0);
    r = receive(1); /* pending: cancelled, and seen to be without being completed */
    OK(MPI_Cancel(&r));
    while (!done(r, &st))
        ;
    CHECK(was_cancelled(&st));
    OK(MPI_Wait(&r, &st));
    CHECK(was_cancelled(&st));
    OK(MPI_Isend(&x, 1, MPI_INT, mt_rank, 9, mt_comm, &r)); /* a send has left already */
    OK(MPI_Cancel(&r));
    OK(MPI_Recv(&x, 1, MPI_INT, mt_rank, 9, mt_comm, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&r, &st));
    CHECK(!was_cancelled(&st));
    FAILS(MPI_Cancel(&r), MPI_ERR_REQUEST); /* null */
    OK(MPI_Recv_init(&x, 1, MPI_INT, mt_rank, 9, mt_comm, &r));
    FAILS(MPI_Cancel(&r), MPI_ERR_REQUEST); /* inactive */
    OK(MPI_Start(&r));
    OK(MPI_Cancel(&r));
    OK(MPI_Wait(&r, &st));
    CHECK(was_cancelled(&st));
    OK(MPI_Request_free(&r));
    OK(MPI_Ibarrier(mt_comm, &r));
    FAILS(MPI_Cancel(&r), MPI_ERR_REQUEST); /* a collective */
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

#if MPI_VERSION >= 4
static void isendrecv(void)
{
    int a = 1, b = 2, c = 3;
    MPI_Request r[2];
    MPI_Status st[2];

    OK(MPI_Isendrecv(&a, 1, MPI_INT, MPI_PROC_NULL, 1, &b, 1, MPI_INT, mt_rank, 2, mt_comm, &r[0]));
    CHECK(!done(r[0], &st[0]));
    OK(MPI_Isendrecv_replace(&c, 1, MPI_INT, mt_rank, 2, MPI_PROC_NULL, 1, mt_comm, &r[1]));
    while (!done(r[0], &st[0]))
        ;
    mt_check_status(&st[0], mt_rank, 2, (int)sizeof(int));
    OK(MPI_Waitall(2, r, st));
    mt_check_status(&st[0], mt_rank, 2, (int)sizeof(int));
    mt_check_status(&st[1], MPI_PROC_NULL, MPI_ANY_TAG, 0);
    CHECK(b == 3 && c == 3);
    OK(MPI_Isendrecv(&a, 1, MPI_INT, mt_rank, 4, &b, 1, MPI_INT, mt_rank, 5, mt_comm, &r[0]));
    OK(MPI_Request_free(&r[0])); /* active: both halves continue */
    OK(MPI_Sendrecv(&c, 1, MPI_INT, mt_rank, 5, &c, 0, MPI_INT, MPI_PROC_NULL, 0, mt_comm,
                    MPI_STATUS_IGNORE));
    OK(MPI_Recv(&c, 1, MPI_INT, mt_rank, 4, mt_comm, MPI_STATUS_IGNORE));
    CHECK(b == 3 && c == 1);
}

/* A truncated half is the request's error. */
static void isendrecv_truncated(void)
{
    int a[2] = { 1, 2 }, b[2] = { 0, 0 };
    MPI_Request r[2];
    MPI_Status st[2];

    OK(MPI_Isendrecv(a, 2, MPI_INT, mt_rank, 1, b, 1, MPI_INT, mt_rank, 1, mt_comm, &r[0]));
    r[1] = receive(1);
    send(1);
    FAILS(MPI_Waitall(2, r, st), MPI_ERR_IN_STATUS);
    CHECK(st[0].MPI_ERROR == MPI_ERR_TRUNCATE && st[1].MPI_ERROR == MPI_SUCCESS);
    CHECK(b[0] == 1 && b[1] == 0);
    check_number(&st[1], 1);
}
#endif

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(one);
    MT_RUN(persistent);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
    MT_RUN(arrays);
    MT_RUN(wrong_arrays);
#endif
    MT_RUN(named_twice);
    MT_RUN(disconnected);
    MT_RUN(cancelling);
#if MPI_VERSION >= 4
    MT_RUN(isendrecv);
    MT_RUN(isendrecv_truncated);
#endif
    return mt_end();
}
