/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls are functions of the program, which the dynamic linker finds before those of libc. */
#include "test/mpi/iofake.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LUSTRE_MAGIC 0x0bd00bd0
#define SET_STRIPES _IOW('f', 154, long)

#pragma GCC visibility push(default) /* the programs are compiled with hidden functions */
ssize_t pwritev(int fd, const struct iovec *iov, int n, off_t off);
ssize_t preadv(int fd, const struct iovec *iov, int n, off_t off);
int fsync(int fd);
int ftruncate(int fd, off_t nbytes);
int open(const char *path, int flags, ...);
int fcntl(int fd, int cmd, ...);
int fstatfs(int fd, struct statfs *st);
ssize_t fgetxattr(int fd, const char *name, void *value, size_t nbytes);
int ioctl(int fd, unsigned long request, ...);
#pragma GCC visibility pop

struct io_fake io_fake = { .fail_at = { -1, -1, -1, -1, -1, -1 } };

/* struct lov_user_md of Lustre. */
struct layout {
    uint32_t magic, pattern;
    uint64_t object[2];
    uint32_t stripe_nbytes;
    uint16_t nstripes, first;
};

void io_fake_reset(void)
{
    memset(&io_fake, 0, sizeof io_fake);
    for (int i = 0; i < FAKE_CALLS; i++)
        io_fake.fail_at[i] = -1;
}

static bool is_ours(int fd)
{
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    return strstr(path, "weft-io-") != NULL;
}

/* True, with errno: the call fails. */
static bool fails(enum io_fake_call call)
{
    long n = __atomic_fetch_add(&io_fake.ncalls[call], 1, __ATOMIC_SEQ_CST),
         at = io_fake.fail_at[call];
    bool moves = call == FAKE_READ || call == FAKE_WRITE;
    if (moves && io_fake.interrupt_each && n % io_fake.interrupt_each == 0) {
        errno = EINTR;
        return true;
    }
    if (at < 0 || n < at || (n > at && io_fake.once))
        return false;
    errno = io_fake.error;
    return true;
}

/* preadv(2) or pwritev(2) that may be short. */
static ssize_t move(long call, int fd, const struct iovec *iov, int n, off_t off)
{
    struct iovec part;
    int first = 0;
    if (!io_fake.most)
        return syscall(call, fd, iov, n, off, 0);
    while (first < n - 1 && !iov[first].iov_len)
        first++;
    part = iov[first];
    part.iov_len = part.iov_len < io_fake.most ? part.iov_len : io_fake.most;
    return syscall(call, fd, &part, 1, off, 0);
}

static void note_targets(const struct iovec *iov, int n, off_t off)
{
    uint64_t bits = 0;
    off_t end = off;
    for (int i = 0; i < n; i++)
        end += (off_t)iov[i].iov_len;
    for (off_t at = off; at < end; at += io_fake.stripe_nbytes - at % io_fake.stripe_nbytes)
        bits |= 1ull << (at / io_fake.stripe_nbytes % io_fake.nstripes);
    __atomic_fetch_or(&io_fake.targets, bits, __ATOMIC_SEQ_CST);
}

ssize_t pwritev(int fd, const struct iovec *iov, int n, off_t off)
{
    if (!is_ours(fd))
        return syscall(SYS_pwritev, fd, iov, n, off, 0);
    if (fails(FAKE_WRITE))
        return -1;
    if (io_fake.lustre)
        note_targets(iov, n, off);
    return move(SYS_pwritev, fd, iov, n, off);
}

ssize_t preadv(int fd, const struct iovec *iov, int n, off_t off)
{
    if (!is_ours(fd))
        return syscall(SYS_preadv, fd, iov, n, off, 0);
    return fails(FAKE_READ) ? -1 : move(SYS_preadv, fd, iov, n, off);
}

int fsync(int fd) { return is_ours(fd) && fails(FAKE_SYNC) ? -1 : (int)syscall(SYS_fsync, fd); }

int ftruncate(int fd, off_t nbytes)
{
    return is_ours(fd) && fails(FAKE_TRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, fd, nbytes);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, unsigned) : 0;
    va_end(ap);
    if (strstr(path, "weft-io-") && fails(FAKE_OPEN))
        return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int fcntl(int fd, int cmd, ...)
{
    va_list ap;
    va_start(ap, cmd);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    bool locks = cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW;
    return locks && is_ours(fd) && fails(FAKE_LOCK) ? -1 : (int)syscall(SYS_fcntl, fd, cmd, arg);
}

int fstatfs(int fd, struct statfs *st)
{
    int rc = (int)syscall(SYS_fstatfs, fd, st);
    if (io_fake.lustre && rc == 0)
        st->f_type = LUSTRE_MAGIC;
    return rc;
}

ssize_t fgetxattr(int fd, const char *name, void *value, size_t nbytes)
{
    const struct layout l = {
        0x0bd10bd0, 1, { 0 }, io_fake.stripe_nbytes, (uint16_t)io_fake.nstripes, 0
    };
    if (!io_fake.lustre)
        return syscall(SYS_fgetxattr, fd, name, value, nbytes);
    if (strcmp(name, "lustre.lov") || nbytes < sizeof l) {
        errno = ENODATA;
        return -1;
    }
    memcpy(value, &l, sizeof l);
    return sizeof l;
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list ap;
    va_start(ap, request);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    if (!io_fake.lustre || request != SET_STRIPES)
        return (int)syscall(SYS_ioctl, fd, request, arg);
    struct layout l;
    memcpy(&l, arg, sizeof l);
    io_fake.asked_nbytes = l.stripe_nbytes;
    io_fake.asked_n = l.nstripes;
    return 0;
}
