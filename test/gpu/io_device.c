/* SPDX-License-Identifier: BSD-3-Clause */
/* Files and device memory: every kind of memory, contiguous and spread layouts, lengths around
 * the length of a staging piece, blocking and nonblocking calls, views with holes, reads at the
 * end of the file, a data representation, and collective buffering.  Arguments: directory; or
 * `threads`, for MPI_THREAD_MULTIPLE. */
#include "test/gpu/gputest.h"
#include "test/mpi/iotest.h"

static MPI_File f;
static MPI_Comm mine;

static void wait_for(MPI_Request *r, MPI_Status *st)
{
    if (*r != MPI_REQUEST_NULL)
        OK(MPI_Wait(r, st));
}

/* n elements from one kind of memory to the file and back into another. */
static void there_and_back(enum gt_kind kind, MPI_Datatype t, int n, size_t room, bool immediate)
{
    unsigned char *p = gt_alloc(kind, 0, room, 8);
    unsigned char *want = malloc(room), *got = malloc(room), *other = malloc(room);
    MPI_Status st;
    MPI_Request r = MPI_REQUEST_NULL;
    int count = -1;

    mt_fill(want, room, 5);
    gt_write(p, want, room);
    OK(MPI_File_set_size(f, 0));
    if (immediate)
        OK(MPI_File_iwrite_at(f, 4, p, n, t, &r));
    else
        OK(MPI_File_write_at(f, 4, p, n, t, &st));
    wait_for(&r, &st);
    OK(MPI_Get_count(&st, t, &count));
    CHECK_EQ(count, n);
    /* What host memory reads must be what the device wrote. */
    memset(other, GT_POISON, room);
    OK(MPI_File_read_at(f, 4, other, n, t, MPI_STATUS_IGNORE));
    gt_set(p, GT_POISON, room);
    if (immediate)
        OK(MPI_File_iread_at(f, 4, p, n, t, &r));
    else
        OK(MPI_File_read_at(f, 4, p, n, t, &st));
    wait_for(&r, &st);
    OK(MPI_Get_count(&st, t, &count));
    CHECK_EQ(count, n);
    gt_read(got, p, room);
    CHECK_MSG(!memcmp(got, other, room), "%s: what was read differs", gt_kind_names[kind]);
    size_t same = 0;
    for (size_t i = 0; i < room; i++)
        same += got[i] == want[i];
    MPI_Count size;
    MPI_Type_size_c(t, &size);
    CHECK_MSG(same >= (size_t)size * (size_t)n, "%s: %zu bytes came back", gt_kind_names[kind],
              same);
    CHECK(gt_guards_intact(p));
    gt_free(p);
    free(want);
    free(got);
    free(other);
}

static void kinds(void)
{
    static const int lens[] = { 1, 1000, 4 << 20, (4 << 20) + 4, 13000000 };
    for (int k = 0; k < GT_KINDS; k++)
        for (int i = 0; i < 5; i++)
            there_and_back((enum gt_kind)k, MPI_BYTE, lens[i] & ~3, (size_t)lens[i] & ~3ul,
                           (i + k) % 2);
}

static void spread(void)
{
    MPI_Datatype v, s;
    for (int k = 0; k < GT_KINDS; k++) {
        MPI_Type_vector(1000, 3, 5, MPI_INT, &v);
        MPI_Type_commit(&v);
        there_and_back((enum gt_kind)k, v, 1, 20000, k % 2);
        MPI_Type_create_resized(v, 0, 20000, &s);
        MPI_Type_commit(&s);
        there_and_back((enum gt_kind)k, s, 500, 500 * 20000, !(k % 2));
        MPI_Type_free(&v);
        MPI_Type_free(&s);
    }
}

static void through_holes(void)
{
    MPI_Datatype v, t;
    MPI_Type_contiguous(25, MPI_INT, &v);
    MPI_Type_create_resized(v, 0, 128, &t);
    MPI_Type_commit(&t);
    OK(MPI_File_set_view(f, 12, MPI_INT, t, "native", MPI_INFO_NULL));
    there_and_back(GT_CUDA, MPI_INT, 25 * 60000, 100 * 60000, false);
    there_and_back(GT_VMM, MPI_INT, 25 * 60000 - 7, 100 * 60000 - 28, true);
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_Type_free(&v);
    MPI_Type_free(&t);
}

static void end_of_file(void)
{
    unsigned char *p = gt_alloc(GT_CUDA, 0, 10000000, 0);
    MPI_Status st;

    gt_fill(p, 10000000, 1);
    OK(MPI_File_write_at(f, 0, p, 10000000, MPI_BYTE, &st));
    OK(MPI_File_set_size(f, 7000000));
    gt_set(p, GT_POISON, 10000000);
    OK(MPI_File_read_at(f, 0, p, 10000000, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, 7000000);
    GT_CHECK_DATA(p, 7000000, 1);
    CHECK_EQ(gt_unlike(p + 7000000, 3000000, GT_POISON), 3000000);
    OK(MPI_File_read_at(f, 8000000, p, 100, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, 0);
    gt_free(p);
}

static void other_form(void)
{
    MPI_Datatype v;
    MPI_Type_vector(500, 2, 3, MPI_INT, &v);
    MPI_Type_commit(&v);
    for (int k = 0; k < GT_KINDS; k++) {
        OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
        there_and_back((enum gt_kind)k, MPI_INT, 70000, 280000, k % 2);
        there_and_back((enum gt_kind)k, v, 1, 6000, !(k % 2));
    }
    MPI_Type_free(&v);
}

/* Collective buffering: the pieces of the ranks alternate, and each passes device memory. */
static void by_aggregators(void)
{
    enum { PIECE = 100, ROWS = 3000, LEN = PIECE * ROWS };
    unsigned char *want = malloc(LEN), *got = malloc(LEN), *seen;
    MPI_Datatype piece, row;
    MPI_File g;
    MPI_Info info;
    MPI_Status st;
    size_t n, wrong = 0;

    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    MPI_Info_set(info, "cb_buffer_size", "50000");
    OK(MPI_File_open(mt_comm, io_name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &g));
    MPI_Info_free(&info);
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, PIECE * mt_size, &row);
    MPI_Type_commit(&row);
    OK(MPI_File_set_view(g, PIECE * mt_rank, MPI_BYTE, row, "native", MPI_INFO_NULL));
    mt_fill(want, LEN, (unsigned)mt_rank + 1);
    for (int k = 0; k < GT_KINDS; k++) {
        unsigned char *p = gt_alloc((enum gt_kind)k, 0, LEN, 8);
        gt_write(p, want, LEN);
        OK(MPI_File_set_size(g, 0));
        OK(MPI_File_write_at_all(g, 0, p, LEN, MPI_BYTE, &st));
        io_check_count(&st, MPI_BYTE, LEN);
        gt_set(p, GT_POISON, LEN);
        OK(MPI_File_read_at_all(g, 0, p, LEN, MPI_BYTE, &st));
        io_check_count(&st, MPI_BYTE, LEN);
        gt_read(got, p, LEN);
        CHECK_MSG(!memcmp(got, want, LEN), "%s: what was read differs", gt_kind_names[k]);
        CHECK(gt_guards_intact(p));
        gt_free(p);
    }
    OK(MPI_File_close(&g));
    seen = io_load(&n);
    CHECK_EQ((long)n, (long)LEN * mt_size);
    for (size_t i = 0; i < LEN && n == (size_t)LEN * (size_t)mt_size; i++)
        wrong += seen[(i / PIECE * (size_t)mt_size + (size_t)mt_rank) * PIECE + i % PIECE] !=
                 want[i];
    CHECK_EQ((long)wrong, 0);
    MPI_Type_free(&piece);
    MPI_Type_free(&row);
    free(seen);
    free(want);
    free(got);
}

int main(int argc, char **argv)
{
    bool threads = argc > 1 && !strcmp(argv[1], "threads");
    int provided;
    gt_need(1);
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    mt_setup();
    io_setup(threads ? 1 : argc, argv);
    gt_use(0);
    mine = MPI_COMM_SELF;
    snprintf(io_name + strlen(io_name), 16, ".%d", mt_rank);
    f = io_open(mine, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MT_RUN(kinds);
    MT_RUN(spread);
    MT_RUN(through_holes);
    OK(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MT_RUN(end_of_file);
    MT_RUN(other_form);
    OK(MPI_File_close(&f));
    *strrchr(io_name, '.') = 0; /* the name that the ranks share */
    MT_RUN(by_aggregators);
    return io_end();
}
