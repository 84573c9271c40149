/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing by the copy engine where there are no kernels. */
#ifndef RT_GPU_PIECES_H
#define RT_GPU_PIECES_H

#include <stdbool.h>
#include "runtime/gpu/kernel.h"

struct rt_gpu;

/* Does what the kernel k, RT_GPU_PACK or RT_GPU_UNPACK, would do with these parameters; the groups
 * are in host memory (p->table and p->unit are not used).  device: p->packed is device memory.
 * Complete on return, and slow: other operations make no progress meanwhile.  0, -RT_EGPU,
 * -RT_ENOMEM, logged. */
int rt_gpu_pieces_now(struct rt_gpu *g, enum rt_gpu_kernel k, const struct rt_gpu_pack *p,
                      const struct rt_gpu_group *groups, bool device);

#endif
