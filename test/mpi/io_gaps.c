/* SPDX-License-Identifier: BSD-3-Clause */
/* How many bytes the library reads for views with gaps, as the kernel counts them, and that the
 * data and counts are right.  Argument: directory. */
#include "test/mpi/iotest.h"

#define PIECE 64

static char buf[PIECE * 4096];

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

/* The ranks of one host read each byte once, in a file that ends `cut` bytes early. */
static void read_together(int cut)
{
    enum { N = 1024 };
    MPI_Offset all = (MPI_Offset)N * PIECE * mt_size, off, left;
    MPI_Datatype row;
    MPI_Status st;
    MPI_File f;
    long long before;
    int i, n = 0;

    make_file(all - cut);
    OK(MPI_File_open(mt_comm, io_name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
    MPI_Type_vector(N, PIECE, PIECE * mt_size, MPI_BYTE, &row);
    MPI_Type_commit(&row);
    OK(MPI_File_set_view(f, PIECE * mt_rank, MPI_BYTE, row, "native", MPI_INFO_NULL));
    memset(buf, 0, sizeof buf);
    before = bytes_read();
    OK(MPI_File_read_at_all(f, 0, buf, N * PIECE, MPI_BYTE, &st));
    if (mt_one_host())
        check_read(before, all + mt_size * 4096);
    for (i = 0; i < N; i++) {
        off = ((MPI_Offset)i * mt_size + mt_rank) * PIECE;
        left = all - cut - off;
        left = left < 0 ? 0 : left > PIECE ? PIECE : left;
        check_piece(buf + i * PIECE, off, (int)left);
        n += (int)left;
    }
    io_check_count(&st, MPI_BYTE, n);
    MPI_Type_free(&row);
    OK(MPI_File_close(&f));
}

static void together(void) { read_together(0); }

static void together_to_the_end(void) { read_together(1000); }

int main(int argc, char **argv)
{
    io_init(argc, argv);
    MT_RUN(long_gaps);
    MT_RUN(together);
    MT_RUN(together_to_the_end);
    return io_end();
}
