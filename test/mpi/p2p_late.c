/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank is in MPI_Finalize long before the other makes the calls that need it.
 *   p2p_late         a correct program: the answers to many synchronous sends, more than a ring
 *                    holds, wait for a sender that computes meanwhile
 *   p2p_late never   an erroneous one: messages that nobody receives, their requests freed */
#include "test/mpi/mpitest.h"

/* Longer than MPI_Finalize waits for the messages of an erroneous program. */
enum { MESSAGES = 300, TAG = 21, AWAY_MS = 7000, BIG = 1 << 20 };

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

static void never_received(void)
{
    static char buf[BIG];
    MPI_Request r;

    OK(MPI_Isend(buf, BIG, MPI_BYTE, !mt_rank, TAG, MPI_COMM_WORLD, &r));
    OK(MPI_Request_free(&r));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    if (mt_size != 2) {
        printf("# p2p_late needs two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (argc > 1 && !strcmp(argv[1], "never"))
        never_received();
    else if (mt_rank == 0)
        late_sender();
    else
        early_receiver();
    mt_case = "MPI_Finalize";
    MPI_Finalize();
    if (mt_rank == 0)
        printf("%sok 1 - p2p_late\n1..1\n", check_failed_case ? "not " : "");
    return check_failed_case;
}
