/* SPDX-License-Identifier: BSD-3-Clause */
/* What collectives see of device memory: a rank's range, described for all ranks of the team, and
 * the others' ranges, mapped here.  Both belong to the transport for device memory, as those of
 * messages do (mpi/p2p/device.c), and so does the knowledge whether an allocation still stands.
 * Under the domain's lock. */
#include "mpi/core/coll_team.h"
#include "mpi/core/comm.h"
#include "mpi/p2p/engine.h"
#include "runtime/base/err.h"

_Static_assert(BTL_KEY_MAX <= COLL_DEV_KEY, "a key of the transport is one of a team");

/* The connection to a rank for device memory. */
static int dev_peer(struct coll_team *t, int rank, struct btl_peer **out)
{
    struct wm_comm *c = t->arg;
    struct wm_peer *p;
    int err = wm_comm_peer(c, rank, &p);
    if (err < 0)
        return err;
    *out = wm_domain_dev(c->dom, p);
    return *out ? 0 : -RT_ENOTSUP;
}

static int dev_ops(struct coll_team *t, const struct btl_ops **out)
{
    struct btl_peer *p;
    int err = dev_peer(t, t->rank, &p);
    if (err >= 0)
        *out = p->btl->ops;
    return err;
}

/* Each peer is given what it needs beside the key. */
static int offer(struct coll_team *t, struct btl_mem *m)
{
    int err = 0;
    for (int r = 0; r < t->size && err >= 0; r++) {
        struct btl_peer *p;
        err = r == t->rank ? 0 : dev_peer(t, r, &p);
        if (r != t->rank && err >= 0 && p->btl->ops->mem_offer)
            err = p->btl->ops->mem_offer(p, m);
    }
    return err;
}

int wm_team_dev_describe(struct coll_team *t, const void *p, size_t len, struct coll_dev_mem *out)
{
    struct btl_peer *self;
    struct btl_mem *m;
    int err = rt_gpu_query(p, len, &out->at);
    if (err == -RT_ENOENT || err == -RT_EINVAL)
        return -RT_ENOTSUP; /* host memory, or several allocations: staging will say what is wrong
                             */
    if (err >= 0)
        err = dev_peer(t, t->rank, &self);
    if (err < 0)
        return err;
    const struct btl_ops *ops = self->btl->ops;
    err = ops->mem_reg(self->btl, (void *)(uintptr_t)p, len, &out->at, &m);
    if (err < 0)
        return err;
    err = offer(t, m);
    if (err >= 0)
        err = ops->mem_key(m, out->key);
    if (err < 0)
        ops->mem_dereg(m);
    else
        out->reg = m;
    return err;
}

void wm_team_dev_release(struct coll_team *t, struct coll_dev_mem *m)
{
    const struct btl_ops *ops;
    if (dev_ops(t, &ops) >= 0)
        ops->mem_dereg(m->reg);
}

int wm_team_dev_attach(struct coll_team *t, int rank, const void *key,
                       const struct rt_gpu_ptr *near, struct coll_dev_map *out)
{
    struct btl_peer *p;
    struct btl_rmem *r;
    int err = dev_peer(t, rank, &p);
    if (err >= 0)
        err = p->btl->ops->attach(p, key, near, &r);
    if (err < 0)
        return err;
    *out = (struct coll_dev_map){ r->ptr, r };
    return 0;
}

void wm_team_dev_detach(struct coll_team *t, struct coll_dev_map *m)
{
    const struct btl_ops *ops;
    if (dev_ops(t, &ops) >= 0)
        ops->detach(m->att);
}
