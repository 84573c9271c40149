/* SPDX-License-Identifier: BSD-3-Clause */
/* Short pieces that are close together, written without touching the bytes between them, and
 * without a call for each piece: the file is mapped shared, and process_vm_readv(2) of this process
 * by itself copies up to RT_IO_VECTORS pieces in one call.  The kernel stores to the mapping, so a
 * page that cannot be had (no space, a file that another process has truncated, EIO) ends the call
 * early and raises no SIGBUS.  pwrite then writes the rest, or returns the right
 * error.  If the system refuses to map or to copy, pwrite writes all pieces.
 *
 * Local file systems and tmpfs only: their mappings and their writes share the page cache.  The
 * file gets its length first, because memory behind the end of a file cannot be written.  ms for
 * 8 MiB in pieces of 64 B with holes of 64 B, 1 process, Linux 6.18, a call for each / here: new
 * file on ext4 148 / 9, tmpfs 64 / 13, old file 497 / 4.4, 63 / 7 (README.md).  Any thread. */
#include "runtime/io/io.h"
#include "runtime/base/err.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

/* Mean bytes between the starts of pieces, below which a page fault costs less than the calls for
 * the pieces of a page. */
#define FINE 1024
#define LEAST 32         /* pieces: mapping costs as much as this number of calls */
#define ROOM (64 << 10)  /* bytes of pieces copied in one call */
#define LONG 4096        /* bytes of a piece that is worth a call */
#define HUGE (2ll << 20) /* bytes of a large page */
#define SPAN (8 * HUGE)  /* bytes mapped at a time */

struct rt_io_batch {
    char *map;        /* NULL: nothing is mapped */
    int64_t at, span; /* bytes of the file: where the mapping begins, and its length */
    bool full;        /* the file has all its pages */
    const char *data; /* of the pieces listed, one after another */
    int64_t used;
    int n;
    struct iovec to[RT_IO_VECTORS];
    char room[ROOM];
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The file is at least p->end bytes long; its contents do not change.  Other processes may make it
 * longer meanwhile, so ftruncate(2) would not do. */
static bool lengthen(const struct rt_io_pieces *p, struct stat *st)
{
    int rc;
    if (rt_io_sys->stat(p->fd, st) < 0)
        return false;
    if (st->st_size >= p->end)
        return true;
    do
        rc = rt_io_sys->allocate(p->fd, 0, p->end - 1, 1);
    while (rc < 0 && errno == EINTR);
    return rc == 0;
}

void rt_io_pieces_begin(struct rt_io_pieces *p, int64_t n)
{
    struct stat st;
    bool local = p->fs->kind == RT_IO_LOCAL || p->fs->kind == RT_IO_MEMORY;
    p->batch = NULL;
    if (!local || n < LEAST || (p->to - p->from) / n >= FINE || !lengthen(p, &st))
        return;
    p->batch = malloc(sizeof *p->batch);
    if (!p->batch)
        return;
    p->batch->map = NULL;
    p->batch->n = 0;
    p->batch->used = p->batch->at = p->batch->span = 0;
    p->batch->full = st.st_size >= p->to && st.st_blocks * 512 >= st.st_size;
}

static void unmap(struct rt_io_batch *b)
{
    if (b->map)
        munmap(b->map, (size_t)b->span);
    b->map = NULL;
}

static void drop(struct rt_io_pieces *p)
{
    unmap(p->batch);
    free(p->batch);
    p->batch = NULL;
}

/* The listed pieces from byte `done` of their data on. */
static int write_rest(const struct rt_io_pieces *p, int64_t done)
{
    const struct rt_io_batch *b = p->batch;
    int64_t at = 0;
    for (int i = 0; i < b->n; i++) {
        int64_t len = (int64_t)b->to[i].iov_len, skip = least(len, done > at ? done - at : 0);
        int64_t off = b->at + ((char *)b->to[i].iov_base - b->map);
        int err = len > skip ? rt_io_write(p->fd, b->data + at + skip, len - skip, off + skip) : 0;
        if (err < 0)
            return err;
        at += len;
    }
    return 0;
}

/* Copies the listed pieces.  After a failure no more pieces are listed: each is a call. */
static int flush(struct rt_io_pieces *p)
{
    struct rt_io_batch *b = p->batch;
    struct iovec from = { (void *)(uintptr_t)b->data, (size_t)b->used };
    int64_t got = b->n ? rt_io_sys->copy(b->to, b->n, &from) : 0;
    if (got == b->used) {
        b->n = 0;
        b->used = 0;
        return 0;
    }
    int err = write_rest(p, got < 0 ? 0 : got);
    drop(p);
    return err;
}

/* Maps the file from `off` on, in whole HUGE parts at addresses of their own alignment: with large
 * pages one page fault serves 2 MiB instead of 4 KiB.  tmpfs has small ones; where they exist, they
 * are mapped 16 at a time if they are read first. */
static void map(struct rt_io_pieces *p, int64_t off)
{
    struct rt_io_batch *b = p->batch;
    unmap(b);
    b->at = off - off % HUGE;
    b->span = least((p->to + HUGE - 1) / HUGE * HUGE - b->at, SPAN);
    b->map = mmap(NULL, (size_t)b->span, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, b->at);
    if (b->map == MAP_FAILED) {
        b->map = NULL;
        drop(p);
        return;
    }
    if (p->end - p->from >= HUGE / 2)
        madvise(b->map, (size_t)b->span, MADV_HUGEPAGE);
    int64_t skip = off % HUGE / 4096 * 4096;
    if (b->full && p->fs->kind == RT_IO_MEMORY)
        madvise(b->map + skip, (size_t)(least(b->span, p->to - b->at) - skip), MADV_POPULATE_READ);
}

/* Makes room for another piece. */
static int prepare(struct rt_io_pieces *p, int64_t off, int64_t len)
{
    struct rt_io_batch *b = p->batch;
    bool inside = off >= b->at && off + len <= b->at + b->span;
    int err = 0;
    if (!inside || b->n == RT_IO_VECTORS || b->used + len > ROOM)
        err = flush(p);
    if (!inside && p->batch)
        map(p, off);
    return err;
}

int rt_io_pieces_put(struct rt_io_pieces *p, int64_t off, const char *data, int64_t len)
{
    int err = !p->batch ? 0 : len < LONG ? prepare(p, off, len) : flush(p);
    struct rt_io_batch *b = p->batch;
    if (err < 0)
        return err;
    if (!b || len >= LONG)
        return rt_io_write(p->fd, data, len, off);
    if (!p->packed)
        memcpy(b->room + b->used, data, (size_t)len);
    if (!b->n)
        b->data = p->packed ? data : b->room;
    b->to[b->n++] = (struct iovec){ b->map + (off - b->at), (size_t)len };
    b->used += len;
    return 0;
}

int rt_io_pieces_end(struct rt_io_pieces *p)
{
    int err = p->batch ? flush(p) : 0;
    if (p->batch)
        drop(p);
    return err;
}
