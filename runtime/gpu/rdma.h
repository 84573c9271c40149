/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that other devices read and write. */
#ifndef RT_GPU_RDMA_H
#define RT_GPU_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_gpu;
struct rt_gpu_ptr;

/* A descriptor of the device memory of whole pages around [start, start + len), for an adapter's
 * driver to map; the caller closes it. *off: offset of start in it.  From now on the driver's
 * copies of that allocation end before the calls that start them return, so that an adapter never
 * reads what a copy has yet to write.  -RT_ENOTSUP, not logged: not with this driver or this
 * memory; -RT_EGPU: the context is lost. */
int rt_gpu_dmabuf(const struct rt_gpu_ptr *p, uintptr_t start, size_t len, int *fd, size_t *off);
/* Only makes the driver's copies of the allocation end before the calls that start them return, for
 * memory that an adapter accesses in another way. */
void rt_gpu_sync_copies(const struct rt_gpu_ptr *p);

/* Whether p is host memory that the driver has pinned; if so, its allocation: kind, base, len, id;
 * nothing else of *out.  Costs a call of the driver, if this process has loaded it. */
bool rt_gpu_pinned(const void *p, struct rt_gpu_ptr *out);

/* What to do after an adapter has written to a GPU's memory, before that GPU is notified. */
enum rt_gpu_order {
    RT_GPU_ORDERED,  /* nothing */
    RT_GPU_FLUSH,    /* rt_gpu_flush_writes() */
    RT_GPU_READ_BACK /* the adapter must read something of that GPU's memory */
};
struct rt_gpu_rdma {
    bool rdma;   /* adapters may write to its memory at all */
    bool dmabuf; /* rt_gpu_dmabuf() */
    enum rt_gpu_order order;
};
/* False: there is no such device. */
bool rt_gpu_rdma_facts(int ordinal, struct rt_gpu_rdma *out);
int rt_gpu_flush_writes(struct rt_gpu *g); /* 0 or -RT_EGPU, logged */

#endif
