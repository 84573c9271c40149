/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between a layout in device memory and its packed form: what pack.c does for host memory.
 * Under the domain's lock. */
#ifndef RT_LAYOUT_PACK_GPU_H
#define RT_LAYOUT_PACK_GPU_H

#include "runtime/gpu/gpu.h"
#include "runtime/layout/layout.h"

/* Starts moving bytes [pos, pos + len) of the packed form of `count` elements at `buf` to or from
 * `packed`.  `buf`: device or managed memory of g's device (NULL with absolute displacements).
 * `packed`: device memory of g, memory of another device mapped on g, or pinned host memory.
 * Asynchronous like rt_gpu_copy: it never fails at once; rt_gpu_progress() calls op->done() later.
 * `l` may be freed before that, the memory must not be. */
void rt_layout_gpu_pack(struct rt_gpu *g, const struct rt_layout *l, int64_t count, const void *buf,
                        int64_t pos, void *packed, int64_t len, struct rt_gpu_op *op);
void rt_layout_gpu_unpack(struct rt_gpu *g, const struct rt_layout *l, int64_t count, void *buf,
                          int64_t pos, const void *packed, int64_t len, struct rt_gpu_op *op);

/* The same, complete on return; `packed` may be any host memory.  They call rt_gpu_progress() while
 * they wait, so they must not be called from a callback.  0, -RT_EGPU, -RT_ENOMEM. */
int rt_layout_gpu_pack_now(struct rt_gpu *g, const struct rt_layout *l, int64_t count,
                           const void *buf, int64_t pos, void *packed, int64_t len);
int rt_layout_gpu_unpack_now(struct rt_gpu *g, const struct rt_layout *l, int64_t count, void *buf,
                             int64_t pos, const void *packed, int64_t len);

/* Frees what is cached for devices; called before rt_gpu_fini(), with no operation in progress. */
void rt_layout_gpu_fini(void);

#endif
