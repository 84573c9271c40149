/* SPDX-License-Identifier: BSD-3-Clause */
/* See flow.h.  Called under the domain's lock. */
#include "mpi/p2p/flow.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/malformed.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

/* All senders together may use SENDERS_IN_FULL times the memory that one may use.  Beyond that each
 * has only the CROWDED_SHARE-th part.  Both bound memory, not time, so they hold on any machine. */
#define SENDERS_IN_FULL 4
#define CROWDED_SHARE 256
/* Budgets in a sender's bound: enough to make polls and marks rare.  Unacknowledged marks are
 * limited to a whole bound of messages. */
#define BUDGETS 32
#define MARKS BUDGETS
#define BUDGET_MAX (512 << 10) /* bytes after which a sender that only sends sees a stop */

static int64_t limit(const struct wm_domain *d)
{
    bool crowded = (int64_t)d->stats->unexpected_bytes > SENDERS_IN_FULL * cfg.unexpected_max;
    return crowded ? cfg.unexpected_max / CROWDED_SHARE : cfg.unexpected_max;
}

static void tell(struct wm_domain *d, struct wm_peer *to, enum wm_control what)
{
    if (!to->err)
        wm_send_ctl(d, to, wm_hdr(WM_CONTROL, 0, what, 0), "", 0);
}

int32_t wm_flow_budget(void)
{
    int64_t budget = cfg.unexpected_max / BUDGETS + 1;
    return (int32_t)(budget < BUDGET_MAX ? budget : BUDGET_MAX);
}

static void poll_peer(struct wm_domain *d, struct wm_peer *p, bool coll)
{
    if (coll)
        d->flow_due = true;
    else if (p->poll)
        p->poll(p->eager);
    else
        p->eager->btl->ops->progress(p->eager->btl);
}

void wm_flow_renew(struct wm_domain *d, struct wm_peer *p, bool coll)
{
    if (p->err)
        return;
    if (!p->is_self && !p->held_budget)
        poll_peer(d, p, coll);
    if (p->blocked || p->stopped)
        return;
    if (p->held_budget) {
        p->budget = p->held_budget;
        p->held_budget = 0;
        return;
    }
    if (p->marks == MARKS) {
        p->stopped = WM_STOPPED_UNREAD;
        return;
    }
    p->budget = wm_flow_budget();
    if (!p->is_self) {
        p->marks++;
        tell(d, p, WM_FLOW_MARK);
    }
}

void wm_flow_stored(struct wm_domain *d, struct wm_peer *from, size_t len)
{
    from->unex_nbytes += (int64_t)len + WM_FLOW_EACH;
    wm_stat_add(&d->stats->unexpected_bytes, len + WM_FLOW_EACH);
    if (from->unex_nbytes <= limit(d) || from->sent_stop || from->is_self)
        return;
    from->sent_stop = true;
    wm_stat_add(&d->stats->stops, 1);
    tell(d, from, WM_FLOW_STOP);
}

void wm_flow_freed(struct wm_domain *d, struct wm_peer *from, size_t len)
{
    from->unex_nbytes -= (int64_t)len + WM_FLOW_EACH;
    wm_stat_add(&d->stats->unexpected_bytes, -(uint64_t)(len + WM_FLOW_EACH));
    if (!from->sent_stop || from->unex_nbytes > limit(d) / 2)
        return;
    from->sent_stop = false;
    tell(d, from, WM_FLOW_GO);
}

void wm_flow_on(struct wm_domain *d, struct wm_peer *from, int what)
{
    if (what == WM_FLOW_STOP) {
        from->stopped |= WM_STOPPED_TOLD;
        wm_peer_hold(from);
    } else if (what == WM_FLOW_GO) {
        from->stopped &= (uint8_t)~WM_STOPPED_TOLD;
    } else if (what == WM_FLOW_MARK) {
        tell(d, from, WM_FLOW_MARKED);
    } else if (what == WM_FLOW_MARKED) {
        from->stopped &= (uint8_t)~WM_STOPPED_UNREAD;
        from->marks -= from->marks > 0;
    } else {
        wm_malformed(&from->proc, "control message of unknown kind %d", what);
    }
}
