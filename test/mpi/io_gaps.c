/* SPDX-License-Identifier: BSD-3-Clause */
/* How many bytes the library reads for views with gaps, as the kernel counts them, and that the
 * data and counts are right.  Argument: directory. */
#include "test/mpi/iotest.h"

#define PIECE 64

static char buf[300 * 4096];

/* Bytes that this process has read by system calls; -1: the kernel does not count them. */
static long long bytes_read(void)
{
    FILE *f = fopen("/proc/self/io", "r");
    long long n = -1;

    if (f && fscanf(f, "rchar: %lld", &n) != 1)
        n = -1;
    if (f)
        fclose(f);
    return n;
}

/* All ranks together read at most `most` bytes since `before`, the bytes of this rank then. */
static void check_read(long long before, long long most)
{
    long long now = bytes_read(), mine = now < 0 ? -1 : now - before, all;

    MPI_Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, mt_comm);
    if (now >= 0 && all > most)
        printf("# rank %d: %lld bytes were read, at most %lld are needed\n", mt_rank, all, most);
    CHECK(now < 0 || all <= most);
}

/* Byte i of the file is i % 251. */
static void check_piece(const char *p, MPI_Offset off, int n)
{
    int i, wrong = 0;

    for (i = 0; i < n; i++)
        wrong += (unsigned char)p[i] != (off + i) % 251;
    CHECK_EQ(wrong, 0);
}

static void make_file(MPI_Offset n)
{
    MPI_File f;
    char *p = malloc((size_t)n);
    MPI_Offset i;

    for (i = 0; i < n; i++)
        p[i] = (char)(i % 251);
    io_make(0, 0);
    OK(MPI_File_open(mt_comm, io_name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    if (mt_rank == 0)
        OK(MPI_File_write_at(f, 0, p, (int)n, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&f));
    free(p);
}

/* Groups of 64 pieces with short gaps; long gaps between the groups are not read. */
static void long_gaps(void)
{
    enum { NGROUPS = 16, GROUP = 2 * PIECE * 64, EVERY = 2 * GROUP, N = PIECE * 64 };
    MPI_Datatype group, every;
    MPI_File f;
    long long before;
    int i;

    make_file(NGROUPS * EVERY);
    OK(MPI_File_open(mt_comm, io_name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
    MPI_Type_vector(64, PIECE, 2 * PIECE, MPI_BYTE, &group);
    MPI_Type_create_resized(group, 0, EVERY, &every);
    MPI_Type_commit(&every);
    OK(MPI_File_set_view(f, 0, MPI_BYTE, every, "native", MPI_INFO_NULL));
    before = bytes_read();
    OK(MPI_File_read_at(f, 0, buf, NGROUPS * N, MPI_BYTE, MPI_STATUS_IGNORE));
    check_read(before, mt_size * (NGROUPS * GROUP + 4096));
    for (i = 0; i < NGROUPS * 64; i++)
        check_piece(buf + i * PIECE, i / 64 * EVERY + i % 64 * 2 * PIECE, PIECE);
    MPI_Type_free(&group);
    MPI_Type_free(&every);
    OK(MPI_File_close(&f));
}

/* Each rank has `n` pieces of `len` bytes, one in each row of the file.  Those of rank r begin at
 * byte r * `shift` of a row; if `shift` is 0, all at byte 0 of a row of two pieces.  The file ends
 * `cut` bytes early.  The ranks of one host read each byte once, unless pieces overlap. */
static void read_rows(int n, int len, int shift, int cut)
{
    MPI_Offset width = shift ? (MPI_Offset)shift * (mt_size - 1) + len : 2 * len;
    MPI_Offset all = width * n, off, left;
    MPI_Datatype row;
    MPI_Status st;
    MPI_File f;
    long long before;
    int i, turn, sum;

    make_file(all - cut);
    OK(MPI_File_open(mt_comm, io_name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
    MPI_Type_vector(n, len, (int)width, MPI_BYTE, &row);
    MPI_Type_commit(&row);
    OK(MPI_File_set_view(f, (MPI_Offset)shift * mt_rank, MPI_BYTE, row, "native", MPI_INFO_NULL));
    for (turn = sum = 0; turn < 2; turn++, sum = 0) {
        memset(buf, 0, sizeof buf);
        before = bytes_read();
        OK(MPI_File_read_at_all(f, 0, buf, n * len, MPI_BYTE, &st));
        if (mt_one_host() && shift == len)
            check_read(before, all + mt_size * 4096);
        for (i = 0; i < n; i++) {
            off = i * width + mt_rank * shift;
            left = all - cut - off;
            left = left < 0 ? 0 : left > len ? len : left;
            check_piece(buf + i * len, off, (int)left);
            sum += (int)left;
        }
        io_check_count(&st, MPI_BYTE, sum);
    }
    MPI_Type_free(&row);
    OK(MPI_File_close(&f));
}

static void together(void) { read_rows(1024, PIECE, PIECE, 0); }

static void together_to_the_end(void) { read_rows(1024, PIECE, PIECE, 1000); }

/* Aggregators read long pieces of their own to user memory. */
static void long_pieces(void)
{
    read_rows(300, 4096, 4096, 0);
    read_rows(900, 1280, 1280, 0);
    read_rows(300, 4096, 4096, 5000);
    read_rows(900, 1280, 1280, 1);
}

/* Bytes that an aggregator has read to its own memory are also another rank's. */
static void overlapping(void)
{
    read_rows(300, 4096, 2048, 0);
    read_rows(300, 4096, 2048, 9000);
    read_rows(300, 4096, 0, 0);
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    MT_RUN(long_gaps);
    MT_RUN(together);
    MT_RUN(together_to_the_end);
    MT_RUN(long_pieces);
    MT_RUN(overlapping);
    return io_end();
}
