/* SPDX-License-Identifier: BSD-3-Clause */
/* Short pieces with holes between them: the bytes of the holes are never touched, also while other
 * ranks write there without any agreement, and the kernel counts few calls.  Argument: directory.
 */
#define _GNU_SOURCE 1
#include "test/mpi/iotest.h"
#include <sys/uio.h>
#include <sys/vfs.h>

#define PIECE 12
#define N 4000 /* pieces of a rank */
#define OLD 0x5a

static unsigned char mine[N * PIECE], got[N * PIECE];

/* Whether a mapping can serve: the file system is local, and the system permits the copy. */
static bool can_map(void)
{
    static const unsigned local[] = { 0xef53,     0x58465342, 0x9123683e,
                                      0xf2f52010, 0x794c7630, 0x01021994 };
    char a = 1, b = 0;
    struct iovec from = { &a, 1 }, to = { &b, 1 };
    struct statfs fs;
    size_t i;

    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1 || statfs(io_name, &fs))
        return false;
    for (i = 0; i < sizeof local / sizeof local[0]; i++)
        if ((unsigned)fs.f_type == local[i])
            return true;
    return false;
}

/* Calls that write, of this process; -1: the kernel does not count them. */
static long long calls(void)
{
    FILE *f = fopen("/proc/self/io", "r");
    char line[100];
    long long n = -1;

    while (f && fgets(line, sizeof line, f))
        sscanf(line, "syscw: %lld", &n);
    if (f)
        fclose(f);
    return n;
}

/* This rank's pieces: piece i of rank r begins at (i * ranks + r) * stride. */
static MPI_File open_view(int amode, int stride)
{
    MPI_Datatype t, spread;
    MPI_File f = io_open(mt_comm, amode);

    MPI_Type_contiguous(PIECE, MPI_BYTE, &t);
    MPI_Type_create_resized(t, 0, (MPI_Aint)stride * mt_size, &spread);
    MPI_Type_commit(&spread);
    OK(MPI_File_set_view(f, (MPI_Offset)stride * mt_rank, MPI_BYTE, spread, "native",
                         MPI_INFO_NULL));
    MPI_Type_free(&spread);
    MPI_Type_free(&t);
    return f;
}

/* The file has the pieces of all ranks, of mt_fill() with rank + key, and nothing else. */
static void check_file(int stride, size_t old, unsigned key)
{
    size_t n, at, wrong = 0, last = (size_t)(N * mt_size - 1) * (size_t)stride + PIECE;
    unsigned char *p;

    MPI_Barrier(mt_comm);
    p = io_load(&n);
    CHECK_EQ(n, old > last ? old : last);
    for (at = 0; at < n; at++) {
        size_t i = at / (size_t)stride, in = at % (size_t)stride;
        unsigned rank = (unsigned)(i % (size_t)mt_size);
        size_t piece = i / (size_t)mt_size;
        bool hole = in >= PIECE || piece >= N;
        unsigned char byte = hole ? at < old ? OLD : 0 : mt_byte(piece * PIECE + in, rank + key);

        wrong += p[at] != byte;
    }
    CHECK_EQ(wrong, 0);
    free(p);
    MPI_Barrier(mt_comm);
}

enum { ALONE, TOGETHER, LATER, GAPS, WAYS };

static void write_in(MPI_File f, int way)
{
    MPI_Datatype gaps; /* of memory */
    MPI_Request r;
    static unsigned char spread[2 * sizeof mine];
    size_t i;

    switch (way) {
    case ALONE:
        OK(MPI_File_write_at(f, 0, mine, sizeof mine, MPI_BYTE, MPI_STATUS_IGNORE));
        break;
    case TOGETHER:
        OK(MPI_File_write_at_all(f, 0, mine, sizeof mine, MPI_BYTE, MPI_STATUS_IGNORE));
        break;
    case LATER:
        OK(MPI_File_iwrite_at_all(f, 0, mine, sizeof mine, MPI_BYTE, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        break;
    default:
        for (i = 0; i < sizeof mine; i++)
            spread[2 * i] = mine[i];
        MPI_Type_vector((int)sizeof mine, 1, 2, MPI_BYTE, &gaps);
        MPI_Type_commit(&gaps);
        OK(MPI_File_write_at(f, 0, spread, 1, gaps, MPI_STATUS_IGNORE));
        MPI_Type_free(&gaps);
    }
}

static void write_with(int amode, int atomic)
{
    static const int strides[] = { PIECE + 1, 64, 128 };
    int k, way, old;

    for (k = 0; k < 3 * WAYS * 2; k++) {
        way = k % WAYS;
        old = k / WAYS % 2 ? 1 << 20 : 0;
        io_make((size_t)old, OLD);
        MPI_File f = open_view(amode, strides[k / WAYS / 2]);
        OK(MPI_File_set_atomicity(f, atomic));
        mt_fill(mine, sizeof mine, (unsigned)(mt_rank + k));
        long long before = calls();
        write_in(f, way);
        long long n = calls() - before;
        if (before >= 0 && can_map())
            CHECK_MSG(n < N / 20, "%lld calls for %d pieces", n, N);
        OK(MPI_File_close(&f));
        check_file(strides[k / WAYS / 2], (size_t)old, (unsigned)k);
    }
}

static void few_calls(void) { write_with(MPI_MODE_RDWR, 0); }
static void write_only(void) { write_with(MPI_MODE_WRONLY, 0); }
static void in_atomic_mode(void) { write_with(MPI_MODE_RDWR, 1); }

/* A rank's piece lies in the holes of the others, in the same pages, and all write at once: what a
 * rank has written stays. */
static void neighbours(void)
{
    MPI_File f;
    unsigned round;

    io_make(0, 0);
    f = open_view(MPI_MODE_RDWR, PIECE);
    for (round = 0; round < 20; round++) {
        mt_fill(mine, sizeof mine, (unsigned)mt_rank + round);
        OK(MPI_File_write_at(f, 0, mine, sizeof mine, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_read_at(f, 0, got, sizeof got, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK_DATA(got, sizeof got, (unsigned)mt_rank + round);
    }
    OK(MPI_File_close(&f));
    check_file(PIECE, 0, round - 1);
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    MT_RUN(few_calls);
    MT_RUN(write_only);
    MT_RUN(in_atomic_mode);
    MT_RUN(neighbours);
    return io_end();
}
