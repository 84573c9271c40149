/* SPDX-License-Identifier: BSD-3-Clause */
/* Work on streams of the application: the context that a stream belongs to, whether the stream is
 * being captured, and what is put on it.  Nothing here completes: the stream's order is the only
 * order.  Under the domain's lock. */
#ifndef RT_GPU_STREAM_OPS_H
#define RT_GPU_STREAM_OPS_H

#include "runtime/gpu/gpu.h"
#include "runtime/gpu/kernel.h"

/* The context of a stream (NULL: the default stream of the calling thread's context).  -RT_ENOTSUP:
 * devices are not used, or the driver is too old; -RT_EINVAL: no such stream; both logged at info.
 * -RT_EGPU, -RT_ENOMEM, logged. */
int rt_gpu_stream_of(void *stream, struct rt_gpu **out);
/* Whether g has the meeting kernel (meet.cu). */
bool rt_gpu_can_meet(const struct rt_gpu *g);
/* A stream hands over to a host thread, without a kernel: all earlier work of the stream is
 * visible, then `here` is stored to *word, then the stream waits until the thread has stored here +
 * 1 or a number after it, then `value` is stored to *then.  A stream that waits does not need the
 * compute engine, which contexts of other processes use meanwhile.
 *
 * Why an old number does not end the wait, whatever the order in which the device's reads pass its
 * stores: a store is preceded by a fence, so when `here` is stored the store before it is visible.
 * *word then holds a number before here + 1: the number of an earlier use, as `here` grows by 2; or
 * for a captured hand-over, which always has the same `here`, the 0 that its last run has stored
 * (`then` is `word`). */
struct rt_gpu_hand {
    uint32_t *word, here;  /* pinned */
    bool begins, ends;     /* stores; waits */
    uint32_t *then, value; /* then: NULL: nothing */
};
bool rt_gpu_can_hand(void);
/* 1: the stream is being captured, so what is put on it goes into a graph; 0; -RT_EGPU, logged. */
int rt_gpu_stream_capturing(struct rt_gpu *g, void *stream);
/* 1 when everything put on the stream has ended, 0, -RT_EGPU.  Not for a stream that is being
 * captured. */
int rt_gpu_stream_idle(struct rt_gpu *g, void *stream);
/* Puts an operation on the stream: 0, -RT_EGPU, logged.  The destination of a copy may be any
 * memory; its source, memory that g's kernels can read. */
int rt_gpu_meet_on(struct rt_gpu *g, void *stream, const struct rt_gpu_meet *m);
int rt_gpu_hand_on(struct rt_gpu *g, void *stream, const struct rt_gpu_hand *h);
int rt_gpu_copy_on(struct rt_gpu *g, void *stream, void *dst, const void *src, size_t len);
/* Whether a copy to this memory is asynchronous; else, for memory that is not pinned, the driver
 * waits for the stream. */
bool rt_gpu_copies_async(const void *dst);
/* False when the context has gone, and with it its streams, all work on them, and its memory. */
bool rt_gpu_alive(struct rt_gpu *g);

#endif
