/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that io_full.py starts on a file system that is full or read-only, or with its node
 * segment on one that fills up.  Arguments: folder, "full", "readonly", "segment" or "rings". */
#include "test/mpi/iotest.h"

#define LEN (256 << 10)
#define MANY (3 << 20)

static unsigned char first[LEN], back[LEN], large[MANY];

/* Short pieces with holes, 4 MiB from the first to the last byte. */
static void fine(MPI_File f)
{
    MPI_Datatype spread;
    MPI_Status st;
    MPI_Offset at = (MPI_Offset)mt_size * LEN;
    MPI_Type_vector(32768, 64, 128, MPI_BYTE, &spread);
    MPI_Type_commit(&spread);
    OK(MPI_File_set_view(f, at + (MPI_Offset)mt_rank * (4 << 20), MPI_BYTE, spread, "native",
                         MPI_INFO_NULL));
    FAILS(MPI_File_write_at_all(f, 0, large, 32768 * 64, MPI_BYTE, &st), MPI_ERR_NO_SPACE);
    MPI_Type_free(&spread);
    OK(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(f, (MPI_Offset)mt_rank * LEN, back, LEN, MPI_BYTE, &st));
    CHECK(!memcmp(back, first, LEN));
}

/* The file system holds 3 MiB: LEN of each rank fits, MANY of one does not. */
static void full(const char *hint)
{
    MPI_Info info;
    MPI_File f = MPI_FILE_NULL;
    MPI_Status st;
    mt_fill(first, LEN, (unsigned)mt_rank + 1);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", hint);
    OK(MPI_File_open(mt_comm, io_name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     info, &f));
    MPI_Info_free(&info);
    OK(MPI_File_write_at_all(f, (MPI_Offset)mt_rank * LEN, first, LEN, MPI_BYTE, &st));
    MPI_Barrier(mt_comm); /* all have room for the first data */
    FAILS(MPI_File_write_at_all(f, (MPI_Offset)mt_size * LEN + (MPI_Offset)mt_rank * MANY, large,
                                MANY, MPI_BYTE, &st),
          MPI_ERR_NO_SPACE);
    FAILS(MPI_File_preallocate(f, 64 << 20), MPI_ERR_NO_SPACE);
    OK(MPI_File_read_at_all(f, (MPI_Offset)mt_rank * LEN, back, LEN, MPI_BYTE, &st));
    CHECK(!memcmp(back, first, LEN));
    MPI_Barrier(mt_comm);
    OK(MPI_File_set_size(f, (MPI_Offset)mt_size * LEN)); /* room again */
    OK(MPI_File_write_at_all(f, (MPI_Offset)mt_rank * LEN, first, LEN, MPI_BYTE, &st));
    MPI_Barrier(mt_comm);
    fine(f);
    OK(MPI_File_close(&f));
}

static void each_rank(void) { full("disable"); }
static void by_aggregators(void) { full("enable"); }

static void read_only(void)
{
    MPI_File f = MPI_FILE_NULL;
    int v = 0;
    FAILS(MPI_File_open(mt_comm, io_name, MPI_MODE_RDWR, MPI_INFO_NULL, &f), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_open(mt_comm, io_name, MPI_MODE_WRONLY, MPI_INFO_NULL, &f), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_delete(io_name, MPI_INFO_NULL), MPI_ERR_READ_ONLY);
    f = io_open(mt_comm, MPI_MODE_RDONLY);
    OK(MPI_File_read_at_all(f, 0, &v, 4, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(!memcmp(&v, "data", 4));
    FAILS(MPI_File_write_at_all(f, 0, &v, 4, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    OK(MPI_File_sync(f));
    OK(MPI_File_close(&f));
    char other[300];
    snprintf(other, sizeof other, "%s.new", io_name);
    FAILS(MPI_File_open(mt_comm, other, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f),
          MPI_ERR_READ_ONLY);
}

static const char *io_folder;
static char filler[300];

/* Leaves no page of the file system to the node segment. */
static void fill_up(const char *folder)
{
    snprintf(filler, sizeof filler, "%s/fill", folder);
    int fd = open(filler, O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0);
    for (size_t len = LEN; len >= 512; len /= 2)
        while (write(fd, first, len) == (ssize_t)len)
            ;
    CHECK(errno == ENOSPC);
    close(fd);
}

static int open_new(MPI_File *f)
{
    return MPI_File_open(mt_comm, io_name,
                         MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                         f);
}

/* The shared pointer has no room in the segment.  A window in memory without a file takes its
 * place; `refused`: the kernel does not give such memory, until there is room again. */
static void no_room(bool refused)
{
    MPI_File f = MPI_FILE_NULL;
    int in, peer;
    for (int i = 0; i < mt_size; i++) { /* messages need no more room then */
        peer = (i + mt_size - mt_rank) % mt_size;
        MPI_Sendrecv(&i, 1, MPI_INT, peer, 1, &in, 1, MPI_INT, peer, 1, mt_comm, MPI_STATUS_IGNORE);
    }
    if (mt_rank == 0)
        fill_up(io_folder);
    MPI_Barrier(mt_comm);
    if (refused) {
        FAILS(open_new(&f), MPI_ERR_NO_MEM);
        MPI_Barrier(mt_comm);
        if (mt_rank == 0)
            unlink(filler);
        MPI_Barrier(mt_comm);
    }
    OK(open_new(&f));
    OK(MPI_File_write_shared(f, first, 100, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&f));
    if (!refused && mt_rank == 0)
        unlink(filler);
}

static void room_by_a_window(void) { no_room(false); }
static void no_room_at_all(void) { no_room(true); }

/* Messages have no room either: a rank ends the job. */
static void no_rings(void)
{
    MPI_File f = MPI_FILE_NULL;
    if (mt_rank == 0)
        fill_up(io_folder);
    MPI_Barrier(mt_comm);
    open_new(&f);
    CHECK(!"the file was opened");
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    if (argc < 3)
        return 2;
    io_folder = argv[1];
    if (!strcmp(argv[2], "segment") || !strcmp(argv[2], "nothing") || !strcmp(argv[2], "rings")) {
        io_setup(1, argv);
        mt_run(*argv[2] == 's'   ? room_by_a_window
               : *argv[2] == 'n' ? no_room_at_all
                                 : no_rings,
               argv[2]);
        return io_end();
    }
    snprintf(io_name, sizeof io_name, "%s/file", argv[1]);
    if (!strcmp(argv[2], "full")) {
        MT_RUN(each_rank);
        MT_RUN(by_aggregators);
    } else {
        MT_RUN(read_only);
    }
    return mt_end();
}
