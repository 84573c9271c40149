/* SPDX-License-Identifier: BSD-3-Clause */
/* Complete transfers with the system's calls.  A call is repeated if it is interrupted, and
 * continued if it moves fewer bytes than requested; long transfers are cut, because Linux moves at
 * most 0x7ffff000 bytes in one call.  The only state is the table of calls; any thread. */
#include "runtime/io/io.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CALL_MAX (1 << 30) /* bytes of one call: less than Linux's limit, and whole pages */

static int sys_open(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }
static int sys_lock(int fd, int cmd, struct flock *range) { return fcntl(fd, cmd, range); }
static int sys_stat(int fd, struct stat *st) { return fstat(fd, st); }
static int sys_ioctl(int fd, unsigned long request, void *arg) { return ioctl(fd, request, arg); }

static ssize_t sys_copy(const struct iovec *to, int n, const struct iovec *from)
{
    return process_vm_readv(getpid(), to, (unsigned long)n, from, 1, 0);
}

const struct rt_io_sys rt_io_system = { .open = sys_open,
                                        .close = close,
                                        .unlink = unlink,
                                        .stat = sys_stat,
                                        .readv = preadv,
                                        .writev = pwritev,
                                        .sync = fsync,
                                        .truncate = ftruncate,
                                        .lock = sys_lock,
                                        .allocate = fallocate,
                                        .statfs = fstatfs,
                                        .getxattr = fgetxattr,
                                        .ioctl = sys_ioctl,
                                        .copy = sys_copy };
const struct rt_io_sys *rt_io_sys = &rt_io_system;

int rt_io_error(int err)
{
    switch (err) {
    case ENOSPC:
        return -RT_ENOSPC;
    case EDQUOT:
    case EFBIG: /* RLIMIT_FSIZE, or the file system's limit of a file's length */
        return -RT_EQUOTA;
    case EROFS:
        return -RT_EROFS;
    case EACCES:
    case EPERM:
        return -RT_EACCESS;
    case ENOENT:
        return -RT_ENOFILE;
    case EEXIST:
        return -RT_EFILEEXISTS;
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
        return -RT_EBADFILE;
    case ETXTBSY:
    case EBUSY:
        return -RT_EINUSE;
    case ENOMEM:
        return -RT_ENOMEM;
    case EOPNOTSUPP:
    case ENOLCK:
    case ENOSYS:
        return -RT_ENOTSUP;
    default:
        return -RT_EIO;
    }
}

static int failed(const char *call)
{
    int err = errno;
    log_info(IO, "%s: %m", call);
    return rt_io_error(err);
}

int rt_io_open(const char *path, int flags, mode_t mode)
{
    int fd;
    do
        fd = rt_io_sys->open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? failed("open") : fd;
}

int rt_io_close(int fd)
{
    /* Linux has closed the descriptor even if close() fails with EINTR. */
    return rt_io_sys->close(fd) < 0 && errno != EINTR ? failed("close") : 0;
}

int rt_io_unlink(const char *path) { return rt_io_sys->unlink(path) < 0 ? failed("unlink") : 0; }

int64_t rt_io_size(int fd)
{
    struct stat st;
    return rt_io_sys->stat(fd, &st) < 0 ? failed("fstat") : st.st_size;
}

int rt_io_sync(int fd)
{
    int rc;
    do
        rc = rt_io_sys->sync(fd);
    while (rc < 0 && errno == EINTR);
    /* EINVAL, EROFS: a special file that has nothing to write back. */
    return rc < 0 && errno != EINVAL && errno != EROFS ? failed("fsync") : 0;
}

int rt_io_truncate(int fd, int64_t nbytes)
{
    int rc;
    do
        rc = rt_io_sys->truncate(fd, nbytes);
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? failed("ftruncate") : 0;
}

/* Locks of the open file description (F_OFD_...).  POSIX locks belong to the process, and closing
 * any other descriptor of the file would release them. */
static int lock(int fd, int cmd, int type, int64_t off, int64_t len)
{
    int rc;
    do {
        struct flock range = {
            .l_type = (short)type, .l_whence = SEEK_SET, .l_start = off, .l_len = len
        };
        rc = rt_io_sys->lock(fd, cmd, &range);
    } while (rc < 0 && errno == EINTR);
    return rc < 0 ? failed("fcntl") : 0;
}

int rt_io_lock(int fd, bool write, int64_t off, int64_t len)
{
    return lock(fd, F_OFD_SETLKW, write ? F_WRLCK : F_RDLCK, off, len);
}

int rt_io_unlock(int fd, int64_t off, int64_t len)
{
    return lock(fd, F_OFD_SETLK, F_UNLCK, off, len);
}

int rt_io_can_lock(int fd, bool write)
{
    return lock(fd, F_OFD_GETLK, write ? F_WRLCK : F_RDLCK, 0, 1);
}

/* For file systems without fallocate(2): writes zeros from the end of the file, `from`, to `to`. */
static int write_zeros(int fd, int64_t from, int64_t to)
{
    size_t piece = 1 << 20;
    char *zeros = calloc(1, piece);
    int err = zeros ? 0 : -RT_ENOMEM;
    for (int64_t at = from; at < to && !err; at += (int64_t)piece) {
        int64_t len = to - at < (int64_t)piece ? to - at : (int64_t)piece;
        err = rt_io_write(fd, zeros, len, at);
    }
    free(zeros);
    return err;
}

int rt_io_preallocate(int fd, int64_t nbytes)
{
    int rc;
    if (!nbytes)
        return 0;
    do
        rc = rt_io_sys->allocate(fd, 0, 0, nbytes);
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return failed("fallocate");
    int64_t have = rt_io_size(fd);
    return have < 0 ? (int)have : write_zeros(fd, have, nbytes);
}

/* Drops `len` bytes from the front of the vectors; returns the index of the first vector that is
 * left. */
static int pass(struct iovec *iov, int n, int64_t len)
{
    int i = 0;
    while (i < n && (int64_t)iov[i].iov_len <= len)
        len -= (int64_t)iov[i++].iov_len;
    if (i < n) {
        iov[i].iov_base = (char *)iov[i].iov_base + len;
        iov[i].iov_len -= (size_t)len;
    }
    return i;
}

/* The number of vectors for one call, at most CALL_MAX bytes.  The last of them is shortened by
 * *cut bytes. */
static int head(struct iovec *iov, int n, size_t *cut)
{
    size_t sum = 0;
    *cut = 0;
    n = n < RT_IO_VECTORS ? n : RT_IO_VECTORS;
    for (int i = 0; i < n; i++) {
        sum += iov[i].iov_len;
        if (sum > CALL_MAX) {
            *cut = sum - CALL_MAX;
            iov[i].iov_len -= *cut;
            return i + 1;
        }
    }
    return n;
}

/* Returns the bytes moved; a read ends early at the end of the file.  A write that moves nothing is
 * an error, so the loop ends. */
static int64_t move(int fd, struct iovec *iov, int n, int64_t off, bool write)
{
    int64_t sum = 0;
    int i = pass(iov, n, 0); /* empty vectors in front would look like the end of the file */
    while (i < n) {
        size_t cut;
        int k = head(iov + i, n - i, &cut);
        ssize_t got = write ? rt_io_sys->writev(fd, iov + i, k, off + sum)
                            : rt_io_sys->readv(fd, iov + i, k, off + sum);
        int err = errno;
        iov[i + k - 1].iov_len += cut;
        if (got < 0 && err != EINTR && err != EAGAIN) {
            errno = err;
            return failed(write ? "pwritev" : "preadv");
        }
        if (got == 0)
            return write ? -RT_EIO : sum;
        if (got > 0) {
            sum += got;
            i += pass(iov + i, n - i, got);
        }
    }
    return sum;
}

int64_t rt_io_readv(int fd, struct iovec *iov, int n, int64_t off)
{
    return move(fd, iov, n, off, false);
}

int rt_io_writev(int fd, struct iovec *iov, int n, int64_t off)
{
    int64_t rc = move(fd, iov, n, off, true);
    return rc < 0 ? (int)rc : 0;
}

int64_t rt_io_read(int fd, void *buf, int64_t len, int64_t off)
{
    struct iovec iov = { buf, (size_t)len };
    return rt_io_readv(fd, &iov, 1, off);
}

int rt_io_write(int fd, const void *buf, int64_t len, int64_t off)
{
    struct iovec iov = { (void *)(uintptr_t)buf, (size_t)len };
    return rt_io_writev(fd, &iov, 1, off);
}
