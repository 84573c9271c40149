/* SPDX-License-Identifier: BSD-3-Clause */
/* Files without collective access: opening, sizes, pointers, views, hints, errors and their
 * handlers, statuses at the end of the file. */
#include "test/mpi/iotest.h"

#define CREATE (MPI_MODE_CREATE | MPI_MODE_RDWR)

static void open_modes(void)
{
    MPI_File f;
    int amode;

    FAILS(MPI_File_open(mt_comm, io_name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f),
          MPI_ERR_NO_SUCH_FILE);
    FAILS(MPI_File_open(mt_comm, io_name, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_INFO_NULL, &f),
          MPI_ERR_AMODE);
    FAILS(MPI_File_open(mt_comm, io_name, 0, MPI_INFO_NULL, &f), MPI_ERR_AMODE);
    FAILS(MPI_File_open(mt_comm, io_name, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &f),
          MPI_ERR_AMODE);
    FAILS(MPI_File_open(mt_comm, io_name, MPI_MODE_RDONLY | MPI_MODE_EXCL, MPI_INFO_NULL, &f),
          MPI_ERR_AMODE);
    FAILS(MPI_File_open(mt_comm, io_name, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &f),
          MPI_ERR_AMODE);
    f = io_open(mt_comm, CREATE | MPI_MODE_EXCL);
    OK(MPI_File_get_amode(f, &amode));
    CHECK_EQ(amode, CREATE | MPI_MODE_EXCL);
    OK(MPI_File_close(&f));
    CHECK(f == MPI_FILE_NULL);
    FAILS(MPI_File_open(mt_comm, io_name, CREATE | MPI_MODE_EXCL, MPI_INFO_NULL, &f),
          MPI_ERR_FILE_EXISTS);
    FAILS(MPI_File_open(mt_comm, "/tmp", MPI_MODE_RDWR, MPI_INFO_NULL, &f), MPI_ERR_BAD_FILE);
    f = io_open(mt_comm, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_close(&f));
    CHECK(access(io_name, F_OK) < 0);
}

static void differing_arguments(void)
{
    MPI_File f;

    if (mt_size == 1) {
        mt_skip("needs two ranks");
        return;
    }
    FAILS(MPI_File_open(mt_comm, io_name, CREATE | (mt_rank == 1 ? MPI_MODE_EXCL : 0),
                        MPI_INFO_NULL, &f),
          MPI_ERR_NOT_SAME);
    FAILS(MPI_File_open(mt_comm, io_name, mt_rank == 1 ? 0 : CREATE, MPI_INFO_NULL, &f),
          MPI_ERR_AMODE);
    io_make(10, 0);
    f = io_open(mt_comm, MPI_MODE_RDWR);
    FAILS(MPI_File_set_size(f, mt_rank), MPI_ERR_NOT_SAME);
    FAILS(MPI_File_set_view(f, 0, mt_rank == 1 ? MPI_INT : MPI_DOUBLE,
                            mt_rank == 1 ? MPI_INT : MPI_DOUBLE, "native", MPI_INFO_NULL),
          MPI_ERR_NOT_SAME);
    FAILS(MPI_File_set_view(f, mt_rank == 1 ? -5 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL),
          MPI_ERR_ARG);
    io_check_size(f, 10);
    OK(MPI_File_close(&f));
}

/* The check runs among the ranks of one host: hosts may number a file differently. */
static void two_files(void)
{
    MPI_Comm host;
    MPI_File f;
    int n, r;

    io_make(10, 0);
    MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &r);
    MPI_Comm_size(host, &n);
    if (n > 1)
        FAILS(MPI_File_open(host, r == 1 ? "/etc/passwd" : io_name, MPI_MODE_RDONLY, MPI_INFO_NULL,
                            &f),
              MPI_ERR_NOT_SAME);
    MPI_Comm_free(&host);
}

static void spelled_differently(void)
{
    char other[300];
    MPI_File f;

    io_make(10, 0);
    snprintf(other, sizeof other, "%s%s", mt_rank % 2 ? "/tmp/../" : "ufs:", io_name);
    OK(MPI_File_open(mt_comm, other, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
    io_check_size(f, 10);
    OK(MPI_File_close(&f));
}

static void sizes(void)
{
    MPI_File f = io_open(mt_comm, CREATE);

    OK(MPI_File_set_size(f, 5000));
    io_check_size(f, 5000);
    OK(MPI_File_preallocate(f, 20000));
    io_check_size(f, 20000);
    OK(MPI_File_preallocate(f, 300));
    io_check_size(f, 20000);
    OK(MPI_File_set_size(f, 7));
    io_check_size(f, 7);
    FAILS(MPI_File_set_size(f, -1), MPI_ERR_ARG);
    OK(MPI_File_sync(f));
    OK(MPI_File_close(&f));
    f = io_open(mt_comm, MPI_MODE_RDONLY);
    FAILS(MPI_File_set_size(f, 1), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_preallocate(f, 1), MPI_ERR_READ_ONLY);
    OK(MPI_File_close(&f));
    OK(mt_rank ? MPI_SUCCESS : MPI_File_delete(io_name, MPI_INFO_NULL));
    if (!mt_rank)
        FAILS(MPI_File_delete(io_name, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
}

/* Individual pointers move by the requested length; statuses report how much was found. */
static void pointers_and_end(void)
{
    MPI_File f;
    MPI_Offset at = -1;
    MPI_Status st;
    MPI_Request r;
    int v[20], i;

    io_make(0, 0);
    f = io_open(MPI_COMM_SELF, MPI_MODE_RDWR);
    if (!mt_rank) {
        OK(MPI_File_set_view(f, 4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        for (i = 0; i < 20; i++)
            v[i] = 100 + i;
        OK(MPI_File_write(f, v, 10, MPI_INT, &st));
        io_check_count(&st, MPI_INT, 10);
        OK(MPI_File_iwrite(f, v + 10, 5, MPI_INT, &r));
        OK(MPI_File_get_position(f, &at));
        CHECK_EQ(at, 15);
        OK(MPI_Wait(&r, &st));
        io_check_count(&st, MPI_INT, 5);
        io_check_size(f, 64);
        OK(MPI_File_seek(f, -3, MPI_SEEK_END));
        OK(MPI_File_get_position(f, &at));
        CHECK_EQ(at, 12);
        memset(v, 0, sizeof v);
        OK(MPI_File_read(f, v, 8, MPI_INT, &st)); /* 3 are left */
        io_check_count(&st, MPI_INT, 3);
        CHECK(v[0] == 112 && v[2] == 114 && v[3] == 0);
        OK(MPI_File_get_position(f, &at));
        CHECK_EQ(at, 20);
        OK(MPI_File_read(f, v, 8, MPI_INT, &st));
        io_check_count(&st, MPI_INT, 0);
        OK(MPI_File_iread_at(f, 14, v, 2, MPI_INT, &r));
        OK(MPI_Wait(&r, &st));
        io_check_count(&st, MPI_INT, 1);
        OK(MPI_File_set_size(f, 62)); /* the last element loses two bytes */
        OK(MPI_File_read_at(f, 13, v, 2, MPI_INT, &st));
        io_check_count(&st, MPI_INT, MPI_UNDEFINED);
        io_check_count(&st, MPI_BYTE, 6);
        OK(MPI_File_seek(f, 0, MPI_SEEK_END));
        OK(MPI_File_get_position(f, &at));
        CHECK_EQ(at, 15); /* the first etype behind all bytes */
        FAILS(MPI_File_seek(f, -16, MPI_SEEK_CUR), MPI_ERR_ARG);
        FAILS(MPI_File_seek(f, 0, 7), MPI_ERR_ARG);
        OK(MPI_File_get_byte_offset(f, 3, &at));
        CHECK_EQ(at, 16);
        FAILS(MPI_File_read_at(f, -1, v, 1, MPI_INT, &st), MPI_ERR_ARG);
        FAILS(MPI_File_write_at(f, 0, v, 3, MPI_BYTE, &st), MPI_ERR_TYPE);
        OK(MPI_File_write_at(f, 0, v, 0, MPI_INT, &st));
        io_check_count(&st, MPI_INT, 0);
    }
    OK(MPI_File_close(&f));
}

/* When a rank has closed the file, all that any rank has written is there. */
static void closed_by_all(void)
{
    MPI_File f;
    size_t n;
    char v[100] = { 0 };

    io_make(0, 0);
    f = io_open(mt_comm, MPI_MODE_WRONLY);
    if (mt_rank == mt_size - 1)
        usleep(50000); /* late, so that a close that does not wait is noticed */
    OK(MPI_File_write_at_all(f, mt_rank * 100, v, 100, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&f));
    free(io_load(&n));
    CHECK_EQ((long)n, 100L * mt_size);
}

/* When a rank has closed a file that all were reading, no rank is still reading it: the file is
 * made anew.  Rank 0 closes it first. */
static void read_then_replaced(void)
{
    const size_t n = 4 << 20;
    char *buf = malloc(n);
    int round;

    for (round = 0; round < 4; round++) {
        MPI_Status s;
        MPI_File f;
        int got;

        io_make(n, 7);
        f = io_open(MPI_COMM_WORLD, MPI_MODE_RDONLY);
        if (mt_rank) {
            OK(MPI_File_read(f, buf, (int)n, MPI_BYTE, &s));
            OK(MPI_Get_count(&s, MPI_BYTE, &got));
            CHECK_EQ(got, (int)n);
        }
        OK(MPI_File_close(&f));
        if (mt_rank == 0)
            CHECK(truncate(io_name, 0) == 0);
    }
    free(buf);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* All ranks delete the file and then create it anew. */
static void deleted_then_created(void)
{
    int flags = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR;
    MPI_File f;

    io_make(10, 0);
    if (mt_rank == mt_size - 1)
        usleep(50000); /* late, so that a file that rank 0 has created alone is deleted */
    MPI_File_delete(io_name, MPI_INFO_NULL);
    f = io_open(MPI_COMM_WORLD, flags);
    io_check_size(f, 0);
    OK(MPI_File_close(&f));
    FAILS(MPI_File_open(MPI_COMM_WORLD, io_name, flags, MPI_INFO_NULL, &f), MPI_ERR_FILE_EXISTS);
}

static void append(void)
{
    MPI_File f;
    MPI_Offset at;

    io_make(33, 1);
    f = io_open(mt_comm, MPI_MODE_RDWR | MPI_MODE_APPEND);
    OK(MPI_File_get_position(f, &at));
    CHECK_EQ(at, 33);
    OK(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_get_position(f, &at));
    CHECK_EQ(at, 0);
    OK(MPI_File_close(&f));
}

static void wrong_direction(void)
{
    MPI_File f;
    MPI_Offset at;
    int v = 0;

    io_make(40, 0);
    f = io_open(mt_comm, MPI_MODE_RDONLY);
    FAILS(MPI_File_write_at(f, 0, &v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    OK(MPI_File_close(&f));
    f = io_open(mt_comm, MPI_MODE_WRONLY);
    FAILS(MPI_File_read_at(f, 0, &v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    OK(MPI_File_close(&f));
    f = io_open(mt_comm, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    FAILS(MPI_File_write(f, &v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_seek(f, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_get_position(f, &at), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    OK(MPI_File_set_view(f, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_close(&f));
}

static void views(void)
{
    MPI_Datatype two, spread, e, t, empty;
    MPI_Offset disp, at;
    MPI_Aint extent;
    char rep[MPI_MAX_DATAREP_STRING];
    int i, a, d, combiner, v[4] = { 1, 2, 3, 4 };
    MPI_File f;

    io_make(100, 9);
    f = io_open(mt_comm, MPI_MODE_RDWR);
    OK(MPI_File_get_view(f, &disp, &e, &t, rep));
    CHECK(disp == 0 && e == MPI_BYTE && t == MPI_BYTE && !strcmp(rep, "native"));
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_create_resized(two, 0, 20, &spread);
    FAILS(MPI_File_set_view(f, 0, MPI_INT, spread, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    MPI_Type_commit(&spread);
    OK(MPI_File_set_view(f, 8, MPI_INT, spread, "internal", MPI_INFO_NULL));
    MPI_Type_free(&spread);
    OK(MPI_File_get_view(f, &disp, &e, &t, rep));
    CHECK(disp == 8 && e == MPI_INT && !strcmp(rep, "internal"));
    OK(MPI_Type_get_envelope(t, &i, &a, &d, &combiner));
    CHECK(combiner == MPI_COMBINER_DUP || combiner == MPI_COMBINER_RESIZED);
    MPI_Type_free(&t);
    OK(MPI_File_get_byte_offset(f, 3, &at));
    CHECK_EQ(at, 8 + 20 + 4);
    OK(MPI_File_get_type_extent(f, MPI_DOUBLE, &extent));
    CHECK_EQ(extent, 8);
    if (!mt_rank) {
        OK(MPI_File_write_at(f, 1, v, 4, MPI_INT, MPI_STATUS_IGNORE));
        io_check_size(f, 100);
        OK(MPI_File_read_at(f, 0, v, 2, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(v[0] == 0x09090909 && v[1] == 1);
    }
    OK(MPI_File_seek(f, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(f, &at)); /* tiles begin at 8, 28, 48, 68, 88: ten ints */
    CHECK_EQ(at, 10);
    FAILS(MPI_File_set_view(f, 0, MPI_DOUBLE, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    FAILS(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "martian", MPI_INFO_NULL),
          MPI_ERR_UNSUPPORTED_DATAREP);
    FAILS(MPI_File_set_view(f, -1, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    OK(MPI_File_set_view(f, 0, MPI_INT, empty, "native", MPI_INFO_NULL));
    MPI_Type_free(&empty);
    OK(MPI_File_write_at(f, 0, v, 0, MPI_INT, MPI_STATUS_IGNORE));
    FAILS(MPI_File_write_at(f, 0, v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    OK(MPI_File_seek(f, 0, MPI_SEEK_END));
    MPI_Type_free(&two);
    OK(MPI_File_close(&f));
}

static void info_and_group(void)
{
    MPI_Info info, used;
    MPI_Group group, own;
    char v[64];
    int flag = 0, same;
    MPI_File f;

    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "1234567");
    MPI_Info_set(info, "romio_cb_write", "disable");
    MPI_Info_set(info, "romio_no_indep_rw", "true");
    MPI_Info_set(info, "cb_nodes", "many");
    OK(MPI_File_open(mt_comm, io_name, CREATE, info, &f));
    MPI_Info_free(&info);
    OK(MPI_File_get_info(f, &used));
    MPI_Info_get(used, "cb_buffer_size", 63, v, &flag);
    CHECK(flag && !strcmp(v, "1234567"));
    MPI_Info_get(used, "romio_cb_write", 63, v, &flag);
    CHECK(flag && !strcmp(v, "disable"));
    MPI_Info_get(used, "romio_no_indep_rw", 63, v, &flag);
    CHECK(flag && !strcmp(v, "true"));
    MPI_Info_get(used, "cb_nodes", 63, v, &flag);
    CHECK(flag && strcmp(v, "many"));
    MPI_Info_set(used, "cb_buffer_size", "65536");
    OK(MPI_File_set_info(f, used));
    MPI_Info_free(&used);
    OK(MPI_File_get_info(f, &used));
    MPI_Info_get(used, "cb_buffer_size", 63, v, &flag);
    CHECK(flag && !strcmp(v, "65536"));
    MPI_Info_free(&used);
    OK(MPI_File_get_group(f, &group));
    MPI_Comm_group(mt_comm, &own);
    MPI_Group_compare(group, own, &same);
    CHECK_EQ(same, MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&own);
    OK(MPI_File_close(&f));
}

static int called, called_code;
static MPI_File called_file;

static void on_error(MPI_File *f, int *code, ...)
{
    called++;
    called_code = *code;
    called_file = *f;
}

static void on_comm_error(MPI_Comm *c, int *code, ...)
{
    (void)c;
    (void)code;
}

static void handlers(void)
{
    MPI_Errhandler mine, got, comm_handler;
    MPI_File f;
    MPI_Request r;
    int v = 0, class;

    io_make(4, 0);
    OK(MPI_File_create_errhandler(on_error, &mine));
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    CHECK(got == MPI_ERRORS_RETURN);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    called = 0;
    FAILS(MPI_File_open(mt_comm, "/nowhere/at all", MPI_MODE_RDONLY, MPI_INFO_NULL, &f),
          MPI_ERR_NO_SUCH_FILE);
    CHECK(called == 1 && called_file == MPI_FILE_NULL);
    f = io_open(mt_comm, MPI_MODE_RDONLY); /* inherits `mine` */
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_File_get_errhandler(f, &got));
    CHECK(got == mine);
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&mine);
    called = 0;
    FAILS(MPI_File_write_at(f, 0, &v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    CHECK(called == 1 && called_file == f);
    MPI_Error_class(called_code, &class);
    CHECK_EQ(class, MPI_ERR_READ_ONLY);
    OK(MPI_File_call_errhandler(f, MPI_ERR_IO));
    CHECK(called == 2 && called_code == MPI_ERR_IO);
    OK(MPI_File_set_errhandler(f, MPI_ERRORS_RETURN));
    FAILS(MPI_File_iwrite(f, &v, 1, MPI_INT, &r), MPI_ERR_READ_ONLY);
    CHECK_EQ(called, 2);
    OK(MPI_Comm_create_errhandler(on_comm_error, &comm_handler));
    FAILS(MPI_File_set_errhandler(f, comm_handler), MPI_ERR_ARG);
    MPI_Errhandler_free(&comm_handler);
    OK(MPI_File_close(&f));
    FAILS(MPI_File_close(&f), MPI_ERR_FILE);
    FAILS(MPI_File_write_at(MPI_FILE_NULL, 0, &v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_FILE);
}

/* Handles freed early are still in use. */
static void requests(void)
{
    enum { N = 200 };
    static int v[N];
    MPI_Request r[N];
    MPI_Datatype t;
    MPI_File f;
    int i;

    io_make(0, 0);
    f = io_open(mt_comm, MPI_MODE_RDWR);
    for (i = 0; i < N; i++) {
        v[i] = mt_rank * N + i;
        MPI_Type_contiguous(1, MPI_INT, &t);
        MPI_Type_commit(&t);
        OK(MPI_File_iwrite_at(f, v[i] * 4, &v[i], 1, t, &r[i]));
        MPI_Type_free(&t);
    }
    OK(MPI_Waitall(N, r, MPI_STATUSES_IGNORE));
    memset(v, 0, sizeof v);
    for (i = 0; i < N; i++)
        OK(MPI_File_iread_at(f, (mt_rank * N + i) * 4, &v[i], 1, MPI_INT, &r[i]));
    for (i = 0; i < N; i++) {
        int done = 0;
        while (!done)
            OK(MPI_Test(&r[i], &done, MPI_STATUS_IGNORE));
        CHECK_EQ(v[i], mt_rank * N + i);
    }
    MPI_Barrier(mt_comm);
    OK(MPI_File_iwrite_at(f, mt_rank * 4, &v[0], 1, MPI_INT, &r[0]));
    MPI_Request_free(&r[0]);
    MPI_Barrier(mt_comm);
    OK(MPI_File_close(&f));
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    MT_RUN(open_modes);
    MT_RUN(differing_arguments);
    MT_RUN(two_files);
    MT_RUN(spelled_differently);
    MT_RUN(sizes);
    MT_RUN(pointers_and_end);
    MT_RUN(closed_by_all);
    MT_RUN(read_then_replaced);
    MT_RUN(deleted_then_created);
    MT_RUN(append);
    MT_RUN(wrong_direction);
    MT_RUN(views);
    MT_RUN(info_and_group);
    MT_RUN(handlers);
    MT_RUN(requests);
    return io_end();
}
