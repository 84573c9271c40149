/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of memory, kept after use, because registering costs 16 us and more a piece and
 * applications send the same buffers again and again.
 *
 * A registration of host memory is kept only where runtime/mem/watch.h reports when it stops being
 * valid, and forgotten before the next lookup; else it lives from get to put.  Blocks of the node
 * segment are ours: it is known when one is given back.  A registration of device memory is known
 * by the driver's number of its allocation, which is never used again, and so is one of host memory
 * that the driver has pinned, which cannot be watched.  What is in use is
 * never given back; what is not goes, the least recently used first, beyond the bounds.
 *
 * Host ranges are whole pages; ranges may overlap.  All calls are serialised by the caller. */
#ifndef RT_MEM_REGCACHE_H
#define RT_MEM_REGCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/list.h"

struct rt_gpu_ptr; /* runtime/gpu/gpu.h */

#define RT_REG_SLOTS 16 /* devices that one range can be registered with */

struct rt_reg {
    uintptr_t start, end;
    uint64_t id; /* the driver's, of a device or pinned allocation; 0: host memory */
    unsigned users;
    bool kept;                /* can be found; false: goes with its last user */
    bool own;                 /* memory of the node segment: not watched */
    bool pinned;              /* host memory of the CUDA driver's */
    struct rt_list link;      /* of those without users, oldest first */
    void *slot[RT_REG_SLOTS]; /* NULL: not registered with this device yet */
};

struct rt_regcache_ops {
    /* Registers a range with device `slot`.  0; 1: done, but not to be kept; -RT_ENOMEM: giving
     * others back may help; another error.  May be called with `at` NULL: host memory. */
    int (*reg)(void *arg, int slot, uintptr_t start, size_t len, const struct rt_gpu_ptr *at,
               void **out);
    void (*dereg)(void *arg, int slot, void *reg);
};

struct rt_regcache;
/* max_nbytes: registered and not in use; 0: nothing is kept. */
int rt_regcache_create(const struct rt_regcache_ops *ops, void *arg, size_t max_nbytes,
                       struct rt_regcache **out);
/* Everything has been put. */
void rt_regcache_destroy(struct rt_regcache *c);

/* A registration with device `slot` that covers [p, p + len), to be put once.  at: what
 * runtime/gpu says of device memory, asked just now; its whole allocation is registered. */
int rt_regcache_get(struct rt_regcache *c, const void *p, size_t len, const struct rt_gpu_ptr *at,
                    int slot, struct rt_reg **out);
void rt_regcache_put(struct rt_regcache *c, struct rt_reg *r);

/* Why host registrations are not kept; NULL: they are, or would be. */
const char *rt_regcache_why_not(const struct rt_regcache *c);

struct rt_regcache_counts {
    uint64_t hits, misses, dropped, evicted; /* dropped: because the memory has changed */
    size_t nbytes;                           /* registered now */
    int n;                                   /* that can be found */
};
void rt_regcache_count(const struct rt_regcache *c, struct rt_regcache_counts *out);

#endif
