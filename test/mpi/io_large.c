/* SPDX-License-Identifier: BSD-3-Clause */
/* Accesses of more than 2 GiB, offsets beyond 4 GiB, and views of a million pieces.  The file is
 * sparse and its memory is one page again and again, so little of either is used. */
#include <sys/mman.h>
#include "test/mpi/iotest.h"

/* len bytes of address space over one piece of memory. */
#define PIECE (16 << 20)
static char *repeated(size_t len)
{
    char *p = mmap(NULL, len + PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                   0);
    int fd = memfd_create("io_large", 0);
    CHECK(fd >= 0 && ftruncate(fd, PIECE) == 0);
    for (size_t at = 0; at < len; at += PIECE)
        if (mmap(p + at, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
            MAP_FAILED)
            return NULL;
    close(fd);
    return p;
}

static void two_gigabytes_and_one(void)
{
    MPI_Count n = ((MPI_Count)2 << 30) + 1, got = 0;
    MPI_Offset base = (MPI_Offset)5 << 30;
    char *p = repeated((size_t)n);
    MPI_Status st;
    MPI_Request r;
    MPI_File f = io_open(MPI_COMM_SELF, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);

    CHECK(p != NULL);
    mt_fill(p, PIECE, 3);
    OK(MPI_File_write_at_c(f, base, p, n, MPI_BYTE, &st));
    OK(MPI_Get_count_c(&st, MPI_BYTE, &got));
    CHECK_EQ(got, n);
    io_check_size(f, base + n);
    memset(p, 0, PIECE);
    OK(MPI_File_iread_at_c(f, base, p, n, MPI_BYTE, &r));
    OK(MPI_Wait(&r, &st));
    OK(MPI_Get_count_c(&st, MPI_BYTE, &got));
    CHECK_EQ(got, n);
    CHECK_DATA(p, PIECE, 3); /* written last: byte 0 again, by the one byte beyond 2 GiB */
    munmap(p, (size_t)n);
    OK(MPI_File_close(&f));
}

static void a_million_pieces(void)
{
    enum { N = 1000000 };
    MPI_Aint *at = malloc(N * sizeof *at);
    int *buf = malloc(N * sizeof *buf), i;
    MPI_Datatype t, tile;
    MPI_Status st;
    MPI_File f = io_open(MPI_COMM_SELF, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);

    for (i = 0; i < N; i++) {
        at[i] = (MPI_Aint)i * 12 + i % 3 * 4; /* no stride that would make it short */
        buf[i] = i * 3;
    }
    MPI_Type_create_hindexed_block(N, 1, at, MPI_INT, &t);
    MPI_Type_create_resized(t, 0, (MPI_Aint)N * 12, &tile);
    MPI_Type_commit(&tile);
    MPI_Type_free(&t);
    OK(MPI_File_set_view(f, 0, MPI_INT, tile, "native", MPI_INFO_NULL));
    MPI_Type_free(&tile);
    OK(MPI_File_write_at(f, 0, buf, N, MPI_INT, &st));
    io_check_count(&st, MPI_INT, N);
    memset(buf, 0, N * sizeof *buf);
    OK(MPI_File_read_at(f, 0, buf, N, MPI_INT, &st));
    io_check_count(&st, MPI_INT, N);
    for (i = 0; i < N && buf[i] == i * 3; i++)
        ;
    CHECK_EQ(i, N);
    OK(MPI_File_close(&f));
    free(at);
    free(buf);
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    MT_RUN(two_gigabytes_and_one);
    MT_RUN(a_million_pieces);
    return io_end();
}
