/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Alloc_mem and MPI_Free_mem (MPI-5.0 section 9.2).  Memory comes from the node segment, so
 * that other processes of the host can address it.  It comes from malloc if the segment is full or
 * this process is alone on the host.  Large blocks take whole granules of the segment; small blocks
 * are cut from chunks.  Freed blocks are kept for the next call: in the segment (segment_alloc.c),
 * and here the last long ones of private memory.  A hash table of all blocks detects a wrong
 * address in MPI_Free_mem. Any thread; one lock. */
#include "mpi/core/alloc.h"
#include "mpi/api/bodies.h"
#include "mpi/core/info.h"
#include "runtime/base/atomic.h"
#include "runtime/base/list.h"
#include "runtime/base/lock.h"
#include "runtime/mem/segment.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHUNK_NBYTES ((size_t)256 << 10) /* four granules of the segment */
#define SMALL_NBYTES ((size_t)32 << 10)  /* largest from a chunk, eight or more in each */
#define BUCKETS 4096
#define LONG_NBYTES ((size_t)1 << 20) /* private memory from mmap instead of malloc */
/* Freed long blocks: the most that are kept, and the most bytes of them that may be resident. */
#define IDLE_BLOCKS 8
#define IDLE_NBYTES ((size_t)64 << 20)

struct chunk {
    struct rt_list link;   /* in heap.chunks */
    struct rt_list blocks; /* in the order of their addresses */
    size_t off;            /* in the node segment */
};

struct block {
    struct block *next;  /* of the same bucket */
    struct rt_list link; /* in the chunk's list, or in heap.idle */
    struct chunk *chunk; /* NULL: the block has granules of its own, or private memory */
    char *base;          /* the address that the user got */
    size_t off, nbytes;  /* in the node segment, including padding for alignment; 0, 0: private */
    char *map;           /* a private mapping; NULL: from malloc */
    size_t map_nbytes;
};

static struct {
    struct rt_lock lock;
    struct rt_list chunks;
    unsigned nchunks, nblocks;
    struct rt_list idle; /* freed private mappings, the oldest first */
    unsigned nidle;
    size_t idle_nbytes; /* that may be resident */
    struct block *bucket[BUCKETS];
} heap = { .lock = RT_LOCK_INIT,
           .chunks = { &heap.chunks, &heap.chunks },
           .idle = { &heap.idle, &heap.idle } };

static struct block **bucket_of(const void *base)
{
    return &heap.bucket[((uintptr_t)base >> 6) * 0x9e3779b1u % BUCKETS];
}

static size_t align_up(size_t n, size_t align) { return (n + align - 1) & ~(align - 1); }

/* Finds a gap of the chunk for `b`, first fit. */
static bool cut(struct chunk *c, struct block *b, size_t nbytes, size_t align)
{
    size_t at = align_up(c->off, align);
    struct rt_list *l;
    rt_list_each (l, &c->blocks) {
        const struct block *o = rt_container(l, struct block, link);
        if (at + nbytes <= o->off)
            break;
        at = align_up(o->off + o->nbytes, align);
    }
    if (at + nbytes > c->off + CHUNK_NBYTES)
        return false;
    b->chunk = c;
    b->off = at;
    b->nbytes = nbytes;
    b->base = rt_node_at(at);
    rt_list_append(l, &b->link); /* before the block behind the gap */
    return true;
}

static bool take_small(struct block *b, size_t nbytes, size_t align)
{
    struct rt_list *l;
    rt_list_each (l, &heap.chunks)
        if (cut(rt_container(l, struct chunk, link), b, nbytes, align))
            return true;
    struct chunk *c = malloc(sizeof *c);
    size_t off = c ? rt_node_try_alloc(CHUNK_NBYTES, false) : SIZE_MAX;
    if (off == SIZE_MAX) {
        free(c);
        return false;
    }
    c->off = off;
    rt_list_init(&c->blocks);
    rt_list_append(&heap.chunks, &c->link);
    heap.nchunks++;
    return cut(c, b, nbytes, align);
}

/* An offset in the segment has the alignment of its address only up to a page. */
static bool take_large(struct block *b, size_t nbytes, size_t align)
{
    const size_t page = 4096;
    size_t more = align > page ? align : 0;
    size_t off = rt_node_try_alloc(nbytes + more, false);
    if (off == SIZE_MAX)
        return false;
    b->off = off;
    b->nbytes = nbytes + more;
    b->base = (char *)align_up((uintptr_t)rt_node_at(off), align);
    return true;
}

/* ---- long private blocks ---- */

static size_t may_stay(const struct block *b)
{
    return b->map_nbytes < IDLE_NBYTES ? b->map_nbytes : IDLE_NBYTES;
}

static struct block *idle_remove(struct rt_list *l)
{
    struct block *b = rt_container(l, struct block, link);
    rt_list_del(l);
    heap.nidle--;
    heap.idle_nbytes -= may_stay(b);
    return b;
}

static void idle_drop(void)
{
    struct block *b = idle_remove(heap.idle.next);
    munmap(b->map, b->map_nbytes);
    free(b);
}

/* Keeps a freed block, and gives back kept memory beyond IDLE_NBYTES. */
static void idle_add(struct block *b)
{
    size_t stays = may_stay(b);
    while (heap.nidle == IDLE_BLOCKS || (heap.nidle && heap.idle_nbytes + stays > IDLE_NBYTES))
        idle_drop();
    if (stays < b->map_nbytes)
        madvise(b->map + stays, b->map_nbytes - stays, MADV_DONTNEED);
    heap.nidle++;
    heap.idle_nbytes += stays;
    rt_list_append(&heap.idle, &b->link);
}

/* A kept block of at most twice the length. */
static bool take_idle(struct block *b, size_t nbytes, size_t align)
{
    struct rt_list *l;
    rt_list_each (l, &heap.idle) {
        const struct block *o = rt_container(l, struct block, link);
        size_t pad = align_up((uintptr_t)o->map, align) - (uintptr_t)o->map;
        if (o->map_nbytes < nbytes || o->map_nbytes - nbytes < pad ||
            o->map_nbytes / 2 > nbytes + pad)
            continue;
        b->map = o->map;
        b->map_nbytes = o->map_nbytes;
        b->base = o->map + pad;
        free(idle_remove(l));
        return true;
    }
    return false;
}

static bool take_mapping(struct block *b, size_t nbytes, size_t align)
{
    const size_t granule = 64 << 10; /* a multiple of the page on all systems */
    size_t pad = align > 4096 ? align : 0, len = align_up(nbytes, granule) + pad;
    void *p = MAP_FAILED;
    if (len < nbytes || len > SIZE_MAX / 2)
        return false;
    for (;;) {
        p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p != MAP_FAILED || !heap.nidle)
            break;
        idle_drop(); /* the address space may be limited */
    }
    if (p == MAP_FAILED)
        return false;
    b->map = p;
    b->map_nbytes = len;
    b->base = (char *)align_up((uintptr_t)p, align);
    return true;
}

static bool take_private(struct block *b, size_t nbytes, size_t align)
{
    void *p = NULL;
    if (nbytes >= LONG_NBYTES)
        return take_idle(b, nbytes, align) || take_mapping(b, nbytes, align);
    if (posix_memalign(&p, align, nbytes) != 0)
        return false;
    b->base = p;
    return true;
}

static bool take(struct block *b, size_t nbytes, size_t align)
{
    bool shared = rt_node.size > 1 && nbytes < rt_node.nbytes && align < rt_node.nbytes;
    if (shared && nbytes <= SMALL_NBYTES && align <= 4096)
        shared = take_small(b, align_up(nbytes, RT_CACHE_LINE), align);
    else if (shared)
        shared = take_large(b, nbytes, align);
    return shared || take_private(b, nbytes, align);
}

/* One empty chunk is kept, for programs that allocate and free alternately. */
static void give_back(struct block *b)
{
    struct chunk *c = b->chunk;
    if (c) {
        rt_list_del(&b->link);
        if (rt_list_empty(&c->blocks) && heap.nchunks > 1) {
            rt_list_del(&c->link);
            heap.nchunks--;
            rt_node_free(c->off, CHUNK_NBYTES);
            free(c);
        }
    } else if (b->nbytes) {
        rt_node_free(b->off, b->nbytes);
    } else if (b->map) {
        idle_add(b);
        return;
    } else {
        free(b->base);
    }
    free(b);
}

unsigned wm_alloc_count(void)
{
    rt_lock(&heap.lock);
    unsigned n = heap.nblocks;
    rt_unlock(&heap.lock);
    return n;
}

/* The alignment that the info requests, at least a cache line; 0 if the value is not a power of
 * two. */
static size_t wanted_alignment(const struct wm_info *info)
{
    const char *text = wm_info_find(info, "mpi_minimum_memory_alignment");
    if (!text)
        return RT_CACHE_LINE;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno || end == text || *end || n == 0 || (n & (n - 1)) || n > SIZE_MAX / 2)
        return 0;
    return n > RT_CACHE_LINE ? (size_t)n : RT_CACHE_LINE;
}

int wm_api_alloc_mem(MPI_Aint size, struct wm_info *info, void *baseptr)
{
    size_t align = wanted_alignment(info);
    if (!align)
        return wm_err(
            MPI_ERR_INFO_VALUE,
            "argument 2 (info): mpi_minimum_memory_alignment is \"%s\"; give a power of two",
            wm_info_find(info, "mpi_minimum_memory_alignment"));
    struct block *b = calloc(1, sizeof *b);
    rt_lock(&heap.lock);
    bool done = b && take(b, size > 0 ? (size_t)size : 1, align);
    if (done) {
        struct block **bucket = bucket_of(b->base);
        b->next = *bucket;
        *bucket = b;
        heap.nblocks++;
    }
    rt_unlock(&heap.lock);
    if (!done) {
        free(b);
        return wm_err(MPI_ERR_NO_MEM,
                      "argument 1 (size): no memory for %lld bytes on multiples of %zu",
                      (long long)size, align);
    }
    /* `baseptr` points to a pointer whose type is unknown here. */
    memcpy(baseptr, &b->base, sizeof b->base);
    return MPI_SUCCESS;
}

int wm_api_free_mem(void *base)
{
    if (!base)
        return MPI_SUCCESS;
    rt_lock(&heap.lock);
    struct block **p = bucket_of(base);
    while (*p && (*p)->base != base)
        p = &(*p)->next;
    struct block *b = *p;
    if (b) {
        *p = b->next;
        heap.nblocks--;
        give_back(b);
    }
    rt_unlock(&heap.lock);
    if (b)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_BASE,
                  "argument 1 (base): %p is not the start of memory from MPI_Alloc_mem, or was "
                  "freed before",
                  base);
}
