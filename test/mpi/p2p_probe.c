/* SPDX-License-Identifier: BSD-3-Clause */
/* Probe, matched probe and wildcards (MPI-5.0 sections 3.2.4 and 3.8).  Rank 0 receives from all;
 * one rank sends to itself. */
#include "test/mpi/mpitest.h"

enum { TAG = 31, BIG = 200000, PER_RANK = 40 };
static const int sizes[] = { 0, 1, 48, 49, 8192, 8193, BIG };
#define NSIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

static int right(void) { return (mt_rank + 1) % mt_size; }
static int left(void) { return (mt_rank + mt_size - 1) % mt_size; }

enum how { PROBE, IPROBE, MPROBE, IMPROBE };

static int receive_probed(enum how how, unsigned char *buf, MPI_Message *m, MPI_Status *st)
{
    MPI_Request r;
    int n = -1, flag = 0;

    switch (how) {
    case PROBE:
        OK(MPI_Probe(left(), TAG, mt_comm, st));
        break;
    case MPROBE:
        OK(MPI_Mprobe(left(), TAG, mt_comm, m, st));
        break;
    case IPROBE:
        while (!flag && MPI_Iprobe(left(), TAG, mt_comm, &flag, st) == MPI_SUCCESS)
            ;
        break;
    default:
        while (!flag && MPI_Improbe(left(), TAG, mt_comm, &flag, m, st) == MPI_SUCCESS)
            ;
    }
    OK(MPI_Get_count(st, MPI_BYTE, &n));
    CHECK(n >= 0 && n <= BIG);
    if (how == PROBE || how == IPROBE) {
        OK(MPI_Recv(buf, n, MPI_BYTE, st->MPI_SOURCE, st->MPI_TAG, mt_comm, st));
    } else if (how == MPROBE) {
        OK(MPI_Mrecv(buf, n, MPI_BYTE, m, st));
        CHECK(*m == MPI_MESSAGE_NULL);
    } else {
        OK(MPI_Imrecv(buf, n, MPI_BYTE, m, &r));
        CHECK(*m == MPI_MESSAGE_NULL);
        OK(MPI_Wait(&r, st));
    }
    return n;
}

static void probe_sizes(enum how how)
{
    unsigned char *out = mt_alloc(BIG), *in = mt_alloc(BIG);
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Request r;
    MPI_Status st;
    int i;

    for (i = 0; i < NSIZES; i++) {
        mt_fill(out, (size_t)sizes[i], (unsigned)i);
        OK(MPI_Isend(out, sizes[i], MPI_BYTE, right(), TAG, mt_comm, &r));
        CHECK_EQ(receive_probed(how, in, &m, &st), sizes[i]);
        mt_check_status(&st, left(), TAG, sizes[i]);
        CHECK_DATA(in, (size_t)sizes[i], (unsigned)i);
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
    free(out);
    free(in);
}

static void probe(void) { probe_sizes(PROBE); }
static void iprobe(void) { probe_sizes(IPROBE); }
static void mprobe(void) { probe_sizes(MPROBE); }
static void improbe(void) { probe_sizes(IMPROBE); }

static void iprobe_nothing(void)
{
    MPI_Message m = MPI_MESSAGE_NULL;
    int flag = 1, i;

    for (i = 0; i < 100; i++) {
        OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &flag, MPI_STATUS_IGNORE));
        CHECK_EQ(flag, 0);
        OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &flag, &m, MPI_STATUS_IGNORE));
        CHECK_EQ(flag, 0);
    }
    mt_sync();
}

/* Probing does not take the message, and finds the first of two that match. */
static void probe_keeps_order(void)
{
    int a = 1, b = 2, x = 0, i;
    MPI_Request r[2];
    MPI_Status st;

    OK(MPI_Isend(&a, 1, MPI_INT, right(), 3, mt_comm, &r[0]));
    OK(MPI_Isend(&b, 1, MPI_INT, right(), 4, mt_comm, &r[1]));
    OK(MPI_Probe(left(), 4, mt_comm, &st));
    for (i = 0; i < 3; i++) {
        OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &st));
        CHECK_EQ(st.MPI_TAG, 3);
    }
    OK(MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &st));
    CHECK_EQ(x, 1);
    OK(MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &st));
    CHECK_EQ(x, 2);
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
}

/* A matched message is out of reach of other receives and may be received late. */
static void mprobe_takes_the_message(void)
{
    int v[3] = { 10, 20, 30 }, x = 0, y = 0, z = 0, i;
    MPI_Request r[3];
    MPI_Message m[2];
    MPI_Status st;

    for (i = 0; i < 3; i++)
        OK(MPI_Isend(&v[i], 1, MPI_INT, right(), TAG, mt_comm, &r[i]));
    OK(MPI_Mprobe(left(), TAG, mt_comm, &m[0], &st));
    OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &m[1], &st));
    OK(MPI_Recv(&z, 1, MPI_INT, left(), TAG, mt_comm, &st));
    CHECK_EQ(z, 30);
    OK(MPI_Mrecv(&y, 1, MPI_INT, &m[1], &st));
    CHECK_EQ(y, 20);
    OK(MPI_Mrecv(&x, 1, MPI_INT, &m[0], &st));
    CHECK_EQ(x, 10);
    OK(MPI_Waitall(3, r, MPI_STATUSES_IGNORE));
}

static void mrecv_truncated(void)
{
    char out[20000] = "", in[20000];
    MPI_Request r;
    MPI_Message m;
    MPI_Status st;
    int n;

    for (n = 100; n <= 20000; n *= 200) {
        memset(in, 0x55, sizeof(in));
        OK(MPI_Isend(out, n, MPI_BYTE, right(), TAG, mt_comm, &r));
        OK(MPI_Mprobe(left(), TAG, mt_comm, &m, &st));
        FAILS(MPI_Mrecv(in, 10, MPI_BYTE, &m, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        CHECK_EQ(in[10], 0x55);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
}

/* An error in a call without a communicator. */
static void type_error(void)
{
    MPI_Datatype t = MPI_DATATYPE_NULL;
    int cls = MPI_SUCCESS;

    MPI_Error_class(MPI_Type_vector(2, -1, 1, MPI_INT, &t), &cls);
    CHECK_MSG(cls == MPI_ERR_ARG || cls == MPI_ERR_COUNT, "class %d", cls);
}

/* A matched receive that succeeds does not change where later errors go: to MPI_COMM_SELF, whose
 * handler returns, not to the communicator of the message, whose handler ends the job. */
static void mrecv_on_freed_comm(void)
{
    MPI_Comm c;
    MPI_Message m;
    MPI_Request s, r;
    int x = 0, out = mt_rank, i;

    OK(MPI_Comm_dup(mt_comm, &c));
    OK(MPI_Comm_set_errhandler(c, MPI_ERRORS_ARE_FATAL));
    for (i = 0; i < 2; i++) {
        OK(MPI_Isend(&out, 1, MPI_INT, right(), TAG, c, &s));
        OK(MPI_Mprobe(left(), TAG, c, &m, MPI_STATUS_IGNORE));
        if (i) {
            OK(MPI_Imrecv(&x, 1, MPI_INT, &m, &r));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Mrecv(&x, 1, MPI_INT, &m, MPI_STATUS_IGNORE));
        }
        CHECK_EQ(x, left());
        OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
        type_error();
    }
    OK(MPI_Comm_free(&c));
    type_error();
}

/* All ranks send numbered messages; rank 0 takes them with wildcards and sees each sender's in
 * order. */
static void any_source_any_tag(void)
{
    int next[64] = { 0 }, v[2], i, wrong = 0;
    MPI_Request r[PER_RANK];
    int out[PER_RANK][2];
    MPI_Status st;

    for (i = 0; i < PER_RANK; i++) {
        out[i][0] = mt_rank;
        out[i][1] = i;
        OK(MPI_Isend(out[i], 2, MPI_INT, 0, i * 3 % 7, mt_comm, &r[i]));
    }
    for (i = 0; mt_rank == 0 && i < PER_RANK * mt_size; i++) {
        OK(MPI_Recv(v, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &st));
        wrong += v[0] != st.MPI_SOURCE || v[1] != next[st.MPI_SOURCE]++ ||
                 st.MPI_TAG != v[1] * 3 % 7;
    }
    CHECK_EQ(wrong, 0);
    OK(MPI_Waitall(PER_RANK, r, MPI_STATUSES_IGNORE));
}

/* Receives posted first, in the four forms of matching; messages must go to them in posting order.
 */
static void posted_wildcards(void)
{
    int in[8], out[8], i;
    MPI_Request r[8], s[8];
    MPI_Status st[8];

    for (i = 0; i < 8; i++)
        OK(MPI_Irecv(&in[i], 1, MPI_INT, i & 1 ? MPI_ANY_SOURCE : left(), i & 2 ? MPI_ANY_TAG : TAG,
                     mt_comm, &r[i]));
    mt_sync();
    for (i = 0; i < 8; i++) {
        out[i] = 100 * mt_rank + i;
        OK(MPI_Isend(&out[i], 1, MPI_INT, right(), TAG, mt_comm, &s[i]));
    }
    OK(MPI_Waitall(8, r, st));
    OK(MPI_Waitall(8, s, MPI_STATUSES_IGNORE));
    for (i = 0; i < 8; i++) {
        CHECK_EQ(in[i], 100 * left() + i);
        CHECK_EQ(st[i].MPI_SOURCE, left());
        CHECK_EQ(st[i].MPI_TAG, TAG);
    }
}

/* An exact receive for a later tag does not take the earlier message, a wildcard does. */
static void tag_selection(void)
{
    int v[4] = { 0, 1, 2, 3 }, x = -1, i;
    MPI_Request s[4];

    for (i = 0; i < 4; i++)
        OK(MPI_Isend(&v[i], 1, MPI_INT, right(), i, mt_comm, &s[i]));
    OK(MPI_Recv(&x, 1, MPI_INT, left(), 2, mt_comm, MPI_STATUS_IGNORE));
    CHECK_EQ(x, 2);
    OK(MPI_Recv(&x, 1, MPI_INT, left(), MPI_ANY_TAG, mt_comm, MPI_STATUS_IGNORE));
    CHECK_EQ(x, 0);
    OK(MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 3, mt_comm, MPI_STATUS_IGNORE));
    CHECK_EQ(x, 3);
    OK(MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, MPI_STATUS_IGNORE));
    CHECK_EQ(x, 1);
    OK(MPI_Waitall(4, s, MPI_STATUSES_IGNORE));
}

/* The same rank and tag on two communicators never meet. */
static void contexts_are_apart(void)
{
    MPI_Comm other;
    MPI_Request s[2];
    int a = 1, b = 2, x = 0;

    OK(MPI_Comm_dup(mt_comm, &other));
    OK(MPI_Isend(&a, 1, MPI_INT, right(), TAG, mt_comm, &s[0]));
    OK(MPI_Isend(&b, 1, MPI_INT, right(), TAG, other, &s[1]));
    OK(MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, other, MPI_STATUS_IGNORE));
    CHECK_EQ(x, 2);
    OK(MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, MPI_STATUS_IGNORE));
    CHECK_EQ(x, 1);
    OK(MPI_Waitall(2, s, MPI_STATUSES_IGNORE));
    OK(MPI_Comm_free(&other));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(probe);
    MT_RUN(iprobe);
    MT_RUN(mprobe);
    MT_RUN(improbe);
    MT_RUN(iprobe_nothing);
    MT_RUN(probe_keeps_order);
    MT_RUN(mprobe_takes_the_message);
    MT_RUN(mrecv_truncated);
    MT_RUN(mrecv_on_freed_comm);
    MT_RUN(any_source_any_tag);
    MT_RUN(posted_wildcards);
    MT_RUN(tag_selection);
    MT_RUN(contexts_are_apart);
    return mt_end();
}
