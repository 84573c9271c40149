/* SPDX-License-Identifier: BSD-3-Clause */
/* What other processes can read about a wait of this one: the description is written when the wait
 * is older than RT_ACTIVITY_NS, and written anew when a message has come.  Under the domain's lock,
 * before a sleep. */
#include "mpi/p2p/describe.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/wait_int.h"
#include "runtime/base/clock.h"

static uint64_t arrivals_in(const struct wm_domain *d)
{
    return rt_load_relaxed(&d->stats->received) + rt_load_relaxed(&d->stats->unexpected);
}

/* A number that changes with each message that arrives or is received.  After such a change the
 * description may name requests that are complete, or lack messages that have arrived. */
static uint64_t arrivals(const struct wm_domain *d, const struct wm_wait *w)
{
    uint64_t n = arrivals_in(d) + ((uint64_t)d->match.nunex << 32);
    for (int i = 0; w->lanes >> i; i++)
        if (w->lanes >> i & 1)
            n += arrivals_in(wm_lane_at(i));
    return n;
}

/* Writes the description, or writes it anew. */
static void publish(struct wm_domain *d, struct wm_wait *w)
{
    struct rt_wait_note *n = w->note;
    w->published = true;
    w->arrivals = arrivals(d, w);
    if (n)
        rt_activity_change(n);
    else
        n = w->note = rt_activity_begin(w->begin_ns);
    if (!n)
        return;
    n->nreqs = n->nunex = n->nheld = 0;
    if (w->what.describe)
        w->what.describe(w->what.of, n);
    wm_describe_unexpected(d, n);
    wm_describe_locks(d, n);
    rt_activity_publish(n);
}

/* The next publication of this process comes after this many times the time that the last one has
 * taken: on a busy machine every wait is old, and all of them together must cost little. */
#define PUBLISH_PART 100u

int wm_wait_publish(struct wm_domain *d, struct wm_wait *w)
{
    static uint64_t next; /* approximate with several lanes */
    uint64_t next_ns = rt_load_relaxed(&next);
    if (rt_unlikely(d->lane))
        wm_progress_show(d);
    int most_us = w->limit_us ? (int)w->limit_us : WM_WAIT_NET_US;
    if (w->internal || w->of_polls)
        return most_us;
    uint64_t now = rt_now_ns();
    if (!w->begin_ns)
        w->begin_ns = now;
    if (w->published && (!w->note || w->arrivals == arrivals(d, w)))
        return most_us;
    if (now < next_ns || (!w->published && now - w->begin_ns < RT_ACTIVITY_NS)) {
        uint64_t ns = now < next_ns ? next_ns - now : 0;
        ns = ns < RT_ACTIVITY_NS ? RT_ACTIVITY_NS : ns;
        return ns / 1000 < (uint64_t)most_us ? (int)(ns / 1000) : most_us;
    }
    publish(d, w);
    uint64_t end = rt_now_ns();
    rt_store_relaxed(&next, end + PUBLISH_PART * (end - now));
    return most_us;
}

/* A loop of polls is published with the time of its last look, because it ends without a word. */
void wm_wait_publish_polls(struct wm_wait *w)
{
    uint64_t now = rt_now_ns();
    if (!w->begin_ns)
        w->begin_ns = now;
    if (!w->published && now - w->begin_ns >= RT_ACTIVITY_NS) {
        w->note = rt_activity_begin(w->begin_ns);
        w->published = true;
        if (w->note) {
            w->note->polled_ns = now;
            rt_activity_publish(w->note);
        }
    }
    if (w->note)
        rt_store_relaxed(&w->note->polled_ns, now);
}

void wm_wait_unpublish(struct wm_wait *w)
{
    if (w->published)
        rt_activity_end(w->note, rt_now_ns());
    w->published = false;
    w->note = NULL;
}
