/* SPDX-License-Identifier: BSD-3-Clause */
/* Object tables: chunks of objects, allocated on demand and kept, and a LIFO list of free objects,
 * so that the next object is probably in the cache.  Allocation and release take the slab's lock
 * (any thread).  Lookup takes no lock, because chunks never move and a handle is stored last. */
#include "runtime/base/slab.h"
#include "runtime/base/log.h"
#include "runtime/base/reserve.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_OBJS (1u << RT_SLAB_CHUNK_SHIFT)
#define GEN_MASK ((1u << (RT_SLAB_CLASS_SHIFT - RT_SLAB_GEN_SHIFT)) - 1)

/* Content of a free object. */
struct free_obj {
    struct rt_obj obj; /* handle 0 */
    uint32_t next;     /* index + 1 of the next free object; 0 = none */
    uint32_t gen;      /* generation of the next handle */
};

static void slab_lock(struct rt_slab *s)
{
    if (s->anytime)
        rt_lock_always(&s->lock);
    else
        rt_lock(&s->lock);
}

static void slab_unlock(struct rt_slab *s)
{
    if (s->anytime)
        rt_unlock_always(&s->lock);
    else
        rt_unlock(&s->lock);
}

static struct free_obj *at(const struct rt_slab *s, uint32_t i)
{
    char *chunk = s->chunk[i >> RT_SLAB_CHUNK_SHIFT];
    return (struct free_obj *)(chunk + (size_t)(i & (CHUNK_OBJS - 1)) * s->nbytes);
}

/* Index of an object that was never used, with zeroed memory (generation 0); -1: none, logged. */
static int64_t grow(struct rt_slab *s)
{
    if (s->high > RT_SLAB_INDEX_MASK) {
        log_error(BASE, "all %u %s handles are in use; free some", RT_SLAB_INDEX_MASK + 1, s->name);
        return -1;
    }
    uint32_t c = s->high >> RT_SLAB_CHUNK_SHIFT;
    if (!s->chunk[c]) {
        size_t nbytes = (size_t)CHUNK_OBJS * s->nbytes;
        char *chunk = aligned_alloc(RT_CACHE_LINE, nbytes);
        if (!chunk && s->reserve)
            chunk = rt_reserve_take(nbytes);
        if (!chunk) {
            log_error(BASE, "out of memory for %s objects (%zu bytes, %u in use)", s->name, nbytes,
                      s->used);
            return -1;
        }
        memset(chunk, 0, nbytes);
        rt_store_release(&s->chunk[c], chunk); /* zeroed handles before the chunk becomes visible */
    }
    return s->high++;
}

void *rt_slab_alloc(struct rt_slab *s)
{
    slab_lock(s);
    int64_t i = s->free_head ? (int64_t)s->free_head - 1 : grow(s);
    if (i < 0) {
        slab_unlock(s);
        return NULL;
    }
    struct free_obj *f = at(s, (uint32_t)i);
    uint32_t gen = f->gen;
    if (s->free_head)
        s->free_head = f->next;
    s->used++;
    slab_unlock(s);

    memset(f, 0, s->nbytes);
    f->obj.refs = 1;
    rt_store_release(&f->obj.handle,
                     s->cls << RT_SLAB_CLASS_SHIFT | gen << RT_SLAB_GEN_SHIFT | (uint32_t)i);
    return f;
}

void rt_slab_free(struct rt_slab *s, void *obj)
{
    struct free_obj *f = obj;
    uint32_t handle = f->obj.handle;
    if (rt_unlikely(handle >> RT_SLAB_CLASS_SHIFT != s->cls))
        RT_BUG("freeing a %s that is not alive: handle 0x%x", s->name, handle);

    slab_lock(s);
    rt_store_release(&f->obj.handle, 0u);
    f->gen = ((handle >> RT_SLAB_GEN_SHIFT) + 1) & GEN_MASK;
    f->next = s->free_head;
    s->free_head = (handle & RT_SLAB_INDEX_MASK) + 1;
    s->used--;
    slab_unlock(s);
}

void rt_slab_each(struct rt_slab *s, void (*fn)(void *obj, void *arg), void *arg)
{
    for (uint32_t i = 0; i < s->high; i++) {
        struct free_obj *f = at(s, i);
        if (f->obj.handle)
            fn(f, arg);
    }
}

void rt_slab_fini(struct rt_slab *s)
{
    for (uint32_t c = 0; c < RT_SLAB_CHUNKS && s->chunk[c]; c++) {
        rt_reserve_free(s->chunk[c]);
        s->chunk[c] = NULL;
    }
    s->used = s->high = s->free_head = 0;
}
