/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory of a communicator's team: a rank's range, described for all ranks of the team, and
 * the other ranks' ranges, mapped in this process.  Both belong to the transport for device memory,
 * as for messages (mpi/p2p/device.c); that transport also checks whether an allocation is still
 * valid.  Under the domain's lock. */
#include "mpi/coll/device.h"
#include <stdlib.h>
#include <string.h>
#include "mpi/base/comm.h"
#include "mpi/p2p/engine.h"
#include "runtime/base/err.h"

_Static_assert(BTL_KEY_MAX <= COLL_DEV_KEY, "a key of the transport is one of a team");

/* The connection for device memory to a rank of the communicator's team, or of its local team. */
static int dev_peer(struct coll_team *t, int rank, struct btl_peer **out)
{
    struct wm_comm *c = t->arg;
    struct wm_peer *p;
    int err = wm_comm_peer(c, coll_team_whole_rank(t, rank), &p);
    if (err < 0)
        return err;
    *out = wm_domain_dev(c->dom, p);
    return *out && !wm_dev_by_net(p) ? 0 : -RT_ENOTSUP; /* ranges must be mappable */
}

static int dev_ops(struct coll_team *t, const struct btl_ops **out)
{
    struct btl_peer *p;
    int err = dev_peer(t, t->rank, &p);
    if (err >= 0)
        *out = p->btl->ops;
    return err;
}

/* Sends each peer what it needs in addition to the key. */
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

/* ---- this rank's ranges ---- */

/* A cache of described ranges for later calls.  An entry belongs to one team, because only the
 * peers of that team have been sent what they need.  It is valid as long as the address belongs to
 * the same allocation.  Entries occupy slots of the transport's table, so there are few. */
#define KEPT 16u
struct described {
    struct coll_team *team; /* NULL: free */
    const void *p;
    size_t len;
    struct rt_gpu_ptr at;
    const struct btl_ops *ops;
    struct btl_mem *m;
    char key[COLL_DEV_KEY];
    int users;     /* calls in progress */
    unsigned used; /* number of calls so far */
    int peer;      /* the next peer to offer the range to again */
    bool kept;     /* in the cache */
};
static struct described kept[KEPT]; /* under the domain's lock */

static struct described *place_of(const struct coll_team *t, const void *p, size_t len)
{
    uintptr_t x = (uintptr_t)p >> 8 ^ (uintptr_t)p >> 17 ^ (uintptr_t)t >> 6 ^ len * 7;
    return &kept[(x ^ x >> 5) % KEPT];
}

static void forget(struct described *d)
{
    if (d->team)
        d->ops->mem_dereg(d->m);
    d->team = NULL;
}

/* Every OFFER_EVERY calls, the range is offered to one peer again, in case that peer has dropped
 * what it was sent.  Until then, calls with such a peer take another path. */
#define OFFER_EVERY 8u
static int offer_next(struct described *d)
{
    struct coll_team *t = d->team;
    struct btl_peer *p;
    if (++d->used % OFFER_EVERY)
        return 0;
    d->peer = (d->peer + 1) % t->size;
    if (d->peer == t->rank)
        d->peer = (d->peer + 1) % t->size;
    int err = dev_peer(t, d->peer, &p);
    return err >= 0 && d->ops->mem_offer ? d->ops->mem_offer(p, d->m) : err;
}

static bool is_same(const struct described *d, const struct coll_team *t, const void *p, size_t len,
                    const struct rt_gpu_ptr *at)
{
    return d->team == t && d->p == p && d->len == len && d->at.id == at->id &&
           d->at.base == at->base && d->at.len == at->len && d->at.g == at->g;
}

static int describe(struct described *d, struct btl_peer *self)
{
    const struct btl_ops *ops = d->ops = self->btl->ops;
    int err = ops->mem_reg(self->btl, (void *)(uintptr_t)d->p, d->len, &d->at, &d->m);
    if (err < 0)
        return err;
    err = offer(d->team, d->m);
    if (err >= 0)
        err = ops->mem_key(d->m, d->key);
    if (err < 0)
        ops->mem_dereg(d->m);
    return err;
}

/* Whether the caller has found the allocation. */
static bool is_found(const struct rt_gpu_ptr *at, const void *p, size_t len)
{
    return at->g && (uintptr_t)p - at->base < at->len && len <= at->base + at->len - (uintptr_t)p;
}

int wm_team_dev_describe(struct coll_team *t, const void *p, size_t len, struct coll_dev_mem *out)
{
    struct btl_peer *self;
    struct described *d = place_of(t, p, len);
    int err = is_found(&out->at, p, len) ? 0 : rt_gpu_query(p, len, &out->at);
    if (err == -RT_ENOENT || err == -RT_EINVAL)
        return -RT_ENOTSUP; /* host memory, or several allocations: staging reports errors */
    if (err < 0)
        return err;
    if (!is_same(d, t, p, len, &out->at) || offer_next(d) < 0) {
        err = dev_peer(t, t->rank, &self);
        if (err < 0)
            return err;
        if (!d->users)
            forget(d);
        else if (!(d = calloc(1, sizeof *d))) /* two concurrent calls with the same slot */
            return -RT_ENOMEM;
        *d = (struct described){ .team = t, .p = p, .len = len, .at = out->at };
        d->kept = d >= kept && d < kept + KEPT;
        err = describe(d, self);
        if (err < 0) {
            d->team = NULL;
            if (!d->kept)
                free(d);
            return err;
        }
    }
    d->users++;
    memcpy(out->key, d->key, sizeof out->key);
    out->turns = rt_gpu_turns_of(out->at.g);
    out->reg = d;
    return 0;
}

void wm_team_dev_release(struct coll_team *t, struct coll_dev_mem *m)
{
    struct described *d = m->reg;
    (void)t;
    if (--d->users || d->kept)
        return;
    forget(d);
    free(d);
}

void wm_team_dev_forget(struct coll_team *t)
{
    for (unsigned i = 0; i < KEPT; i++)
        if (kept[i].team == t)
            forget(&kept[i]);
}

/* ---- the other ranks' ranges ---- */

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
    m->att = NULL;
}

void wm_team_dev_unpin(struct coll_team *t, struct coll_dev_map *m, int n)
{
    const struct btl_ops *ops;
    if (dev_ops(t, &ops) < 0)
        return;
    for (int i = 0; i < n; i++)
        if (m[i].att && ops->unpin)
            ops->unpin(m[i].att);
        else if (m[i].att)
            wm_team_dev_detach(t, &m[i]);
}

bool wm_team_dev_repin(struct coll_team *t, struct coll_dev_map *m, int n)
{
    const struct btl_ops *ops;
    int i = 0;
    if (dev_ops(t, &ops) < 0 || !ops->repin)
        return false;
    while (i < n && (!m[i].att || ops->repin(m[i].att)))
        i++;
    return i == n;
}
