/* SPDX-License-Identifier: BSD-3-Clause */
/* See ft.h. */
#include "mpi/ft/ft.h"
#include "mpi/ft/agree.h"
#include "mpi/ft/revoke.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/malformed.h"
#include "runtime/boot/dead.h"
#include "runtime/boot/jobs.h"

#include <string.h>

/* Two rounds of a multiplication and a shift: the names of processes differ in few bits. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

static uint64_t hash_of(struct rt_proc p)
{
    struct rt_name n = rt_boot_name(p);
    return mix(mix(n.job) + n.rank);
}

/* A sum, because the two groups of an intercommunicator have no order. */
uint64_t wm_ft_uid(struct wm_comm *c)
{
    uint64_t sum = 0;
    if (c->ft.uid)
        return c->ft.uid;
    for (int i = 0; i < wm_ft_size(c); i++)
        sum += hash_of(wm_ft_member(c, i));
    return c->ft.uid = mix(sum + c->ctx) | 1u;
}

struct search {
    uint32_t ctx;
    uint64_t uid;
    struct wm_comm *found;
};

static void look(void *obj, void *arg)
{
    struct wm_comm *c = obj;
    struct search *s = arg;
    if (c->ctx == s->ctx && c->dom && wm_ft_uid(c) == s->uid)
        s->found = c;
}

struct wm_comm *wm_ft_find(uint32_t ctx, uint64_t uid)
{
    struct search s = { ctx, uid, NULL };
    if (wm_comm_world && ctx == WM_CTX_WORLD)
        look(wm_comm_world, &s);
    else
        rt_slab_each(&wm_comm_slab, look, &s);
    return s.found;
}

/* Of an intercommunicator first the group whose first process has the lower name. */
static bool is_first(const struct wm_comm *c)
{
    struct rt_name a = rt_boot_name(wm_group_proc(c->group, 0)),
                   b = rt_boot_name(wm_group_proc(c->remote, 0));
    return a.job != b.job ? a.job < b.job : a.rank < b.rank;
}

int wm_ft_size(const struct wm_comm *c) { return c->size + (c->inter ? c->remote->size : 0); }

struct rt_proc wm_ft_member(const struct wm_comm *c, int i)
{
    if (!c->inter)
        return wm_group_proc(c->group, i);
    const struct wm_group *g = is_first(c) ? c->group : c->remote,
                          *h = g == c->group ? c->remote : c->group;
    return i < g->size ? wm_group_proc(g, i) : wm_group_proc(h, i - g->size);
}

int wm_ft_self(const struct wm_comm *c)
{
    return c->rank + (c->inter && !is_first(c) ? c->remote->size : 0);
}

void wm_ft_send(struct wm_domain *d, struct rt_proc to, const void *data, size_t len)
{
    struct wm_peer *p;
    if (!rt_dead_has(to) && wm_domain_peer(d, to, &p) >= 0)
        wm_send_ctl(d, p, wm_hdr(WM_CONTROL, 0, WM_FT, 0), data, (uint32_t)len);
}

static void arrived(struct wm_domain *d, struct wm_peer *from, const void *data, size_t len)
{
    struct wm_ft_head h;
    if (len < sizeof h)
        wm_malformed(&from->proc, "%zu bytes of fault tolerance", len);
    memcpy(&h, data, sizeof h);
    if (h.kind == WM_FT_REVOKE)
        wm_ft_on_revoke(d, &h, data, len);
    else if (h.kind == WM_FT_AGREE)
        wm_ft_on_agree(d, from, &h, data, len);
    else
        wm_malformed(&from->proc, "kind %u of fault tolerance", h.kind);
}

static void on_deaths(struct wm_domain *d, bool any)
{
    if (any)
        wm_ft_revoke_deaths(d);
    if (d->failed.nagreeing)
        wm_ft_agree_deaths(d);
}

void wm_ft_open(struct wm_domain *d)
{
    d->ft = arrived;
    d->ft_deaths = on_deaths;
}
