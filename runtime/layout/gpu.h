/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving data between a layout in device memory and its packed form: what pack.c does for host
 * memory.  Under the domain's lock. */
#ifndef RT_LAYOUT_GPU_H
#define RT_LAYOUT_GPU_H

#include "runtime/gpu/gpu.h"
#include "runtime/layout/layout.h"

/* Starts moving bytes [pos, pos + len) of the packed form of `count` elements at `buf` to or from
 * `packed`.  `buf`: device or managed memory of g's device (NULL with absolute displacements);
 * `packed`: device memory of g, memory of another device mapped there, or pinned host memory.
 * Asynchronous like rt_gpu_copy: never fails at once, op->done() comes later from
 * rt_gpu_progress().  `l` may go before that, the memory may not. */
void rt_layout_gpu_pack(struct rt_gpu *g, const struct rt_layout *l, int64_t count, const void *buf,
                        int64_t pos, void *packed, int64_t len, struct rt_gpu_op *op);
void rt_layout_gpu_unpack(struct rt_gpu *g, const struct rt_layout *l, int64_t count, void *buf,
                          int64_t pos, const void *packed, int64_t len, struct rt_gpu_op *op);

/* The same, finished on return, and `packed` may be any host memory.  They call rt_gpu_progress()
 * while they wait: not from inside a callback.  0, -RT_EGPU, -RT_ENOMEM. */
int rt_layout_gpu_pack_now(struct rt_gpu *g, const struct rt_layout *l, int64_t count,
                           const void *buf, int64_t pos, void *packed, int64_t len);
int rt_layout_gpu_unpack_now(struct rt_gpu *g, const struct rt_layout *l, int64_t count, void *buf,
                             int64_t pos, const void *packed, int64_t len);

/* Gives back what is cached for devices; before rt_gpu_fini(), with nothing under way. */
void rt_layout_gpu_fini(void);

#endif
