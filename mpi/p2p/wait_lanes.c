/* SPDX-License-Identifier: BSD-3-Clause */
/* How threads sleep where a process has several lanes (lane.h).  Both rules of wait_sleep.c hold in
 * each lane, so each lane with sleepers and without awake threads has a watcher of its own, and a
 * ring wakes all watchers.  A third rule is for the lanes without a thread that waits:
 *
 * 3. Since the bell of a watcher was armed, progress of each such lane has been made until nothing
 *    was left to do.  A thread counts in wm_lanes.nsleeping before it arms; then it takes the lock
 *    of each other lane in turn, makes progress there and sets on_release().  A thread that holds
 *    such a lock later sees the count there, and makes progress itself before it releases the lock;
 *    when more is left it rings the bell; when the count is 0 it removes on_release().  A thread
 *    that held the lock before has left its work to the watcher.
 *
 * A thread that waits for requests of several lanes sleeps on the bell, too, and is a guest in each
 * of these lanes.  It joins them after it has armed and before it checks its requests for the last
 * time:
 *
 * 4. The wait of no guest has ended, whenever the lock of a lane is free in which it is one: each
 *    thread that releases such a lock checks the waits of the guests there, and rings the bell for
 *    one that has ended.
 *
 * The descriptors of transports are those of lane 0, and any sleeper may poll them:
 *
 * 5. Where lane 0 has descriptors, a thread that sleeps finds another one that polls them
 *    (wm_lanes.polled), after it has armed, or does so itself.  Who ends such a sleep makes
 * progress of lane 0 and rings, unless another thread polls already.
 *
 * test/unit/wait_model_test.c plays all orders of these steps. */
#include "mpi/p2p/lane.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/wait_int.h"
#include "runtime/base/clock.h"

struct guest {           /* on the stack of a thread that waits in several lanes */
    struct rt_list link; /* in domain->wait.guests, once it has joined; it is removed with a ring */
    const struct wm_wait *w;
};

void wm_lanes_watch(struct wm_domain *d)
{
    d->wait.among_lanes = true;
    d->lock.on_release = wm_wait_on_release;
}

void wm_lanes_serve(struct wm_domain *d)
{
    if (!rt_load_relaxed(&wm_lanes.nsleeping)) {
        d->lock.on_release = NULL; /* the next sleeper sets it again, under this lock */
        return;
    }
    if (wm_wait_serve(d))
        rt_bell_ring_self();
}

void wm_lanes_wake_guests(struct wm_domain *d)
{
    struct rt_list *pos, *next;
    bool ring = false;
    /* Two threads that complete the last two requests of a wait, in different lanes: each stores
     * the end of one before it reads the end of the other. */
    rt_fence();
    rt_list_each_safe (pos, next, &d->wait.guests)
        if (wm_wait_ended(rt_container(pos, struct guest, link)->w)) {
            rt_list_del(pos);
            ring = true;
        }
    if (ring)
        rt_bell_ring_self();
}

static int look(struct wm_domain *e, struct wm_sleep *s)
{
    e->lock.on_release = wm_wait_on_release;
    if (!e->lane && s->polls)
        wm_sleep_add(s, e);
    int found = wm_wait_exhaust(e);
    if (!e->lane && wm_progress_look(e) && s->limit_us > RT_DEATHS_US)
        s->limit_us = RT_DEATHS_US;
    return found;
}

/* As a guest in the lanes of w, if guests is not NULL. */
static bool look_at_each(const struct wm_domain *but, const struct wm_wait *w, struct guest *guests,
                         struct wm_sleep *s)
{
    int found = 0;
    for (int i = 0; i < rt_load_acquire(&wm_lanes.n); i++) {
        struct wm_domain *e = wm_lane_at(i);
        if (!e || e == but)
            continue;
        rt_lock(&e->lock);
        if (guests && w->lanes >> i & 1) {
            guests[i].w = w;
            rt_list_append(&e->wait.guests, &guests[i].link);
        }
        found += look(e, s);
        rt_unlock(&e->lock);
    }
    return found || s->missed;
}

bool wm_lanes_look(const struct wm_domain *but, struct wm_sleep *s)
{
    return look_at_each(but, NULL, NULL, s);
}

static void leave(const struct wm_wait *w, struct guest *guests)
{
    for (int i = 0; i < WM_LANES_MAX; i++) {
        if (!(w->lanes >> i & 1))
            continue;
        struct wm_domain *e = wm_lane_at(i);
        rt_lock(&e->lock);
        rt_list_del(&guests[i].link);
        rt_unlock_plain(&e->lock); /* nothing has changed */
    }
}

void wm_lanes_sleep(struct wm_domain *d, struct wm_wait *w)
{
    struct guest guests[WM_LANES_MAX];
    struct wm_sleep s;
    int limit_us = wm_wait_publish(d, w);
    wm_wait_count_awake(d, -1);
    rt_unlock(&d->lock); /* in this lane, another thread becomes the watcher */
    wm_sleep_arm(&s, false, limit_us);
    bool rung = look_at_each(NULL, w, guests, &s) || w->ready(w->arg);
    uint64_t begin = 0;
    if (!rung) {
        begin = rt_now_ns();
        rung = wm_sleep(&s, NULL);
    }
    bool forgotten = !rung && s.limit_us >= WM_WAIT_NET_US && w->ready(w->arg);
    leave(w, guests); /* a thread that has just ended the wait has rung then */
    forgotten = forgotten && !rt_bell_rung(s.armed);
    wm_sleep_end(&s);
    rt_lock(&d->lock);
    wm_wait_count_awake(d, 1);
    if (begin)
        wm_wait_count_sleep(d, begin);
    if (forgotten)
        wm_stat_add(&d->stats->rescues, 1);
    if (rung || forgotten)
        w->idle = (struct rt_idle){ 0 };
    else
        wm_domain_look_for_ended(d, &w->look);
}
