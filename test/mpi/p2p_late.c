/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank is in MPI_Finalize long before the other makes the calls that need it.
 *   p2p_late         a correct program: the answers to many synchronous sends, more than a ring
 *                    holds, wait for a sender that computes meanwhile
 *   p2p_late freed   a correct one: long messages, whose requests are freed, end in MPI_Finalize
 *   p2p_late asked   a correct one: a rank that was only asked for messages, and never sent any,
 *                    has ended: on other hosts there is no connection to it, and none is wanted
 *   p2p_late gone    messages of a process that has ended since, and then one that is not there
 *   p2p_late absent  an erroneous one: the last rank ends without taking part in anything
 *   p2p_late polled  another erroneous one: the same, and the others poll for a message
 *   p2p_late never   an erroneous one: messages without a receive, their requests freed */
#include "test/mpi/mpitest.h"

/* Longer than MPI_Finalize waits for the messages of an erroneous program. */
enum { MESSAGES = 300, TAG = 21, AWAY_MS = 7000, END_MS = 2000, GONE_MS = 20000, BIG = 1 << 20 };

static void late_sender(void)
{
    static MPI_Request r[MESSAGES];
    static uint64_t v[MESSAGES];
    int i;

    for (i = 0; i < MESSAGES; i++) {
        v[i] = (uint64_t)i * 3 + 1;
        OK(MPI_Issend(&v[i], 8, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &r[i]));
    }
    mt_sleep_ms(AWAY_MS);
    OK(MPI_Waitall(MESSAGES, r, MPI_STATUSES_IGNORE));
}

static void early_receiver(void)
{
    uint64_t v = 0;
    int i;

    for (i = 0; i < MESSAGES; i++) {
        OK(MPI_Recv(&v, 8, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(v, (uint64_t)i * 3 + 1);
    }
}

static void asked_in_vain(void)
{
    MPI_Request r;
    int v, flag;

    if (mt_rank != 0)
        return;
    OK(MPI_Irecv(&v, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, &r));
    OK(MPI_Cancel(&r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Iprobe(1, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    mt_sleep_ms(END_MS);
}

/* Rank 0 receives only when it knows that rank 1 has ended. */
static void sender_gone(void)
{
    int v[2] = { 5, 6 }, flag, err = MPI_SUCCESS, class;
    MPI_Request r;

    if (mt_rank == 1) {
        OK(MPI_Send(&v[0], 1, MPI_INT, 0, TAG, MPI_COMM_WORLD));
        OK(MPI_Send(&v[1], 1, MPI_INT, 0, TAG, MPI_COMM_WORLD));
        return;
    }
    for (int ms = 0; ms < GONE_MS && err == MPI_SUCCESS; ms++) {
        err = MPI_Iprobe(1, TAG + 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        mt_sleep_ms(1);
    }
    OK(MPI_Error_class(err, &class));
    CHECK_EQ(class, MPI_ERR_PROC_ABORTED);
    OK(MPI_Probe(1, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    v[0] = v[1] = 0;
    OK(MPI_Recv(&v[0], 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Irecv(&v[1], 1, MPI_INT, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_EQ(v[0], 5);
    CHECK_EQ(v[1], 6);
    OK(MPI_Error_class(MPI_Recv(v, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), &class));
    CHECK_EQ(class, MPI_ERR_PROC_ABORTED);
}

/* Collectives in shared memory, collectives by messages and receives fail without the last rank. */
static void without_the_last(void)
{
    static int in[BIG / 4], out[BIG / 4];
    int x = 0, class, err;
    if (mt_rank == mt_size - 1)
        return;
    if (mt_rank % 2)
        err = MPI_Probe(mt_size - 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        err = MPI_Recv(&x, 1, MPI_INT, mt_size - 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    OK(MPI_Error_class(err, &class));
    CHECK_EQ(class, MPI_ERR_PROC_ABORTED);
    CHECK(MPI_Probe(mt_size - 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    CHECK(MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS);
    CHECK(MPI_Allreduce(in, out, BIG / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS);
}

/* A loop of MPI_Test or MPI_Iprobe never sleeps. */
static void polls_for_the_last(void)
{
    int x = 0, class, err = MPI_SUCCESS, flag = 0;
    MPI_Request r;

    if (mt_rank == mt_size - 1)
        return;
    if (mt_rank % 2) {
        while (!flag && !err)
            err = MPI_Iprobe(mt_size - 1, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    } else {
        OK(MPI_Irecv(&x, 1, MPI_INT, mt_size - 1, TAG, MPI_COMM_WORLD, &r));
        while (!flag && !err)
            err = MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
    }
    OK(MPI_Error_class(err, &class));
    CHECK_EQ(class, MPI_ERR_PROC_ABORTED);
}

static void never_received(void)
{
    static char buf[BIG];
    MPI_Request r;

    OK(MPI_Isend(buf, BIG, MPI_BYTE, !mt_rank, TAG, MPI_COMM_WORLD, &r));
    OK(MPI_Request_free(&r));
}

/* With gaps, so that each is many messages, which need the communicator to the end. */
enum { FREED = 8, BLOCKS = 3000, LEN = 500 };
static unsigned char freed_out[FREED][2 * BLOCKS * LEN], freed_in[FREED][2 * BLOCKS * LEN];

static void freed_requests(void)
{
    MPI_Datatype t;
    MPI_Request r[2];
    int i;

    OK(MPI_Type_vector(BLOCKS, LEN, 2 * LEN, MPI_BYTE, &t));
    OK(MPI_Type_commit(&t));
    for (i = 0; i < FREED; i++) {
        mt_fill(freed_out[i], sizeof(freed_out[i]), (unsigned)i);
        OK(MPI_Irecv(freed_in[i], 1, t, !mt_rank, i, MPI_COMM_WORLD, &r[0]));
        OK(MPI_Isend(freed_out[i], 1, t, !mt_rank, i, MPI_COMM_WORLD, &r[1]));
        OK(MPI_Request_free(&r[0]));
        OK(MPI_Request_free(&r[1]));
    }
    OK(MPI_Type_free(&t));
}

static void freed_check(void)
{
    int i, b;

    for (i = 0; i < FREED; i++)
        for (b = 0; b < BLOCKS; b++)
            CHECK(!memcmp(freed_in[i] + 2 * b * LEN, freed_out[i] + 2 * b * LEN, LEN));
}

int main(int argc, char **argv)
{
    bool freed = argc > 1 && !strcmp(argv[1], "freed");
    bool polled = argc > 1 && !strcmp(argv[1], "polled");
    bool absent = polled || (argc > 1 && !strcmp(argv[1], "absent"));

    mt_init(argc, argv);
    if (mt_size != 2 && !absent) {
        printf("# p2p_late needs two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (argc > 1 && !strcmp(argv[1], "never"))
        never_received();
    else if (argc > 1 && !strcmp(argv[1], "asked"))
        asked_in_vain();
    else if (argc > 1 && !strcmp(argv[1], "gone"))
        sender_gone();
    else if (polled)
        polls_for_the_last();
    else if (absent)
        without_the_last();
    else if (freed)
        freed_requests();
    else if (mt_rank == 0)
        late_sender();
    else
        early_receiver();
    mt_case = "MPI_Finalize";
    MPI_Finalize();
    if (freed)
        freed_check();
    if (mt_rank == 0)
        printf("%sok 1 - p2p_late\n1..1\n", check_failed_case ? "not " : "");
    return check_failed_case;
}
