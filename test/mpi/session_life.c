/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of sessions (MPI-5.0 section 11.3): without MPI_Init, before, beside and after it, again
 * after all were finalized, and different numbers of them in each process. */
#include <string.h>
#include "test/mpi/session.h"

static void one_session(void)
{
    int flag = -1, initialized, finalized;
    OK(MPI_Initialized(&initialized));
    OK(MPI_Finalized(&finalized));
    MPI_Session s = st_open();
    CHECK(s != MPI_SESSION_NULL);
    CHECK(MPI_Session_fromint(MPI_Session_toint(s)) == s);
    OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, initialized); /* they report on the world model only */
    OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, finalized);
    MPI_Comm c = st_comm(s, "mpi://WORLD", "one");
    st_use(c);
    OK(MPI_Comm_free(&c));
    OK(MPI_Session_finalize(&s));
    CHECK(s == MPI_SESSION_NULL);
}

/* The process manager sees each of them begin and end. */
static void again_and_again(void)
{
    for (int i = 0; i < 5; i++)
        one_session();
}

static void two_at_once(void)
{
    MPI_Session a = st_open(), b = st_open();
    CHECK(a != b);
    MPI_Comm ca = st_comm(a, "mpi://WORLD", "a"), cb = st_comm(b, "mpi://WORLD", "b");
    int r, from_a = -1, from_b = -1, mine[2], n, result;
    OK(MPI_Comm_rank(ca, &r));
    OK(MPI_Comm_size(ca, &n));
    mine[0] = 10 * r;
    mine[1] = 10 * r + 1;
    MPI_Request q[4]; /* the same tags on both: the contexts keep them apart */
    OK(MPI_Irecv(&from_b, 1, MPI_INT, MPI_ANY_SOURCE, 5, cb, &q[0]));
    OK(MPI_Irecv(&from_a, 1, MPI_INT, MPI_ANY_SOURCE, 5, ca, &q[1]));
    OK(MPI_Isend(&mine[0], 1, MPI_INT, (r + 1) % n, 5, ca, &q[2]));
    OK(MPI_Isend(&mine[1], 1, MPI_INT, (r + 1) % n, 5, cb, &q[3]));
    OK(MPI_Waitall(4, q, MPI_STATUSES_IGNORE));
    CHECK_EQ(from_a, (r + n - 1) % n * 10);
    CHECK_EQ(from_b, (r + n - 1) % n * 10 + 1);
    OK(MPI_Comm_compare(ca, ca, &result));
    CHECK_EQ(result, MPI_IDENT);
    OK(MPI_Comm_free(&ca));
    OK(MPI_Session_finalize(&a));
    st_use(cb); /* objects of the other stay usable */
    OK(MPI_Comm_disconnect(&cb));
    OK(MPI_Session_finalize(&b));
}

/* Rank r opens r more sessions than rank 0, in an order of its own; the common one is used. */
static void different_numbers(void)
{
    MPI_Session more[8];
    int n = st_rank % 8;
    for (int i = 0; i < n; i++)
        more[i] = st_open();
    MPI_Session s = st_open();
    for (int i = 0; i < n / 2; i++)
        OK(MPI_Session_finalize(&more[i]));
    MPI_Comm c = st_comm(s, "mpi://WORLD", "common");
    st_use(c);
    OK(MPI_Comm_free(&c));
    OK(MPI_Session_finalize(&s));
    for (int i = n / 2; i < n; i++)
        OK(MPI_Session_finalize(&more[i]));
}

/* Even ranks finalize everything and come back, odd ones stay; messages of a new communicator may
 * arrive at a process that is away. */
static void in_different_lives(void)
{
    MPI_Session s = st_open();
    for (int i = 0; i < 3; i++) {
        MPI_Comm c = st_comm(s, "mpi://WORLD", "lives");
        st_use(c);
        OK(MPI_Comm_free(&c));
        if (st_rank % 2 == 0) {
            OK(MPI_Session_finalize(&s));
            if (i == 1)
                usleep(20000);
            s = st_open();
        }
    }
    OK(MPI_Session_finalize(&s));
}

/* A message that was sent before its sender finalized everything is received afterwards. */
static void last_words(void)
{
    static char big[300000];
    MPI_Session s = st_open();
    MPI_Comm c = st_comm(s, "mpi://WORLD", "words");
    int r, n;
    OK(MPI_Comm_rank(c, &r));
    OK(MPI_Comm_size(c, &n));
    memset(big, 'a' + r, sizeof big);
    if (r == 0) {
        for (int i = 1; i < n; i++) {
            MPI_Request q;
            int small = i;
            OK(MPI_Send(&small, 1, MPI_INT, i, 1, c));
            OK(MPI_Isend(big, sizeof big, MPI_CHAR, i, 2, c, &q));
            OK(MPI_Request_free(&q));
        }
    } else {
        int got = -1;
        usleep(10000);
        OK(MPI_Recv(&got, 1, MPI_INT, 0, 1, c, MPI_STATUS_IGNORE));
        CHECK_EQ(got, r);
        OK(MPI_Recv(big, sizeof big, MPI_CHAR, 0, 2, c, MPI_STATUS_IGNORE));
        CHECK(big[0] == 'a' && big[sizeof big - 1] == 'a');
    }
    OK(MPI_Comm_free(&c));
    OK(MPI_Session_finalize(&s));
}

static void no_world(void)
{
    int n;
    MPI_Session s = st_open();
    MPI_Comm c = st_comm(s, "mpi://SELF", "self");
    OK(MPI_Comm_size(c, &n));
    CHECK_EQ(n, 1);
    st_use(c);
    OK(MPI_Comm_free(&c));
    OK(MPI_Session_finalize(&s));
}

/* Everything from here on runs beside the world model. */
static MPI_Session before;
static MPI_Comm before_comm;

static void world_use(void)
{
    int flag;
    OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, 1);
    OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, 0);
    st_use(MPI_COMM_WORLD);
    st_use(before_comm);
}

static void beside_the_world(void)
{
    for (int i = 0; i < 3; i++) {
        MPI_Session s = st_open();
        MPI_Comm c = st_comm(s, "mpi://WORLD", "beside");
        st_use(c);
        st_use(MPI_COMM_WORLD);
        OK(MPI_Comm_free(&c));
        OK(MPI_Session_finalize(&s));
    }
}

static void after_the_world(void)
{
    int flag;
    OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, 1);
    st_use(before_comm);
    OK(MPI_Comm_free(&before_comm));
    OK(MPI_Session_finalize(&before));
}

int main(int argc, char **argv)
{
    st_begin();
    ST_RUN(one_session);
    ST_RUN(again_and_again);
    ST_RUN(two_at_once);
    ST_RUN(different_numbers);
    ST_RUN(in_different_lives);
    ST_RUN(last_words);
    ST_RUN(no_world);
    before = st_open();
    before_comm = st_comm(before, "mpi://WORLD", "before");
    MPI_Init(&argc, &argv);
    ST_RUN(world_use);
    ST_RUN(beside_the_world);
    MPI_Finalize();
    ST_RUN(after_the_world);
    ST_RUN(one_session); /* with nothing left: MPI begins again */
    ST_RUN(different_numbers);
    return st_end();
}
