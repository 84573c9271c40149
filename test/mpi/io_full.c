/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that io_full.py starts on a file system that is full or read-only.  Arguments:
 * folder, "full" or "readonly". */
#include "test/mpi/iotest.h"

#define LEN (256 << 10)
#define MANY (3 << 20)

static unsigned char first[LEN], back[LEN], large[MANY];

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

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    if (argc < 3)
        return 2;
    snprintf(io_name, sizeof io_name, "%s/file", argv[1]);
    if (!strcmp(argv[2], "full")) {
        MT_RUN(each_rank);
        MT_RUN(by_aggregators);
    } else {
        MT_RUN(read_only);
    }
    return mt_end();
}
