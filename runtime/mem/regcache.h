/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of memory, kept after use: registering costs 16 us and more for each range, and
 * applications send the same buffers repeatedly.
 *
 * A registration of host memory is kept only if runtime/mem/watch.h reports when it becomes
 * invalid; then it is forgotten before the next lookup.  Otherwise it lives from get to put.  For
 * blocks of the node segment Weft itself knows when they are freed.  A registration of device
 * memory is identified by the driver's number of the allocation, which is never reused; so is host
 * memory that the driver has pinned, which cannot be watched.  Registrations in use are never
 * removed.  Beyond the bounds, unused ones are removed, the least recently used first.
 *
 * Host ranges are whole pages; ranges may overlap.  The caller serialises all calls. */
#ifndef RT_MEM_REGCACHE_H
#define RT_MEM_REGCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/list.h"

struct rt_gpu_ptr; /* runtime/gpu/gpu.h */

#define RT_REG_SLOTS 16 /* devices with which one range can be registered */

struct rt_reg {
    uintptr_t start, end;
    uint64_t id; /* of the driver, for a device or pinned allocation; 0: other host memory */
    unsigned users;
    bool kept;                /* can be found; false: destroyed with its last user */
    bool own;                 /* memory of the node segment: not watched */
    bool pinned;              /* host memory allocated by the CUDA driver */
    struct rt_list link;      /* in the list of those without users, oldest first */
    void *slot[RT_REG_SLOTS]; /* NULL: not registered with this device yet */
};

struct rt_regcache_ops {
    /* Registers a range with device `slot`.  0; 1: done, but must not be kept; -RT_ENOMEM:
     * deregistering others may help; or another error.  `at` may be NULL: host memory. */
    int (*reg)(void *arg, int slot, uintptr_t start, size_t len, const struct rt_gpu_ptr *at,
               void **out);
    void (*dereg)(void *arg, int slot, void *reg);
};

struct rt_regcache;
/* max_nbytes: most bytes registered, as long as unused registrations can be removed; 0: nothing is
 * kept.  -RT_ENOMEM. */
int rt_regcache_create(const struct rt_regcache_ops *ops, void *arg, size_t max_nbytes,
                       struct rt_regcache **out);
/* Called when all registrations have been put. */
void rt_regcache_destroy(struct rt_regcache *c);

/* A registration with device `slot` that covers [p, p + len), to be put once.  at: what runtime/gpu
 * has just returned for device memory, whose whole allocation is registered; NULL: host memory.
 * -RT_EINVAL: the range wraps around; -RT_ENOMEM; or the error of ops->reg(). */
int rt_regcache_get(struct rt_regcache *c, const void *p, size_t len, const struct rt_gpu_ptr *at,
                    int slot, struct rt_reg **out);
void rt_regcache_put(struct rt_regcache *c, struct rt_reg *r);

/* Reason why host registrations are not kept; NULL: they are, or would be. */
const char *rt_regcache_why_not(const struct rt_regcache *c);

struct rt_regcache_counts {
    uint64_t hits, misses, dropped, evicted; /* dropped: the memory has changed */
    size_t nbytes;                           /* registered now */
    int n;                                   /* that can be found */
};
void rt_regcache_count(const struct rt_regcache *c, struct rt_regcache_counts *out);

#endif
