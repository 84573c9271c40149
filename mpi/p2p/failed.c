/* SPDX-License-Identifier: BSD-3-Clause */
/* See failed.h.  The death of a process of this host is noticed by its transport, after the
 * messages that it had sent; of a process with a connection, by the connection.  So the list of
 * deaths fails only operations with processes that nothing else would notice. */
#include "mpi/p2p/failed.h"
#include "mpi/base/comm.h"
#include "mpi/p2p/engine.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"

#include <stdlib.h>

/* Time for a connection to end by itself, after the launcher has reported the death.  That of a
 * host that is lost, or behind a broken link, does not end. */
#define GRACE_NS 1000000000u

static bool is_connected(const struct wm_peer *p)
{
    bool (*connected)(const struct btl_peer *) = p->eager->btl->ops->connected;
    return !connected || connected(p->eager);
}

static void fail(struct wm_domain *d, struct rt_proc proc, bool late)
{
    struct wm_peer *p = wm_domain_known(d, proc);
    if (!p || p->err || p->is_self || wm_peer_shares_memory(p))
        return;
    if (late || !is_connected(p))
        d->up.down(d, p->eager, -RT_EPEER);
    else if (!d->failed.due_ns)
        d->failed.due_ns = rt_now_ns() + GRACE_NS;
}

void wm_failed_take(struct wm_domain *d)
{
    uint32_t n = rt_dead();
    bool late = d->failed.due_ns && rt_now_ns() >= d->failed.due_ns;
    if (late)
        d->failed.due_ns = 0;
    for (uint32_t i = 0; late && i < d->failed.ntaken; i++)
        fail(d, rt_dead_at(i), true);
    bool any = d->failed.ntaken < n;
    while (d->failed.ntaken < n)
        fail(d, rt_dead_at(d->failed.ntaken++), false);
    if ((any || d->failed.nagreeing) && d->ft_deaths)
        d->ft_deaths(d, any);
}

static bool has_unacked(const struct wm_comm *c, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (wm_group_find(c->remote, rt_dead_at(i)) != MPI_UNDEFINED)
            return true;
    return false;
}

bool wm_failed_unacked(struct wm_comm *c)
{
    uint32_t n = rt_dead();
    if (c->ft.nseen < n && !c->ft.unacked)
        c->ft.unacked = has_unacked(c, c->ft.nseen, n);
    c->ft.nseen = n;
    return c->ft.unacked;
}

void wm_failed_ack(struct wm_comm *c, uint32_t n)
{
    c->ft.nacked = n;
    c->ft.nseen = rt_dead();
    c->ft.unacked = has_unacked(c, n, c->ft.nseen);
}

int wm_failed_retire(struct wm_domain *d, uint32_t ctx)
{
    uint32_t *more = realloc(d->failed.revoked, (d->failed.nrevoked + 1) * sizeof *more);
    if (!more)
        return -RT_ENOMEM;
    d->failed.revoked = more;
    more[d->failed.nrevoked++] = ctx;
    return 0;
}

bool wm_failed_drops(const struct wm_domain *d, uint32_t kind, uint32_t ctx)
{
    for (uint32_t i = 0; (kind == WM_EAGER || kind == WM_VOID) && i < d->failed.nrevoked; i++)
        if (d->failed.revoked[i] == (ctx & ~1u))
            return true;
    return false;
}
