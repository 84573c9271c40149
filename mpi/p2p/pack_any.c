/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing and unpacking between any two kinds of memory, complete on return.  A device buffer and
 * packed host memory, or packed memory of the same device, take one call of runtime/layout; other
 * pairs go through a host buffer. */
#include "mpi/p2p/pack_any.h"
#include <stdlib.h>
#include "mpi/p2p/device.h"
#include "runtime/base/err.h"

static const struct rt_layout bytes = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_BYTE
};

static bool same_device(const struct wm_packing *m)
{
    struct rt_gpu_ptr a, b;
    bool scattered, one;
    return wm_dev_query(m->user, m->count, m->l, &a, &scattered) >= 0 && !scattered &&
           wm_dev_query(m->packed, m->len, &bytes, &b, &one) >= 0 && a.g == b.g;
}

static int through_host(const struct wm_packing *m)
{
    struct wm_packing user = *m;
    struct wm_packing packed = { &bytes, m->len, m->packed, 0, NULL, m->len, !m->pack };
    char *bounce = malloc((size_t)m->len);
    if (!bounce)
        return -RT_ENOMEM;
    user.packed = packed.packed = bounce;
    int err = wm_move_now(m->pack ? &user : &packed);
    if (err >= 0)
        err = wm_move_now(m->pack ? &packed : &user);
    free(bounce);
    return err;
}

static int run(const struct wm_packing *m)
{
    bool user = wm_on_device(m->user, m->count, m->l, m->len),
         packed = wm_on_device(m->packed, m->len, &bytes, m->len);
    if (!user && !packed)
        return wm_move_now(m);
    rt_lock(&wm_main_domain->lock);
    int err = !packed || (user && same_device(m)) ? wm_move_now(m) : through_host(m);
    rt_unlock(&wm_main_domain->lock);
    return err;
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
