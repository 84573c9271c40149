/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of the node segment's area: first fit over a bitmap of granules in the segment itself,
 * under a lock that does not outlive its holder.  A granule that is freed keeps its memory, within
 * a bound, because the system calls for reserving and giving back cost 10 us and more for each
 * page. Any thread of any local process may call. */
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/mem/deaths.h"
#include "runtime/mem/segment_int.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Granules of a block that the first free run in the whole area serves. */
#define NODE_SHORT 16u

/* The incomplete change of a holder that has died costs at most a leaked block. */
static void bits_lock(void) { rt_node_hold(&node_head()->lock); }

static void bits_unlock(void) { rt_store_release(&node_head()->lock, 0u); }

static bool bit_get(const uint64_t *bits, size_t i) { return bits[i / 64] >> (i % 64) & 1; }

static void bits_set(uint64_t *bits, size_t first, size_t n, bool on)
{
    for (size_t i = first, len; i < first + n; i += len) {
        len = 64 - i % 64 < first + n - i ? 64 - i % 64 : first + n - i;
        uint64_t m = ~(uint64_t)0 >> (64 - len) << (i % 64);
        bits[i / 64] = on ? bits[i / 64] | m : bits[i / 64] & ~m;
    }
}

/* First granule of a free run of n in [from, total), multiples of 64; SIZE_MAX: none. */
static size_t bits_find(const uint64_t *bits, size_t from, size_t total, size_t n)
{
    size_t run = 0;

    for (size_t i = from; i < total; i++) {
        bool full = i % 64 == 0 && bits[i / 64] == ~(uint64_t)0;
        if (full || (i % 64 == 0 && bits[i / 64] == 0 && run + 64 < n)) {
            run = full ? 0 : run + 64;
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

/* Gives the memory of granules back, which also makes them zero.  Where the file system cannot do
 * that, they keep it. */
static void empty(size_t first, size_t n)
{
    size_t off = rt_node_private.at.area + first * NODE_GRANULE, nbytes = n * NODE_GRANULE;
    int fd = rt_node_private.fd;

    rt_fetch_add(&node_head()->emptied, 1u); /* counted before the block can be allocated again */
    if ((fd < 0 ? madvise(rt_node_at(off), nbytes, MADV_DONTNEED)
                : fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
                            (off_t)nbytes)) == 0)
        memset(node_backed() + first, 0, n);
}

/* How many of the granules have memory. */
static uint32_t count_backed(size_t first, size_t n)
{
    const uint8_t *backed = node_backed() + first;
    uint32_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += backed[i] != 0;
    return count;
}

/* First free run of n granules.  The search for a long block begins in this process's part of the
 * area: so a block that this process frees and allocates again has pages near this process. */
static size_t find(size_t n)
{
    size_t total = rt_node_private.at.ngranules, first = SIZE_MAX;

    if (n > NODE_SHORT)
        first = bits_find(node_bits(), (size_t)rt_node.rank * (total / (size_t)rt_node.size), total,
                          n);
    return first == SIZE_MAX ? bits_find(node_bits(), 0, total, n) : first;
}

/* Takes granules for a block and leaves `keep` granules free; SIZE_MAX: impossible. */
static size_t take(size_t nbytes, size_t keep)
{
    size_t n = granules(nbytes), total = rt_node_private.at.ngranules;
    size_t first = SIZE_MAX;

    bits_lock();
    if (n && (!keep || total - rt_node_used() / NODE_GRANULE >= n + keep)) {
        first = find(n);
        if (first != SIZE_MAX) {
            bits_set(node_bits(), first, n, true);
            node_head()->kept -= count_backed(first, n);
        }
    }
    bits_unlock();
    return first;
}

/* Frees granules of which `more` keep their memory; false, with nothing done: more would be kept
 * than three quarters of the area. */
static bool release(size_t first, size_t n, uint32_t more)
{
    struct node_head *h = node_head();

    bits_lock();
    bool may = !more || h->kept + more <= rt_node_private.at.ngranules / 4 * 3;
    if (may) {
        bits_set(node_bits(), first, n, false);
        h->kept += more;
    }
    bits_unlock();
    return may;
}

/* Gives granules that have been taken memory for nbytes bytes. */
static int back(size_t first, size_t nbytes, bool quiet)
{
    uint8_t *backed = node_backed() + first;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = granules(nbytes), from = 0;
    uint8_t whole = (uint8_t)(NODE_GRANULE / page);
    uint8_t last = (uint8_t)((nbytes - (n - 1) * NODE_GRANULE + page - 1) / page);
    char *p = rt_node_at(rt_node_private.at.area + first * NODE_GRANULE);

    while (from < n && backed[from] >= (from < n - 1 ? whole : last))
        from++;
    if (from == n)
        return 0;
    size_t off = from * NODE_GRANULE;
    int err = (quiet ? rt_node_try_reserve : rt_node_reserve)(p + off, nbytes - off);
    if (err == 0) {
        memset(backed + from, whole, n - 1 - from);
        backed[n - 1] = backed[n - 1] > last ? backed[n - 1] : last;
    }
    return err;
}

/* Clears the first nbytes bytes; memory that is new is zero. */
static void clear(size_t first, size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = rt_node_at(rt_node_private.at.area + first * NODE_GRANULE);

    for (size_t i = 0; i * NODE_GRANULE < nbytes; i++) {
        size_t left = nbytes - i * NODE_GRANULE, dirty = node_backed()[first + i] * page;
        memset(p + i * NODE_GRANULE, 0, dirty < left ? dirty : left);
    }
}

/* The offset of a block of granules that have been taken; SIZE_MAX: there is no memory. */
static size_t block(size_t first, size_t nbytes, bool zero, bool quiet)
{
    nbytes += !nbytes;
    if (zero)
        clear(first, nbytes);
    if (back(first, nbytes, quiet) == 0)
        return rt_node_private.at.area + first * NODE_GRANULE;
    empty(first, granules(nbytes));
    release(first, granules(nbytes), 0);
    return SIZE_MAX;
}

size_t rt_node_alloc(size_t nbytes)
{
    size_t first = take(nbytes, 0);

    if (first == SIZE_MAX) {
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
    return block(first, nbytes, true, false);
}

size_t rt_node_try_alloc(size_t nbytes, bool zero)
{
    size_t first = take(nbytes, rt_node_private.at.ngranules / 4);

    return first == SIZE_MAX ? SIZE_MAX : block(first, nbytes, zero, true);
}

void rt_node_free(size_t off, size_t nbytes)
{
    size_t n = granules(nbytes), first = (off - rt_node_private.at.area) / NODE_GRANULE;

    uint32_t more = count_backed(first, n);
    if (release(first, n, more))
        return;
    rt_node_trim(); /* the block freed last is the most likely to be reused */
    if (release(first, n, more))
        return;
    empty(first, n); /* before other processes can allocate it */
    release(first, n, 0);
}

void rt_node_trim(void)
{
    const uint64_t *bits = node_bits();
    size_t total = rt_node_private.at.ngranules;

    if (!rt_node.base || !rt_load_relaxed(&node_head()->kept))
        return;
    bits_lock();
    for (size_t n, i = 0; i < total; i += n + 1) {
        for (n = 0; i + n < total && !bit_get(bits, i + n) && node_backed()[i + n]; n++) {
        }
        if (n)
            empty(i, n);
    }
    node_head()->kept = 0;
    bits_unlock();
}

size_t rt_node_used(void)
{
    const uint64_t *bits = node_bits();
    size_t n = 0;

    for (size_t i = 0; i < rt_node_private.at.ngranules / 64; i++)
        n += (size_t)__builtin_popcountll(rt_load_relaxed(&bits[i]));
    return n * NODE_GRANULE;
}
