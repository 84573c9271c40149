/* SPDX-License-Identifier: BSD-3-Clause */
/* An allocation of device memory. */
#ifndef RT_GPU_ADDRESS_H
#define RT_GPU_ADDRESS_H

#include "runtime/base/memkind.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_gpu;

/* What the driver reports about a device address. */
struct rt_gpu_ptr {
    enum rt_memkind kind;
    int ordinal;    /* device, in the numbering of this process */
    void *ctx;      /* the pointer's context, or NULL: the device's primary context */
    uintptr_t base; /* of the allocation that contains it; for VMM memory, of the mapping */
    size_t len;
    uint64_t id; /* of the allocation; not used again in this process */
    /* False: several VMM mappings side by side, of which `id` combines the numbers. */
    bool single;
    size_t part; /* bytes of each of these mappings but the last; 0: not single, and they differ */
    struct rt_gpu *g; /* context in which copies of it run; made when first needed */
};
/* The driver maps an allocation for other processes in pages of 2 MiB if its length is a multiple
 * of that, else in small pages.  Copy engines of two ranks at once put 295 instead of 385 GB/s each
 * into small pages (H200, driver 580); one rank alone, reads by engines, and kernels are not
 * affected. */
static inline bool rt_gpu_in_large_pages(const struct rt_gpu_ptr *p)
{
    return p->len % (2u << 20) == 0;
}

#endif
