/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared file pointers, ordered and split access, files opened with MPI_MODE_SEQUENTIAL. */
#include "test/mpi/iotest.h"

#define CREATE (MPI_MODE_CREATE | MPI_MODE_RDWR)
#define BEFORE 3 /* etypes that the pointer is moved to first */

static MPI_File open_ints(void)
{
    MPI_File f;

    io_make(0, 0);
    f = io_open(mt_comm, CREATE);
    OK(MPI_File_set_view(f, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    return f;
}

static void check_position(MPI_File f, long expected)
{
    MPI_Offset at = -1;

    OK(MPI_File_get_position_shared(f, &at));
    CHECK_EQ((long)at, expected);
}

/* Ranks write records at any time: none overlaps another, none is lost, each rank's are in its
 * order. */
static void records(void)
{
    enum { N = 40, LEN = 5 };
    MPI_File f = open_ints();
    int rec[LEN], i, k, total = N * mt_size, *next, *got;
    unsigned char *all;
    size_t n;
    MPI_Request r;
    MPI_Status st;

    OK(MPI_File_seek_shared(f, BEFORE, MPI_SEEK_SET));
    for (i = 0; i < N; i++) {
        for (k = 0; k < LEN; k++)
            rec[k] = mt_rank * 1000 + i;
        if (i % 3) {
            OK(MPI_File_write_shared(f, rec, LEN, MPI_INT, &st));
        } else {
            OK(MPI_File_iwrite_shared(f, rec, LEN, MPI_INT, &r));
            OK(MPI_Wait(&r, &st));
        }
        io_check_count(&st, MPI_INT, LEN);
    }
    MPI_Barrier(mt_comm);
    check_position(f, BEFORE + (long)LEN * total);
    all = io_load(&n);
    CHECK_EQ((long)n, 8 + 4 * (BEFORE + (long)LEN * total));
    got = (int *)(void *)(all + 8) + BEFORE;
    next = calloc((size_t)mt_size, sizeof *next);
    for (i = 0; i < total && n; i++) {
        int who = got[i * LEN] / 1000, bad = 0;
        for (k = 0; k < LEN; k++)
            bad |= got[i * LEN + k] != who * 1000 + next[who];
        CHECK(!bad);
        next[who]++;
    }
    OK(MPI_File_seek_shared(f, BEFORE, MPI_SEEK_SET));
    for (i = 0; i < N; i++) { /* all ranks together read each record once */
        if (i % 2) {
            OK(MPI_File_read_shared(f, rec, LEN, MPI_INT, &st));
        } else {
            OK(MPI_File_iread_shared(f, rec, LEN, MPI_INT, &r));
            OK(MPI_Wait(&r, &st));
        }
        io_check_count(&st, MPI_INT, LEN);
        CHECK(rec[0] == rec[LEN - 1]);
    }
    MPI_Barrier(mt_comm);
    check_position(f, BEFORE + (long)LEN * total);
    MPI_Barrier(mt_comm);
    OK(MPI_File_read_shared(f, rec, LEN, MPI_INT, &st)); /* at the end */
    io_check_count(&st, MPI_INT, 0);
    free(next);
    free(all);
    OK(MPI_File_close(&f));
}

/* Rank r has r % 3 elements in round 0, and so on: some have none. */
static int share(int rank, int round) { return (rank + round) % 3; }

static void ordered(void)
{
    MPI_File f = open_ints();
    int round, i, at = 0, v[3];
    MPI_Status st;

    for (round = 0; round < 6; round++) {
        int n = share(mt_rank, round);
        for (i = 0; i < n; i++)
            v[i] = 10000 * round + 10 * mt_rank + i;
        if (round % 2) {
            OK(MPI_File_write_ordered(f, v, n, MPI_INT, &st));
        } else {
            OK(MPI_File_write_ordered_begin(f, v, n, MPI_INT));
            OK(MPI_File_write_ordered_end(f, v, &st));
        }
        io_check_count(&st, MPI_INT, n);
        for (i = 0; i < mt_size; i++)
            at += share(i, round);
        check_position(f, at); /* every rank's part is in it */
        MPI_Barrier(mt_comm);
    }
    OK(MPI_File_sync(f));
    OK(MPI_File_seek_shared(f, -at, MPI_SEEK_CUR));
    for (round = 0; round < 6; round++) {
        int n = share(mt_rank, round);
        memset(v, 0, sizeof v);
        if (round % 2) {
            OK(MPI_File_read_ordered_begin(f, v, n, MPI_INT));
            OK(MPI_File_read_ordered_end(f, v, &st));
        } else {
            OK(MPI_File_read_ordered(f, v, n, MPI_INT, &st));
        }
        io_check_count(&st, MPI_INT, n);
        for (i = 0; i < n; i++)
            CHECK_EQ(v[i], 10000 * round + 10 * mt_rank + i);
    }
    /* A rank with a wrong argument gets its error; the others write. */
    MPI_Barrier(mt_comm);
    v[0] = mt_rank;
    if (mt_rank == mt_size - 1)
        FAILS(MPI_File_write_ordered(f, v, 3, MPI_BYTE, &st), MPI_ERR_TYPE);
    else
        OK(MPI_File_write_ordered(f, v, 1, MPI_INT, &st));
    check_position(f, at + mt_size - 1);
    OK(MPI_File_close(&f));
}

static void seeks(void)
{
    MPI_File f = open_ints();
    int v[4] = { 0 };

    OK(MPI_File_set_size(f, 8 + 40));
    OK(MPI_File_seek_shared(f, -2, MPI_SEEK_END));
    check_position(f, 8);
    MPI_Barrier(mt_comm);
    OK(MPI_File_seek_shared(f, 5, MPI_SEEK_CUR));
    check_position(f, 13);
    FAILS(MPI_File_seek_shared(f, -14, MPI_SEEK_CUR), MPI_ERR_ARG);
    FAILS(MPI_File_seek_shared(f, 1, 77), MPI_ERR_ARG);
    if (mt_size > 1)
        FAILS(MPI_File_seek_shared(f, mt_rank, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
    check_position(f, 13);
    MPI_Barrier(mt_comm);
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    check_position(f, 0);
    OK(MPI_File_write(f, v, 4, MPI_INT, MPI_STATUS_IGNORE)); /* another pointer */
    check_position(f, 0);
    OK(MPI_File_close(&f));
    f = io_open(mt_comm, MPI_MODE_RDWR | MPI_MODE_APPEND);
    check_position(f, 48);
    OK(MPI_File_close(&f));
}

static void split_errors(void)
{
    MPI_File f = open_ints();
    int v[2] = { 1, 2 }, w[2];
    MPI_Request r;
    MPI_Status st;

    FAILS(MPI_File_write_all_end(f, v, &st), MPI_ERR_IO);
    OK(MPI_File_write_at_all_begin(f, 2 * mt_rank, v, 2, MPI_INT));
    FAILS(MPI_File_read_all_begin(f, w, 2, MPI_INT), MPI_ERR_IO);
    FAILS(MPI_File_write_all(f, v, 2, MPI_INT, &st), MPI_ERR_IO);
    FAILS(MPI_File_read_at_all(f, 0, w, 2, MPI_INT, &st), MPI_ERR_IO);
    FAILS(MPI_File_write_ordered(f, v, 2, MPI_INT, &st), MPI_ERR_IO);
    FAILS(MPI_File_iread_all(f, w, 2, MPI_INT, &r), MPI_ERR_IO);
    check_position(f, 0);
    FAILS(MPI_File_write_all_end(f, v, &st), MPI_ERR_IO);
    FAILS(MPI_File_read_at_all_end(f, v, &st), MPI_ERR_IO);
    FAILS(MPI_File_write_at_all_end(f, w, &st), MPI_ERR_ARG);
    FAILS(MPI_File_close(&f), MPI_ERR_IO);                    /* the access uses the file */
    OK(MPI_File_read_at(f, 2 * mt_rank, w, 0, MPI_INT, &st)); /* independent access is allowed */
    OK(MPI_File_write_at_all_end(f, v, &st));
    io_check_count(&st, MPI_INT, 2);
    FAILS(MPI_File_write_at_all_end(f, v, &st), MPI_ERR_IO);
    OK(MPI_File_read_all_begin(f, w, 0, MPI_INT));
    OK(MPI_File_read_all_end(f, w, &st));
    io_check_count(&st, MPI_INT, 0);
    OK(MPI_File_close(&f));
}

/* A rank that has not ended its split access gets an error in the next one; the others do not wait
 * for it. */
static void split_twice(void)
{
    MPI_File f = open_ints();
    int v = 7, w = 8, last = mt_size - 1;
    MPI_Status st;

    OK(MPI_File_write_ordered_begin(f, &v, 1, MPI_INT));
    if (mt_rank != last) {
        OK(MPI_File_write_ordered_end(f, &v, &st));
        OK(MPI_File_write_ordered_begin(f, &w, 1, MPI_INT));
        OK(MPI_File_write_ordered_end(f, &w, &st));
    } else {
        FAILS(MPI_File_write_ordered_begin(f, &w, 1, MPI_INT), MPI_ERR_IO);
        OK(MPI_File_write_ordered_end(f, &v, &st));
    }
    io_check_count(&st, MPI_INT, 1);
    check_position(f, mt_size + last);
    OK(MPI_File_close(&f));
}

static void sequential(void)
{
    MPI_File f;
    MPI_Status st;
    short s = (short)(100 + mt_rank);
    int v = 50 + mt_rank;

    io_make(0, 0);
    f = io_open(mt_comm, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    OK(MPI_File_write_ordered(f, &v, 4, MPI_BYTE, &st));
    MPI_Barrier(mt_comm);
    OK(MPI_File_set_view(f, MPI_DISPLACEMENT_CURRENT, MPI_SHORT, MPI_SHORT, "native",
                         MPI_INFO_NULL));
    check_position(f, 0);
    MPI_Barrier(mt_comm);
    OK(MPI_File_write_ordered(f, &s, 1, MPI_SHORT, &st));
    FAILS(MPI_File_seek_shared(f, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    OK(MPI_File_close(&f));
    MPI_Barrier(mt_comm);
    f = io_open(mt_comm, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    io_check_size(f, 6 * mt_size);
    v = s = 0;
    OK(MPI_File_set_view(f, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_read_ordered(f, &v, 1, MPI_INT, &st));
    CHECK_EQ(v, 50 + mt_rank);
    MPI_Barrier(mt_comm);
    OK(MPI_File_set_view(f, MPI_DISPLACEMENT_CURRENT, MPI_SHORT, MPI_SHORT, "native",
                         MPI_INFO_NULL));
    OK(MPI_File_read_shared(f, &s, 1, MPI_SHORT, &st));
    CHECK(s >= 100 && s < 100 + mt_size);
    OK(MPI_File_close(&f));
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    MT_RUN(records);
    MT_RUN(ordered);
    MT_RUN(seeks);
    MT_RUN(split_errors);
    MT_RUN(split_twice);
    MT_RUN(sequential);
    return io_end();
}
