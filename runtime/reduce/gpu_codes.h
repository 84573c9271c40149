/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions of runtime/reduce as types and codes of device kernels. */
#ifndef RT_REDUCE_GPU_CODES_H
#define RT_REDUCE_GPU_CODES_H

#include "runtime/reduce/reduce.h"

struct rt_gpu;

struct rt_reduce_gpu {
    uint8_t type, code; /* enum rt_gpu_type, enum rt_gpu_fold_code */
};
/* Type and code of the kernel for this operation on this type.  -RT_ENOTSUP: there is no kernel, or
 * not on this device; g NULL: for any device.  An element has rt_elem_nbytes() bytes on the device,
 * too.  Under the domain's lock. */
int rt_reduce_gpu(struct rt_gpu *g, const struct rt_op *op, enum rt_elem elem,
                  struct rt_reduce_gpu *out);

/* The same for atomic changes of elements of `nbytes` (struct rt_gpu_atomic), MPI_REPLACE and
 * MPI_NO_OP included; elements without arithmetic count as integers.  -RT_ENOTSUP for every
 * operation on a type that is not changed atomically. */
int rt_reduce_gpu_atomic(enum rt_opcode op, enum rt_elem elem, int64_t nbytes,
                         struct rt_reduce_gpu *out);

/* Starts inout = in op inout for n elements of a contiguous layout, or of a pair with a hole whose
 * elements are adjacent as in C; both buffers are as for rt_gpu_fold(). */
struct rt_gpu_op;
void rt_reduce_gpu_apply(struct rt_gpu *g, struct rt_reduce_gpu r, const void *in, void *inout,
                         int64_t n, const struct rt_layout *l, struct rt_gpu_op *op);

#endif
