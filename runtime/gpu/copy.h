/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that complete later, and progress. */
#ifndef RT_GPU_COPY_H
#define RT_GPU_COPY_H

#include "runtime/base/atomic.h"
#include "runtime/gpu/kernel.h"
#include "runtime/gpu/op.h"

struct move_state;

/* Starts a copy between any two of: memory of g's device, memory of another device mapped in g's
 * context (rt_gpu_import), managed memory, pinned host memory.  Never blocks and never fails at
 * once.  Copies are not ordered among each other.  done() means that every stream, device and the
 * CPU sees the data. */
void rt_gpu_copy(struct rt_gpu *g, void *dst, const void *src, size_t len, struct rt_gpu_op *op);
/* The same for a copy from memory of any device into memory that lies on g's (rt_gpu_lies_on):
 * copies by kernels end sooner. */
void rt_gpu_copy_near(struct rt_gpu *g, void *dst, const void *src, size_t len,
                      struct rt_gpu_op *op);
/* The same for a copy that is to begin when `before`, an unfinished copy on the same device, has
 * ended: without the host, so that the link is not idle between the two.  False: nothing has
 * happened, because `before` is not with a copy engine, or this copy would not be. */
bool rt_gpu_copy_behind(struct rt_gpu *g, void *dst, const void *src, size_t len,
                        struct rt_gpu_op *op, const struct rt_gpu_op *before);
/* For a caller that starts copies one after another without rt_gpu_progress() in between: starts
 * those that wait if they are enough for a launch, which then run beside the caller. */
void rt_gpu_copies_more(struct rt_gpu *g);
/* The same as rt_gpu_copy(), complete on return, with any host memory; for calls that block anyway.
 * 0, -RT_EGPU, -RT_ENOMEM, logged. */
int rt_gpu_copy_now(struct rt_gpu *g, void *dst, const void *src, size_t len);
/* For a caller that waits for an operation: starts `op` with the values of rt_gpu_wait_begin();
 * rt_gpu_wait() returns the value that done() was given.  It calls rt_gpu_progress(): not from
 * inside a callback. */
struct rt_gpu_wait {
    struct rt_gpu_op op; /* first */
    bool done;
    int err;
};
void rt_gpu_wait_begin(struct rt_gpu_wait *w);
int rt_gpu_wait(struct rt_gpu_wait *w);
/* Starts a kernel of the embedded images on g's kernel stream; op as for a copy. */
void rt_gpu_launch(struct rt_gpu *g, enum rt_gpu_kernel k, unsigned grid, unsigned block,
                   const void *params, size_t nbytes, struct rt_gpu_op *op);

int rt_gpu_progress_slow(void);
static inline int rt_gpu_progress(void)
{
    return rt_unlikely(rt_gpu_nactive) ? rt_gpu_progress_slow() : 0;
}

/* The first step of each operation.  False: it has ended already. */
bool move_begin(struct rt_gpu *g, struct rt_gpu_op *op);
/* Many copies at once are faster in a batch or in launches: whether the ring is best for one more
 * that has just come. */
bool move_ring_is_idle(const struct move_state *m);
/* init: g's context is current, streams and images exist; 0, -RT_ENOMEM, -RT_EGPU.  When
 * g->lost is seen, the next rt_gpu_progress() ends all operations of g with -RT_EGPU.  fini, from
 * rt_gpu_fini() only: waits for running operations, ends waiting ones, and frees; with g->lost it
 * makes no call of the driver.  Tolerates g->move NULL. */
int rt_gpu_move_init(struct rt_gpu *g);
void rt_gpu_move_fini(struct rt_gpu *g);

#endif
