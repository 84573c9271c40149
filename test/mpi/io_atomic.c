/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic mode: all ranks write the same strided bytes, each its own value, while others read them.
 * Every read must see the bytes of one rank.  Without the mode this fails. */
#include "test/mpi/iotest.h"

#define BLOCKS 200
#define BLOCK 64

static MPI_File open_strided(int stride)
{
    MPI_Datatype t, spread;
    MPI_File f;

    io_make((size_t)BLOCKS * (size_t)stride, 0xff);
    f = io_open(mt_comm, MPI_MODE_RDWR);
    MPI_Type_contiguous(BLOCK, MPI_BYTE, &t);
    MPI_Type_create_resized(t, 0, stride, &spread);
    MPI_Type_commit(&spread);
    OK(MPI_File_set_view(f, 0, MPI_BYTE, spread, "native", MPI_INFO_NULL));
    MPI_Type_free(&spread);
    MPI_Type_free(&t);
    return f;
}

static void check_uniform(const unsigned char *p, size_t n)
{
    size_t i;

    for (i = 1; i < n && p[i] == p[0]; i++)
        ;
    if (i < n)
        CHECK_MSG(0, "byte %zu is of rank %d, byte 0 of rank %d", i, p[i], p[0]);
}

static void strided(void)
{
    static unsigned char mine[BLOCKS * BLOCK], got[BLOCKS * BLOCK];
    MPI_File f = open_strided(1000);
    MPI_Request r;
    MPI_Status st;
    int i, flag = 7, ranks;

    OK(MPI_File_get_atomicity(f, &flag));
    CHECK_EQ(flag, 0);
    OK(MPI_File_set_atomicity(f, 1));
    OK(MPI_File_get_atomicity(f, &flag));
    CHECK_EQ(flag, 1);
    memset(mine, mt_rank, sizeof mine);
    for (i = 0; i < 60; i++) {
        switch ((i + mt_rank) % 4) {
        case 0:
            OK(MPI_File_write_at(f, 0, mine, sizeof mine, MPI_BYTE, &st));
            break;
        case 1:
            OK(MPI_File_iwrite_at(f, 0, mine, sizeof mine, MPI_BYTE, &r));
            OK(MPI_Wait(&r, &st));
            break;
        default:
            OK(MPI_File_read_at(f, 0, got, sizeof got, MPI_BYTE, &st));
            check_uniform(got, sizeof got);
        }
        io_check_count(&st, MPI_BYTE, sizeof got);
    }
    OK(MPI_File_write_at_all(f, 0, mine, sizeof mine, MPI_BYTE, &st));
    MPI_Comm_size(mt_comm, &ranks);
    MPI_Barrier(mt_comm);
    OK(MPI_File_read_at_all(f, 0, got, sizeof got, MPI_BYTE, &st));
    check_uniform(got, sizeof got);
    CHECK(got[0] < ranks);
    OK(MPI_File_close(&f));
}

/* Two accesses of one rank at once. */
static void two_of_one(void)
{
    static unsigned char a[BLOCKS * BLOCK], b[BLOCKS * BLOCK];
    MPI_File f = open_strided(5000);
    MPI_Request r[2];
    int i;

    OK(MPI_File_set_atomicity(f, 1));
    for (i = 0; i < 10; i++) {
        memset(a, mt_rank, sizeof a);
        OK(MPI_File_iwrite_at(f, 0, a, sizeof a, MPI_BYTE, &r[0]));
        OK(MPI_File_iread_at(f, 0, b, sizeof b, MPI_BYTE, &r[1]));
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        check_uniform(b, sizeof b);
    }
    if (mt_size > 1)
        FAILS(MPI_File_set_atomicity(f, mt_rank), MPI_ERR_NOT_SAME);
    OK(MPI_File_set_atomicity(f, 0));
    OK(MPI_File_close(&f));
}

/* A nonblocking write is seen by reads that begin after it, before any process has completed it. */
static void reads_before_the_wait(void)
{
    enum { LEN = 1 << 20, KINDS = 3 };
    unsigned char *mine = mt_alloc(LEN), *got = mt_alloc(LEN);
    MPI_File f;
    MPI_Request r;
    MPI_Status st;
    int i, next = (mt_rank + 1) % mt_size, last = (mt_rank + mt_size - 1) % mt_size;

    io_make(0, 0);
    f = io_open(mt_comm, MPI_MODE_RDWR);
    OK(MPI_File_set_atomicity(f, 1));
    for (i = 0; i < 8 * KINDS; i++) {
        mt_fill(mine, LEN, (unsigned)(i * 100 + mt_rank));
        if (i % KINDS == 0) {
            OK(MPI_File_iwrite_at(f, (MPI_Offset)mt_rank * LEN, mine, LEN, MPI_BYTE, &r));
        } else if (i % KINDS == 1) {
            OK(MPI_File_iwrite_at_all(f, (MPI_Offset)mt_rank * LEN, mine, LEN, MPI_BYTE, &r));
        } else {
            OK(MPI_File_seek(f, (MPI_Offset)mt_rank * LEN, MPI_SEEK_SET));
            OK(MPI_File_iwrite(f, mine, LEN, MPI_BYTE, &r));
        }
        OK(MPI_File_read_at(f, (MPI_Offset)mt_rank * LEN, got, LEN, MPI_BYTE, &st));
        io_check_count(&st, MPI_BYTE, LEN);
        CHECK_DATA(got, LEN, (unsigned)(i * 100 + mt_rank));
        MPI_Barrier(mt_comm);
        OK(MPI_File_read_at(f, (MPI_Offset)next * LEN, got, LEN, MPI_BYTE, &st));
        CHECK_DATA(got, LEN, (unsigned)(i * 100 + next));
        MPI_Sendrecv(NULL, 0, MPI_BYTE, next, 0, NULL, 0, MPI_BYTE, last, 0, mt_comm,
                     MPI_STATUS_IGNORE);
        OK(MPI_Wait(&r, &st));
        io_check_count(&st, MPI_BYTE, LEN);
        MPI_Barrier(mt_comm);
    }
    OK(MPI_File_close(&f));
    free(mine);
    free(got);
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    MT_RUN(strided);
    MT_RUN(two_of_one);
    MT_RUN(reads_before_the_wait);
    return io_end();
}
