/* SPDX-License-Identifier: BSD-3-Clause */
/* Several collectives outstanding at once, on one communicator and on many, mixed with
 * point-to-point, completed in an order that differs from rank to rank (MPI-5.0 section 6.12). */
#include "test/mpi/mpitest.h"

enum { OUT = 24, LEN = 3000 };

static int value(int rank, int k, int i) { return rank * 31 + k * 1009 + i; }

/* Sum over all ranks of value(rank, k, i). */
static int total(int k, int i)
{
    return mt_size * (mt_size - 1) / 2 * 31 + mt_size * (k * 1009 + i);
}

static int out[OUT][LEN], in[OUT][LEN * 8];

static void start(int k, int n, MPI_Comm c, MPI_Request *r)
{
    int i, root = k % mt_size;

    for (i = 0; i < n; i++) {
        out[k][i] = value(mt_rank, k, i);
        in[k][i] = k % 4 == 1 && mt_rank == root ? value(root, k, i) : -1;
    }
    switch (k % 4) {
    case 0:
        OK(MPI_Iallreduce(out[k], in[k], n, MPI_INT, MPI_SUM, c, r));
        break;
    case 1:
        OK(MPI_Ibcast(in[k], n, MPI_INT, root, c, r));
        break;
    case 2:
        OK(MPI_Ireduce(out[k], in[k], n, MPI_INT, MPI_SUM, root, c, r));
        break;
    default:
        OK(MPI_Ibarrier(c, r));
    }
}

static int wrong(int k, int n)
{
    int i, bad = 0, root = k % mt_size;

    for (i = 0; i < n; i++) {
        if (k % 4 == 0 || (k % 4 == 2 && mt_rank == root))
            bad += in[k][i] != total(k, i);
        if (k % 4 == 1)
            bad += in[k][i] != value(root, k, i);
    }
    return bad;
}

static void outstanding(int n)
{
    MPI_Request r[OUT];
    int k, bad = 0, round;

    for (round = 0; round < 5; round++) {
        for (k = 0; k < OUT; k++)
            start(k, n, mt_comm, &r[k]);
        for (k = 0; k < OUT; k++) /* each rank waits in an order of its own */
            OK(MPI_Wait(&r[(k * 5 + mt_rank * 7) % OUT], MPI_STATUS_IGNORE));
        for (k = 0; k < OUT; k++)
            bad += wrong(k, n);
        CHECK_EQ(bad, 0);
    }
}

static void several_small(void) { outstanding(1); }
static void several_medium(void) { outstanding(100); }
static void several_large(void) { outstanding(LEN); }

static void completed_by_tests(void)
{
    MPI_Request r[OUT];
    int k, n = 50, done, total_done = 0, where[OUT], flag = 0;

    for (k = 0; k < OUT; k++)
        start(k, n, mt_comm, &r[k]);
    while (total_done < OUT) {
        OK(MPI_Testsome(OUT, r, &done, where, MPI_STATUSES_IGNORE));
        if (done == MPI_UNDEFINED)
            break;
        for (k = 0; k < done; k++)
            CHECK_EQ(wrong(where[k], n), 0);
        total_done += done;
    }
    CHECK_EQ(total_done, OUT);
    start(0, n, mt_comm, &r[0]);
    while (!flag)
        OK(MPI_Test(&r[0], &flag, MPI_STATUS_IGNORE));
    CHECK(r[0] == MPI_REQUEST_NULL);
    CHECK_EQ(wrong(0, n), 0);
}

static void on_many_communicators(void)
{
    MPI_Comm c[OUT];
    MPI_Request r[OUT];
    int k, n = 200, at;

    for (k = 0; k < OUT; k++)
        OK(MPI_Comm_dup(mt_comm, &c[k]));
    for (k = 0; k < OUT; k++) {
        at = (k + mt_rank * 3) % OUT; /* different communicators may be used in different orders */
        start(at, n, c[at], &r[at]);
    }
    OK(MPI_Waitall(OUT, r, MPI_STATUSES_IGNORE));
    for (k = 0; k < OUT; k++) {
        CHECK_EQ(wrong(k, n), 0);
        OK(MPI_Comm_free(&c[k]));
    }
}

/* Messages with wildcards on the same communicator never see the collectives' own messages. */
static void mixed_with_messages(void)
{
    int right = (mt_rank + 1) % mt_size, left = (mt_rank + mt_size - 1) % mt_size, k, n = 500,
        x[OUT], y[OUT];
    MPI_Request r[OUT], s[OUT], t[OUT];
    MPI_Status st[OUT];

    for (k = 0; k < OUT; k++) {
        y[k] = -1;
        OK(MPI_Irecv(&y[k], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &t[k]));
        start(k, n, mt_comm, &r[k]);
        x[k] = mt_rank * 100 + k;
        OK(MPI_Isend(&x[k], 1, MPI_INT, right, k, mt_comm, &s[k]));
    }
    OK(MPI_Waitall(OUT, t, st));
    OK(MPI_Waitall(OUT, r, MPI_STATUSES_IGNORE));
    OK(MPI_Waitall(OUT, s, MPI_STATUSES_IGNORE));
    for (k = 0; k < OUT; k++) {
        CHECK_EQ(y[k], left * 100 + k);
        CHECK_EQ(st[k].MPI_TAG, k);
        CHECK_EQ(wrong(k, n), 0);
    }
}

/* Blocking collectives while nonblocking ones are pending. */
static void blocking_between(void)
{
    MPI_Request r[4];
    int k, v = mt_rank + 1, sum = 0;

    for (k = 0; k < 4; k++) {
        start(k, LEN, mt_comm, &r[k]);
        OK(MPI_Allreduce(&v, &sum, 1, MPI_INT, MPI_SUM, mt_comm));
        CHECK_EQ(sum, mt_size * (mt_size + 1) / 2);
    }
    OK(MPI_Barrier(mt_comm));
    OK(MPI_Waitall(4, r, MPI_STATUSES_IGNORE));
    for (k = 0; k < 4; k++)
        CHECK_EQ(wrong(k, LEN), 0);
}

/* A nonblocking barrier is open until the last rank has started it. */
static void ibarrier_is_a_barrier(void)
{
    MPI_Request r;
    int i, k, flag = 0, x = 0;

    if (mt_rank == 0) {
        for (i = 1; i < mt_size; i++)
            OK(MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 1, mt_comm, MPI_STATUS_IGNORE));
        OK(MPI_Ibarrier(mt_comm, &r));
    } else {
        OK(MPI_Ibarrier(mt_comm, &r));
        for (k = 0; k < 200; k++) {
            OK(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
            CHECK(!flag);
        }
        OK(MPI_Send(&x, 1, MPI_INT, 0, 1, mt_comm));
    }
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

/* Progress of a pending collective inside blocking receives: rank 0 is late with its part. */
static void progress_in_receive(void)
{
    MPI_Request r;
    int x = 0;

    start(0, LEN, mt_comm, &r);
    if (mt_rank == 0) {
        mt_sleep_ms(5);
        for (x = 1; x < mt_size; x++)
            OK(MPI_Send(&x, 1, MPI_INT, x, 3, mt_comm));
    } else {
        OK(MPI_Recv(&x, 1, MPI_INT, 0, 3, mt_comm, MPI_STATUS_IGNORE));
        CHECK_EQ(x, mt_rank);
    }
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_EQ(wrong(0, LEN), 0);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(several_small);
    MT_RUN(several_medium);
    MT_RUN(several_large);
    MT_RUN(completed_by_tests);
    MT_RUN(on_many_communicators);
    MT_RUN(mixed_with_messages);
    MT_RUN(blocking_between);
    MT_RUN(ibarrier_is_a_barrier);
    MT_RUN(progress_in_receive);
    return mt_end();
}
