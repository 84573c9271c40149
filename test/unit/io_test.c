/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine for files over a table of calls that are interrupted, move less than asked for, or
 * fail; and its job threads. */
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "runtime/io/io.h"
#include "test/check.h"
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static struct {
    int calls;
    int interrupt_each; /* every so many calls: EINTR, then EAGAIN */
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
    return check_end();
}
