/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic changes of elements by a device. */
#ifndef RT_GPU_ATOMIC_H
#define RT_GPU_ATOMIC_H

#include "runtime/gpu/op.h"
#include <stdint.h>

/* Parameters of weft_atomic, which kernel.h describes; type: an integer or a real number. */
struct rt_gpu_atomic {
    uint8_t type, code, given;
    /* `old` lies on g (rt_gpu_lies_on), or is 0 and the elements do: completes sooner.  What has
     * returned an old value has changed the element, on any device. */
    bool near;
    size_t count;
    uint64_t dst, table, src, compare, old;
};
/* Whether g can carry these out. */
bool rt_gpu_has_atomics(struct rt_gpu *g);
/* Whether changes by g of the memory at `at`, its own or mapped, are atomic with changes by the
 * device on which the memory lies. */
bool rt_gpu_atomics_reach(struct rt_gpu *g, const void *at);
/* Starts it like rt_gpu_fold(). */
void rt_gpu_atomic(struct rt_gpu *g, const struct rt_gpu_atomic *a, struct rt_gpu_op *op);

#endif
