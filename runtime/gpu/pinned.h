/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory that devices and this process share.  Private to runtime/gpu. */
#ifndef RT_GPU_PINNED_H
#define RT_GPU_PINNED_H

#include "runtime/gpu/cu_types.h"

/* take: a context is current; `p` is NULL after an error.  give: with `lost` it makes no call of
 * the driver; does nothing when `p` is NULL. */
struct rt_gpu_pinned {
    void *p;
    size_t len;  /* bytes */
    bool mapped; /* by this process, not by the driver */
};
cu_result rt_gpu_pinned_take(struct rt_gpu_pinned *m, size_t len);
void rt_gpu_pinned_give(struct rt_gpu_pinned *m, bool lost);

#endif
