/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of the node segment's area: first fit over a bitmap of granules in the segment itself,
 * under a spin lock.  The lock contains its holder, so that a process that dies with the lock does
 * not block the others.  Any thread of any local process may call. */
#include "runtime/base/err.h"
#include "runtime/base/idle.h"
#include "runtime/base/log.h"
#include "runtime/mem/segment_int.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

static void bits_lock(void)
{
    uint32_t *lock = &node_head()->lock;
    uint32_t me = (uint32_t)rt_node.rank + 1;
    struct rt_idle idle = { 0 };

    for (;;) {
        uint32_t holder = 0;
        if (rt_cas(lock, &holder, me))
            return;
        if (rt_idle_pause(&idle, 1) && holder != me && rt_node_gone((int)holder - 1)) {
            if (rt_cas(lock, &holder, me))
                return; /* the incomplete change of the dead holder costs at most a leaked block */
        }
    }
}

static void bits_unlock(void) { rt_store_release(&node_head()->lock, 0u); }

static bool bit_get(const uint64_t *bits, size_t i) { return bits[i / 64] >> (i % 64) & 1; }

static void bits_set(uint64_t *bits, size_t first, size_t n, bool on)
{
    for (size_t i = first; i < first + n; i++) {
        uint64_t m = (uint64_t)1 << (i % 64);
        bits[i / 64] = on ? bits[i / 64] | m : bits[i / 64] & ~m;
    }
}

/* First granule of a free run of n; SIZE_MAX: none. */
static size_t bits_find(const uint64_t *bits, size_t total, size_t n)
{
    size_t run = 0;

    for (size_t i = 0; i < total; i++) {
        if (i % 64 == 0 && bits[i / 64] == ~(uint64_t)0) {
            run = 0;
            i += 63;
            continue;
        }
        run = bit_get(bits, i) ? 0 : run + 1;
        if (run == n)
            return i + 1 - n;
    }
    return SIZE_MAX;
}

/* Granules of a block, at least one; 0: too large. */
static size_t granules(size_t nbytes)
{
    size_t n = nbytes / NODE_GRANULE + (nbytes % NODE_GRANULE != 0);
    return n > rt_node_private.at.ngranules ? 0 : n + (n == 0);
}

/* Frees the pages, which also makes the block zero for its next use. */
static void block_empty(void *p, size_t nbytes)
{
    int fd = rt_node_private.fd;
    off_t off = (char *)p - rt_node.base;

    rt_fetch_add(&node_head()->emptied, 1u); /* counted before the block can be allocated again */
    if (fd < 0) {
        if (madvise(p, nbytes, MADV_DONTNEED) == 0)
            return;
    } else if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, (off_t)nbytes) == 0) {
        return;
    }
    if (rt_node_reserve(p, nbytes) == 0)
        memset(p, 0, nbytes);
}

/* Takes granules for a block and leaves `keep` granules free; SIZE_MAX: impossible. */
static size_t take(size_t nbytes, size_t keep)
{
    size_t n = granules(nbytes), total = rt_node_private.at.ngranules;
    size_t first = SIZE_MAX;

    bits_lock();
    if (n && (!keep || total - rt_node_used() / NODE_GRANULE >= n + keep)) {
        first = bits_find(node_bits(), total, n);
        if (first != SIZE_MAX)
            bits_set(node_bits(), first, n, true);
    }
    bits_unlock();
    return first == SIZE_MAX ? SIZE_MAX : rt_node_private.at.area + first * NODE_GRANULE;
}

size_t rt_node_alloc(size_t nbytes)
{
    size_t off = take(nbytes, 0);

    if (off == SIZE_MAX) {
        static uint32_t logged; /* a program that creates thousands of communicators gets one
                                 * message */
        if (!rt_fetch_add(&logged, 1u))
            log_error(MEM,
                      "no room for a block of %zu bytes: communicators, windows and files of this "
                      "host fill the %zu MiB of the node segment.  Collectives of further "
                      "communicators use messages, which are slower: free communicators that are "
                      "no longer needed (MPI_Comm_free).  Logged once",
                      nbytes, rt_node_private.at.ngranules * NODE_GRANULE >> 20);
        return SIZE_MAX;
    }
    if (rt_node_reserve(rt_node_at(off), nbytes ? nbytes : 1) < 0) {
        rt_node_free(off, nbytes);
        return SIZE_MAX;
    }
    return off;
}

size_t rt_node_used(void)
{
    const uint64_t *bits = node_bits();
    size_t n = 0;

    for (size_t i = 0; i < rt_node_private.at.ngranules / 64; i++)
        n += (size_t)__builtin_popcountll(rt_load_relaxed(&bits[i]));
    return n * NODE_GRANULE;
}

size_t rt_node_try_alloc(size_t nbytes)
{
    size_t off = take(nbytes, rt_node_private.at.ngranules / 4);

    if (off != SIZE_MAX && rt_node_try_reserve(rt_node_at(off), nbytes ? nbytes : 1) < 0) {
        rt_node_free(off, nbytes);
        off = SIZE_MAX;
    }
    return off;
}

void rt_node_free(size_t off, size_t nbytes)
{
    size_t n = granules(nbytes);
    size_t first = (off - rt_node_private.at.area) / NODE_GRANULE;

    block_empty(rt_node_at(off), n * NODE_GRANULE); /* before others can allocate it */
    bits_lock();
    bits_set(node_bits(), first, n, false);
    bits_unlock();
}
