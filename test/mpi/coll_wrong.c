/* SPDX-License-Identifier: BSD-3-Clause */
/* Send and receive buffers of collectives that overlap (MPI-5.0 section 2.3); buffers that nearly
 * overlap and are valid; and a call that was refused on one rank may be repeated there. */
#include "test/mpi/mpitest.h"

enum { MAX = 64 };
static int buf[4 * MAX * MAX], other[4 * MAX * MAX];

static void whole_buffers(void)
{
    int n = mt_size, ones[MAX] = { 0 }, at[MAX] = { 0 }, bytes[MAX] = { 0 }, i;
    MPI_Datatype ints[MAX] = { 0 };
    MPI_Request r;

    for (i = 0; i < n; i++) {
        ones[i] = 1;
        at[i] = i;
        bytes[i] = 4 * i;
        ints[i] = MPI_INT;
    }
    FAILS(MPI_Allreduce(buf, buf, 1, MPI_INT, MPI_SUM, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Allreduce(buf, buf + 1, 2, MPI_INT, MPI_SUM, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Scan(buf + 1, buf, 2, MPI_INT, MPI_SUM, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Exscan(buf, buf, 2, MPI_INT, MPI_SUM, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Reduce_scatter_block(buf, buf, 1, MPI_INT, MPI_SUM, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Reduce_scatter_block(buf, buf + n - 1, 1, MPI_INT, MPI_SUM, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Reduce_scatter(buf, buf, ones, MPI_INT, MPI_SUM, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Allgather(buf, 1, MPI_INT, buf, 1, MPI_INT, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Allgather(buf + n - 1, 1, MPI_INT, buf, 1, MPI_INT, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Allgatherv(buf + mt_rank, 1, MPI_INT, buf, ones, at, MPI_INT, mt_comm),
          MPI_ERR_BUFFER);
    FAILS(MPI_Alltoall(buf, 1, MPI_INT, buf + n - 1, 1, MPI_INT, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Alltoallv(buf, ones, at, MPI_INT, buf, ones, at, MPI_INT, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Alltoallw(buf, ones, bytes, ints, buf, ones, bytes, ints, mt_comm), MPI_ERR_BUFFER);
    FAILS(MPI_Iallreduce(buf, buf, 1, MPI_INT, MPI_SUM, mt_comm, &r), MPI_ERR_BUFFER);
    FAILS(MPI_Ialltoallv(buf, ones, at, MPI_INT, buf, ones, at, MPI_INT, mt_comm, &r),
          MPI_ERR_BUFFER);
}

/* Only the root has both buffers; the others take part when it repeats the call. */
static void rooted(void)
{
    int x = mt_rank + 1, i, got = 0, want = mt_size * (mt_size + 1) / 2;

    if (mt_rank == 0) {
        buf[0] = 1;
        FAILS(MPI_Gather(buf, 1, MPI_INT, buf, 1, MPI_INT, 0, mt_comm), MPI_ERR_BUFFER);
        FAILS(MPI_Gather(&x, 1, MPI_INT, MPI_BOTTOM, 1, MPI_INT, 0, mt_comm), MPI_ERR_BUFFER);
        OK(MPI_Gather(buf, 1, MPI_INT, other, 1, MPI_INT, 0, mt_comm));
        FAILS(MPI_Scatter(other, 1, MPI_INT, other, 1, MPI_INT, 0, mt_comm), MPI_ERR_BUFFER);
        OK(MPI_Scatter(other, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, 0, mt_comm));
        FAILS(MPI_Reduce(&x, &x, 1, MPI_INT, MPI_SUM, 0, mt_comm), MPI_ERR_BUFFER);
        OK(MPI_Reduce(&x, &got, 1, MPI_INT, MPI_SUM, 0, mt_comm));
        CHECK_EQ(got, want);
        for (i = 0; i < mt_size; i++)
            CHECK_EQ(other[i], i + 1);
    } else {
        OK(MPI_Gather(&x, 1, MPI_INT, &x, 1, MPI_INT, 0, mt_comm));
        OK(MPI_Scatter(&got, 1, MPI_INT, &got, 1, MPI_INT, 0, mt_comm));
        CHECK_EQ(got, mt_rank + 1);
        OK(MPI_Reduce(&x, &x, 1, MPI_INT, MPI_SUM, 0, mt_comm));
    }
}

/* Neighbouring ranges, no data at all, one datatype in the gaps of another. */
static void close_by(void)
{
    int n = mt_size, i, wrong = 0, ones[MAX] = { 0 }, from[MAX] = { 0 }, to[MAX] = { 0 };
    MPI_Datatype odd, ints[MAX] = { 0 };

    for (i = 0; i < 4 * n; i++)
        buf[i] = mt_rank;
    for (i = 0; i < n; i++) {
        ones[i] = 1;
        from[i] = 4 * i;
        to[i] = 4 * (n + i);
        ints[i] = MPI_INT;
    }
    OK(MPI_Alltoallw(buf, ones, from, ints, buf, ones, to, ints, mt_comm));
    for (i = 0; i < n; i++)
        wrong += buf[n + i] != i;
    OK(MPI_Allreduce(buf, buf + 1, 1, MPI_INT, MPI_SUM, mt_comm));
    CHECK_EQ(buf[1], n * (n - 1) / 2);
    OK(MPI_Allreduce(buf, buf, 0, MPI_INT, MPI_SUM, mt_comm));
    OK(MPI_Alltoall(buf, 0, MPI_INT, buf, 0, MPI_INT, mt_comm));
    buf[1] = mt_rank;
    OK(MPI_Alltoall(buf, 1, MPI_INT, buf + n, 1, MPI_INT, mt_comm));
    for (i = 0; i < n; i++)
        wrong += buf[n + i] != i;
    CHECK_EQ(wrong, 0);
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * (MPI_Aint)sizeof(int), &odd));
    OK(MPI_Type_commit(&odd));
    for (i = 0; i < n; i++)
        buf[2 * i] = mt_rank * 100 + i;
    OK(MPI_Alltoall(buf, 1, odd, buf + 1, 1, odd, mt_comm));
    for (i = 0; i < n; i++)
        wrong += buf[2 * i] != mt_rank * 100 + i || buf[2 * i + 1] != i * 100 + mt_rank;
    CHECK_EQ(wrong, 0);
    OK(MPI_Type_free(&odd));
}

/* Wrong on one rank, where the call is repeated while the others wait. */
static void repeated(void)
{
    int x = mt_rank, sum = -1, want = mt_size * (mt_size - 1) / 2, i;

    for (i = 0; i < 10; i++) {
        if (mt_rank == i % mt_size)
            FAILS(MPI_Allreduce(&x, i % 2 ? &x : &sum, i % 2 ? 1 : -1, MPI_INT, MPI_SUM, mt_comm),
                  i % 2 ? MPI_ERR_BUFFER : MPI_ERR_COUNT);
        OK(MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, mt_comm));
        CHECK_EQ(sum, want);
    }
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(whole_buffers);
    MT_RUN(rooted);
    MT_RUN(close_by);
    MT_RUN(repeated);
    return mt_end();
}
