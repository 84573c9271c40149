/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine for files: complete transfers with the system's calls, job threads, and properties of
 * file systems.  It uses neither MPI nor ranks, takes no lock of its callers, and logs at level
 * info only: callers report errors.  Any thread. */
#ifndef RT_IO_IO_H
#define RT_IO_IO_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/vfs.h>

/* ---- system calls: posix.c ---- */

/* The system calls on files.  Tests replace the table by one whose calls fail, are interrupted, or
 * move fewer bytes than requested. */
struct rt_io_sys {
    int (*open)(const char *path, int flags, mode_t mode);
    int (*close)(int fd);
    int (*unlink)(const char *path);
    int (*stat)(int fd, struct stat *st);
    ssize_t (*readv)(int fd, const struct iovec *iov, int n, off_t off);
    ssize_t (*writev)(int fd, const struct iovec *iov, int n, off_t off);
    int (*sync)(int fd);
    int (*truncate)(int fd, off_t nbytes);
    int (*lock)(int fd, int cmd, struct flock *range);       /* fcntl(2) with F_OFD_... */
    int (*allocate)(int fd, int mode, off_t off, off_t len); /* fallocate(2) */
    int (*statfs)(int fd, struct statfs *st);
    ssize_t (*getxattr)(int fd, const char *name, void *value, size_t nbytes);
    int (*ioctl)(int fd, unsigned long request, void *arg);
    /* process_vm_readv(2) of this process by itself: memory that cannot be had ends it early. */
    ssize_t (*copy)(const struct iovec *to, int n, const struct iovec *from);
};
extern const struct rt_io_sys rt_io_system; /* the calls of the system */
extern const struct rt_io_sys *rt_io_sys;   /* the table in use */

/* The code -RT_E... for an errno value. */
int rt_io_error(int err);

/* All return 0 or more on success, -RT_E... on failure. */
int rt_io_open(const char *path, int flags, mode_t mode); /* a descriptor */
int rt_io_close(int fd);
int rt_io_unlink(const char *path);
int64_t rt_io_size(int fd);
int rt_io_sync(int fd);
int rt_io_truncate(int fd, int64_t nbytes);
/* Makes the file at least nbytes long, and allocates storage for the added part, or for the whole
 * file if the file system has fallocate(2).  The contents do not change. */
int rt_io_preallocate(int fd, int64_t nbytes);

/* Lock a range of the file against other open file descriptions, exclusively (`write`) or shared,
 * and wait for the lock.  Duplicates of a descriptor share its locks; closing the last one
 * unlocks. */
int rt_io_lock(int fd, bool write, int64_t off, int64_t len);
int rt_io_unlock(int fd, int64_t off, int64_t len);
int rt_io_can_lock(int fd, bool write); /* -RT_ENOTSUP: the file system has no locks */

/* Move all bytes, whatever the length: calls that are interrupted are repeated, short ones are
 * continued.  Reading returns the number of bytes, less than requested only at the end of the file.
 * The vectors are changed. */
int64_t rt_io_read(int fd, void *buf, int64_t len, int64_t off);
int rt_io_write(int fd, const void *buf, int64_t len, int64_t off);
#define RT_IO_VECTORS 1024 /* IOV_MAX of Linux */
int64_t rt_io_readv(int fd, struct iovec *iov, int n, int64_t off);
int rt_io_writev(int fd, struct iovec *iov, int n, int64_t off);

/* ---- many short pieces: pieces.c ---- */

struct rt_io_fs;
struct rt_io_batch;
/* A write of pieces that do not overlap, in ascending order.  No other byte of the file is touched,
 * in a way that another process could see either. */
struct rt_io_pieces {
    int fd;
    const struct rt_io_fs *fs;
    int64_t from, to; /* all pieces are in [from, to) of the file */
    int64_t end;      /* >= to: the length that the file is going to have at least */
    bool packed; /* the data of the pieces are one after another in memory, lent until the end */
    struct rt_io_batch *batch; /* used by pieces.c.  NULL: each piece is a call */
};
/* `n`: about how many pieces follow; decides whether each piece is a call. */
void rt_io_pieces_begin(struct rt_io_pieces *p, int64_t n);
/* 0 or -RT_E..., perhaps of an earlier piece.  rt_io_pieces_end() is called after an error, too. */
int rt_io_pieces_put(struct rt_io_pieces *p, int64_t off, const char *data, int64_t len);
int rt_io_pieces_end(struct rt_io_pieces *p);

/* ---- job threads: pool.c ---- */

/* A function that a thread runs because it may block in system calls.  Lent until `done`. */
struct rt_io_job {
    void (*run)(struct rt_io_job *job);
    struct rt_io_job *next; /* used by the pool */
    uint32_t done;          /* 1 once run() has returned; then the process's own doorbell rings */
};
/* -RT_ESYS: there is no thread and none can be started; the caller runs the job. */
int rt_io_submit(struct rt_io_job *job);
/* Waits for all jobs and ends the threads; they start again with the next job. */
void rt_io_fini(void);

/* ---- GPUDirect Storage: gds.c ---- */

/* A file as libcufile knows it; zero at first. */
struct rt_io_gds {
    void *handle; /* NULL: not registered */
    bool tried;
    char why[96]; /* why not; empty: transfers are possible */
};
#define RT_IO_GDS_BLOCK 4096       /* transfers are multiples of it, at multiples of it */
#define RT_IO_GDS_CALL (1ll << 30) /* most bytes of one call */
/* Whether device memory and the file can exchange data without host memory.  Registers the file at
 * the first call (fd -1: none, only the file system is looked at), which may take long. */
bool rt_io_gds_ready(struct rt_io_gds *s, int fd, const struct rt_io_fs *fs);
/* Moves `len` bytes in whole blocks between `dev`, device memory of the current context, and the
 * file.  Returns the bytes moved: fewer at the end of the file, behind which memory has any
 * contents, or if libcufile has failed; the caller moves the rest in another way, and finds the
 * error of the file. */
int64_t rt_io_gds_move(struct rt_io_gds *s, bool write, void *dev, int64_t len, int64_t off);
/* Before the descriptor is closed. */
void rt_io_gds_close(struct rt_io_gds *s);

/* ---- file systems: fs.c and lustre.c ---- */

enum rt_io_kind { RT_IO_LOCAL, RT_IO_MEMORY, RT_IO_NFS, RT_IO_LUSTRE, RT_IO_GPFS, RT_IO_OTHER };
/* Consecutive `nbytes` of a file are on one target, the next ones on the next of `n`.  0: not
 * known. */
struct rt_io_stripes {
    int64_t nbytes;
    int n;
};
struct rt_io_fs {
    enum rt_io_kind kind;
    char name[16]; /* "ext4", "tmpfs", or the magic number */
    bool shared;   /* several hosts may have mounted it */
    int64_t block; /* preferred length of a transfer, bytes */
    struct rt_io_stripes stripes;
};
/* The file system of an open file; kind RT_IO_OTHER if it is unknown. */
void rt_io_fs_look(int fd, struct rt_io_fs *out);
/* rt_io_open() that may create the file.  A new file gets the stripes of `want` if its file system
 * can set them (Lustre), and those of its folder where `want` is 0. */
int rt_io_create(const char *path, int flags, mode_t mode, const struct rt_io_stripes *want);

/* The stripes of a Lustre file or of a folder's new files, from the value of the extended attribute
 * RT_IO_LUSTRE_LAYOUT; both 0: not known. */
#define RT_IO_LUSTRE_LAYOUT "lustre.lov"
struct rt_io_stripes rt_io_lustre_parse(const void *layout, size_t nbytes);
struct rt_io_stripes rt_io_lustre_look(int fd);
/* The start of struct lov_user_md, versions 1 and 3
 * (lustre/include/uapi/linux/lustre/lustre_user.h), and the request that sets the stripes of a file
 * without data. */
struct rt_io_lustre_md {
    uint32_t magic, pattern;
    uint64_t object_id, object_seq;
    uint32_t stripe_nbytes;
    uint16_t nstripes, first;
};
#define RT_IO_LUSTRE_V1 0x0bd10bd0u
#define RT_IO_LUSTRE_SET _IOW('f', 154, long)
/* Creates a file and sets its stripes; without success, as that is a hint, it has those of its
 * folder. */
int rt_io_lustre_create(const char *path, int flags, mode_t mode, const struct rt_io_stripes *want);

#endif
