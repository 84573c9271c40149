/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory for RDMA adapters: its descriptors, and the order of the adapters' writes.  Under
 * the domain's lock, like all of runtime/gpu. */
#include "runtime/gpu/rdma.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/classify.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/cu.h"
#include "runtime/gpu/devices.h"
#include "runtime/gpu/driver.h"

#include <unistd.h>

bool rt_gpu_rdma_facts(int ordinal, struct rt_gpu_rdma *out)
{
    cu_device d;
    if (rt_cuda_open(false) || rt_cuda.device_get(&d, ordinal) != CU_OK)
        return false;
    int order = rt_gpu_attribute(d, CU_DEV_RDMA_ORDER);
    int flush = rt_gpu_attribute(d, CU_DEV_RDMA_FLUSH);
    *out = (struct rt_gpu_rdma){
        .rdma = rt_gpu_attribute(d, CU_DEV_RDMA) != 0,
        .dmabuf = rt_cuda.mem_get_handle_for_address_range && rt_gpu_attribute(d, CU_DEV_DMABUF),
        .order = order >= CU_RDMA_ORDER_OWNER                                ? RT_GPU_ORDERED
                 : rt_cuda.flush_rdma_writes && (flush & CU_RDMA_FLUSH_HOST) ? RT_GPU_FLUSH
                                                                             : RT_GPU_READ_BACK,
    };
    return true;
}

bool rt_gpu_pinned(const void *p, struct rt_gpu_ptr *out)
{
    uint32_t type = 0, managed = 0;
    uint64_t id = 0, len = 0;
    cu_ptr base = 0;
    int what[] = { CU_PTR_MEMORY_TYPE, CU_PTR_IS_MANAGED, CU_PTR_BUFFER_ID, CU_PTR_RANGE_START,
                   CU_PTR_RANGE_SIZE };
    void *to[] = { &type, &managed, &id, &base, &len };
    if (!rt_gpu_watch || rt_cuda_open(false) ||
        rt_cuda.pointer_get_attributes(5, what, to, (cu_ptr)(uintptr_t)p) != CU_OK)
        return false;
    if (type != CU_MEMORY_HOST || managed || !id || (cu_ptr)(uintptr_t)p - base >= len)
        return false;
    *out = (struct rt_gpu_ptr){
        .kind = RT_MEM_PINNED, .base = (uintptr_t)base, .len = (size_t)len, .id = id, .single = true
    };
    return true;
}

void rt_gpu_sync_copies(const struct rt_gpu_ptr *p)
{
    unsigned yes = 1;
    if (rt_cuda.pointer_set_attribute) /* pools refuse; their copies are ordered by streams only */
        rt_cuda.pointer_set_attribute(&yes, CU_PTR_SYNC_MEMOPS, (cu_ptr)p->base);
}

int rt_gpu_dmabuf(const struct rt_gpu_ptr *p, uintptr_t start, size_t len, int *fd, size_t *off)
{
    struct rt_gpu_rdma facts;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = start & ~(page - 1);
    uintptr_t to = (start + len + page - 1) & ~(page - 1);
    int handle = -1;
    if (p->kind == RT_MEM_MANAGED || !rt_gpu_rdma_facts(p->ordinal, &facts) || !facts.dmabuf)
        return -RT_ENOTSUP;
    int in = rt_gpu_enter(p->g);
    if (in < 0)
        return in;
    cu_result r = rt_cuda.mem_get_handle_for_address_range(&handle, (cu_ptr)from, to - from,
                                                           CU_RANGE_DMABUF_FD, 0);
    if (r == CU_OK)
        rt_gpu_sync_copies(p);
    rt_gpu_leave(in);
    if (r != CU_OK) {
        log_debug(GPU, "no dma-buf of %#lx+%zu: the CUDA driver answered %d", (unsigned long)from,
                  (size_t)(to - from), r);
        return -RT_ENOTSUP;
    }
    *fd = handle;
    *off = start - from;
    return 0;
}

int rt_gpu_flush_writes(struct rt_gpu *g)
{
    int in = rt_gpu_enter(g);
    if (in < 0)
        return in;
    cu_result r = rt_cuda.flush_rdma_writes(CU_RDMA_TO_CTX, CU_RDMA_FOR_OWNER);
    rt_gpu_leave(in);
    return r == CU_OK ? 0 : rt_cuda_error(r, "cuFlushGPUDirectRDMAWrites");
}
