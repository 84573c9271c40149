/* SPDX-License-Identifier: BSD-3-Clause */
/* The contexts that this process uses. */
#ifndef RT_GPU_DEV_H
#define RT_GPU_DEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_gpu;

/* Changes when a context is first used and when contexts have been released; a kept struct rt_gpu
 * is then invalid.  rt_gpu_next() lists those in use: NULL gives the first. */
extern uint32_t rt_gpu_era;
struct rt_gpu *rt_gpu_next(const struct rt_gpu *g);
/* The device's primary context as struct rt_gpu, for tools and for memory without a context.
 * -RT_ENOENT, -RT_ENOMEM, -RT_EGPU, logged. */
int rt_gpu_primary(int ordinal, struct rt_gpu **out);
/* Closes unused mappings and frees unused memory of all devices.  Waits for the application's
 * kernels, so it is for callers that have no other way; does nothing where such a wait may last for
 * ever (rt_gpu_awaits).  Returns whether anything was done. */
bool rt_gpu_run_deferred(void);
/* Bytes of device memory that the library has allocated in all contexts, idle or in use. */
size_t rt_gpu_held(void);

/* The struct rt_gpu of a context, prepared when first needed.  ctx is a cu_ctx; NULL: a
 * context of device `ordinal`, for memory that belongs to a device and to no context.  -RT_EGPU,
 * -RT_ENOMEM, logged. */
int rt_gpu_of(void *ctx, int ordinal, struct rt_gpu **out);

void rt_gpu_end_all(void); /* for rt_gpu_fini() */

#endif
