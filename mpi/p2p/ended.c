/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a process without a connection to this one: mpirun, or another process, reports it.
 * Called under the domain's lock. */
#include "mpi/p2p/ended.h"
#include <stdlib.h>
#include "mpi/p2p/control.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/boot/jobs.h"

/* A wait looks first after LOOK_FIRST_NS and then after twice the time of before: the answer comes
 * from mpirun, which many ranks may ask at the same time. */
#define LOOK_FIRST_NS 1000000000u
#define LOOK_MAX_NS 32000000000u

static bool is_silent(const struct wm_peer *p)
{
    return !p->err && !p->is_self && !wm_peer_has_spoken(p);
}

/* `ranges` is in ascending order: "0-3,7-7". */
static bool in_ranges(const char *ranges, uint32_t rank)
{
    for (char *at = (char *)(uintptr_t)ranges; *at;) {
        uint32_t first = (uint32_t)strtoul(at, &at, 10);
        uint32_t last = *at == '-' ? (uint32_t)strtoul(at + 1, &at, 10) : first;
        if (rank <= last)
            return rank >= first;
        at += *at == ',';
    }
    return false;
}

/* Makes a connection by a message that changes nothing.  No mpirun can be asked about a process of
 * another job, but its kernel refuses the connection if the process has ended. */
static void greet(struct wm_domain *d, struct wm_peer *p)
{
    struct wm_last msg = { false };
    wm_try_ctl(d, p, wm_hdr(WM_LAST, 0, 0, 0), &msg, sizeof msg);
}

/* The end of a process is otherwise noticed by its connection, or in shared memory.  A process that
 * has sent anything was connected to this one before it ended. */
static void look_for_ended(struct wm_domain *d)
{
    char *ranges = NULL;
    bool any = false;
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (struct wm_peer *p = d->peers[i]; p; p = p->next) {
            any = any || (p->proc.ns == 0 && is_silent(p));
            if (p->proc.ns && is_silent(p) && (p->probed || wm_recv_names_peer(d, p)))
                greet(d, p);
        }
    if (!any)
        return;
    rt_unlock_plain(&d->lock);
    int err = rt_boot_ended_ranks(&ranges);
    rt_lock(&d->lock);
    if (err < 0)
        return;
    wm_progress(d); /* may find the connection of a process that has just ended */
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (struct wm_peer *p = d->peers[i]; p; p = p->next)
            if (p->proc.ns == 0 && is_silent(p) && in_ranges(ranges, p->proc.rank))
                d->up.down(d, p->eager, 0);
    free(ranges);
}

void wm_domain_look_for_ended(struct wm_domain *d, struct wm_look *l)
{
    uint64_t now = rt_now_ns();
    if (now < l->next_ns)
        return;
    if (l->next_ns)
        look_for_ended(d);
    l->every_ns = l->every_ns ? l->every_ns * 2 : LOOK_FIRST_NS;
    if (l->every_ns > LOOK_MAX_NS)
        l->every_ns = LOOK_MAX_NS;
    l->next_ns = now + l->every_ns;
}

static void notify(struct wm_domain *d, struct rt_proc to, int what, const void *data, uint32_t len)
{
    struct wm_peer *p;
    if (wm_domain_peer(d, to, &p) >= 0 && !p->is_self)
        wm_try_ctl(d, p, wm_hdr(WM_CONTROL, 0, what, 0), data, len);
}

void wm_domain_report_died(struct wm_domain *d, struct rt_proc to, struct rt_proc dead)
{
    struct rt_name name = rt_boot_name(dead);
    notify(d, to, WM_DIED, &name, sizeof name);
}

void wm_domain_interrupt(struct wm_domain *d, struct rt_proc to)
{
    notify(d, to, WM_INTERRUPT, NULL, 0);
}

void wm_domain_died(struct wm_domain *d, struct rt_proc proc)
{
    struct wm_peer *p;
    if (wm_domain_peer(d, proc, &p) >= 0 && !p->is_self && !wm_peer_has_spoken(p))
        d->up.down(d, p->eager, -RT_EPEER);
}
