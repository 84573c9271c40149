/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Cancel of sends (MPI-5.0 section 3.8.4): after it, MPI_Wait returns without a receive for
 * each message that waits for its match; messages that are received, or sent later, are not
 * affected.  Each rank sends to its right neighbour. */
#include "test/mpi/mpitest.h"

enum { TAG = 7, TAG_TELL = 8, LONG = 300000, ROUNDS = 150 };

static int right(void) { return (mt_rank + 1) % mt_size; }
static int left(void) { return (mt_rank + mt_size - 1) % mt_size; }

static char out[LONG * 2], in[LONG];

static bool cancelled(const MPI_Status *st)
{
    int flag = -1;
    OK(MPI_Test_cancelled(st, &flag));
    return flag;
}

/* The send `r` has no receive and is cancelled; a message that is sent after it arrives. */
static void unmatched(MPI_Request r, const char *what)
{
    MPI_Request s;
    MPI_Status st;
    int behind = 4711, got = 0, i;
    OK(MPI_Isend(&behind, 1, MPI_INT, right(), TAG, mt_comm, &s));
    for (i = 0; i < 2; i++)
        OK(MPI_Cancel(&r));
    OK(MPI_Wait(&r, &st));
    CHECK_MSG(cancelled(&st), "%s was not cancelled", what);
    mt_sync();
    OK(MPI_Recv(&got, 1, MPI_INT, left(), TAG, mt_comm, &st));
    OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 4711);
    mt_check_status(&st, left(), TAG, (int)sizeof(int));
}

static void nobody_receives(void)
{
    static const int lens[] = { 0, 8, 5000, 100000, LONG };
    MPI_Datatype gaps;
    MPI_Request r;
    unsigned i;
    OK(MPI_Type_vector(LONG / 2, 1, 2, MPI_CHAR, &gaps));
    OK(MPI_Type_commit(&gaps));
    for (i = 0; i < sizeof lens / sizeof *lens; i++) {
        OK(MPI_Issend(out, lens[i], MPI_CHAR, right(), TAG, mt_comm, &r));
        unmatched(r, "a synchronous send");
    }
    OK(MPI_Isend(out, LONG, MPI_CHAR, right(), TAG, mt_comm, &r));
    unmatched(r, "a long send");
    OK(MPI_Isend(out, 1, gaps, right(), TAG, mt_comm, &r));
    unmatched(r, "a send with gaps");
    OK(MPI_Issend(out, 1, gaps, right(), TAG, mt_comm, &r));
    unmatched(r, "a synchronous send with gaps");
    OK(MPI_Type_free(&gaps));
}

static void persistent(void)
{
    MPI_Request r;
    MPI_Status st;
    int round, x = 3, got;
    OK(MPI_Ssend_init(&x, 1, MPI_INT, right(), TAG, mt_comm, &r));
    for (round = 0; round < 6; round++) {
        OK(MPI_Start(&r));
        if (round % 2 == 0)
            OK(MPI_Cancel(&r));
        else
            OK(MPI_Recv(&got, 1, MPI_INT, left(), TAG, mt_comm, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&r, &st));
        CHECK_EQ(cancelled(&st), round % 2 == 0);
        CHECK(r != MPI_REQUEST_NULL);
        mt_sync();
    }
    OK(MPI_Request_free(&r));
}

static void too_late(void)
{
    MPI_Request s, r;
    MPI_Status st;
    MPI_Message m;
    int probed;
    for (probed = 0; probed < 2; probed++) {
        memset(out, 5 + probed, LONG);
        if (!probed)
            OK(MPI_Irecv(in, LONG, MPI_CHAR, left(), TAG, mt_comm, &r));
        mt_sync();
        OK(MPI_Issend(out, LONG, MPI_CHAR, right(), TAG, mt_comm, &s));
        if (probed) {
            OK(MPI_Mprobe(left(), TAG, mt_comm, &m, &st));
            OK(MPI_Imrecv(in, LONG, MPI_CHAR, &m, &r));
        }
        mt_sync();
        OK(MPI_Cancel(&s));
        OK(MPI_Wait(&s, &st));
        CHECK(!cancelled(&st));
        OK(MPI_Wait(&r, &st));
        mt_check_status(&st, left(), TAG, LONG);
        CHECK(in[0] == 5 + probed && in[LONG - 1] == 5 + probed);
    }
}

/* Completes the receive r if its message has come, whose number must be higher than the last
 * one's.  With `back` the receive is cancelled first.  Returns the number of messages received. */
static int take(MPI_Request *r, const int *got, bool back)
{
    static int last;
    MPI_Status st;
    int flag = 0;
    if (*r == MPI_REQUEST_NULL)
        return 0;
    if (back)
        OK(MPI_Cancel(r));
    do
        OK(MPI_Test(r, &flag, &st));
    while (back && !flag);
    if (!flag || cancelled(&st))
        return 0;
    CHECK_MSG(got[0] > last, "message %d came after %d", got[0], last);
    last = got[0];
    return 1;
}

/* Each message is either received or cancelled. */
static void either_or(void)
{
    static int bufs[ROUNDS][5000], got[5000];
    static MPI_Request s[ROUNDS];
    MPI_Request r = MPI_REQUEST_NULL, told;
    MPI_Status st;
    int i, nsent = 0, ngot = 0, want = -1;
    OK(MPI_Irecv(&want, 1, MPI_INT, left(), TAG_TELL, mt_comm, &told));
    for (i = 0; i < ROUNDS; i++) {
        bufs[i][0] = i + 1;
        OK(MPI_Issend(bufs[i], i % 3 ? i % 3 : 5000, MPI_INT, right(), TAG, mt_comm, &s[i]));
        if ((i * 7 + mt_rank) % 5 < 3 && s[i - i % 4] != MPI_REQUEST_NULL)
            OK(MPI_Cancel(&s[i - i % 4]));
        if (r == MPI_REQUEST_NULL && i % 2)
            OK(MPI_Irecv(got, 5000, MPI_INT, left(), TAG, mt_comm, &r));
        ngot += take(&r, got, i % 16 == 1); /* then none is posted for a time */
    }
    for (i = 0; i < ROUNDS; i++) {
        OK(MPI_Cancel(&s[i]));
        OK(MPI_Wait(&s[i], &st));
        nsent += !cancelled(&st);
    }
    OK(MPI_Send(&nsent, 1, MPI_INT, right(), TAG_TELL, mt_comm));
    OK(MPI_Wait(&told, MPI_STATUS_IGNORE));
    ngot += take(&r, got, true);
    CHECK_EQ(ngot, want);
}

/* A message to this process: the first test after MPI_Cancel has the result. */
static void to_itself(void)
{
    static const int lens[] = { 0, 8, 5000, LONG };
    MPI_Request r;
    MPI_Status st;
    int i, flag;
    for (i = 0; i < 8; i++) {
        OK(MPI_Issend(out, lens[i % 4], MPI_CHAR, mt_rank, TAG, mt_comm, &r));
        if (i < 4)
            OK(MPI_Probe(mt_rank, TAG, mt_comm, &st));
        OK(MPI_Cancel(&r));
        OK(MPI_Request_get_status(r, &flag, &st));
        CHECK_MSG(flag && cancelled(&st), "%d bytes: flag %d", lens[i % 4], flag);
        OK(MPI_Iprobe(mt_rank, TAG, mt_comm, &flag, &st));
        CHECK(!flag);
        OK(MPI_Wait(&r, &st));
        CHECK(cancelled(&st));
    }
}

/* The last rank has messages of the others that it does not receive, and enters MPI_Finalize.  It
 * leaves while some of the others sleep, and some are in MPI before they cancel. */
static void target_in_finalize(void)
{
    MPI_Request r[2];
    MPI_Status st[2];
    int i, flag;
    mt_case = "target in MPI_Finalize";
    if (mt_rank < mt_size - 1)
        for (i = 0; i < 2; i++)
            OK(MPI_Issend(out, i ? LONG : 8, MPI_CHAR, mt_size - 1, TAG, MPI_COMM_WORLD, &r[i]));
    mt_sync();
    if (mt_rank == mt_size - 1)
        return;
    if (mt_rank % 2 == 0)
        mt_sleep_ms(200);
    for (i = 0; i < 500 && mt_rank % 4 != 2; i++) {
        OK(MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
        mt_sleep_ms(1);
    }
    for (i = 0; i < 2; i++)
        OK(MPI_Cancel(&r[i]));
    OK(MPI_Waitall(2, r, st));
    CHECK(cancelled(&st[0]) && cancelled(&st[1]));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(nobody_receives);
    MT_RUN(persistent);
    MT_RUN(too_late);
    MT_RUN(either_or);
    MT_RUN(to_itself);
    target_in_finalize();
    return mt_end();
}
