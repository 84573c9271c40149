/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing and unpacking between any two kinds of memory, complete on return.  A device buffer and
 * packed host memory, or packed memory of the same device, take one call of runtime/layout; other
 * pairs go through a host buffer. */
#include "mpi/p2p/pack_any.h"
#include <stdlib.h>
#include "mpi/base/err.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/err.h"
#include "runtime/layout/pack_gpu.h"

int wm_dev_move_now(struct rt_gpu *g, const struct wm_packing *p)
{
    char *user = p->user + p->pos;
    if (p->l->contig)
        return rt_gpu_copy_now(g, p->pack ? p->packed : user, p->pack ? user : p->packed,
                               (size_t)p->len);
    int err = p->pack
                  ? rt_layout_gpu_pack_now(g, p->l, p->count, p->user, p->pos, p->packed, p->len)
                  : rt_layout_gpu_unpack_now(g, p->l, p->count, p->user, p->pos, p->packed, p->len);
    return err == -RT_ENOMEM ? wm_scattered_copy(p) : err; /* slow, but needs no memory */
}

int wm_dev_move(const struct wm_mem *mem, const struct wm_packing *p)
{
    return mem->kind == WM_MEMORY_SCATTERED ? wm_scattered_copy(p) : wm_dev_move_now(mem->at.g, p);
}

static const struct rt_layout bytes = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_BYTE
};

static int through_host(const struct wm_packing *m, const struct wm_mem *user,
                        const struct wm_mem *packed)
{
    struct wm_packing first = *m;
    struct wm_packing second = { &bytes, m->len, m->packed, 0, NULL, m->len, !m->pack };
    char *bounce = malloc((size_t)m->len);
    if (!bounce)
        return -RT_ENOMEM;
    first.packed = second.packed = bounce;
    int err = m->pack ? wm_move(user, &first) : wm_move(packed, &second);
    if (err >= 0)
        err = m->pack ? wm_move(packed, &second) : wm_move(user, &first);
    free(bounce);
    return err;
}

static int run(const struct wm_packing *m)
{
    struct wm_mem user, packed;
    if (rt_likely(!rt_gpu_watch))
        return wm_move(&wm_mem_host, m);
    rt_lock(&wm_main_domain->lock);
    int err = wm_resolve(m->user, m->count, m->l, m->len, &user);
    if (err >= 0)
        err = wm_resolve_bytes(m->packed, m->len, &packed);
    bool host = err >= 0 && user.kind == WM_MEMORY_HOST && packed.kind == WM_MEMORY_HOST;
    if (err >= 0 && !host)
        err = packed.kind == WM_MEMORY_HOST ||
                      (user.kind == packed.kind && user.at.g == packed.at.g)
                  ? wm_move(&user, m)
                  : through_host(m, &user, &packed);
    rt_unlock(&wm_main_domain->lock);
    return host ? wm_move(&user, m) : err; /* other threads may use the lock */
}

int wm_pack_any(const struct rt_layout *l, int64_t count, const void *buf, int64_t pos, void *out,
                int64_t nbytes)
{
    return run(&(struct wm_packing){ l, count, (char *)(uintptr_t)buf, pos, out, nbytes, true });
}

int wm_unpack_any(const struct rt_layout *l, int64_t count, void *buf, int64_t pos, const void *in,
                  int64_t nbytes)
{
    return run(&(struct wm_packing){ l, count, buf, pos, (char *)(uintptr_t)in, nbytes, false });
}

int wm_any_error(int err)
{
    return err == -RT_EADDR ? wm_dev_fault() : wm_err_rt(err, "could not copy device memory");
}
