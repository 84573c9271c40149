/* SPDX-License-Identifier: BSD-3-Clause */
/* What an address is.  Any thread may call rt_gpu_is_device() without a lock. */
#ifndef RT_GPU_CLASSIFY_H
#define RT_GPU_CLASSIFY_H

#include "runtime/base/atomic.h"
#include "runtime/gpu/address.h"

/* False where no address can be device memory: no NVIDIA device on the machine, or cfg.gpu is off.
 * Set by rt_gpu_init(), constant from then on. */
extern RT_HIDDEN bool rt_gpu_watch;

bool rt_gpu_look(const void *p); /* asks the driver, if this process has loaded it */

/* Parts of the address space into which no driver maps anything: the program's variables, its heap
 * (memory of brk()), and the main thread's stack.  They save most small buffers a call of the
 * driver, 0.15 us for host memory (H200, driver 580).  Lengths change; the heap's address is
 * written once, before its length.  A thread that sees the two writes in the other order takes only
 * the lowest addresses for the heap, which is harmless. */
extern struct rt_gpu_own {
    uintptr_t data, heap, stack_end;
    size_t data_len, heap_len, stack_len;
} rt_gpu_own;

static inline bool rt_gpu_is_own(const void *p)
{
    const uintptr_t a = (uintptr_t)p;
    unsigned data = a - rt_gpu_own.data < rt_gpu_own.data_len;
    unsigned heap = a - rt_load_relaxed(&rt_gpu_own.heap) < rt_load_relaxed(&rt_gpu_own.heap_len);
    unsigned stack = rt_gpu_own.stack_end - a - 1 < rt_load_relaxed(&rt_gpu_own.stack_len);
    return (data | heap | stack) != 0; /* one branch */
}

/* Whether p is memory that the CPU must not touch (or, for managed memory, should not): one
 * predicted branch without a GPU; with one, a few nanoseconds for the program's own memory.  For
 * all other memory the driver is asked each time, because no earlier answer is safe: memory that
 * has been unmapped may be device memory at the next call.  Pinned host memory is host memory. */
static inline bool rt_gpu_is_device(const void *p)
{
    return rt_unlikely(rt_gpu_watch) && !rt_gpu_is_own(p) && rt_gpu_look(p);
}

/* Asks the driver about [p, p + len).  -RT_EINVAL, logged with the bounds at level info: the range
 * ends outside its allocation.  -RT_ENOENT, not logged: p is not device memory; if
 * rt_gpu_is_device() has returned true, it has been freed or was never valid.  -RT_ENOTSUP: the
 * driver is too old.  -RT_EGPU, -RT_ENOMEM, logged. */
int rt_gpu_query(const void *p, size_t len, struct rt_gpu_ptr *out);
/* Both questions at once, with one call of the driver: 0, p is host memory; 1, *out is set; or an
 * error of rt_gpu_query(). */
int rt_gpu_find_watched(const void *p, size_t len, struct rt_gpu_ptr *out);
static inline int rt_gpu_find(const void *p, size_t len, struct rt_gpu_ptr *out)
{
    return rt_unlikely(rt_gpu_watch) && !rt_gpu_is_own(p) ? rt_gpu_find_watched(p, len, out) : 0;
}
/* Whether an allocation found by a query still exists, and has not been replaced by another one;
 * memory of cuMemAlloc: by one of another length.  Other threads may free it meanwhile. */
bool rt_gpu_is_still(const struct rt_gpu_ptr *p);

/* Whether memory is this device's own: neither managed memory, which may be on the host, nor
 * another device's memory mapped in its context. */
bool rt_gpu_lies_on(const struct rt_gpu *g, const struct rt_gpu_ptr *p);

/* Forgets all answers. */
void rt_gpu_classify_init(void);

#endif
