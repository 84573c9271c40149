/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/check/memory.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "mpi/check/report.h"
#include "mpi/check/variable.h"
#include "runtime/base/frames.h"
#include "runtime/gpu/gpu.h"

static bool is_mapped(uintptr_t base, size_t nbytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = base & ~(page - 1);
    unsigned char state[64];
    for (uintptr_t at = first; at < base + nbytes; at += page * sizeof state) {
        size_t len = base + nbytes - at;
        len = len < page * sizeof state ? len : page * sizeof state;
        if (mincore((void *)at, len, state) < 0 && errno == ENOMEM)
            return false;
    }
    return true;
}

/* ---- a buffer of a call ---- */

/* A variable of a function ends where the function's stack frame ends. */
static void look_at_frame(const void *buf, int64_t count, const struct rt_layout *l,
                          uintptr_t first, uintptr_t past)
{
    char here[160];
    struct rt_frame f;
    uintptr_t end = rt_frame_end((const void *)first, &f);
    if (buf)
        check_variable(&f, buf, count, l);
    if (!end || past <= end)
        return;
    struct check_place p = check_here();
    check_fail("rank %d: the buffer of %s has %lld bytes from %p on by count and datatype, but is "
               "a variable of a function whose variables end %lld bytes before that",
               rt_boot.rank, check_place_text(&p, here, sizeof here), (long long)(past - first),
               (void *)first, (long long)(past - end));
}

/* glibc's malloc(): the word before a block has its length and three flags, the next block follows,
 * and the last one ends with the heap.  A buffer for which that holds is taken for a block. */
enum { BLOCK_MIN = 32, BLOCK_MAPPED = 2, BLOCK_OF_ARENA = 4, BLOCK_FLAGS = 7, BLOCKS_MAX = 65536 };
#define ARENA_ALIGN ((uintptr_t)64 << 20) /* of a heap that is not the first one */

/* The end of the heap that a block belongs to, by the word before it. */
static uintptr_t heap_end(uintptr_t at, size_t head)
{
    uintptr_t base = at & ~(ARENA_ALIGN - 1);
    if (!(head & BLOCK_OF_ARENA))
        return (uintptr_t)sbrk(0);
    return is_mapped(base, 1) ? base + ((const size_t *)base)[2] : 0;
}

/* Where the memory of the block ends that begins at `at`; 0: there is none. */
static uintptr_t block_end(uintptr_t at)
{
    const uintptr_t word = sizeof(size_t);
    uintptr_t block = at - 2 * word;
    if (at % (2 * word) || !is_mapped(block, 1))
        return 0;
    size_t first = ((const size_t *)block)[1];
    uintptr_t end = heap_end(at, first);
    for (int i = 0; block < end && i < BLOCKS_MAX; i++) {
        size_t head = ((const size_t *)block)[1], len = head & ~(size_t)BLOCK_FLAGS;
        if (head & BLOCK_MAPPED || len < BLOCK_MIN || len > end - block || len % (2 * word))
            return 0;
        bool far = (block ^ (block + len)) >= 4096; /* in another page, if it is a block */
        block += len;
        if (far && block < end && !is_mapped(block, 1))
            return 0;
    }
    return block == end ? at - word + (first & ~(size_t)BLOCK_FLAGS) : 0;
}

/* There with the sanitizers and memcheck, which replace malloc() and report reads of such words. */
extern void __lsan_enable(void) __attribute__((weak));
extern void _vgr10010ZU_libcZdsoZa_malloc(void) __attribute__((weak));

/* Other threads may change that while this one reads it: only where there are none but PMIx's. */
static void look_at_block(uintptr_t first, uintptr_t past)
{
    char here[160];
    struct stat tasks; /* two links, and one for each thread */
    bool alone = stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink <= 4;
    bool watched = __lsan_enable || _vgr10010ZU_libcZdsoZa_malloc;
    uintptr_t end = alone && !watched ? block_end(first) : 0;
    if (!end || past <= end)
        return;
    struct check_place p = check_here();
    check_fail("rank %d: the buffer of %s has %lld bytes from %p on by count and datatype, but the "
               "block of malloc() that it begins ends %lld bytes before that",
               rt_boot.rank, check_place_text(&p, here, sizeof here), (long long)(past - first),
               (void *)first, (long long)(past - end));
}

static void look_at_pages(uintptr_t first, uintptr_t past)
{
    char here[160];
    if (rt_gpu_watch || (is_mapped(first, 1) && is_mapped(past - 1, 1)))
        return;
    struct check_place p = check_here();
    check_fail("rank %d: the buffer of %s has data from %p to %p by address, count and the "
               "displacements of its datatype, but no memory is mapped there",
               rt_boot.rank, check_place_text(&p, here, sizeof here), (void *)first, (void *)past);
}

struct piece {
    int64_t off, len;
};
struct pieces {
    struct piece *v;
    int64_t n, base;
};
#define PIECES_MAX 65536 /* of a datatype with more, nothing is compared */

static void add(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep)
{
    struct pieces *p = arg;
    for (int64_t i = 0; i < nrep && p->n < PIECES_MAX; i++)
        p->v[p->n++] = (struct piece){ p->base + off + i * stride, len };
}

static int by_offset(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return (x->off > y->off) - (x->off < y->off);
}

/* An entry of a receive buffer must not lie in another one (MPI-5.0 section 5.1.11). */
static void look_at_entries(int64_t count, const struct rt_layout *l)
{
    char here[160];
    struct pieces all = { .v = l->contig ? NULL : malloc(PIECES_MAX * sizeof *all.v) };
    int64_t near = l->extent > 0 ? l->true_extent / l->extent + 1 : 1; /* elements that may meet */
    if (!all.v)
        return;
    for (int64_t i = 0; i < count && i < near && all.n < PIECES_MAX; i++, all.base += l->extent)
        rt_layout_each(l, add, &all);
    if (all.n < PIECES_MAX)
        qsort(all.v, (size_t)all.n, sizeof *all.v, by_offset);
    for (int64_t i = 1; all.n < PIECES_MAX && i < all.n; i++)
        if (all.v[i].off < all.v[i - 1].off + all.v[i - 1].len) {
            struct check_place p = check_here();
            check_fail("rank %d: entries of the receive buffer of %s overlap: by its datatype, "
                       "%lld bytes at displacement %lld and %lld bytes at displacement %lld",
                       rt_boot.rank, check_place_text(&p, here, sizeof here),
                       (long long)all.v[i - 1].len, (long long)all.v[i - 1].off,
                       (long long)all.v[i].len, (long long)all.v[i].off);
        }
    free(all.v);
}

void check_memory(const void *buf, int64_t count, const struct rt_layout *l, bool written)
{
    int64_t nbytes;
    if (count <= 0 || l->size <= 0 || l->extent < 0 ||
        __builtin_mul_overflow(count, l->extent + l->true_extent, &nbytes))
        return;
    uintptr_t first = (uintptr_t)buf + (uintptr_t)l->true_lb;
    uintptr_t past = first + (uintptr_t)((count - 1) * l->extent + l->true_extent);
    look_at_frame(buf, count, l, first, past);
    if (l->contig) /* with gaps it may span several blocks */
        look_at_block(first, past);
    look_at_pages(first, past);
    if (written)
        look_at_entries(count, l);
}

/* ---- the memory of a window ---- */

static bool in_dead_stack(uintptr_t base)
{
    static _Thread_local void *stack; /* of this thread: to find it, the C library reads a file */
    static _Thread_local size_t nbytes;
    pthread_attr_t a;
    struct rt_frame f;
    if (!stack && !pthread_getattr_np(pthread_self(), &a)) {
        if (pthread_attr_getstack(&a, &stack, &nbytes))
            stack = NULL;
        pthread_attr_destroy(&a);
    }
    if (!stack || base - (uintptr_t)stack >= nbytes)
        return false;
    rt_frame_end(stack, &f);
    return f.low - (uintptr_t)stack < nbytes && base < f.low;
}

/* malloc() returns no memory that is in use: what it returns now was free. */
static bool is_free(uintptr_t base, size_t nbytes)
{
    enum { TRIES = 8 };
    void *got[TRIES];
    bool found = false;
    for (int i = 0; i < TRIES; i++) {
        got[i] = malloc(nbytes);
        uintptr_t p = (uintptr_t)got[i];
        found = found || (p && p < base + nbytes && base < p + nbytes);
    }
    for (int i = TRIES - 1; i >= 0; i--)
        free(got[i]);
    return found;
}

const char *check_memory_gone(const void *base, size_t nbytes)
{
    uintptr_t at = (uintptr_t)base;
    if (!nbytes)
        return NULL;
    if (at < 4096)
        return "is a null pointer";
    if (!is_mapped(at, nbytes))
        return "is not mapped";
    if (is_free(at, nbytes)) /* before others that call malloc() */
        return "has been freed";
    return in_dead_stack(at) ? "is a variable of a function that has returned" : NULL;
}
