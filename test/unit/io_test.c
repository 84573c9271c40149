/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine for files over a table of calls that are interrupted, move less than asked for, or
 * fail; and its job threads. */
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "runtime/io/io.h"
#include "test/check.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static struct {
    int calls;
    int interrupt_each; /* one call in this number returns EINTR, then EAGAIN */
    size_t most;        /* bytes that a call moves */
    int64_t fail_at;    /* offset from which calls fail */
    int error;
    int64_t longest; /* bytes that a call was asked for */
} fake;

/* How much of the vectors a call may move; -1 with errno: none. */
static ssize_t limit(struct iovec *cut, const struct iovec *iov, int n, off_t off, int *m)
{
    size_t sum = 0;
    fake.calls++;
    if (fake.interrupt_each && fake.calls % fake.interrupt_each == 0) {
        errno = fake.calls % (2 * fake.interrupt_each) ? EINTR : EAGAIN;
        return -1;
    }
    if (fake.error && off >= fake.fail_at) {
        errno = fake.error;
        return -1;
    }
    for (int i = 0; i < n; i++)
        sum += iov[i].iov_len;
    fake.longest = (int64_t)sum > fake.longest ? (int64_t)sum : fake.longest;
    size_t left = fake.most && fake.most < sum ? fake.most : sum;
    if (fake.error && off + (int64_t)left > fake.fail_at)
        left = (size_t)(fake.fail_at - off);
    for (*m = 0; *m < n && left; (*m)++) {
        cut[*m] = iov[*m];
        if (cut[*m].iov_len > left)
            cut[*m].iov_len = left;
        left -= cut[*m].iov_len;
    }
    return 0;
}

static ssize_t fake_readv(int fd, const struct iovec *iov, int n, off_t off)
{
    struct iovec cut[RT_IO_VECTORS];
    int m;
    return limit(cut, iov, n, off, &m) < 0 ? -1 : preadv(fd, cut, m, off);
}

static ssize_t fake_writev(int fd, const struct iovec *iov, int n, off_t off)
{
    struct iovec cut[RT_IO_VECTORS];
    int m;
    return limit(cut, iov, n, off, &m) < 0 ? -1 : pwritev(fd, cut, m, off);
}

static int no_allocate(int fd, int mode, off_t off, off_t len)
{
    (void)fd, (void)mode, (void)off, (void)len;
    errno = EOPNOTSUPP;
    return -1;
}

static struct rt_io_sys sys;
static int fd;

static void set_fake(void)
{
    memset(&fake, 0, sizeof fake);
    sys = rt_io_system;
    sys.readv = fake_readv;
    sys.writev = fake_writev;
    rt_io_sys = &sys;
    CHECK_EQ(rt_io_truncate(fd, 0), 0);
}

static unsigned char data[1 << 20], got[1 << 20];

static void whole_transfers(void)
{
    struct iovec iov[RT_IO_VECTORS + 700];
    set_fake();
    fake.interrupt_each = 3;
    fake.most = 1000;
    CHECK_EQ(rt_io_write(fd, data, sizeof data, 17), 0);
    CHECK(fake.calls > 1000);
    CHECK_EQ(rt_io_size(fd), sizeof data + 17);
    CHECK_EQ(rt_io_read(fd, got, sizeof got, 17), sizeof got);
    CHECK(!memcmp(data, got, sizeof got));
    CHECK_EQ(rt_io_read(fd, got, sizeof got, sizeof data - 83), 100); /* the end */
    CHECK_EQ(rt_io_read(fd, got, sizeof got, 5 << 20), 0);
    int n = RT_IO_VECTORS + 700; /* empty ones among them */
    for (int i = 0; i < n; i++)
        iov[i] = (struct iovec){ data + i * 300, (size_t)(i % 7) * 50 };
    CHECK_EQ(rt_io_writev(fd, iov, n, 0), 0);
    for (int i = 0; i < n; i++)
        iov[i] = (struct iovec){ got + i * 300, (size_t)(i % 7) * 50 };
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += i % 7 * 50;
    CHECK_EQ(rt_io_readv(fd, iov, n, 0), sum);
    for (int i = 0; i < n; i++)
        CHECK(!memcmp(data + i * 300, got + i * 300, (size_t)(i % 7) * 50));
}

static void errors(void)
{
    static const struct {
        int error, code;
    } row[] = { { ENOSPC, -RT_ENOSPC }, { EDQUOT, -RT_EQUOTA }, { EIO, -RT_EIO },
                { EROFS, -RT_EROFS },   { EFBIG, -RT_EQUOTA },  { ESTALE, -RT_EIO } };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        set_fake();
        fake.error = row[i].error;
        fake.fail_at = 5000;
        CHECK_EQ(rt_io_write(fd, data, 4096, 0), 0);
        CHECK_EQ(rt_io_write(fd, data, 4096, 4096), row[i].code);
        CHECK_EQ(rt_io_size(fd), 5000); /* what went before the failure is there */
        CHECK_EQ(rt_io_read(fd, got, 6000, 0), row[i].code);
    }
    CHECK_EQ(rt_io_open("/no/where", O_RDONLY, 0), -RT_ENOFILE);
    CHECK_EQ(rt_io_open("/tmp", O_WRONLY, 0), -RT_EBADFILE);
    CHECK_EQ(rt_io_unlink("/no/where"), -RT_ENOFILE);
    CHECK_EQ(rt_io_close(-1), -RT_EIO);
}

/* A vector of more than one call may have; nothing is moved, so no such memory is needed. */
static ssize_t count_only(int f, const struct iovec *iov, int n, off_t off)
{
    ssize_t sum = 0;
    (void)f, (void)off;
    for (int i = 0; i < n; i++)
        sum += (ssize_t)iov[i].iov_len;
    fake.longest = sum > fake.longest ? sum : fake.longest;
    fake.calls++;
    return sum;
}

static void long_transfers(void)
{
    set_fake();
    sys.writev = count_only;
    struct iovec iov[3] = { { data, 1u << 31 }, { data, 3 }, { data, (1ull << 33) + 1 } };
    CHECK_EQ(rt_io_writev(fd, iov, 3, 0), 0);
    CHECK(fake.longest <= 0x7ffff000 && fake.calls >= 10 && fake.calls < 16);
}

static void preallocation(void)
{
    set_fake();
    CHECK_EQ(rt_io_write(fd, data, 5000, 0), 0);
    for (int k = 0; k < 2; k++) {
        sys.allocate = k ? no_allocate : rt_io_system.allocate;
        CHECK_EQ(rt_io_preallocate(fd, 3000 + k), 0);
        CHECK_EQ(rt_io_size(fd), k ? 2000000 : 5000);
        CHECK_EQ(rt_io_preallocate(fd, 2000000 + k), 0);
        CHECK_EQ(rt_io_size(fd), 2000000 + k);
        CHECK_EQ(rt_io_read(fd, got, 6000, 0), 6000);
        CHECK(!memcmp(got, data, 5000) && !got[5000] && !got[5999]);
    }
    CHECK_EQ(rt_io_preallocate(fd, 0), 0);
}

struct job {
    struct rt_io_job job;
    int ran;
};
static int running, most_running;

static void run(struct rt_io_job *j)
{
    int n = __atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST);
    int most = rt_load_relaxed(&most_running);
    while (n > most && !__atomic_compare_exchange_n(&most_running, &most, n, false,
                                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    ((struct job *)j)->ran++;
    __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
}

static void jobs(void)
{
    enum { N = 50 };
    static struct job j[N];
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < N; i++) {
            j[i].job.run = run;
            CHECK_EQ(rt_io_submit(&j[i].job), 0);
        }
        if (round == 1)
            for (int i = 0; i < N; i++)
                while (!rt_load_acquire(&j[i].job.done))
                    nanosleep(&(struct timespec){ 0, 100000 }, NULL);
        rt_io_fini(); /* the second time with jobs in the queue */
        for (int i = 0; i < N; i++)
            CHECK(j[i].job.done && j[i].ran == round);
    }
    CHECK(most_running >= 1 && most_running <= 4);
}

static void file_systems(void)
{
    struct rt_io_fs fs;
    rt_io_fs_look(fd, &fs);
    CHECK(fs.name[0] && fs.block > 0);
    int shm = open("/dev/shm", O_RDONLY);
    if (shm >= 0) {
        rt_io_fs_look(shm, &fs);
        CHECK(fs.kind == RT_IO_MEMORY && !fs.shared && !strcmp(fs.name, "tmpfs"));
        close(shm);
    }
    rt_io_fs_look(-1, &fs);
    CHECK(fs.kind == RT_IO_OTHER && fs.shared);
}

/* ---- stripes ---- */

static void put(unsigned char *at, uint64_t value, size_t nbytes)
{
    memcpy(at, &value, nbytes); /* little endian */
}

/* A layout of one component, as Lustre's kernel module returns it.  Returns its length. */
static size_t plain(unsigned char *at, uint32_t magic, uint32_t pattern, uint32_t stripe,
                    unsigned n)
{
    size_t len = magic == 0x0bd10bd0 ? 32 : 48;
    memset(at, 0, len);
    put(at, magic, 4);
    put(at + 4, pattern, 4);
    put(at + 24, stripe, 4);
    put(at + 28, n, 2);
    return len;
}

/* A progressive layout: data in the metadata server, then one target, then `n`. */
static size_t composite(unsigned char *at, uint32_t stripe, unsigned n)
{
    size_t used = 32 + 3 * 48;
    memset(at, 0, used);
    put(at, 0x0bd60bd0, 4);
    put(at + 14, 3, 2);
    for (unsigned i = 0; i < 3; i++) {
        put(at + 32 + 48 * i + 24, used, 4);
        used += plain(at + used, i == 1 ? 0x0bd10bd0 : 0x0bd30bd0, i ? 1 : 0x100, i ? stripe : 1,
                      i == 2 ? n : i);
    }
    put(at + 4, used, 4);
    return used;
}

static void check_stripes(const unsigned char *layout, size_t len, int64_t nbytes, int n)
{
    struct rt_io_stripes s = rt_io_lustre_parse(layout, len);
    CHECK_EQ(s.nbytes, nbytes);
    CHECK_EQ(s.n, n);
}

static void lustre_layouts(void)
{
    unsigned char b[512];
    check_stripes(b, plain(b, 0x0bd10bd0, 1, 1 << 20, 4), 1 << 20, 4);
    check_stripes(b, plain(b, 0x0bd30bd0, 1, 0xffff0000, 2000), 0xffff0000, 2000);
    check_stripes(b, plain(b, 0x0bd50bd0, 0, 65536, 1), 65536, 1);
    check_stripes(b, plain(b, 0x0bd30bd0, 1, 65536, 0xffff), 65536, 0); /* all targets */
    check_stripes(b, plain(b, 0x0bd30bd0, 1, 0, 4), 0, 0);
    check_stripes(b, plain(b, 0x0bd30bd0, 0x100, 65536, 0), 0, 0);
    check_stripes(b, plain(b, 0x12345678, 1, 65536, 4), 0, 0);
    check_stripes(b, composite(b, 4 << 20, 8), 4 << 20, 8);
    composite(b, 4 << 20, 8);
    put(b + 32 + 96 + 24, 0xffffffff, 4); /* the last component is outside */
    check_stripes(b, 512, 4 << 20, 1);
}

/* Every prefix, and random bytes after a right magic number, each in memory of its own length: the
 * address sanitizer finds a read outside. */
static void lustre_bounds(void)
{
    static const uint32_t magic[] = { 0x0bd10bd0, 0x0bd30bd0, 0x0bd60bd0 };
    unsigned char b[512];
    size_t len = composite(b, 1 << 20, 4);
    srand(1);
    for (size_t n = 0; n <= len; n++) {
        unsigned char *exact = malloc(n ? n : 1);
        memcpy(exact, b, n);
        struct rt_io_stripes s = rt_io_lustre_parse(exact, n);
        CHECK(n == len ? s.n == 4 : s.n <= 4);
        free(exact);
    }
    for (int k = 0; k < 20000; k++) {
        size_t n = (size_t)rand() % 300 + 4;
        unsigned char *exact = malloc(n);
        for (size_t i = 0; i < n; i++)
            exact[i] = (unsigned char)(rand() >> 7);
        put(exact, magic[k % 3], 4);
        if (n > 32 && k % 2)
            put(exact + 14, (uint64_t)rand() % 8, 2);
        rt_io_lustre_parse(exact, n);
        free(exact);
    }
}

/* A file system that answers as Lustre or GPFS. */
static struct {
    long magic;
    int set_error, flags;
    unsigned char layout[512];
    size_t len;
    struct rt_io_lustre_md set;
} played;

static int play_statfs(int f, struct statfs *st)
{
    (void)f;
    memset(st, 0, sizeof *st);
    st->f_type = played.magic;
    st->f_bsize = 8 << 20;
    return 0;
}

static ssize_t play_getxattr(int f, const char *name, void *value, size_t nbytes)
{
    (void)f;
    CHECK(!strcmp(name, "lustre.lov") && nbytes >= played.len);
    memcpy(value, played.layout, played.len);
    return (ssize_t)played.len;
}

static int play_open(const char *path, int flags, mode_t mode)
{
    played.flags = flags;
    return open(path, flags & ~(O_ASYNC | O_NOCTTY), mode);
}

static int play_ioctl(int f, unsigned long request, void *arg)
{
    (void)f;
    CHECK(request == _IOW('f', 154, long));
    memcpy(&played.set, arg, sizeof played.set);
    errno = played.set_error;
    return played.set_error ? -1 : 0;
}

static void set_played(long magic)
{
    memset(&played, 0, sizeof played);
    set_fake();
    played.magic = magic;
    sys.statfs = play_statfs;
    sys.getxattr = play_getxattr;
    sys.open = play_open;
    sys.ioctl = play_ioctl;
}

static void stripes_found(void)
{
    struct rt_io_fs fs;
    set_played(0x0bd00bd0);
    played.len = plain(played.layout, 0x0bd30bd0, 1, 1 << 20, 4);
    rt_io_fs_look(fd, &fs);
    CHECK(fs.kind == RT_IO_LUSTRE && fs.stripes.nbytes == 1 << 20 && fs.stripes.n == 4);
    set_played(0x47504653);
    rt_io_fs_look(fd, &fs);
    CHECK(fs.kind == RT_IO_GPFS && fs.stripes.nbytes == 8 << 20 && fs.stripes.n == 0);
}

/* Creates a new file; returns whether its stripes were to be set. */
static bool create_with(int64_t nbytes, int n)
{
    char path[] = "/tmp/weft-io-XXXXXX";
    int old = mkstemp(path), made;
    struct rt_io_stripes want = { nbytes, n };
    CHECK(old >= 0 && !close(old) && !unlink(path));
    memset(&played.set, 0, sizeof played.set);
    made = rt_io_create(path, O_RDWR | O_EXCL, 0600, &want);
    CHECK(made >= 0);
    CHECK(!rt_io_close(made) && !rt_io_unlink(path));
    return played.set.magic != 0;
}

static void stripes_set(void)
{
    set_played(0x0bd00bd0);
    CHECK(!create_with(0, 0));
    CHECK(create_with(100000, 3));
    CHECK(played.set.magic == 0x0bd10bd0 && played.set.pattern == 1);
    CHECK_EQ(played.set.stripe_nbytes, 131072); /* Lustre needs multiples of 64 KiB */
    CHECK_EQ(played.set.nstripes, 3);
    CHECK_EQ(played.set.first, 0xffff);
    CHECK((played.flags & (O_ASYNC | O_NOCTTY)) == (O_ASYNC | O_NOCTTY));
    CHECK(create_with(UINT32_MAX, 0));
    CHECK_EQ(played.set.stripe_nbytes, 0xffff0000);
    played.set_error = EEXIST; /* opened again, so that the file can be written to */
    CHECK(create_with(65536, 2));
    CHECK(!(played.flags & (O_ASYNC | O_NOCTTY | O_EXCL)));
    set_played(0xef53);
    CHECK(!create_with(65536, 2));
}

int main(void)
{
    char name[] = "/tmp/weft-io-XXXXXX";
    fd = mkstemp(name);
    unlink(name);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + (i >> 8) * 3);
    RUN(whole_transfers);
    RUN(errors);
    RUN(long_transfers);
    RUN(preallocation);
    RUN(jobs);
    RUN(file_systems);
    RUN(lustre_layouts);
    RUN(lustre_bounds);
    RUN(stripes_found);
    RUN(stripes_set);
    return check_end();
}
