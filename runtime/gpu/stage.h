/* SPDX-License-Identifier: BSD-3-Clause */
/* Staging memory of a context. */
#ifndef RT_GPU_STAGE_H
#define RT_GPU_STAGE_H

#include <stdbool.h>
#include <stddef.h>

struct rt_gpu;

/* A buffer from a pool: pinned host memory that every context of this process may address, or
 * device memory that can be exported. */
struct rt_gpu_stage {
    char *p;
    size_t len;
    struct rt_gpu *g; /* NULL: pinned host */
    struct rt_gpu_stage *next;
};
/* Bytes.  Buffers have one of these lengths, or a larger power of two.  Small: an eager message of
 * any transport; large: a piece long enough for the full rate of a link (NVLink 4). */
#define RT_GPU_STAGE_SMALL (32u << 10)
#define RT_GPU_STAGE_LARGE (4u << 20)
/* `g`: the context in use; where: host or device memory.  -RT_ENOMEM, logged with the consequence:
 * for these two lengths once, for larger ones at level info; -RT_EGPU. */
int rt_gpu_stage_take(struct rt_gpu *g, bool host, size_t nbytes, struct rt_gpu_stage **out);
void rt_gpu_stage_give(struct rt_gpu_stage *s);

/* release: defers the free of all idle blocks. */
void rt_gpu_stage_init(struct rt_gpu *g);
void rt_gpu_stage_release(struct rt_gpu *g);
void rt_gpu_stage_fini(struct rt_gpu *g);

#endif
