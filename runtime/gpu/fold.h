/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions on a device. */
#ifndef RT_GPU_FOLD_H
#define RT_GPU_FOLD_H

#include "runtime/gpu/kernel.h"
#include "runtime/gpu/op.h"
#include <stdint.h>

/* A reduction (kernel.h has the enums and the rule).  All pointers are usable by g as for
 * rt_gpu_copy(): its own memory, mapped memory of other devices, pinned host memory. */
struct rt_gpu_fold {
    uint8_t type, code; /* enum rt_gpu_type, enum rt_gpu_fold_code */
    uint8_t nsrc, ndst; /* 1 to RT_GPU_FOLD_PLACES */
    bool near;          /* all destinations lie on g (rt_gpu_lies_on): completes sooner */
    bool prefixes;      /* dst[j] gets the fold of src[0] to src[j] */
    size_t count;       /* elements */
    const void *src[16];
    void *dst[16];
};
/* Whether g has a kernel for this; the same on all devices of one generation. */
bool rt_gpu_can_fold(struct rt_gpu *g, unsigned type, unsigned code);
size_t rt_gpu_type_nbytes(unsigned type);
/* The kernel of a reduction of several sources; *type becomes the type that the kernel knows,
 * because different reductions have equal bits. */
enum rt_gpu_kernel rt_gpu_fold_kernel(uint8_t *type, unsigned code);
/* Starts it like rt_gpu_copy(); `f` is copied.  Not ordered with other operations.  done() means
 * that every stream, device and the CPU sees all destinations.  By the polling kernel or by a
 * launch, as the cost model decides. */
void rt_gpu_fold(struct rt_gpu *g, const struct rt_gpu_fold *f, struct rt_gpu_op *op);
/* The same as a kernel on a stream of the application in g's context, in order with the stream's
 * work.  Its end is not reported, and it may be captured.  -RT_ENOTSUP: no kernel; -RT_EGPU,
 * logged. */
int rt_gpu_fold_on(struct rt_gpu *g, void *stream, const struct rt_gpu_fold *f);

#endif
