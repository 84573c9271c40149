/* SPDX-License-Identifier: BSD-3-Clause */
/* See share.h.  Any thread; each object is used by one thread at a time. */
#include "runtime/mem/share.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/room.h"
#include "runtime/mem/segment_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A place in the address space whose address is a multiple of s->align. */
static void *place(const struct rt_share *s)
{
    char *p = mmap(NULL, s->nbytes + s->align, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *at = (char *)(((uintptr_t)p + s->align - 1) & ~(uintptr_t)(s->align - 1));
    if (at > p)
        munmap(p, (size_t)(at - p));
    munmap(at + s->nbytes, (size_t)(p + s->align - at));
    return at;
}

static int map(struct rt_share *s, int flags)
{
    void *at = s->align > (size_t)sysconf(_SC_PAGESIZE) ? place(s) : NULL;
    void *p = mmap(at, s->nbytes, PROT_READ | PROT_WRITE, flags | (at ? MAP_FIXED : 0), s->fd, 0);
    if (p == MAP_FAILED) {
        log_info(MEM, "could not map %zu MiB for a window: %m; check ulimit -v", s->nbytes >> 20);
        return errno == ENOMEM ? -RT_ENOMEM : -RT_ESYS;
    }
    s->base = p;
    return 0;
}

int rt_share_alone(struct rt_share *s, size_t nbytes, size_t align)
{
    *s = (struct rt_share){ .nbytes = nbytes, .align = align, .fd = -1 };
    return map(s, MAP_PRIVATE | MAP_ANONYMOUS);
}

/* The name is that of the node segment with a suffix, so mpirun finds what a dead job has left. */
static void set_path(struct rt_share *s, uint32_t a, int b)
{
    char base[512];
    rt_node_name(rt_boot.nspace, rt_boot.node, base, sizeof base);
    snprintf(s->path, sizeof s->path, "%s.w%x.%d", base, a, b);
}

static int failed(struct rt_share *s, const char *what)
{
    int e = errno;
    log_info(MEM, "could not %s %s: %s", what, s->path, strerror(e));
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    return e == ENOSPC || e == EDQUOT                ? -RT_ENOSPC
           : e == EACCES || e == EPERM || e == EROFS ? -RT_EPERM
                                                     : -RT_ESYS;
}

static int create_file(struct rt_share *s)
{
    const int flags = O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW;
    s->fd = open(s->path, flags, 0600);
    if (s->fd < 0 && errno == EEXIST && unlink(s->path) == 0) /* left by a process that died */
        s->fd = open(s->path, flags, 0600);
    if (s->fd < 0) {
        int err = failed(s, "create");
        s->path[0] = '\0';
        return err;
    }
    int err = ftruncate(s->fd, (off_t)s->nbytes) < 0 ? failed(s, "enlarge") : map(s, MAP_SHARED);
    if (err < 0)
        rt_share_close(s);
    return err;
}

/* ---- sparse memory ---- */

/* Whether the job's sparse memory still is at most half of what is left. */
static bool promise(struct rt_share *s)
{
    uint64_t *sum = &node_head()->promised, all = rt_fetch_add(sum, s->nbytes) + s->nbytes;
    if (all > rt_room() / 2) {
        rt_fetch_add(sum, -s->nbytes);
        return false;
    }
    s->promised = s->nbytes;
    return true;
}

/* The link has what another process needs to open the descriptor, and the number of the memory,
 * because /proc may be that of another PID namespace there. */
#define LINK "/proc/%u/fd/%d#%llu"

static bool make_link(struct rt_share *s)
{
    struct stat st;
    char self[16], text[80];
    ssize_t n = readlink("/proc/self", self, sizeof self - 1);
    if (n <= 0 || fstat(s->fd, &st) < 0)
        return false;
    self[n] = '\0';
    snprintf(text, sizeof text, LINK, (unsigned)strtoul(self, NULL, 10), s->fd,
             (unsigned long long)st.st_ino);
    return symlink(text, s->path) == 0 ||
           (errno == EEXIST && unlink(s->path) == 0 && symlink(text, s->path) == 0);
}

/* Any failure means that a file serves instead. */
static bool create_sparse(struct rt_share *s)
{
    struct rlimit most; /* ftruncate() beyond it kills the process */
    if (getrlimit(RLIMIT_FSIZE, &most) < 0 || most.rlim_cur < s->nbytes || !promise(s))
        return false;
    s->fd = memfd_create("weft-window", MFD_CLOEXEC);
    s->sparse = true;
    if (s->fd >= 0 && fchmod(s->fd, 0600) == 0 && ftruncate(s->fd, (off_t)s->nbytes) == 0 &&
        map(s, MAP_SHARED) == 0 && make_link(s))
        return true;
    rt_share_close(s);
    return false;
}

/* A descriptor of sparse memory; -1, with errno: it cannot be opened here.  *file: there is a file
 * instead. */
static int open_sparse(const struct rt_share *s, bool *file)
{
    unsigned pid;
    int number, fd;
    unsigned long long ino;
    struct stat st;
    char text[80], path[40];
    ssize_t n = readlink(s->path, text, sizeof text - 1);
    *file = n < 0 && errno != ENOENT; /* EINVAL; or the kernel does not say, and a link fails */
    if (n < 0)
        return -1;
    text[n] = '\0';
    errno = EPERM;
    if (sscanf(text, LINK, &pid, &number, &ino) != 3)
        return -1;
    snprintf(path, sizeof path, "/proc/%u/fd/%d", pid, number);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        errno = EPERM; /* ENOENT means that there is no link */
        return -1;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_ino == ino &&
        st.st_size == (off_t)s->nbytes)
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* ---- creation and end ---- */

int rt_share_create(struct rt_share *s, uint32_t a, int b, size_t nbytes, size_t align, bool sparse)
{
    *s = (struct rt_share){ .nbytes = nbytes, .align = align, .fd = -1 };
    set_path(s, a, b);
    if (sparse && create_sparse(s))
        return 1;
    set_path(s, a, b);
    return create_file(s);
}

int rt_share_open(struct rt_share *s, uint32_t a, int b, size_t nbytes, size_t align)
{
    bool file;
    *s = (struct rt_share){ .nbytes = nbytes, .align = align, .fd = -1 };
    set_path(s, a, b);
    s->fd = open_sparse(s, &file);
    s->sparse = s->fd >= 0;
    if (file)
        s->fd = open(s->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    bool gone = s->fd < 0 && errno == ENOENT;
    int err = s->fd < 0 ? failed(s, "open") : map(s, MAP_SHARED);
    if (gone)
        err = -RT_EPEER;
    s->path[0] = '\0'; /* the creator's */
    if (err < 0)
        rt_share_close(s);
    return err;
}

int rt_share_reserve(const struct rt_share *s, size_t off, size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), first = off & ~(page - 1);
    int e;

    if (s->fd < 0 || s->sparse || !nbytes)
        return 0;
    for (bool trimmed = false;; trimmed = true) {
        do
            e = posix_fallocate(s->fd, (off_t)first, (off_t)(off + nbytes - first));
        while (e == EINTR);
        if (trimmed || e != ENOSPC)
            break;
        rt_node_trim(); /* memory of freed blocks may be enough */
    }
    if (!e)
        return 0;
    log_info(MEM, "could not reserve %zu KiB for a window in %s: %s", nbytes >> 10, cfg.shm_dir,
             strerror(e));
    return e == ENOSPC || e == ENOMEM || e == EDQUOT || e == EFBIG ? -RT_ENOSPC : -RT_ESYS;
}

void rt_share_unlink(struct rt_share *s)
{
    if (s->path[0])
        unlink(s->path);
    s->path[0] = '\0';
}

void rt_share_seal(struct rt_share *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

void rt_share_close(struct rt_share *s)
{
    rt_share_unlink(s);
    rt_share_seal(s);
    if (s->base)
        munmap(s->base, s->nbytes);
    s->base = NULL;
    if (s->promised && rt_node.base)
        rt_fetch_add(&node_head()->promised, -(uint64_t)s->promised);
    s->promised = 0;
    s->sparse = false;
}
