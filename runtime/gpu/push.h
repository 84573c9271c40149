/* SPDX-License-Identifier: BSD-3-Clause */
/* Short collectives of streams by one kernel a rank (push_kernels.h).  Under the domain's lock. */
#ifndef RT_GPU_PUSH_H
#define RT_GPU_PUSH_H

#include "runtime/gpu/gpu.h"
#include "runtime/gpu/push_kernels.h"

/* Bytes of a slot of an inbox, the same on all ranks. */
size_t rt_gpu_push_slot(void);
/* Bytes of a region for data of `len` bytes at most. */
static inline size_t rt_gpu_push_stride(size_t len)
{
    return (len + RT_GPU_PUSH_GROUP - 1) / RT_GPU_PUSH_GROUP * RT_GPU_PUSH_ROOM;
}
/* Bytes of data in `room` bytes of an inbox. */
static inline size_t rt_gpu_push_data(size_t room)
{
    return room / RT_GPU_PUSH_ROOM * RT_GPU_PUSH_GROUP;
}
/* Puts a call on a stream of the application in g's context: 0, -RT_EGPU, logged.  Type and code
 * are those of a reduction (rt_gpu_can_fold()), or with `folds` 0 of none. */
int rt_gpu_push_on(struct rt_gpu *g, void *stream, const struct rt_gpu_push *call);
/* The same for one side of a message. */
int rt_gpu_message_on(struct rt_gpu *g, void *stream, const struct rt_gpu_message *message);

#endif
