/* SPDX-License-Identifier: BSD-3-Clause */
/* See failed.h.  The death of a process of this host is noticed by its transport, after the
 * messages that it had sent; of a process with a connection, by the connection.  So the list of
 * deaths fails only operations with processes that nothing else would notice. */
#include "mpi/p2p/failed.h"
#include "mpi/base/comm.h"
#include "mpi/p2p/engine.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"

#include <string.h>

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

static bool has_dead(const struct wm_comm *c)
{
    for (uint32_t i = 0; i < rt_dead(); i++)
        if (wm_group_find(c->group, rt_dead_at(i)) != MPI_UNDEFINED ||
            wm_group_find(c->remote, rt_dead_at(i)) != MPI_UNDEFINED)
            return true;
    return false;
}

bool wm_failed_taints(const struct wm_comm *c)
{
    return c->ft.revoked || c->team.failed || (rt_unlikely(rt_dead()) && has_dead(c));
}

/* A bit for each id; costs memory only where one is set. */
static uint64_t retired[WM_CTX_IDS / 64];

bool wm_failed_retire(struct wm_domain *d, uint32_t ctx)
{
    uint64_t bit = 1ull << ctx / 2 % 64, *word = &retired[ctx / 2 / 64];
    if (*word & bit)
        return false;
    *word |= bit;
    d->failed.nretired++;
    return true;
}

void wm_failed_fini(struct wm_domain *d)
{
    if (d->failed.nretired)
        memset(retired, 0, sizeof retired);
}

bool wm_failed_drops(const struct wm_domain *d, uint32_t kind, uint32_t ctx)
{
    uint32_t id = ctx / 2;
    return d->failed.nretired && (kind == WM_EAGER || kind == WM_VOID) && id < WM_CTX_IDS &&
           retired[id / 64] >> id % 64 & 1;
}
