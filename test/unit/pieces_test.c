/* SPDX-License-Identifier: BSD-3-Clause */
/* Short pieces of a file, written by a mapping, over calls that fail: compared with a model of the
 * file, with the number of calls, and with the errors that pwrite has. */
#include "runtime/base/err.h"
#include "runtime/io/io.h"
#include "test/check.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define N 30000 /* pieces */
#define SPACE (40 << 20)

static struct rt_io_sys sys;
static int fd;
static struct {
    int writes, copies;
    int copies_before; /* calls of copy that succeed */
    ssize_t part;      /* what the next one returns: bytes, which it copies; -1: EPERM */
    int64_t fail_at;   /* pwrite from this offset on: ENOSPC */
    int64_t cut;       /* another process truncates the file before that call; -1: not */
    enum rt_io_kind kind;
} fake;

static ssize_t fake_writev(int f, const struct iovec *iov, int n, off_t off)
{
    fake.writes++;
    if (off >= fake.fail_at) {
        errno = ENOSPC;
        return -1;
    }
    return pwritev(f, iov, n, off);
}

static ssize_t fake_copy(const struct iovec *to, int n, const struct iovec *from)
{
    struct iovec first = *from;
    fake.copies++;
    if (fake.copies <= fake.copies_before)
        return rt_io_system.copy(to, n, from);
    if (fake.cut >= 0) {
        CHECK_EQ(ftruncate(fd, fake.cut), 0);
        return rt_io_system.copy(to, n, from);
    }
    if (fake.part < 0) {
        errno = EPERM;
        return -1;
    }
    first.iov_len = (size_t)fake.part;
    return rt_io_system.copy(to, n, &first);
}

static int no_allocate(int f, int mode, off_t off, off_t len)
{
    (void)f, (void)mode, (void)off, (void)len;
    errno = EOPNOTSUPP;
    return -1;
}

static void set_fake(void)
{
    memset(&fake, 0, sizeof fake);
    fake.copies_before = 1 << 30;
    fake.fail_at = INT64_MAX;
    fake.cut = -1;
    fake.kind = RT_IO_LOCAL;
    sys = rt_io_system;
    sys.writev = fake_writev;
    sys.copy = fake_copy;
    rt_io_sys = &sys;
}

static unsigned char *model, *back;
static char *packed;
static int64_t off[N], len[N];

/* Random pieces, on average `every` bytes apart, a few of them longer than a page; returns where
 * the last one ends.  The file is 0x55 up to `old`. */
static int64_t make(int64_t start, int every, int64_t old)
{
    int64_t at = start, sum = 0;
    CHECK_EQ(rt_io_truncate(fd, 0), 0);
    memset(model, 0, SPACE);
    memset(model, 0x55, (size_t)old);
    CHECK_EQ(rt_io_write(fd, model, old, 0), 0);
    for (int i = 0; i < N; i++) {
        len[i] = i % 5000 == 4999 ? 9000 : 1 + rand() % (every / 2);
        off[i] = at;
        for (int64_t j = 0; j < len[i]; j++)
            packed[sum + j] = (char)(rand() | 1);
        memcpy(model + at, packed + sum, (size_t)len[i]);
        sum += len[i];
        at += len[i] + 1 + rand() % every / 2;
    }
    CHECK(at < SPACE);
    return off[N - 1] + len[N - 1];
}

/* Writes them; the first error. */
static int write_all(int f, bool is_packed, int64_t end)
{
    const struct rt_io_fs fs = { .kind = fake.kind };
    int64_t to = off[N - 1] + len[N - 1], sum = 0;
    struct rt_io_pieces p = { f, &fs, off[0], to, end > to ? end : to, is_packed, NULL };
    int err = 0;
    fake.writes = 0;
    rt_io_pieces_begin(&p, N);
    for (int i = 0; i < N && !err; i++) {
        char piece[9000];
        memcpy(piece, packed + sum, (size_t)len[i]);
        err = rt_io_pieces_put(&p, off[i], is_packed ? packed + sum : piece, len[i]);
        memset(piece, 0, sizeof piece); /* only packed data are lent */
        sum += len[i];
    }
    int last = rt_io_pieces_end(&p);
    return err ? err : last;
}

static void check_file(int64_t size)
{
    CHECK_EQ(rt_io_size(fd), size);
    CHECK_EQ(rt_io_read(fd, back, SPACE, 0), size);
    CHECK(!memcmp(model, back, (size_t)size));
}

static void few_calls(void)
{
    static const struct {
        enum rt_io_kind kind;
        int64_t start;
        int every;
        bool packed, old;
    } row[] = { { RT_IO_LOCAL, 0, 100, true, false },
                { RT_IO_LOCAL, 4095, 60, false, true },
                { RT_IO_LOCAL, (3 << 20) - 7, 900, true, true },
                { RT_IO_MEMORY, 77, 900, false, false },
                { RT_IO_MEMORY, 5000, 200, true, true } };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        set_fake();
        fake.kind = row[i].kind;
        int64_t old = row[i].old ? SPACE / 2 : 0, end = make(row[i].start, row[i].every, old);
        CHECK_EQ(write_all(fd, row[i].packed, 0), 0);
        check_file(end > old ? end : old);
        CHECK_EQ(fake.writes, N / 5000); /* the long pieces */
    }
}

/* Each piece is a call: on a file system whose mappings may lag behind, of pieces far apart, in a
 * file that cannot be read or lengthened. */
static void calls(void)
{
    set_fake();
    fake.kind = RT_IO_NFS;
    int64_t end = make(10, 100, 1000);
    CHECK_EQ(write_all(fd, true, 0), 0);
    check_file(end);
    CHECK_EQ(fake.writes, N);
    set_fake();
    end = make(10, 2600, 0);
    CHECK_EQ(write_all(fd, true, 0), 0);
    check_file(end);
    CHECK_EQ(fake.writes, N);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int only = open(path, O_WRONLY);
    CHECK(only >= 0);
    set_fake();
    end = make(10, 100, 0);
    CHECK_EQ(write_all(only, false, 0), 0);
    close(only);
    check_file(end);
    CHECK_EQ(fake.writes, N);
    set_fake();
    sys.allocate = no_allocate;
    end = make(10, 100, 0);
    CHECK_EQ(write_all(fd, false, 0), 0);
    check_file(end);
    CHECK_EQ(fake.writes, N);
}

/* The copy is refused, or ends within a piece: the rest is written by calls. */
static void copies_fail(void)
{
    for (int k = 0; k < 6; k++) {
        set_fake();
        fake.copies_before = k / 3 * 5;
        fake.part = k % 3 == 0 ? -1 : k % 3 == 1 ? 0 : 1234;
        int64_t end = make(9, 100, 0);
        CHECK_EQ(write_all(fd, k % 2, 0), 0);
        check_file(end);
        CHECK(fake.writes > N / 2);
        CHECK_EQ(fake.copies, fake.copies_before + 1);
    }
}

/* The error is that of pwrite. */
static void no_space(void)
{
    for (int k = 0; k < 2; k++) {
        set_fake();
        int64_t end = make(9, 100, 0);
        fake.copies_before = 3;
        fake.fail_at = 0;
        CHECK_EQ(write_all(fd, k, 0), -RT_ENOSPC);
        CHECK_EQ(rt_io_size(fd), end);
        CHECK_EQ(rt_io_read(fd, back, off[2000], 0), off[2000]); /* what went before is there */
        CHECK(!memcmp(model, back, (size_t)off[2000]));
    }
}

/* Another process truncates the file meanwhile: no SIGBUS, and later pieces are in the file. */
static void truncated(void)
{
    set_fake();
    int64_t end = make(9, 100, 0);
    fake.copies_before = 4;
    fake.cut = 5000;
    CHECK_EQ(write_all(fd, true, 0), 0);
    CHECK_EQ(rt_io_size(fd), end);
    CHECK_EQ(rt_io_read(fd, back, SPACE, 0), end);
    CHECK(!memcmp(model, back, 5000));
    CHECK(!memcmp(model + off[6000], back + off[6000], (size_t)(end - off[6000])));
}

/* The file gets the length of the whole access, and keeps a larger one. */
static void lengths(void)
{
    set_fake();
    int64_t end = make(9, 100, 0);
    CHECK_EQ(write_all(fd, true, end + 12345), 0);
    check_file(end + 12345);
    CHECK_EQ(write_all(fd, true, end + 1), 0);
    check_file(end + 12345);
}

int main(void)
{
    char name[] = "/tmp/weft-pieces-XXXXXX";
    fd = mkstemp(name);
    unlink(name);
    model = malloc(SPACE);
    back = malloc(SPACE);
    packed = malloc(SPACE);
    CHECK(fd >= 0 && model && back && packed);
    char a = 1, c = 0;
    struct iovec to = { &c, 1 }, from = { &a, 1 };
    if (rt_io_system.copy(&to, 1, &from) != 1) {
        printf("1..0 # SKIP the system refuses process_vm_readv\n");
        return 77;
    }
    RUN(few_calls);
    RUN(calls);
    RUN(copies_fail);
    RUN(no_space);
    RUN(truncated);
    RUN(lengths);
    free(model);
    free(back);
    free(packed);
    close(fd);
    return check_end();
}
