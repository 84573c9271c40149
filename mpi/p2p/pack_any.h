/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing and unpacking where either side may be host or device memory, finished on return. */
#ifndef WM_P2P_PACK_ANY_H
#define WM_P2P_PACK_ANY_H

#include "mpi/p2p/resolve.h"
#include "mpi/p2p/scattered.h"

/* Packs or unpacks device memory, under the domain's lock.  The first for a buffer on the GPU `g`,
 * the second for any buffer that is not host memory.  `packed` is memory of the same device or any
 * host memory; host memory when the data are scattered.  0 or -RT_E... */
int wm_dev_move_now(struct rt_gpu *g, const struct wm_packing *p);
int wm_dev_move(const struct wm_mem *mem, const struct wm_packing *p);
/* The same for a user's buffer in any memory. */
static inline int wm_move(const struct wm_mem *mem, const struct wm_packing *p)
{
    if (rt_unlikely(mem->kind != WM_MEMORY_HOST))
        return wm_dev_move(mem, p);
    if (p->pack)
        rt_layout_pack(p->l, p->count, p->user, p->pos, p->packed, p->len);
    else
        rt_layout_unpack(p->l, p->count, p->user, p->pos, p->packed, p->len);
    return 0;
}
/* The same for a buffer that has not been resolved. */
static inline int wm_move_now(const struct wm_packing *p)
{
    struct wm_mem mem;
    int err = wm_resolve(p->user, p->count, p->l, p->len, &mem);
    return err < 0 ? err : wm_move(&mem, p);
}

static inline int wm_pack_now(const struct wm_mem *mem, const struct rt_layout *l, int64_t count,
                              const void *buf, int64_t pos, void *out, int64_t nbytes)
{
    return wm_move(mem, &(struct wm_packing){ l, count, (char *)(uintptr_t)buf, pos, (char *)out,
                                              nbytes, true });
}
static inline int wm_unpack_now(const struct wm_mem *mem, const struct rt_layout *l, int64_t count,
                                void *buf, int64_t pos, const void *in, int64_t nbytes)
{
    return wm_move(mem, &(struct wm_packing){ l, count, (char *)buf, pos, (char *)(uintptr_t)in,
                                              nbytes, false });
}

/* As rt_layout_pack() and _unpack(), for MPI_Pack and its companions.  Any thread; they take the
 * domain's lock when a device is involved.  0 or -RT_E... */
int wm_pack_any(const struct rt_layout *l, int64_t count, const void *buf, int64_t pos, void *out,
                int64_t nbytes);
int wm_unpack_any(const struct rt_layout *l, int64_t count, void *buf, int64_t pos, const void *in,
                  int64_t nbytes);
/* The MPI error for a negative return code, with its text. */
int wm_any_error(int err);

#endif
