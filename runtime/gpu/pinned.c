/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory that devices and this process share.
 *
 * The memory is mapped here and pinned by the driver.  Other processes may read such memory by
 * process_vm_readv, which fails on memory that the driver allocates.  And the memory remains when
 * the application resets the device's context, so flags in it may be polled at any time.  If the
 * driver cannot pin memory of the process, the driver allocates. */
#include "runtime/gpu/pinned.h"
#include "runtime/gpu/cu.h"

#include <sys/mman.h>

static bool pin_own(struct rt_gpu_pinned *m)
{
    if (!rt_cuda.mem_host_register || !rt_cuda.mem_host_unregister)
        return false;
    void *p = mmap(NULL, m->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return false;
    if (rt_cuda.mem_host_register(p, m->len, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP) != CU_OK) {
        munmap(p, m->len);
        return false;
    }
    m->p = p;
    m->mapped = true;
    return true;
}

cu_result rt_gpu_pinned_take(struct rt_gpu_pinned *m, size_t len)
{
    *m = (struct rt_gpu_pinned){ .len = len };
    return pin_own(m) ? CU_OK
                      : rt_cuda.mem_host_alloc(&m->p, len, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP);
}

void rt_gpu_pinned_give(struct rt_gpu_pinned *m, bool lost)
{
    if (!m->p)
        return;
    if (!lost && m->mapped)
        rt_cuda.mem_host_unregister(m->p);
    else if (!lost)
        rt_cuda.mem_free_host(m->p);
    if (m->mapped)
        munmap(m->p, m->len);
    m->p = NULL;
}
