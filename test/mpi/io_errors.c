/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures of the system's calls (iofake.h) at any place of a collective access, and files that
 * disappear or end at a limit: the right class on the right ranks, no hang, the file can be used
 * afterwards, and what was reported written is in it. */
#include "test/mpi/iofake.h"
#include "test/mpi/iotest.h"
#include <sys/resource.h>

#define PIECE 1000
#define ROWS 200
#define LEN (PIECE * ROWS)

static const struct {
    int error, errclass;
} failures[] = { { EIO, MPI_ERR_IO },        { ENOSPC, MPI_ERR_NO_SPACE },
                 { EDQUOT, MPI_ERR_QUOTA },  { EROFS, MPI_ERR_READ_ONLY },
                 { EACCES, MPI_ERR_ACCESS }, { ESTALE, MPI_ERR_IO },
                 { EFBIG, MPI_ERR_QUOTA },   { EOPNOTSUPP, MPI_ERR_UNSUPPORTED_OPERATION } };
#define NFAILURES (int)(sizeof failures / sizeof *failures)

static unsigned char first[LEN], second[LEN], back[LEN];

static MPI_File open_interleaved(MPI_Offset disp)
{
    MPI_Datatype piece, row;
    MPI_Info info;
    MPI_File f = MPI_FILE_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    MPI_Info_set(info, "cb_buffer_size", "100000");
    MPI_Info_set(info, "cb_nodes", "2");
    OK(MPI_File_open(mt_comm, io_name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f));
    MPI_Info_free(&info);
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, PIECE * mt_size, &row);
    MPI_Type_commit(&row);
    OK(MPI_File_set_view(f, disp + PIECE * mt_rank, MPI_BYTE, row, "native", MPI_INFO_NULL));
    MPI_Type_free(&piece);
    MPI_Type_free(&row);
    return f;
}

/* The forms of a collective access. */
static int access_all(MPI_File f, bool write, int form, unsigned char *p, MPI_Offset at)
{
    MPI_Request r;
    int rc;
    switch (form) {
    case 0:
        return write ? MPI_File_write_at_all(f, at, p, LEN, MPI_BYTE, MPI_STATUS_IGNORE)
                     : MPI_File_read_at_all(f, at, p, LEN, MPI_BYTE, MPI_STATUS_IGNORE);
    case 1:
        rc = write ? MPI_File_iwrite_at_all(f, at, p, LEN, MPI_BYTE, &r)
                   : MPI_File_iread_at_all(f, at, p, LEN, MPI_BYTE, &r);
        return rc ? rc : MPI_Wait(&r, MPI_STATUS_IGNORE);
    default:
        rc = write ? MPI_File_write_at_all_begin(f, at, p, LEN, MPI_BYTE)
                   : MPI_File_read_at_all_begin(f, at, p, LEN, MPI_BYTE);
        if (rc)
            return rc;
        return write ? MPI_File_write_at_all_end(f, p, MPI_STATUS_IGNORE)
                     : MPI_File_read_at_all_end(f, p, MPI_STATUS_IGNORE);
    }
}

/* How many calls each rank makes in an access without failures. */
static void count_calls(MPI_File f, bool write, long *ncalls)
{
    long mine;
    io_fake_reset();
    OK(access_all(f, write, 0, write ? second : back, LEN));
    mine = io_fake.ncalls[write ? FAKE_WRITE : FAKE_READ];
    MPI_Allgather(&mine, 1, MPI_LONG, ncalls, 1, MPI_LONG, mt_comm);
}

/* Each call of each rank fails in turn. */
static void any_place(bool write)
{
    long ncalls[64], tried = 0;
    MPI_File f = open_interleaved(0);
    mt_fill(first, LEN, (unsigned)mt_rank + 1);
    mt_fill(second, LEN, (unsigned)mt_rank + 100);
    OK(access_all(f, true, 0, first, 0));
    count_calls(f, write, ncalls);
    for (int v = 0; v < mt_size; v++)
        for (long k = 0; k < ncalls[v]; k++, tried++) {
            int i = (int)(tried % NFAILURES);
            io_fake_reset();
            if (mt_rank == v) {
                io_fake.fail_at[write ? FAKE_WRITE : FAKE_READ] = k;
                io_fake.error = failures[i].error;
                io_fake.once = tried % 2;
            }
            FAILS(access_all(f, write, (int)(tried % 3), write ? second : back, LEN),
                  failures[i].errclass);
            io_fake_reset();
            memset(back, 0, LEN);
            OK(access_all(f, false, (int)(k % 3), back, 0)); /* an earlier access */
            CHECK(!memcmp(back, first, LEN));
        }
    CHECK(tried >= (mt_size > 1 ? 2 * mt_size : 1));
    io_fake_reset();
    OK(access_all(f, true, 0, second, LEN));
    memset(back, 0, LEN);
    OK(access_all(f, false, 0, back, LEN));
    CHECK(!memcmp(back, second, LEN));
    OK(MPI_File_close(&f));
}

static void writes(void) { any_place(true); }
static void reads(void) { any_place(false); }

/* Calls of the system that are interrupted or move fewer bytes than requested are no errors: all
 * data of all ranks are moved, through aggregators in each form, and by each rank itself. */
static void partial_transfers(void)
{
    MPI_File f = open_interleaved(0);
    MPI_Status st = { 0 };
    for (int form = 0; form < 4; form++) {
        io_fake_reset();
        io_fake.interrupt_each = 3;
        io_fake.most = 777;
        mt_fill(first, LEN, (unsigned)(mt_rank + 10 * form));
        memset(back, 0, LEN);
        OK(form < 3 ? access_all(f, true, form, first, 0)
                    : MPI_File_write_at(f, 0, first, LEN, MPI_BYTE, &st));
        MPI_Barrier(mt_comm);
        OK(form < 3 ? access_all(f, false, form, back, 0)
                    : MPI_File_read_at(f, 0, back, LEN, MPI_BYTE, &st));
        CHECK(!memcmp(back, first, LEN));
        if (form == 3)
            io_check_count(&st, MPI_BYTE, LEN);
        long calls = io_fake.ncalls[FAKE_WRITE] + io_fake.ncalls[FAKE_READ];
        MPI_Allreduce(MPI_IN_PLACE, &calls, 1, MPI_LONG, MPI_SUM, mt_comm);
        CHECK(calls > 2 * LEN / 777);
    }
    io_fake_reset();
    OK(MPI_File_close(&f));
}

/* Each rank accesses the file itself: the rank with the failure gets the error. */
static void own_access(void)
{
    MPI_File f = io_open(mt_comm, MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Offset at = (MPI_Offset)mt_rank * LEN;
    int victim = mt_size - 1;
    for (int i = 0; i < NFAILURES; i++) {
        io_fake_reset();
        if (mt_rank == victim)
            io_fake.fail_at[FAKE_WRITE] = 0;
        io_fake.error = failures[i].error;
        int rc = MPI_File_write_at_all(f, at, first, LEN, MPI_BYTE, MPI_STATUS_IGNORE), class;
        MPI_Error_class(rc, &class);
        CHECK_EQ(class, mt_rank == victim ? failures[i].errclass : MPI_SUCCESS);
        io_fake_reset();
        OK(MPI_File_read_at(f, at, back, LEN, MPI_BYTE, MPI_STATUS_IGNORE));
        if (mt_rank != victim)
            CHECK(!memcmp(back, first, LEN));
    }
    OK(MPI_File_close(&f));
}

/* Of one rank for all: every rank gets the error, and the file stays open. */
static void properties(void)
{
    MPI_File f = io_open(mt_comm, MPI_MODE_CREATE | MPI_MODE_RDWR);
    for (int i = 0; i < NFAILURES; i++) {
        io_fake_reset();
        if (mt_rank == 0)
            io_fake.fail_at[FAKE_TRUNCATE] = io_fake.fail_at[FAKE_SYNC] = 0;
        io_fake.error = failures[i].error;
        FAILS(MPI_File_set_size(f, 1000 + i), failures[i].errclass);
        if (failures[i].error != EROFS) /* a file that has nothing to write back */
            FAILS(MPI_File_sync(f), failures[i].errclass);
    }
    io_fake_reset();
    OK(MPI_File_set_size(f, 77));
    io_check_size(f, 77);
    OK(MPI_File_close(&f));
}

static void opening(void)
{
    MPI_File f = MPI_FILE_NULL;
    for (int v = 0; v < mt_size; v++) {
        io_fake_reset();
        io_fake.error = EACCES;
        if (mt_rank == v)
            io_fake.fail_at[FAKE_OPEN] = 0;
        FAILS(MPI_File_open(mt_comm, io_name, MPI_MODE_RDWR, MPI_INFO_NULL, &f), MPI_ERR_ACCESS);
        CHECK(f == MPI_FILE_NULL);
    }
    io_fake_reset();
}

/* A lock that cannot be had is an error of the rank's access. */
static void locks(void)
{
    MPI_File f = io_open(mt_comm, MPI_MODE_CREATE | MPI_MODE_RDWR);
    OK(MPI_File_set_atomicity(f, 1));
    io_fake_reset();
    io_fake.fail_at[FAKE_LOCK] = 0;
    io_fake.once = true;
    io_fake.error = EIO;
    FAILS(MPI_File_write_at(f, 0, first, 100, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO);
    OK(MPI_File_write_at(f, 0, first, 100, MPI_BYTE, MPI_STATUS_IGNORE));
    io_fake_reset();
    OK(MPI_File_close(&f));
}

/* The file is removed while it is open: access continues; opening reports it. */
static void removed(void)
{
    MPI_File f = open_interleaved(0), g = MPI_FILE_NULL;
    OK(access_all(f, true, 0, first, 0));
    MPI_Barrier(mt_comm);
    if (mt_rank == 0)
        CHECK(unlink(io_name) == 0);
    MPI_Barrier(mt_comm);
    FAILS(MPI_File_open(mt_comm, io_name, MPI_MODE_RDWR, MPI_INFO_NULL, &g), MPI_ERR_NO_SUCH_FILE);
    OK(access_all(f, true, 0, second, LEN));
    OK(access_all(f, false, 0, back, 0));
    CHECK(!memcmp(back, first, LEN));
    OK(MPI_File_close(&f));
    f = io_open(mt_comm, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    if (mt_rank == 0)
        CHECK(unlink(io_name) == 0);
    OK(MPI_File_close(&f)); /* is deleted, as requested */
    CHECK(f == MPI_FILE_NULL);
}

static void folder_removed(void)
{
    char folder[280], name[300];
    MPI_File f = MPI_FILE_NULL;
    snprintf(folder, sizeof folder, "%s.d", io_name);
    snprintf(name, sizeof name, "%s/file", folder);
    if (mt_rank == 0)
        CHECK(mkdir(folder, 0700) == 0);
    MPI_Barrier(mt_comm);
    OK(MPI_File_open(mt_comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    OK(MPI_File_write_at_all(f, mt_rank * 4, &mt_rank, 4, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(mt_comm);
    if (mt_rank == 0)
        CHECK(unlink(name) == 0 && rmdir(folder) == 0);
    MPI_Barrier(mt_comm);
    int v = -1;
    OK(MPI_File_read_at_all(f, mt_rank * 4, &v, 4, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_EQ(v, mt_rank);
    OK(MPI_File_close(&f));
    FAILS(MPI_File_open(mt_comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f),
          MPI_ERR_NO_SUCH_FILE);
}

/* RLIMIT_FSIZE: what is below the limit is in the file. */
static void length_limit(void)
{
    struct rlimit was, most;
    size_t n;
    MPI_File f = open_interleaved(0);
    OK(access_all(f, true, 0, first, 0));
    getrlimit(RLIMIT_FSIZE, &was);
    most = was;
    most.rlim_cur = (rlim_t)LEN * (rlim_t)mt_size + LEN / 2;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &most);
    FAILS(access_all(f, true, 0, second, LEN), MPI_ERR_QUOTA);
    setrlimit(RLIMIT_FSIZE, &was);
    OK(access_all(f, false, 0, back, 0));
    CHECK(!memcmp(back, first, LEN));
    OK(MPI_File_close(&f));
    free(io_load(&n));
    CHECK(n <= most.rlim_cur);
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    MT_RUN(writes);
    MT_RUN(reads);
    MT_RUN(partial_transfers);
    MT_RUN(own_access);
    MT_RUN(properties);
    MT_RUN(opening);
    MT_RUN(locks);
    MT_RUN(removed);
    MT_RUN(folder_removed);
    if (mt_rank == 0)
        unlink(io_name);
    MT_RUN(length_limit);
    io_fake_reset();
    return io_end();
}
