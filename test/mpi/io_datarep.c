/* SPDX-License-Identifier: BSD-3-Clause */
/* Data representations: external32 and registered ones. */
#include <stddef.h>
#include "test/mpi/iotest.h"

static MPI_File open_new(void)
{
    MPI_File f;

    io_make(0, 0);
    f = io_open(MPI_COMM_SELF, MPI_MODE_RDWR); /* rank 0 tests; others only open and close */
    return f;
}

static void check_bytes(const unsigned char *expected, size_t n)
{
    size_t have, i;
    unsigned char *got = io_load(&have);

    CHECK_EQ((long)have, (long)n);
    for (i = 0; i < n && i < have; i++)
        if (got[i] != expected[i])
            CHECK_MSG(0, "byte %zu of the file is 0x%02x, expected 0x%02x", i, got[i], expected[i]);
    free(got);
}

/* external32 has its own lengths: a long has 4 bytes. */
static void external_basics(void)
{
    static const unsigned char expected[] = { 0,    0, 1, 2, 0xff, 0xff, 0xff, 0xfe, 0x40,
                                              0x08, 0, 0, 0, 0,    0,    0,    0x12, 0x34 };
    MPI_File f = open_new();
    MPI_Aint extent;
    MPI_Status st;
    MPI_Request r;
    long v[3] = { 0x102, -2, 0 }, huge = 1L << 40;
    double d = 3.0;
    short s = 0x1234;

    if (mt_rank == 0) {
        OK(MPI_File_set_view(f, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL));
        OK(MPI_File_get_type_extent(f, MPI_LONG, &extent));
        CHECK_EQ(extent, 4);
        OK(MPI_File_get_type_extent(f, MPI_LONG_DOUBLE, &extent));
        CHECK_EQ(extent, 16);
        OK(MPI_File_write(f, v, 2, MPI_LONG, &st));
        io_check_count(&st, MPI_LONG, 2);
        OK(MPI_File_set_view(f, 8, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
        OK(MPI_File_iwrite_at(f, 0, &d, 1, MPI_DOUBLE, &r));
        OK(MPI_Wait(&r, &st));
        io_check_count(&st, MPI_DOUBLE, 1);
        OK(MPI_File_write_at_all(f, 8, &s, 1, MPI_SHORT, &st));
        check_bytes(expected, sizeof expected);
        d = 0;
        OK(MPI_File_read_at(f, 0, &d, 1, MPI_DOUBLE, &st));
        CHECK(d == 3.0);
        OK(MPI_File_set_view(f, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL));
        memset(v, 0, sizeof v);
        OK(MPI_File_read_all(f, v, 2, MPI_LONG, &st));
        CHECK(v[0] == 0x102 && v[1] == -2);
        FAILS(MPI_File_write_at(f, 9, &huge, 1, MPI_LONG, &st), MPI_ERR_CONVERSION);
        OK(MPI_File_seek(f, 0, MPI_SEEK_END));
        OK(MPI_File_read_at(f, 3, v, 3, MPI_LONG, &st)); /* bytes 12 to 17: one long and a half */
        io_check_count(&st, MPI_LONG, 1);
        CHECK(v[0] == 0 && v[1] == -2);
    }
    OK(MPI_File_close(&f));
}

struct rec {
    int i;
    double d;
    long l;
};

/* All ranks: a strided view of structures, some items at the end missing. */
static void external_structures(void)
{
    enum { N = 5000 };
    static struct rec rec[N], got[N];
    const int len[3] = { 1, 1, 1 };
    const MPI_Aint at[3] = { offsetof(struct rec, i), offsetof(struct rec, d),
                             offsetof(struct rec, l) };
    const MPI_Datatype part[3] = { MPI_INT, MPI_DOUBLE, MPI_LONG };
    const MPI_Aint packed[3] = { 0, 4, 12 }; /* displacements are as given, in any representation */
    MPI_Datatype mem, one, etype, file;
    MPI_Aint extent;
    MPI_Status st;
    MPI_File f;
    int i, n;

    io_make(0, 0);
    f = io_open(mt_comm, MPI_MODE_RDWR);
    MPI_Type_create_struct(3, len, at, part, &one);
    MPI_Type_create_resized(one, 0, sizeof(struct rec), &mem);
    MPI_Type_commit(&mem);
    MPI_Type_free(&one);
    MPI_Type_create_struct(3, len, packed, part, &etype);
    MPI_Type_commit(&etype);
    MPI_Type_create_resized(etype, 0, 16 * mt_size, &file);
    MPI_Type_commit(&file);
    OK(MPI_File_set_view(f, 16 * mt_rank, etype, file, "external32", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(f, etype, &extent));
    CHECK_EQ(extent, 16);
    for (i = 0; i < N; i++) {
        rec[i].i = i * mt_size + mt_rank;
        rec[i].d = rec[i].i / 8.0;
        rec[i].l = -rec[i].i;
    }
    OK(MPI_File_write_all(f, rec, N, mem, &st));
    io_check_count(&st, mem, N);
    MPI_Barrier(mt_comm);
    io_check_size(f, 16L * N * mt_size);
    OK(MPI_File_set_size(f, 16L * (N - 1) * mt_size + 14)); /* rank 0: an int and a double */
    for (i = 0; i < N; i++)
        got[i] = (struct rec){ -1, -1, -1 };
    OK(MPI_File_read_at_all(f, 0, got, N, mem, &st));
    for (i = 0; i < N - 1; i++)
        CHECK(got[i].i == rec[i].i && got[i].d == rec[i].d && got[i].l == rec[i].l);
    OK(MPI_Get_elements(&st, mem, &n));
    CHECK_EQ(n, 3 * (N - 1) + (mt_rank ? 0 : 2));
    CHECK(got[N - 1].l == -1);
    CHECK_EQ(got[N - 1].i, mt_rank ? -1 : rec[N - 1].i);
    MPI_Type_free(&mem);
    MPI_Type_free(&etype);
    MPI_Type_free(&file);
    OK(MPI_File_close(&f));
}

/* A representation of ints in 8 bytes each: the value, then its bitwise complement. */
static int calls, extra;

static int extent_of(MPI_Datatype t, MPI_Aint *extent, void *state)
{
    (void)t;
    *(int *)state += 1;
    *extent = 8;
    return MPI_SUCCESS;
}

static int read_ints(void *user, MPI_Datatype t, int count, void *file, MPI_Offset at, void *state)
{
    int i, pair[2];

    (void)t;
    (void)state;
    calls++;
    for (i = 0; i < count; i++) {
        memcpy(pair, (char *)file + 8 * i, 8);
        if (pair[0] != ~pair[1])
            return MPI_ERR_CONVERSION;
        ((int *)user)[at + i] = pair[0];
    }
    return MPI_SUCCESS;
}

static int write_ints(void *user, MPI_Datatype t, int count, void *file, MPI_Offset at, void *state)
{
    int i, pair[2];

    (void)t;
    (void)state;
    calls++;
    for (i = 0; i < count; i++) {
        pair[0] = ((int *)user)[at + i];
        pair[1] = ~pair[0];
        memcpy((char *)file + 8 * i, pair, 8);
    }
    return MPI_SUCCESS;
}

static int extent_native(MPI_Datatype t, MPI_Aint *extent, void *state)
{
    MPI_Aint lb;

    (void)state;
    return MPI_Type_get_extent(t, &lb, extent);
}

static void registered(void)
{
    enum { N = 400000 }; /* more than one image (mpi/io/convert.c) */
    static int v[N], got[N];
    char name[MPI_MAX_DATAREP_STRING + 10];
    MPI_Datatype spread;
    MPI_File f;
    MPI_Status st;
    int i, j, pair[2];
    unsigned char *bytes;
    size_t n;

    OK(MPI_Register_datarep("weft pairs", read_ints, write_ints, extent_of, &extra));
    FAILS(MPI_Register_datarep("weft pairs", read_ints, write_ints, extent_of, &extra),
          MPI_ERR_DUP_DATAREP);
    FAILS(MPI_Register_datarep("native", read_ints, write_ints, extent_of, &extra),
          MPI_ERR_DUP_DATAREP);
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    FAILS(MPI_Register_datarep(name, read_ints, write_ints, extent_of, &extra), MPI_ERR_ARG);
    OK(MPI_Register_datarep("weft plain", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL,
                            extent_native, NULL));
    io_make(0, 0);
    f = io_open(mt_comm, MPI_MODE_RDWR);
    MPI_Type_create_resized(MPI_INT, 0, 8 * mt_size, &spread);
    MPI_Type_commit(&spread);
    OK(MPI_File_set_view(f, 8 * mt_rank, MPI_INT, spread, "weft pairs", MPI_INFO_NULL));
    CHECK(extra > 0);
    for (i = 0; i < N; i++)
        v[i] = i * mt_size + mt_rank;
    OK(MPI_File_write_all(f, v, N / 100, MPI_INT, &st));
    io_check_count(&st, MPI_INT, N / 100);
    MPI_Barrier(mt_comm);
    bytes = io_load(&n);
    CHECK_EQ((long)n, 8L * (N / 100) * mt_size);
    for (i = j = 0; i < (int)(n / 8) && !j; i++) {
        memcpy(pair, bytes + 8 * i, 8);
        j = pair[0] != i || pair[1] != ~i;
    }
    CHECK(!j);
    free(bytes);
    memset(got, 0, sizeof got);
    OK(MPI_File_read_at_all(f, 0, got, N, MPI_INT, &st));
    io_check_count(&st, MPI_INT, N / 100);
    CHECK(!memcmp(v, got, N / 100 * sizeof *v) && !got[N / 100]);
    CHECK(calls >= 2);
    MPI_Barrier(mt_comm);
    OK(MPI_File_set_view(f, 4L * N * mt_rank, MPI_INT, MPI_INT, "weft plain", MPI_INFO_NULL));
    OK(MPI_File_write(f, v, N, MPI_INT, &st));
    OK(MPI_File_read_at(f, 0, got, N, MPI_INT, &st));
    CHECK(!memcmp(v, got, sizeof v));
    MPI_Barrier(mt_comm);
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "weft pairs", MPI_INFO_NULL));
    FAILS(MPI_File_read_at(f, 0, got, 10, MPI_INT, &st), MPI_ERR_CONVERSION); /* not pairs */
    MPI_Type_free(&spread);
    OK(MPI_File_close(&f));
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    MT_RUN(external_basics);
    MT_RUN(external_structures);
    MT_RUN(registered);
    return io_end();
}
