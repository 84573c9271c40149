/* SPDX-License-Identifier: BSD-3-Clause */
/* Resolves buffers: the bytes that a buffer, a count and a datatype describe, in one allocation of
 * device memory, in host memory, or in several allocations.  Under the domain's lock. */
#include "mpi/p2p/resolve.h"
#include <stdio.h>
#include "mpi.h"
#include "mpi/base/err.h"
#include "mpi/p2p/scattered.h"
#include "runtime/base/err.h"

static const struct rt_layout bytes = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_BYTE
};

const struct wm_mem wm_mem_host = { .kind = WM_MEMORY_HOST };

/* The bytes from the first to the last that are used. */
static void span(const void *buf, int64_t count, const struct rt_layout *l, uintptr_t *lo,
                 uintptr_t *hi)
{
    int64_t step = (count - 1) * l->extent;
    *lo = (uintptr_t)buf + (uintptr_t)l->true_lb + (uintptr_t)(step < 0 ? step : 0);
    *hi = *lo + (uintptr_t)(step < 0 ? -step : step) + (uintptr_t)l->true_extent;
    if (l->contig) {
        *lo = (uintptr_t)buf;
        *hi = *lo + (uintptr_t)(count * l->size);
    }
}

static __thread char fault[256];

int wm_dev_fault(void) { return wm_err(MPI_ERR_BUFFER, "%s", fault); }

/* Describes what is wrong with a buffer that the driver does not know as one allocation. */
static int bad_buffer(uintptr_t lo, uintptr_t hi, int err)
{
    struct rt_gpu_ptr p;
    if (err == -RT_EINVAL && rt_gpu_query((const void *)lo, 0, &p) >= 0 && hi > p.base + p.len)
        snprintf(fault, sizeof fault,
                 "the buffer's data are the %zu bytes from %p on, but the device memory there ends "
                 "after %zu bytes (allocation of %zu bytes at %p); use a smaller count or a larger "
                 "allocation",
                 (size_t)(hi - lo), (void *)lo, (size_t)(p.base + p.len - lo), p.len,
                 (void *)p.base);
    else
        snprintf(fault, sizeof fault,
                 "the buffer's data are the %zu bytes from %p on, which are not all device memory "
                 "of this process: freed, never allocated, or partly host memory",
                 (size_t)(hi - lo), (void *)lo);
    return -RT_EADDR;
}

/* As rt_gpu_find(), for data with gaps.  The allocation is found first: data beyond it are legal,
 * and must not be logged as an error. */
static int find_gaps(uintptr_t lo, uintptr_t hi, struct rt_gpu_ptr *out)
{
    int rc = rt_gpu_find((const void *)lo, 0, out);
    if (rc == 0)
        return rt_gpu_is_device((const void *)(hi - 1)) ? -RT_ENOENT : 0;
    if (rc < 0 || hi <= out->base + out->len)
        return rc;
    return out->kind == RT_MEM_CUDA_VMM ? rt_gpu_find((const void *)lo, hi - lo, out) : -RT_EINVAL;
}

/* Only absolute addresses may lie in more than one allocation (MPI-5.0 section 5.1.12), with device
 * memory between host memory. */
int wm_resolve_watched(const void *buf, int64_t count, const struct rt_layout *l,
                       struct wm_mem *out)
{
    uintptr_t lo, hi;
    span(buf, count, l, &lo, &hi);
    bool absolute = !buf && !l->contig;
    int rc = l->contig ? rt_gpu_find_watched((const void *)lo, hi - lo, &out->at)
                       : find_gaps(lo, hi, &out->at);
    if (rc == 0 && absolute && wm_scattered_look(l, count, buf))
        rc = -RT_ENOENT;
    out->kind = rc > 0 ? WM_MEMORY_DEVICE : WM_MEMORY_HOST;
    if (rc >= 0)
        return 0;
    if (rc != -RT_EINVAL && rc != -RT_ENOENT)
        return rc;
    if (!absolute || wm_scattered_check(l, count, buf) < 0)
        return bad_buffer(lo, hi, rc);
    out->kind = WM_MEMORY_SCATTERED;
    return 0;
}

int wm_resolve_bytes(const void *p, int64_t n, struct wm_mem *out)
{
    return wm_resolve(p, n, &bytes, n, out);
}

const struct wm_mem *wm_resolve_slow(const void *buf, int64_t count, const struct rt_layout *l,
                                     struct wm_mem *room)
{
    room->err = wm_resolve_watched(buf, count, l ? l : &bytes, room);
    if (room->err < 0)
        room->kind = WM_MEMORY_UNRESOLVED;
    return room->kind == WM_MEMORY_HOST ? NULL : room;
}
