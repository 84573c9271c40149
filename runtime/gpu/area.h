/* SPDX-License-Identifier: BSD-3-Clause */
/* Temporary memory longer than a staging buffer: see area.c. */
#ifndef RT_GPU_AREA_H
#define RT_GPU_AREA_H

#include "runtime/gpu/gpu.h"

struct rt_gpu_area {
    char *p;
    size_t len; /* at least what was asked for */
    struct rt_gpu *g;
    bool host;
    struct rt_list link; /* while it is kept */
};
/* host: memory that is pinned in place, else memory of g's device that can be exported.
 * -RT_ENOMEM; -RT_EGPU. */
int rt_gpu_area_take(struct rt_gpu *g, bool host, size_t nbytes, struct rt_gpu_area **out);
void rt_gpu_area_give(struct rt_gpu_area *a);

#endif
