/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to mpi: in which memory the buffer of a call lies.  The buffer is resolved once, where
 * the call enters the library; the functions below receive the struct wm_mem as an argument. */
#ifndef WM_P2P_RESOLVE_H
#define WM_P2P_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime/gpu/gpu.h"
#include "runtime/layout/layout.h"

enum wm_memory {
    WM_MEMORY_HOST,
    WM_MEMORY_DEVICE,
    WM_MEMORY_SCATTERED, /* several allocations: packed piece by piece, complete on return */
    WM_MEMORY_UNRESOLVED /* an error */
};

struct wm_mem {
    enum wm_memory kind;
    int err;              /* -RT_E... for WM_MEMORY_UNRESOLVED */
    struct rt_gpu_ptr at; /* the allocation, for WM_MEMORY_DEVICE */
};
extern const struct wm_mem wm_mem_host; /* any host memory */

/* The general case of wm_resolve(), where addresses may be device memory. */
int wm_resolve_watched(const void *buf, int64_t count, const struct rt_layout *l,
                       struct wm_mem *out);

/* Resolves a buffer of nbytes in all: one predicted branch without a GPU.  A buffer of zero bytes
 * may have any address.  Under the domain's lock.  0 or -RT_E...; -RT_EADDR with a text for
 * wm_dev_fault(): the buffer is invalid. */
static inline int wm_resolve(const void *buf, int64_t count, const struct rt_layout *l,
                             int64_t nbytes, struct wm_mem *out)
{
    out->kind = WM_MEMORY_HOST;
    if (rt_likely(!rt_gpu_watch) || nbytes <= 0 || (l->contig && rt_gpu_is_own(buf)))
        return 0;
    return wm_resolve_watched(buf, count, l, out);
}
int wm_resolve_bytes(const void *p, int64_t n, struct wm_mem *out);
/* The same for short paths, which write nothing for host memory.  NULL: host memory; else `room`,
 * which holds an error as WM_MEMORY_UNRESOLVED. */
const struct wm_mem *wm_resolve_slow(const void *buf, int64_t count, const struct rt_layout *l,
                                     struct wm_mem *room); /* l NULL: bytes */
static inline const struct wm_mem *wm_resolve_now(const void *buf, int64_t count,
                                                  const struct rt_layout *l, int64_t nbytes,
                                                  struct wm_mem *room)
{
    if (rt_likely(!rt_gpu_watch) || nbytes <= 0 || (l->contig && rt_gpu_is_own(buf)))
        return NULL;
    return wm_resolve_slow(buf, count, l, room);
}
static inline const struct wm_mem *wm_resolve_contig(const void *buf, int64_t nbytes,
                                                     struct wm_mem *room)
{
    if (rt_likely(!rt_gpu_watch) || nbytes <= 0 || rt_gpu_is_own(buf))
        return NULL;
    return wm_resolve_slow(buf, nbytes, NULL, room);
}

/* MPI_ERR_BUFFER with the text of the last -RT_EADDR of this thread. */
int wm_dev_fault(void);

#endif
