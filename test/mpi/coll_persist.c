/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent collectives, started again and again and in different orders on different ranks, and
 * communicators that are freed while other ranks may still read data of their collectives. */
#include "test/mpi/mpitest.h"

#define ROUNDS 20

/* Four requests; rank r starts them in an order of its own, and waits in that of completion. */
static void starts_in_any_order(void)
{
    int sum_in = 0, sum = 0, cast = 0, mine = 0, all[64];
    MPI_Request q[4];
    OK(MPI_Allreduce_init(&sum_in, &sum, 1, MPI_INT, MPI_SUM, mt_comm, MPI_INFO_NULL, &q[0]));
    OK(MPI_Bcast_init(&cast, 1, MPI_INT, mt_size - 1, mt_comm, MPI_INFO_NULL, &q[1]));
    OK(MPI_Allgather_init(&mine, 1, MPI_INT, all, 1, MPI_INT, mt_comm, MPI_INFO_NULL, &q[2]));
    OK(MPI_Barrier_init(mt_comm, MPI_INFO_NULL, &q[3]));
    for (int round = 0; round < ROUNDS; round++) {
        sum_in = mt_rank + round;
        mine = 100 * round + mt_rank;
        cast = mt_rank == mt_size - 1 ? 7 * round : -1;
        sum = -1;
        for (int i = 0; i < 4; i++)
            OK(MPI_Start(&q[(i + mt_rank) % 4]));
        OK(MPI_Waitall(4, q, MPI_STATUSES_IGNORE));
        CHECK_EQ(sum, mt_size * (mt_size - 1) / 2 + mt_size * round);
        CHECK_EQ(cast, 7 * round);
        for (int r = 0; r < mt_size; r++)
            CHECK_EQ(all[r], 100 * round + r);
    }
    for (int i = 0; i < 4; i++)
        OK(MPI_Request_free(&q[i]));
}

/* Persistent and other calls of one communicator do not disturb each other. */
static void mixed_with_others(void)
{
    double in[3] = { 1, 2, mt_rank }, out[3];
    int token;
    MPI_Request q;
    OK(MPI_Allreduce_init(in, out, 3, MPI_DOUBLE, MPI_MAX, mt_comm, MPI_INFO_NULL, &q));
    for (int round = 0; round < ROUNDS; round++) {
        OK(MPI_Start(&q));
        token = mt_rank == 0 ? round : -1;
        OK(MPI_Bcast(&token, 1, MPI_INT, 0, mt_comm));
        OK(MPI_Barrier(mt_comm));
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
        CHECK_EQ(token, round);
        CHECK(out[0] == 1 && out[1] == 2 && out[2] == mt_size - 1);
    }
    OK(MPI_Request_free(&q));
}

/* The root leaves a broadcast first and frees the communicator while others still read. */
static void communicators_come_and_go(void)
{
    static char data[100000];
    for (int round = 0; round < 40; round++) {
        MPI_Comm c;
        int len = round % 2 ? (int)sizeof data : 3000, root = round % mt_size;
        OK(MPI_Comm_dup(mt_comm, &c));
        memset(data, mt_rank == root ? round + 1 : 0, sizeof data);
        OK(MPI_Bcast(data, len, MPI_CHAR, root, c));
        CHECK_EQ(data[0], round + 1);
        CHECK_EQ(data[len - 1], round + 1);
        OK(MPI_Comm_free(&c));
    }
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(starts_in_any_order);
    MT_RUN(mixed_with_others);
    MT_RUN(communicators_come_and_go);
    return mt_end();
}
