/* SPDX-License-Identifier: BSD-3-Clause */
/* The sendrecv family, messages to oneself and MPI_PROC_NULL (MPI-5.0 sections 3.10 and 3.11).
 * Every rank takes part in a ring, so one rank talks to itself. */
#include "test/mpi/mpitest.h"

enum { TAG = 21, BIG = 300000 };
static const int sizes[] = { 0, 1, 48, 49, 1000, 8192, 8193, 65537, BIG };
#define NSIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

static int right(void) { return (mt_rank + 1) % mt_size; }
static int left(void) { return (mt_rank + mt_size - 1) % mt_size; }

static void sendrecv_ring(void)
{
    unsigned char *out = mt_alloc(BIG), *in = mt_alloc(BIG);
    MPI_Status st;
    int i;

    for (i = 0; i < NSIZES; i++) {
        mt_fill(out, (size_t)sizes[i], (unsigned)(mt_rank + i));
        memset(in, 0xee, BIG);
        OK(MPI_Sendrecv(out, sizes[i], MPI_BYTE, right(), TAG, in, BIG, MPI_BYTE, left(), TAG,
                        mt_comm, &st));
        mt_check_status(&st, left(), TAG, sizes[i]);
        CHECK_DATA(in, (size_t)sizes[i], (unsigned)(left() + i));
        CHECK(mt_guard_intact(in, BIG));
    }
    free(out);
    free(in);
}

static void replace_ring(void)
{
    unsigned char *buf = mt_alloc(BIG);
    MPI_Status st;
    int i, hop, owner;

    for (i = 0; i < NSIZES; i++) {
        size_t n = (size_t)sizes[i];
        mt_fill(buf, n, (unsigned)(mt_rank + i));
        memset(buf + n, 0xee, MT_GUARD);
        for (hop = 1; hop <= mt_size; hop++) {
            OK(MPI_Sendrecv_replace(buf, sizes[i], MPI_BYTE, right(), TAG, left(), TAG, mt_comm,
                                    &st));
            mt_check_status(&st, left(), TAG, sizes[i]);
            owner = (mt_rank - hop + mt_size) % mt_size;
            CHECK_DATA(buf, n, (unsigned)(owner + i));
        }
        CHECK(mt_guard_intact(buf, n));
    }
    free(buf);
}

/* Both sides of a pair exchange through vectors: every second int of the buffer moves, the others
 * stay. */
static void replace_vector(void)
{
    int buf[2000], i, wrong = 0;
    MPI_Datatype t;
    MPI_Status st;

    for (i = 0; i < 2000; i++)
        buf[i] = mt_rank * 10000 + i;
    OK(MPI_Type_vector(1000, 1, 2, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Sendrecv_replace(buf, 1, t, right(), TAG, left(), TAG, mt_comm, &st));
    for (i = 0; i < 2000; i++)
        wrong += buf[i] != (i % 2 ? mt_rank : left()) * 10000 + i;
    CHECK_EQ(wrong, 0);
    OK(MPI_Type_free(&t));
}

static void isendrecv_ring(void)
{
#if MPI_VERSION >= 4
    unsigned char *out = mt_alloc(BIG), *in = mt_alloc(BIG);
    MPI_Request r[2];
    MPI_Status st[2];
    int i;

    for (i = 0; i < NSIZES; i++) {
        size_t n = (size_t)sizes[i];
        mt_fill(out, n, (unsigned)(mt_rank + i));
        OK(MPI_Isendrecv(out, sizes[i], MPI_BYTE, right(), TAG, in, BIG, MPI_BYTE, left(), TAG,
                         mt_comm, &r[0]));
        OK(MPI_Wait(&r[0], &st[0]));
        mt_check_status(&st[0], left(), TAG, sizes[i]);
        CHECK_DATA(in, n, (unsigned)(left() + i));
        OK(MPI_Isendrecv_replace(out, sizes[i], MPI_BYTE, right(), 1, left(), 1, mt_comm, &r[0]));
        OK(MPI_Isendrecv_replace(in, sizes[i], MPI_BYTE, left(), 2, right(), 2, mt_comm, &r[1]));
        OK(MPI_Waitall(2, r, st));
        mt_check_status(&st[0], left(), 1, sizes[i]);
        mt_check_status(&st[1], right(), 2, sizes[i]);
        CHECK_DATA(out, n, (unsigned)(left() + i));
        CHECK_DATA(in, n, (unsigned)(mt_rank + i));
    }
    free(out);
    free(in);
#else
    mt_skip("MPI_Isendrecv is new in MPI-4.0");
#endif
}

static void self_messages(void)
{
    unsigned char *out = mt_alloc(BIG), *in = mt_alloc(BIG);
    MPI_Request r[2];
    MPI_Status st[2];
    int i, early;

    for (i = 0; i < NSIZES; i++)
        for (early = 0; early < 2; early++) { /* receive posted before, then after the send */
            size_t n = (size_t)sizes[i];
            mt_fill(out, n, (unsigned)i);
            memset(in, 0xee, n + MT_GUARD);
            if (early)
                OK(MPI_Irecv(in, sizes[i], MPI_BYTE, mt_rank, TAG, mt_comm, &r[0]));
            OK(MPI_Isend(out, sizes[i], MPI_BYTE, mt_rank, TAG, mt_comm, &r[1]));
            if (!early)
                OK(MPI_Irecv(in, sizes[i], MPI_BYTE, mt_rank, TAG, mt_comm, &r[0]));
            OK(MPI_Waitall(2, r, st));
            mt_check_status(&st[0], mt_rank, TAG, sizes[i]);
            CHECK_DATA(in, n, (unsigned)i);
            CHECK(mt_guard_intact(in, n));
        }
    free(out);
    free(in);
}

static void self_comm(void)
{
    int out[3] = { 1, 2, 3 }, in[3] = { 0, 0, 0 };
    MPI_Request r;
    MPI_Status st;

    OK(MPI_Irecv(in, 3, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &r));
    OK(MPI_Ssend(out, 3, MPI_INT, 0, 5, MPI_COMM_SELF));
    OK(MPI_Wait(&r, &st));
    mt_check_status(&st, 0, 5, (int)sizeof(in));
    CHECK(in[0] == 1 && in[1] == 2 && in[2] == 3);
}

static void self_truncated(void)
{
    char out[100] = "", in[200];
    MPI_Request r;

    memset(in, 0x55, sizeof(in));
    OK(MPI_Irecv(in, 10, MPI_BYTE, mt_rank, TAG, mt_comm, &r));
    MPI_Send(out, 100, MPI_BYTE, mt_rank, TAG, mt_comm);
    FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK_EQ(in[10], 0x55);
}

static void proc_null(void)
{
    int x = 77, flag = -1;
    MPI_Request r;
    MPI_Status st;
    MPI_Message m;

    OK(MPI_Send(&x, 1, MPI_INT, MPI_PROC_NULL, TAG, mt_comm));
    OK(MPI_Ssend(&x, 1, MPI_INT, MPI_PROC_NULL, TAG, mt_comm));
    OK(MPI_Rsend(&x, 1, MPI_INT, MPI_PROC_NULL, TAG, mt_comm));
    OK(MPI_Recv(&x, 1, MPI_INT, MPI_PROC_NULL, TAG, mt_comm, &st));
    mt_check_status(&st, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Irecv(&x, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, mt_comm, &r));
    OK(MPI_Wait(&r, &st));
    mt_check_status(&st, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Isend(&x, 1, MPI_INT, MPI_PROC_NULL, TAG, mt_comm, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Iprobe(MPI_PROC_NULL, TAG, mt_comm, &flag, &st));
    CHECK_EQ(flag, 1);
    mt_check_status(&st, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Probe(MPI_PROC_NULL, TAG, mt_comm, &st));
    mt_check_status(&st, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Mprobe(MPI_PROC_NULL, TAG, mt_comm, &m, &st));
    CHECK(m == MPI_MESSAGE_NO_PROC);
    OK(MPI_Mrecv(&x, 1, MPI_INT, &m, &st));
    CHECK(m == MPI_MESSAGE_NULL);
    mt_check_status(&st, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Improbe(MPI_PROC_NULL, TAG, mt_comm, &flag, &m, &st));
    CHECK(flag == 1 && m == MPI_MESSAGE_NO_PROC);
    OK(MPI_Imrecv(&x, 1, MPI_INT, &m, &r));
    OK(MPI_Wait(&r, &st));
    mt_check_status(&st, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Sendrecv(&x, 1, MPI_INT, MPI_PROC_NULL, 1, &x, 1, MPI_INT, MPI_PROC_NULL, 1, mt_comm,
                    &st));
    OK(MPI_Sendrecv_replace(&x, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_PROC_NULL, 1, mt_comm, &st));
    mt_check_status(&st, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    CHECK_EQ(x, 77);
}

/* A line instead of a ring: the ends talk to MPI_PROC_NULL. */
static void shifted_line(void)
{
    int out = mt_rank, in = -1;
    int up = mt_rank + 1 < mt_size ? mt_rank + 1 : MPI_PROC_NULL,
        down = mt_rank > 0 ? mt_rank - 1 : MPI_PROC_NULL;
    MPI_Status st;

    OK(MPI_Sendrecv(&out, 1, MPI_INT, up, TAG, &in, 1, MPI_INT, down, TAG, mt_comm, &st));
    CHECK_EQ(in, mt_rank - 1);
    CHECK_EQ(st.MPI_SOURCE, down);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(sendrecv_ring);
    MT_RUN(replace_ring);
    MT_RUN(replace_vector);
    MT_RUN(isendrecv_ring);
    MT_RUN(self_messages);
    MT_RUN(self_comm);
    MT_RUN(self_truncated);
    MT_RUN(proc_null);
    MT_RUN(shifted_line);
    return mt_end();
}
