/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective write progresses while the ranks compute: none calls MPI until the file has the data
 * of all.  Then operations behind one another, and a rank that comes late.  Argument: directory. */
#include <time.h>
#include "test/mpi/iotest.h"

#define PIECE 512
#define PIECES 300 /* of each rank */
#define WAIT_S 20  /* only a defect takes so long */

static MPI_File file;
static unsigned char data[PIECE * PIECES];

static unsigned char byte_at(size_t off, int turn)
{
    return (unsigned char)(off / PIECE * 7 + off % PIECE + (size_t)turn * 31 + 1);
}

static void open_file(void)
{
    MPI_Datatype t, row;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "cb_buffer_size", "20480"); /* many rounds */
    OK(MPI_File_open(mt_comm, io_name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    MPI_Type_contiguous(PIECE, MPI_BYTE, &t);
    MPI_Type_create_resized(t, 0, (MPI_Aint)PIECE * mt_size, &row);
    MPI_Type_commit(&row);
    OK(MPI_File_set_view(file, (MPI_Offset)PIECE * mt_rank, MPI_BYTE, row, "native",
                         MPI_INFO_NULL));
    MPI_Type_free(&t);
    MPI_Type_free(&row);
}

static void fill(int turn)
{
    size_t i;

    for (i = 0; i < sizeof data; i++) {
        size_t piece = i / PIECE * (size_t)mt_size + (size_t)mt_rank;
        data[i] = byte_at(piece * PIECE + i % PIECE, turn);
    }
}

static int has_all(int turn)
{
    size_t n, i;
    unsigned char *p = io_load(&n);
    int all = n == sizeof data * (size_t)mt_size;

    for (i = 0; all && i < n; i++)
        all = p[i] == byte_at(i, turn);
    free(p);
    return all;
}

static void pause_ms(int ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

    nanosleep(&t, NULL);
}

/* Calls no MPI. */
static void await_file(int turn)
{
    int i;

    for (i = 0; i < WAIT_S * 200 && !has_all(turn); i++)
        pause_ms(5);
    CHECK(has_all(turn));
}

static void write_once(int turn)
{
    MPI_Request r;
    MPI_Status st;

    fill(turn);
    OK(MPI_File_iwrite_at_all(file, 0, data, sizeof data, MPI_BYTE, &r));
    await_file(turn);
    OK(MPI_Wait(&r, &st));
    io_check_count(&st, MPI_BYTE, (int)sizeof data);
    MPI_Barrier(mt_comm); /* before the next data */
}

/* Two operations, and ranks that start them at different times. */
static void write_twice(int turn)
{
    MPI_Request r[2];
    int half = PIECES / 2 * PIECE;

    fill(turn);
    OK(MPI_File_iwrite_at_all(file, half, data + half, (int)sizeof data - half, MPI_BYTE, &r[0]));
    pause_ms(mt_rank % 2 ? 30 : 0);
    OK(MPI_File_iwrite_at_all(file, 0, data, half, MPI_BYTE, &r[1]));
    await_file(turn);
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    MPI_Barrier(mt_comm);
}

/* Also of split form. */
static void write_split(int turn)
{
    MPI_Status st;

    fill(turn);
    OK(MPI_File_write_at_all_begin(file, 0, data, sizeof data, MPI_BYTE));
    await_file(turn);
    OK(MPI_File_write_at_all_end(file, data, &st));
    io_check_count(&st, MPI_BYTE, (int)sizeof data);
    MPI_Barrier(mt_comm);
}

static void beside(void)
{
    int i;

    open_file();
    for (i = 0; i < 3; i++) {
        write_once(3 * i);
        write_twice(3 * i + 1);
        write_split(3 * i + 2);
    }
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    MT_RUN(beside);
    return io_end();
}
