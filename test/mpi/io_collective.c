/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective buffering: calls that go through aggregators (romio_cb_write and _read = enable), and
 * the automatic choice.  io_model tests random views, io_outstanding several operations at a time.
 * Argument: directory. */
#include <signal.h>
#include <sys/resource.h>
#include "test/mpi/iotest.h"

#define PIECE 100 /* bytes of a rank in each row of the file */
#define ROWS 77

static const char *choice = "enable";

/* The forms of a collective call: each test runs in all of them. */
enum { BLOCKING, NONBLOCKING, SPLIT, FORMS };
static const char *const form_names[] = { "blocking", "nonblocking", "split" };
static int form;

/* Completes what MPI_File_i..._all() has started; `err`: of the start. */
static int completed(int err, MPI_Request *r, MPI_Status *st)
{
    int done = 0;

    if (err || mt_rank % 2)
        return err ? err : MPI_Wait(r, st);
    while (!err && !done)
        err = MPI_Test(r, &done, st);
    return err;
}

static int write_at_all(MPI_File f, MPI_Offset at, const void *b, int n, MPI_Datatype t,
                        MPI_Status *st)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int err;

    if (form == BLOCKING)
        return MPI_File_write_at_all(f, at, b, n, t, st);
    if (form == NONBLOCKING)
        return completed(MPI_File_iwrite_at_all(f, at, b, n, t, &r), &r, st);
    err = MPI_File_write_at_all_begin(f, at, b, n, t);
    return err ? err : MPI_File_write_at_all_end(f, b, st);
}

static int write_all(MPI_File f, const void *b, int n, MPI_Datatype t, MPI_Status *st)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int err;

    if (form == BLOCKING)
        return MPI_File_write_all(f, b, n, t, st);
    if (form == NONBLOCKING)
        return completed(MPI_File_iwrite_all(f, b, n, t, &r), &r, st);
    err = MPI_File_write_all_begin(f, b, n, t);
    return err ? err : MPI_File_write_all_end(f, b, st);
}

static int read_at_all(MPI_File f, MPI_Offset at, void *b, int n, MPI_Datatype t, MPI_Status *st)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int err;

    if (form == BLOCKING)
        return MPI_File_read_at_all(f, at, b, n, t, st);
    if (form == NONBLOCKING)
        return completed(MPI_File_iread_at_all(f, at, b, n, t, &r), &r, st);
    err = MPI_File_read_at_all_begin(f, at, b, n, t);
    return err ? err : MPI_File_read_at_all_end(f, b, st);
}

static int read_all(MPI_File f, void *b, int n, MPI_Datatype t, MPI_Status *st)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int err;

    if (form == BLOCKING)
        return MPI_File_read_all(f, b, n, t, st);
    if (form == NONBLOCKING)
        return completed(MPI_File_iread_all(f, b, n, t, &r), &r, st);
    err = MPI_File_read_all_begin(f, b, n, t);
    return err ? err : MPI_File_read_all_end(f, b, st);
}

/* Ordered access has no nonblocking form. */
static int write_ordered(MPI_File f, const void *b, int n, MPI_Datatype t, MPI_Status *st)
{
    int err;

    if (form != SPLIT)
        return MPI_File_write_ordered(f, b, n, t, st);
    err = MPI_File_write_ordered_begin(f, b, n, t);
    return err ? err : MPI_File_write_ordered_end(f, b, st);
}

static int read_ordered(MPI_File f, void *b, int n, MPI_Datatype t, MPI_Status *st)
{
    int err;

    if (form != SPLIT)
        return MPI_File_read_ordered(f, b, n, t, st);
    err = MPI_File_read_ordered_begin(f, b, n, t);
    return err ? err : MPI_File_read_ordered_end(f, b, st);
}

static MPI_Info hints(const char *buffer, const char *nodes)
{
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", choice);
    MPI_Info_set(info, "romio_cb_read", choice);
    if (buffer)
        MPI_Info_set(info, "cb_buffer_size", buffer);
    if (nodes)
        MPI_Info_set(info, "cb_nodes", nodes);
    return info;
}

static MPI_File open_with(MPI_Info info)
{
    MPI_File f = MPI_FILE_NULL;

    OK(MPI_File_open(mt_comm, io_name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f));
    MPI_Info_free(&info);
    return f;
}

/* Each rank has a piece of each row. */
static void set_rows(MPI_File f, MPI_Offset disp)
{
    MPI_Datatype piece, row;

    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, PIECE * mt_size, &row);
    MPI_Type_commit(&row);
    OK(MPI_File_set_view(f, disp + PIECE * mt_rank, MPI_BYTE, row, "native", MPI_INFO_NULL));
    MPI_Type_free(&piece);
    MPI_Type_free(&row);
}

static char mine[PIECE * ROWS];

static void fill(void)
{
    int i;

    for (i = 0; i < PIECE * ROWS; i++)
        mine[i] = (char)(mt_rank * 31 + i * 7 + i / PIECE + 1);
}

static void check_mine(int n)
{
    int i, wrong = 0;

    for (i = 0; i < PIECE * ROWS; i++)
        wrong += mine[i] != (i < n ? (char)(mt_rank * 31 + i * 7 + i / PIECE + 1) : 0x55);
    CHECK_EQ(wrong, 0);
}

static void wrong_argument_of_one(void)
{
    MPI_File f;
    MPI_Status st;

    io_make(0, 0);
    f = open_with(hints("500", NULL));
    set_rows(f, 0);
    fill();
    FAILS(write_at_all(f, mt_rank == mt_size - 1 ? -1 : 0, mine, PIECE, MPI_BYTE, &st),
          MPI_ERR_ARG);
    io_check_size(f, 0);
    FAILS(read_at_all(f, mt_rank ? 0 : -1, mine, PIECE, MPI_BYTE, &st), MPI_ERR_ARG);
    OK(write_at_all(f, 0, mine, sizeof mine, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, sizeof mine);
    OK(MPI_File_close(&f));
    OK(MPI_File_open(mt_comm, io_name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
    FAILS(write_at_all(f, 0, mine, 1, MPI_BYTE, &st), MPI_ERR_READ_ONLY);
    OK(MPI_File_close(&f));
}

/* The same where the arguments of one rank are wrong in themselves. */
static void refused_argument_of_one(void)
{
    int bad = mt_rank == mt_size - 1;
    MPI_Datatype none = bad ? MPI_DATATYPE_NULL : MPI_BYTE;
    MPI_Status st;
    MPI_File f;

    io_make(0, 0);
    f = open_with(hints("500", NULL));
    set_rows(f, 0);
    fill();
    FAILS(write_at_all(f, 0, mine, bad ? -1 : PIECE, MPI_BYTE, &st), MPI_ERR_COUNT);
    FAILS(write_all(f, mine, PIECE, none, &st), MPI_ERR_TYPE);
    FAILS(read_all(f, bad ? NULL : mine, PIECE, MPI_BYTE, &st), MPI_ERR_BUFFER);
    FAILS(read_at_all(f, 0, mine, PIECE, none, &st), MPI_ERR_TYPE);
    io_check_size(f, 0);
    OK(write_all(f, mine, sizeof mine, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, sizeof mine);
    OK(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    FAILS(write_ordered(f, mine, PIECE, none, &st), MPI_ERR_TYPE);
    FAILS(read_ordered(f, mine, bad ? -1 : PIECE, MPI_BYTE, &st), MPI_ERR_COUNT);
    OK(MPI_File_close(&f));
}

/* Ranks without data, with an empty view, and all without data. */
static void no_data(void)
{
    MPI_File f;
    MPI_Status st;
    MPI_Datatype none;
    int n = mt_rank % 2 ? 0 : (int)sizeof mine;

    io_make(0, 0);
    f = open_with(hints("301", NULL));
    fill();
    OK(write_all(f, mine, 0, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, 0);
    io_check_size(f, 0);
    set_rows(f, 0);
    OK(write_all(f, mine, n, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, n);
    memset(mine, 0x55, sizeof mine);
    OK(read_at_all(f, 0, mine, n, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, n);
    check_mine(n);
    MPI_Type_contiguous(0, MPI_BYTE, &none);
    MPI_Type_commit(&none);
    OK(MPI_File_set_view(f, 0, MPI_BYTE, mt_rank ? none : MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Type_free(&none);
    FAILS(write_all(f, mine, 1, MPI_BYTE, &st), mt_size > 1 ? MPI_ERR_ARG : MPI_SUCCESS);
    OK(write_at_all(f, 0, mine, mt_rank ? 0 : 10, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, mt_rank ? 0 : 10);
    OK(MPI_File_close(&f));
}

/* The file ends within a rank's piece. */
static void end_of_file(void)
{
    MPI_File f;
    MPI_Status st;
    int end, have;

    io_make(0, 0);
    f = open_with(hints("777", "3"));
    set_rows(f, 0);
    fill();
    OK(write_all(f, mine, sizeof mine, MPI_BYTE, &st));
    for (end = 0; end < PIECE * mt_size * ROWS; end += 1 + PIECE * mt_size * 17 / 3) {
        OK(MPI_File_set_size(f, PIECE * mt_size * ROWS - end));
        have = (PIECE * mt_size * ROWS - end) % (PIECE * mt_size) - PIECE * mt_rank;
        have = have < 0 ? 0 : have > PIECE ? PIECE : have;
        have += (PIECE * mt_size * ROWS - end) / (PIECE * mt_size) * PIECE;
        memset(mine, 0x55, sizeof mine);
        OK(read_at_all(f, 0, mine, sizeof mine, MPI_BYTE, &st));
        io_check_count(&st, MPI_BYTE, have);
        check_mine(have);
    }
    OK(MPI_File_close(&f));
}

/* Without a hint: a window of odd length would make the unit of an aggregator's marks a byte. */
static void check_window(void)
{
    MPI_Info used;
    char v[64] = "";
    int flag, n;
    MPI_File f = open_with(hints(NULL, NULL));

    OK(MPI_File_get_info(f, &used));
    MPI_Info_get(used, "cb_buffer_size", 63, v, &flag);
    n = atoi(v);
    CHECK(flag && n >= 262144 && n <= 1048576);
    CHECK_EQ(n % 4096, 0);
    MPI_Info_free(&used);
    OK(MPI_File_close(&f));
}

static void shown_hints(void)
{
    MPI_File f;
    MPI_Info used;
    char v[64] = "";
    int flag, n;

    check_window();
    f = open_with(hints("4096", "2"));
    OK(MPI_File_get_info(f, &used));
    MPI_Info_get(used, "romio_cb_write", 63, v, &flag);
    CHECK(flag && !strcmp(v, "enable"));
    MPI_Info_get(used, "cb_nodes", 63, v, &flag);
    CHECK(flag && atoi(v) == (mt_size < 2 ? mt_size : 2));
    MPI_Info_set(used, "cb_nodes", "0"); /* one on each host */
    OK(MPI_File_set_info(f, used));
    MPI_Info_free(&used);
    OK(MPI_File_get_info(f, &used));
    MPI_Info_get(used, "cb_nodes", 63, v, &flag);
    n = atoi(v);
    CHECK(flag && n >= 1 && n <= mt_size);
    MPI_Info_free(&used);
    OK(MPI_File_close(&f));
}

static void differing_hints(void)
{
    MPI_File f;
    MPI_Info info = hints(mt_rank ? "4096" : "8192", NULL);

    if (mt_size == 1) {
        MPI_Info_free(&info);
        mt_skip("needs two ranks");
        return;
    }
    FAILS(MPI_File_open(mt_comm, io_name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f),
          MPI_ERR_NOT_SAME);
    f = open_with(hints("4096", NULL));
    FAILS(MPI_File_set_info(f, info), MPI_ERR_NOT_SAME);
    FAILS(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", info), MPI_ERR_NOT_SAME);
    MPI_Info_free(&info);
    OK(write_at_all(f, mt_rank, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&f));
}

static void limit_files(rlim_t nbytes)
{
    struct rlimit l;

    getrlimit(RLIMIT_FSIZE, &l);
    l.rlim_cur = nbytes;
    setrlimit(RLIMIT_FSIZE, &l);
}

/* Only an aggregator writes: the others' limit of file sizes does not matter, and an error of its
 * write is an error of all ranks. */
static void who_writes(void)
{
    const MPI_Offset far = 1 << 30;
    struct rlimit old;
    MPI_File f;
    MPI_Status st;

    io_make(0, 0);
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    f = open_with(hints("2000", "1"));
    set_rows(f, far);
    fill();
    MPI_Barrier(mt_comm);
    if (mt_rank)
        limit_files(1 << 20);
    OK(write_at_all(f, 0, mine, sizeof mine, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, sizeof mine);
    io_check_size(f, far + PIECE * ROWS * mt_size);
    limit_files(mt_rank ? old.rlim_cur : 1 << 20);
    FAILS(write_at_all(f, 0, mine, sizeof mine, MPI_BYTE, &st), MPI_ERR_QUOTA);
    limit_files(old.rlim_cur);
    memset(mine, 0x55, sizeof mine);
    OK(read_at_all(f, 0, mine, sizeof mine, MPI_BYTE, &st));
    check_mine(sizeof mine);
    OK(MPI_File_close(&f));
}

/* By default pieces of this length are written by aggregators, and a view without gaps is not. */
static void automatic(void)
{
    struct rlimit old;
    MPI_File f;
    const MPI_Offset far = (1 << 30) + (MPI_Offset)sizeof mine * mt_rank;

    choice = "automatic";
    who_writes();
    io_make(0, 0);
    getrlimit(RLIMIT_FSIZE, &old);
    f = open_with(hints("2000", "1"));
    limit_files(mt_rank ? 1 << 20 : old.rlim_cur);
    FAILS(write_at_all(f, far, mine, sizeof mine, MPI_BYTE, MPI_STATUS_IGNORE),
          mt_rank ? MPI_ERR_QUOTA : MPI_SUCCESS);
    limit_files(old.rlim_cur);
    OK(MPI_File_close(&f));
    choice = "enable";
}

/* The ranks' bytes are terabytes apart: aggregators would need too many windows, so the ranks
 * access the file themselves. */
static void far_apart(void)
{
    MPI_File f;
    MPI_Status st;
    MPI_Offset at = (MPI_Offset)mt_rank << 40;
    char c = (char)(mt_rank + 1);

    io_make(0, 0);
    f = open_with(hints("16", NULL));
    OK(write_at_all(f, mt_rank, &c, 1, MPI_BYTE, &st));
    c = 0;
    OK(read_at_all(f, at + mt_rank, &c, 1, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, mt_rank == 0);
    CHECK_EQ(c, mt_rank == 0);
    OK(MPI_File_close(&f));
}

static void ordered(void)
{
    MPI_File f;
    MPI_Status st;
    unsigned char *got;
    size_t n, i, wrong = 0;

    io_make(0, 0);
    f = open_with(hints("64", NULL));
    memset(mine, mt_rank + 1, sizeof mine);
    OK(write_ordered(f, mine, PIECE, MPI_BYTE, &st));
    OK(write_ordered(f, mine, PIECE, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, PIECE);
    OK(MPI_File_close(&f));
    got = io_load(&n);
    CHECK_EQ((long)n, 2L * PIECE * mt_size);
    for (i = 0; i < n; i++)
        wrong += got[i] != i / PIECE % (size_t)mt_size + 1;
    CHECK_EQ((long)wrong, 0);
    free(got);
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    for (form = BLOCKING; form < FORMS; form++) {
        if (mt_rank == 0)
            printf("# %s calls\n", form_names[form]);
        MT_RUN(wrong_argument_of_one);
        MT_RUN(refused_argument_of_one);
        MT_RUN(no_data);
        MT_RUN(end_of_file);
        MT_RUN(shown_hints);
        MT_RUN(differing_hints);
        MT_RUN(who_writes);
        MT_RUN(automatic);
        MT_RUN(far_apart);
        MT_RUN(ordered);
    }
    return io_end();
}
