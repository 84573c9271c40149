/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates, attaches and leaves the node segment.  A new file is complete before it gets its name
 * (link(2) fails if another process was faster).  So a process that finds the name finds a complete
 * segment, and no process waits.  Called by one thread, in MPI_Init and MPI_Finalize;
 * rt_node_reserve() and rt_node_populate() by any thread. */
#include "runtime/mem/segment.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/hmac.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"
#include "runtime/boot/store.h"
#include "runtime/mem/segment_int.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* glibc before 2.35 */
#define MADV_POPULATE_WRITE 23
#endif

/* The lookup is repeated only while another process replaces the name, which takes microseconds. */
#define REPLACE_TIMEOUT_NS 5000000000u
#define REPLACE_RETRY_US 200

struct rt_node rt_node;
struct node_private rt_node_private = { .fd = -1 };

static size_t page_up(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (n + page - 1) / page * page;
}

struct node_layout rt_node_layout(size_t size, size_t pair_nbytes)
{
    struct node_layout at;

    at.ngranules = size * (NODE_AREA_PER_RANK / NODE_GRANULE);
    at.pair_nbytes = page_up(pair_nbytes);
    at.bells = page_up(sizeof(struct node_head));
    at.activities = at.bells + page_up(size * sizeof(struct rt_bell));
    at.bits = at.activities + page_up(size * RT_ACTIVITY_NBYTES);
    at.backed = at.bits + at.ngranules / 8;
    at.world = page_up(at.backed + at.ngranules);
    at.pairs = at.world + page_up(size * RT_NODE_WORLD_PER_RANK);
    at.area = at.pairs + size * size * at.pair_nbytes;
    at.area = (at.area + NODE_GRANULE - 1) / NODE_GRANULE * NODE_GRANULE;
    at.nbytes = at.area + at.ngranules * NODE_GRANULE;
    return at;
}

void rt_node_name(const char *nspace, int node, char *buf, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a, 64 bits */

    for (const char *c = nspace; *c; c++)
        h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    h = (h ^ (unsigned)node) * 0x100000001b3u;
    snprintf(buf, len, "%s/weft-%u-%016llx", cfg.shm_dir, (unsigned)geteuid(),
             (unsigned long long)h);
}

uint64_t rt_node_pidns(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Logs what to do about a full file system. */
static void log_no_space(size_t nbytes)
{
    struct statvfs fs;
    unsigned long long free_kib = 0, total_kib = 0;

    if (statvfs(cfg.shm_dir, &fs) == 0) {
        free_kib = (unsigned long long)fs.f_bavail * fs.f_frsize >> 10;
        total_kib = (unsigned long long)fs.f_blocks * fs.f_frsize >> 10;
    }
    log_error(MEM,
              "%s is full: %zu KiB of shared memory needed, %llu of %llu KiB free; "
              "enlarge it (mount -o remount,size=...; "
              "--shm-size for a container) or set WEFT_SHM_DIR to another directory in memory",
              cfg.shm_dir, nbytes >> 10, free_kib, total_kib);
}

static int reserve_fd(int fd, size_t off, size_t nbytes, bool quiet)
{
    int e;

    if (fd < 0)
        return 0;
    do
        e = posix_fallocate(fd, (off_t)off, (off_t)nbytes);
    while (e == EINTR);
    if (e == ENOSPC || e == ENOMEM || e == EDQUOT) {
        if (!quiet)
            log_no_space(nbytes);
        return -RT_ENOSPC;
    }
    if (e) {
        log_error(MEM, "could not reserve %zu bytes of shared memory in %s: %s", nbytes,
                  cfg.shm_dir, strerror(e));
        return -RT_ESYS;
    }
    return 0;
}

static int reserve(const void *p, size_t nbytes, bool quiet)
{
    size_t off = (size_t)((const char *)p - rt_node.base);
    size_t first = off - off % page_up(1), len = page_up(off + nbytes) - first;
    int err = reserve_fd(rt_node_private.fd, first, len, true);

    if (err == -RT_ENOSPC) {
        rt_node_trim();
        err = reserve_fd(rt_node_private.fd, first, len, quiet);
    }
    return err;
}

int rt_node_reserve(const void *p, size_t nbytes) { return reserve(p, nbytes, false); }

void rt_node_populate(void *p, size_t nbytes)
{
    size_t in_page = (uintptr_t)p % (uintptr_t)sysconf(_SC_PAGESIZE);

    (void)madvise((char *)p - in_page, nbytes + in_page, MADV_POPULATE_WRITE);
}

int rt_node_try_reserve(const void *p, size_t nbytes) { return reserve(p, nbytes, true); }

static int map_fd(int fd, size_t nbytes, char **out)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED | MAP_NORESERVE;
    void *p = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, flags, fd, 0);

    if (p == MAP_FAILED) {
        log_error(
            MEM, "could not map %zu MiB of shared memory (address space only): %m; check ulimit -v",
            nbytes >> 20);
        return errno == ENOMEM ? -RT_ENOMEM : -RT_ESYS;
    }
    *out = p;
    return 0;
}

static int log_open_failure(const char *path, int e)
{
    log_error(MEM,
              "could not create shared memory %s: %s; WEFT_SHM_DIR names a directory in memory "
              "that this user may write "
              "to (now %s)",
              path, strerror(e), cfg.shm_dir);
    return e == EACCES || e == EPERM || e == EROFS ? -RT_EPERM
           : e == ENOSPC                           ? -RT_ENOSPC
                                                   : -RT_ESYS;
}

/* linkat() of an entry gives a nameless file a name; missing if /proc is not mounted. */
#define PROC_FDS "/proc/self/fd"

/* Opens a file without a name.  If the file system lacks O_TMPFILE, or the file could not be named
 * later: a file with a name that only this process uses, in `own`. */
static int open_nameless(const char *path, char *own, size_t len)
{
    int fd;
    own[0] = '\0';
    if (access(PROC_FDS, X_OK) == 0) {
        fd = open(cfg.shm_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
            return fd;
    }
    snprintf(own, len, "%s.%d", path, (int)getpid());
    fd = open(own, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        own[0] = '\0';
    return fd;
}

static int give_name(int fd, const char *own, const char *path)
{
    char proc[64];

    if (own[0])
        return link(own, path);
    snprintf(proc, sizeof proc, PROC_FDS "/%d", fd);
    return linkat(AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

static void head_init(char *base, const struct node_layout *at, int size)
{
    struct node_head *h = (struct node_head *)base;
    *h = (struct node_head){ .magic = NODE_MAGIC,
                             .nbytes = at->nbytes,
                             .pair_nbytes = at->pair_nbytes,
                             .size = (uint32_t)size };
    if (rt_random(&h->token, sizeof h->token) < 0)
        h->token = 0; /* processes of other jobs then use another transport */
}

/* For a process that is alone on its host: memory without a name, which processes of other jobs can
 * map later.  Private memory where the system has no such files. */
static int segment_alone(const struct node_layout *at, int *fd_p, char **base_p)
{
    struct rlimit most; /* ftruncate() beyond it kills the process */
    bool may = getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur >= at->nbytes;
    int fd = may ? memfd_create("weft", MFD_CLOEXEC) : -1;
    if (fd >= 0 && (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t)at->nbytes) < 0)) {
        close(fd);
        fd = -1;
    }
    int err = map_fd(fd, at->nbytes, base_p);
    if (!err)
        head_init(*base_p, at, 1);
    else if (fd >= 0)
        close(fd);
    *fd_p = err ? -1 : fd;
    return err;
}

/* Creates the file and names it.  -RT_EEXIST: another process has just done so. */
static int segment_create(const char *path, const struct node_layout *at, int size, int *fd_p,
                          char **base_p)
{
    char own[560];
    char *base = NULL;
    int fd = open_nameless(path, own, sizeof own);
    int err;

    if (fd < 0)
        return log_open_failure(path, errno);
    (void)fchmod(fd, 0600); /* against a umask that takes the owner's rights */
    if (ftruncate(fd, (off_t)at->nbytes) < 0) {
        log_error(MEM,
                  "could not set the length of shared memory in %s to %zu MiB (sparse): %m; "
                  "check ulimit -f",
                  cfg.shm_dir, at->nbytes >> 20);
        err = -RT_ESYS;
        goto err_close;
    }
    err = reserve_fd(fd, 0, at->pairs, false);
    if (err < 0)
        goto err_close;
    err = map_fd(fd, at->nbytes, &base);
    if (err < 0)
        goto err_close;
    head_init(base, at, size);
    if (give_name(fd, own, path) < 0) {
        err = errno == EEXIST ? -RT_EEXIST : log_open_failure(path, errno);
        munmap(base, at->nbytes);
        goto err_close;
    }
    if (own[0])
        unlink(own);
    *fd_p = fd;
    *base_p = base;
    return 0;
err_close:
    if (own[0])
        unlink(own);
    close(fd);
    return err;
}

/* Whether the file is left from an earlier job of the same name: a process has had this process's
 * rank in it, or processes have died in it and none is left.  Ranks that have left normally prove
 * nothing: their messages may still wait for this process.  Nor do deaths with the setting `ft`:
 * ranks of this job may have died already, and those that attached then would be in another file
 * than those that have opened this one. */
static bool segment_stale(const char *base, const struct node_layout *at, int rank, int size,
                          bool *busy_p)
{
    const struct node_head *h = (const struct node_head *)base;
    const struct rt_bell *bells = (const struct rt_bell *)(base + at->bells);
    bool died = false, living = false;

    for (int r = 0; r < size; r++) {
        uint32_t alive = rt_load_acquire(&bells[r].alive);
        if (alive != 1 && alive != 3)
            continue;
        if (rt_bell_ended(&bells[r]))
            died = true;
        else
            living = true;
    }
    *busy_p = living;
    return rt_load_acquire(&h->stale) || rt_load_acquire(&bells[rank].alive) ||
           (died && !living && !cfg.ft);
}

/* Attaches the file with the name.  -RT_EAGAIN: it was stale and is being replaced. */
static int segment_attach(const char *path, int fd, const struct node_layout *at, int rank,
                          int size, char **base_p)
{
    struct stat st;
    char *base;
    bool busy = false;
    uint32_t fresh = 0;

    if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077) ||
        !S_ISREG(st.st_mode)) {
        log_error(MEM,
                  "%s is not a private file of this user; remove it, or set WEFT_SHM_DIR "
                  "to another directory",
                  path);
        return -RT_EPERM;
    }
    if (st.st_size < (off_t)sizeof(struct node_head)) {
        log_error(MEM, "%s is not a segment of Weft MPI; remove it", path);
        return -RT_EPERM;
    }
    int err = map_fd(fd, (size_t)st.st_size, &base);
    if (err < 0)
        return err;
    struct node_head *h = (struct node_head *)base;
    bool same = h->magic == NODE_MAGIC && h->nbytes == at->nbytes &&
                h->nbytes == (uint64_t)st.st_size && h->pair_nbytes == at->pair_nbytes &&
                h->size == (uint32_t)size;
    if (same && !segment_stale(base, at, rank, size, &busy)) {
        *base_p = base;
        return 0;
    }
    if (busy) {
        log_error(MEM,
                  "%s belongs to a job that is still running with %u processes here, "
                  "one of them with local rank %d; "
                  "is this process started twice?",
                  path, h->size, rank);
        err = -RT_EEXIST;
    } else {
        /* one process removes the name; the others wait for the new file */
        if (rt_cas(&h->stale, &fresh, 1u) && unlink(path) == 0)
            log_info(MEM, "replaced %s, which an aborted job has left", path);
        err = -RT_EAGAIN;
    }
    munmap(base, (size_t)st.st_size);
    return err;
}

static int segment_get(const char *path, const struct node_layout *at, int rank, int size,
                       int *fd_p, char **base_p)
{
    uint64_t since = rt_now_ns();

    for (;;) {
        int err, fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0) {
            err = segment_attach(path, fd, at, rank, size, base_p);
            if (err == 0) {
                *fd_p = fd;
                return 0;
            }
            close(fd);
            if (err != -RT_EAGAIN)
                return err;
        } else if (errno == ENOENT) {
            err = segment_create(path, at, size, fd_p, base_p);
            if (err != -RT_EEXIST)
                return err;
        } else {
            return log_open_failure(path, errno);
        }
        if (rt_now_ns() - since > REPLACE_TIMEOUT_NS) {
            log_error(MEM, "%s is left from another job and cannot be replaced; remove it", path);
            return -RT_ETIMEOUT;
        }
        usleep(REPLACE_RETRY_US);
    }
}

int rt_node_open(size_t pair_nbytes)
{
    struct node_private *my = &rt_node_private;
    int rank = rt_boot.local_rank, size = rt_boot.local_size, fd = -1, err;
    char *base = NULL;

    my->at = rt_node_layout((size_t)size, pair_nbytes);
    my->pidns = rt_node_pidns();
    rt_node_name(rt_boot.nspace, rt_boot.node, my->path, sizeof my->path);
    if (size == 1)
        err = segment_alone(&my->at, &fd, &base);
    else
        err = segment_get(my->path, &my->at, rank, size, &fd, &base);
    if (err < 0)
        return err;
    my->fd = fd;
    my->alone = size == 1;
    rt_node = (struct rt_node){ .base = base,
                                .nbytes = my->at.nbytes,
                                .rank = rank,
                                .size = size,
                                .settled = size == 1,
                                .bells = (struct rt_bell *)(base + my->at.bells) };
    struct rt_bell *b = &rt_node.bells[rank];
    rt_bell_init();
    b->pidns = my->pidns;
    rt_activity_attach(rt_node_activity(base, &my->at, rank));
    rt_cas(&node_head()->pidns, &(uint64_t){ 0 }, my->pidns);
    rt_store_release(&b->pid, (uint32_t)getpid());
    rt_store_release(&b->alive, 1u);
    if (rt_fetch_add(&node_head()->attached, 1u) + 1 == (uint32_t)size && size > 1)
        unlink(my->path);
    if (size > 1 && rt_store())
        rt_boot_remove_at_abort(my->path);
    rt_node_arrived();
    return 0;
}

void rt_node_leave(void)
{
    rt_store_release(&rt_node.bells[rt_node.rank].alive, 2u);
    rt_fetch_add(&node_head()->changes, 1u);
}

void rt_node_rejoin(void) { rt_store_release(&rt_node.bells[rt_node.rank].alive, 1u); }

void rt_node_close(void)
{
    if (!rt_node.base)
        return;
    if (rt_node.bells[rt_node.rank].alive != 2)
        rt_node_leave();
    /* The start has failed, and the last process to attach may never come. */
    if (rt_store())
        unlink(rt_node_private.path);
    rt_bell_fini();
    rt_activity_attach(NULL);
    munmap(rt_node.base, rt_node.nbytes);
    if (rt_node_private.fd >= 0)
        close(rt_node_private.fd);
    rt_node_private.fd = -1;
    rt_node_private.changes = rt_node_private.nended = 0;
    rt_node_private.missed = false;
    rt_node = (struct rt_node){ .base = NULL };
}

size_t rt_node_world_block(void) { return rt_node_private.at.world; }

void *rt_node_pair(int from, int to)
{
    size_t i = (size_t)from * (size_t)rt_node.size + (size_t)to;
    return rt_node.base + rt_node_private.at.pairs + i * rt_node_private.at.pair_nbytes;
}
