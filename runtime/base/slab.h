/* SPDX-License-Identifier: BSD-3-Clause */
/* Object tables.  Each class of objects for which users hold handles has one slab.  A handle is a
 * 31-bit integer: class (4 bits) | generation (7 bits) | index (20 bits).  MPI_X_toint() returns
 * it; the C handle types hold it, cast to a pointer.  No class is 0, so every handle is above the
 * 4095 values that the ABI reserves.  Chunks stay until rt_slab_fini(): a stale or invented handle
 * is looked up safely and rejected, because it differs from the object's current handle. Allocation
 * takes the slab's lock; lookup takes no lock. */
#ifndef RT_BASE_SLAB_H
#define RT_BASE_SLAB_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/atomic.h"
#include "runtime/base/lock.h"

#define RT_SLAB_CLASS_SHIFT 27
#define RT_SLAB_GEN_SHIFT 20
#define RT_SLAB_INDEX_MASK 0xfffffu
#define RT_SLAB_CHUNK_SHIFT 7 /* 128 objects a chunk */
#define RT_SLAB_CHUNKS ((RT_SLAB_INDEX_MASK + 1) >> RT_SLAB_CHUNK_SHIFT)

/* First member of every object.  `handle` is 0 while the object is free. */
struct rt_obj {
    uint32_t handle;
    int32_t refs; /* references; the handle itself holds one */
};

struct rt_slab {
    const char *name;    /* for messages, such as "communicator" */
    uint32_t cls;        /* 1..15 */
    uint32_t nbytes;     /* stride: rounded up to a cache line */
    uint32_t used, high; /* live objects; indices ever used */
    uint32_t free_head;  /* index + 1 of the first free object, LIFO; 0: none */
    struct rt_lock lock;
    bool anytime; /* used before threads are enabled: the lock is always taken */
    bool reserve; /* the last resort is the reserve (reserve.h) */
    char *chunk[RT_SLAB_CHUNKS];
};

#define RT_SLAB(cls_, name_, type_) \
    { \
        .name = (name_), .cls = (cls_), .nbytes = (sizeof(type_) + 63u) & ~63u, \
        .lock = RT_LOCK_INIT \
    }

#define RT_SLAB_ANYTIME(cls_, name_, type_) \
    { \
        .name = (name_), .cls = (cls_), .nbytes = (sizeof(type_) + 63u) & ~63u, \
        .lock = RT_LOCK_INIT, .anytime = true \
    }

#define RT_SLAB_RESERVE(cls_, name_, type_) \
    { \
        .name = (name_), .cls = (cls_), .nbytes = (sizeof(type_) + 63u) & ~63u, \
        .lock = RT_LOCK_INIT, .reserve = true \
    }

/* Allocates a zeroed object with refs 1 and a new handle.  NULL, logged: out of memory, or all 2^20
 * indices are used. */
void *rt_slab_alloc(struct rt_slab *s);
/* Returns the object to the slab and makes its handle stale. */
void rt_slab_free(struct rt_slab *s, void *obj);
/* Calls fn for every live object, for leak reports. */
void rt_slab_each(struct rt_slab *s, void (*fn)(void *obj, void *arg), void *arg);
/* Frees all chunks; only when no handle can be used any more (after MPI_Finalize in tests). */
void rt_slab_fini(struct rt_slab *s);

/* The live object with this handle, or NULL. */
static inline void *rt_slab_get(const struct rt_slab *s, uintptr_t h)
{
    if (rt_unlikely(h >> RT_SLAB_CLASS_SHIFT != s->cls))
        return NULL;
    uint32_t i = h & RT_SLAB_INDEX_MASK;
    char *chunk = rt_load_acquire(&s->chunk[i >> RT_SLAB_CHUNK_SHIFT]);
    if (rt_unlikely(!chunk))
        return NULL;
    uint32_t in_chunk = i & ((1u << RT_SLAB_CHUNK_SHIFT) - 1);
    struct rt_obj *o = (struct rt_obj *)(chunk + in_chunk * (uintptr_t)s->nbytes);
    return rt_likely(rt_load_acquire(&o->handle) == h) ? o : NULL;
}

#endif
