/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory and files by GPUDirect Storage, over a libcufile that checks each call and can fail
 * (test/fake/gpu/cufile.c): offsets and lengths around whole blocks, the end of the file, bytes
 * that another writer has beside the data, nonblocking access.  Arguments: directory, "direct"
 * (long accesses go by libcufile), "some" (libcufile fails after some) or "none" (it is not
 * usable). */
#include "test/gpu/gputest.h"
#include "test/mpi/iotest.h"
#include <dlfcn.h>

#define ROOM ((3 << 20) + 9000)

static const char *way;
static int64_t (*moved)(void);

/* Bytes that libcufile has moved since the last call. */
static int64_t moved_since(void)
{
    static int64_t before;
    if (!moved) {
        void *so = dlopen("libcufile.so.0", RTLD_NOW | RTLD_NOLOAD);
        void *f = so ? dlsym(so, "fake_cufile_moved") : NULL;
        memcpy(&moved, &f, sizeof moved);
    }
    int64_t now = moved ? moved() : 0, n = now - before;
    before = now;
    return n;
}

static void check_way(int64_t whole_blocks)
{
    int64_t n = moved_since();
    if (!strcmp(way, "direct"))
        CHECK_MSG(n == whole_blocks, "libcufile moved %lld bytes, expected %lld", (long long)n,
                  (long long)whole_blocks);
    else if (!strcmp(way, "some"))
        CHECK_MSG(n <= whole_blocks, "libcufile moved %lld bytes of %lld", (long long)n,
                  (long long)whole_blocks);
    else
        CHECK_MSG(n == 0, "libcufile moved %lld bytes", (long long)n);
}

static int64_t blocks_in(int64_t from, int64_t to)
{
    from = (from + 4095) / 4096 * 4096;
    return to / 4096 * 4096 - from;
}

/* `len` bytes at `off`, `shift` bytes into an allocation, through `kind`. */
static void there_and_back(enum gt_kind kind, int64_t off, int64_t len, int shift, bool immediate)
{
    unsigned char *p = gt_alloc(kind, 0, ROOM, 8), *want = malloc(ROOM), *got = malloc(ROOM);
    bool direct = kind != GT_MANAGED && len >= 1 << 20;
    MPI_Status st;
    MPI_Request r;
    MPI_File f;
    mt_fill(want, ROOM, 5);
    gt_write(p, want, ROOM);
    OK(MPI_File_open(MPI_COMM_SELF, io_name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    memset(got, 0xab, ROOM);
    OK(MPI_File_write_at(f, 0, got, ROOM, MPI_BYTE, &st)); /* of another writer */
    moved_since();
    if (immediate) {
        OK(MPI_File_iwrite_at(f, off, p + shift, (int)len, MPI_BYTE, &r));
        OK(MPI_Wait(&r, &st));
    } else {
        OK(MPI_File_write_at(f, off, p + shift, (int)len, MPI_BYTE, &st));
    }
    io_check_count(&st, MPI_BYTE, (int)len);
    check_way(direct ? blocks_in(off, off + len) : 0);
    OK(MPI_File_read_at(f, 0, got, ROOM, MPI_BYTE, &st));
    CHECK(!memcmp(got + off, want + shift, (size_t)len));
    for (int64_t i = 0; i < ROOM; i++)
        if (got[i] != 0xab && (i < off || i >= off + len)) {
            CHECK_MSG(0, "byte %lld beside the data was changed", (long long)i);
            break;
        }
    gt_set(p, GT_POISON, ROOM);
    moved_since();
    OK(MPI_File_read_at(f, off, p + shift, (int)len, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, (int)len);
    check_way(direct ? blocks_in(off, off + len) : 0);
    gt_read(got, p, ROOM);
    CHECK(!memcmp(got + shift, want + shift, (size_t)len));
    CHECK(gt_unlike(p, (size_t)shift, GT_POISON) == (size_t)shift);
    CHECK(gt_guards_intact(p));
    OK(MPI_File_close(&f));
    gt_free(p);
    free(want);
    free(got);
}

static void offsets(void)
{
    static const int64_t off[] = { 0, 1, 4095, 4096, 5000 };
    static const int64_t len[] = { 1 << 20, (1 << 20) - 1, (1 << 20) + 1, (3 << 20) - 77 };
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 4; k++)
            there_and_back(GT_CUDA, off[i], len[k], k % 2 * 13, (i + k) % 2);
}

static void kinds(void)
{
    static const enum gt_kind kind[] = { GT_CUDA, GT_VMM, GT_POOL, GT_MANAGED };
    for (int i = 0; i < 4; i++)
        there_and_back(kind[i], 100, 2 << 20, 0, i % 2);
}

/* The file ends within a block, at a block, and before the access. */
static void end_of_file(void)
{
    static const int size[] = { 1500000, 1 << 20, 5000, 100 };
    unsigned char *p = gt_alloc(GT_CUDA, 0, ROOM, 0);
    MPI_Status st;
    MPI_File f;
    OK(MPI_File_open(MPI_COMM_SELF, io_name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    for (int i = 0; i < 4; i++) {
        int left = size[i] > 1000 ? size[i] - 1000 : 0;
        gt_fill(p, ROOM, 1);
        OK(MPI_File_write_at(f, 1000, p, 2 << 20, MPI_BYTE, &st));
        OK(MPI_File_set_size(f, size[i]));
        gt_set(p, GT_POISON, ROOM);
        OK(MPI_File_read_at(f, 1000, p, 2 << 20, MPI_BYTE, &st));
        io_check_count(&st, MPI_BYTE, left);
        GT_CHECK_DATA(p, (size_t)left, 1);
        CHECK_EQ(gt_unlike(p + left, ROOM - (size_t)left, GT_POISON), ROOM - left);
    }
    OK(MPI_File_close(&f));
    gt_free(p);
}

/* An error of the file is found, with its class. */
static void errors(void)
{
    unsigned char *p = gt_alloc(GT_CUDA, 0, ROOM, 0);
    MPI_Status st;
    MPI_File f;
    OK(MPI_File_open(MPI_COMM_SELF, io_name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
    FAILS(MPI_File_write_at(f, 0, p, 2 << 20, MPI_BYTE, &st), MPI_ERR_READ_ONLY);
    OK(MPI_File_close(&f));
    OK(MPI_File_open(MPI_COMM_SELF, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &f));
    FAILS(MPI_File_write_at(f, 0, p, 2 << 20, MPI_BYTE, &st), MPI_ERR_NO_SPACE);
    OK(MPI_File_close(&f));
    gt_free(p);
}

int main(int argc, char **argv)
{
    gt_need(1);
    io_init(argc, argv);
    gt_use(0);
    way = argc > 2 ? argv[2] : "none";
    snprintf(io_name + strlen(io_name), 16, ".%d", mt_rank);
    MT_RUN(offsets);
    MT_RUN(kinds);
    MT_RUN(end_of_file);
    MT_RUN(errors);
    unlink(io_name);
    return io_end();
}
