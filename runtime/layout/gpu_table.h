/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts in the form that kernels and the copy engine read: groups of pieces in packed order.
 * Private to runtime/layout and its tests.  Under the domain's lock. */
#ifndef RT_LAYOUT_GPU_TABLE_H
#define RT_LAYOUT_GPU_TABLE_H

#include "runtime/gpu/gpu.h"
#include "runtime/gpu/kernel.h"
#include "runtime/layout/layout.h"

/* Most groups in one table: 4 MiB, the largest staging buffer of a device. */
#define RT_TABLE_MAX (RT_GPU_STAGE_LARGE / sizeof(struct rt_gpu_group))

/* The groups of a list of blocks, or of some of its blocks. */
struct rt_groups {
    const struct rt_gpu_group *v;
    uint32_t n;
    uint64_t bits; /* bitwise or of all offsets, lengths and strides: shows which powers of two
                    * divide them */
};

/* A cached table.  The cache holds a reference to the blocks, so that their address identifies
 * them. */
struct rt_table {
    struct rt_list link; /* in the cache, most recently used first */
    struct rt_gpu *g;
    const struct rt_blocks *blocks;
    uint32_t from, to; /* of the blocks */
    struct rt_groups groups;
    struct rt_gpu_stage *stage; /* copy on the device; NULL: no kernels or no memory */
    int nused;                  /* operations in progress that read it */
    size_t nbytes;
};

/* The most groups that a list or a block can become; a result above `most` may be inexact. */
int64_t rt_groups_count(const struct rt_blocks *b, int64_t most);
int64_t rt_groups_of_block(const struct rt_block *b, int64_t most);
/* Writes at most `max` groups; -RT_ENOSPC if there are more, possibly without reading all of a long
 * list. */
int rt_groups_write(const struct rt_blocks *b, struct rt_gpu_group *v, uint32_t max,
                    struct rt_groups *out);
/* The table of blocks [from, to) for g, made if it does not exist.  -RT_ENOSPC: more than
 * RT_TABLE_MAX groups; -RT_ENOMEM, -RT_EGPU. */
int rt_table_get(struct rt_gpu *g, const struct rt_blocks *b, uint32_t from, uint32_t to,
                 struct rt_table **out);
void rt_table_put(struct rt_table *t);
/* Drops all unused tables. */
void rt_table_drop_all(void);

#endif
