/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies within a device through pinned host memory. */
#ifndef RT_GPU_BOUNCE_H
#define RT_GPU_BOUNCE_H

#include "runtime/gpu/move_state.h"

/* Enqueues op as copies through pinned memory, if that is its way: *r is the driver's answer.
 * alone: no other copy waits for the engines or runs on them.  With the context current. */
bool move_bounce(struct move_state *m, const struct rt_gpu_op *op, bool alone, cu_stream s,
                 cu_result *r);

#endif
