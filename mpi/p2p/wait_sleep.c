/* SPDX-License-Identifier: BSD-3-Clause */
/* How threads that sleep share the doorbell of their process.
 *
 * A thread that waits is awake (it calls wm_progress() again and again) or asleep.  Of the threads
 * that are asleep at most one, the watcher, sleeps on the process's bell and on the descriptors of
 * the transports; each other one sleeps on a word of its own.  Two rules hold
 * whenever the lock is free, so no notification is lost and no sleep needs a time limit:
 *
 * 1. The wait of no sleeping thread has ended.  Each thread that releases the lock checks the
 *    conditions of all sleepers and wakes those whose wait has ended (wm_wait_on_release).
 * 2. If no thread that waits is awake, there is a watcher, and since its bell was armed progress
 *    has been made until nothing was left to do.  So a thread that releases the lock, and does not
 *    itself wait, makes progress on behalf of the sleepers; it wakes one of them when more is left,
 *    or when no thread watches (the last watcher or the last awake thread has left).
 *
 * Where a process has several lanes (lane.h), wait_lanes.c has two more rules.
 *
 * Whatever arrives from outside rings the armed bell or makes a descriptor readable, and a
 * transport that sets itself a new timer rings, too.  Called under the domain's lock. */
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "mpi/p2p/lane.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/wait_int.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"

/* Passes on behalf of sleepers until nothing is left; waking a thread costs as much as many
 * passes. */
#define LOOKS 4

struct wm_sleeper {          /* on the stack of a thread that is asleep, or about to be */
    struct rt_list link;     /* in domain->wait.sleepers */
    const struct wm_wait *w; /* what it waits for */
    uint32_t asleep;         /* a futex, but not of the watcher */
};

int wm_wait_exhaust(struct wm_domain *d)
{
    int n = wm_progress(d);
    /* A task that continued without an event, by shared memory, may have started work of a
     * transport in this process, for which no bell rings; the transports were polled before the
     * task. */
    if (!n && !rt_list_empty(&d->tasks))
        n = wm_progress(d);
    return n + (rt_gpu_nactive > 0); /* no bell rings when a GPU has finished */
}

static void set_awake(struct wm_domain *d, struct wm_sleeper *s)
{
    rt_store_relaxed(&s->asleep, 0);
    wm_wait_count_awake(d, 1);
    rt_list_del(&s->link);
    if (rt_list_empty(&d->wait.sleepers) && !d->wait.among_lanes)
        d->lock.on_release = NULL;
}

static void wake(struct wm_domain *d, struct wm_sleeper *s)
{
    set_awake(d, s);
    if (s == d->wait.watcher)
        rt_bell_ring_self();
    else
        syscall(SYS_futex, &s->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wake_ended(struct wm_domain *d)
{
    struct rt_list *pos, *next;
    rt_list_each_safe (pos, next, &d->wait.sleepers) {
        struct wm_sleeper *s = rt_container(pos, struct wm_sleeper, link);
        if (wm_wait_ended(s->w))
            wake(d, s);
    }
}

bool wm_wait_serve(struct wm_domain *d)
{
    for (int i = 0; !d->wait.nawake && i < LOOKS; i++)
        if (!wm_wait_exhaust(d))
            return false;
    return !d->wait.nawake;
}

/* The rules 1 and 2. */
static void serve_sleepers(struct wm_domain *d)
{
    bool more = wm_wait_serve(d);
    wake_ended(d);
    if (!d->wait.nawake && (more || !d->wait.watcher))
        wake(d, d->wait.watcher ? d->wait.watcher
                                : rt_container(d->wait.sleepers.next, struct wm_sleeper, link));
}

void wm_wait_on_release(struct rt_lock *l)
{
    struct wm_domain *d = rt_container(l, struct wm_domain, lock);
    if (rt_list_empty(&d->wait.sleepers))
        wm_lanes_serve(d);
    else
        serve_sleepers(d);
    if (rt_unlikely(!rt_list_empty(&d->wait.guests)))
        wm_lanes_wake_guests(d);
}

static void fall_asleep(struct wm_domain *d, struct wm_sleeper *s)
{
    s->asleep = 1;
    wm_wait_count_awake(d, -1);
    rt_list_append(&d->wait.sleepers, &s->link);
    d->lock.on_release = wm_wait_on_release;
    wake_ended(d); /* the last pass may have ended waits, this one, too */
}

void wm_wait_count_sleep(struct wm_domain *d, uint64_t begin)
{
    wm_stat_add(&d->stats->sleeps, 1);
    wm_stat_add(&d->stats->sleep_ns, rt_now_ns() - begin);
}

int wm_domain_sleep_fds(const struct wm_domain *d, struct pollfd *p, int *limit_us)
{
    int n = 0;
    for (int i = 0; i < d->nbtl; i++) {
        if (!d->btl[i]->ops->sleep_fd)
            continue;
        int fd = d->btl[i]->ops->sleep_fd(d->btl[i], limit_us);
        if (fd == -RT_ENOTSUP)
            continue;
        if (fd < 0)
            return -1;
        p[n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
    }
    return n;
}

/* The sleep of a watcher has ended at its safety net, and the bell is still armed.  True: there was
 * something to do, or its wait had ended, and no event has reported that.  (A short sleep often
 * ends between the arrival of a message and its bell.) */
static bool was_forgotten(struct wm_domain *d, const struct wm_sleeper *s, struct wm_sleep *k)
{
    if (k->polls && rt_bell_poll(k->armed, k->p, k->nfds, 0))
        return false;
    bool found = wm_wait_ended(s->w) || wm_progress(d);
    return found && s->asleep && !rt_bell_rung(k->armed);
}

void wm_sleep_arm(struct wm_sleep *s, bool polls, int limit_us)
{
    uint32_t none = 0;
    bool shared = rt_load_relaxed(&wm_main_domain->has_fds);
    rt_fetch_add(&wm_lanes.nsleeping, 1u);
    s->limit_us = limit_us;
    s->nfds = 0;
    s->polls = (polls || shared) && rt_cas(&wm_lanes.polled, &none, 1u);
    s->armed = rt_bell_arm(s->polls);
    s->missed = shared && !s->polls && !rt_load_acquire(&wm_lanes.polled);
}

void wm_sleep_add(struct wm_sleep *s, struct wm_domain *d)
{
    int n = wm_domain_sleep_fds(d, s->p + 1 + s->nfds, &s->limit_us);
    if (n < 0)
        s->missed = true;
    else if (s->polls)
        s->nfds += n;
}

/* Who polls makes progress of lane 0 after an event there, because no other thread may see it. */
bool wm_sleep(struct wm_sleep *s, const struct wm_domain *d)
{
    struct wm_domain *zero = wm_main_domain;
    if (!s->polls)
        return rt_bell_sleep(s->armed, s->limit_us);
    bool rung = rt_bell_poll(s->armed, s->p, s->nfds, s->limit_us);
    if (d != zero) {
        rt_lock(&zero->lock);
        wm_wait_exhaust(zero);
        rt_unlock(&zero->lock);
    }
    return rung;
}

/* Another sleeper has to poll from now on. */
void wm_sleep_end(const struct wm_sleep *s)
{
    rt_bell_disarm(s->polls);
    rt_fetch_add(&wm_lanes.nsleeping, UINT32_MAX);
    if (!s->polls)
        return;
    rt_store_release(&wm_lanes.polled, 0u);
    rt_fence();
    if (rt_load_relaxed(&wm_lanes.nsleeping) && !rt_load_relaxed(&wm_lanes.polled))
        rt_bell_ring_self();
}

/* Sleeps on the bell, armed before the last look; any later event rings. */
static void watch(struct wm_domain *d, struct wm_wait *w)
{
    struct wm_sleeper s = { .w = w };
    struct wm_sleep k;
    int limit_us = wm_wait_publish(d, w);
    d->wait.watcher = &s;
    rt_unlock_plain(&d->lock);
    wm_sleep_arm(&k, w->nfds, limit_us);
    if (w->nfds && !k.polls && k.limit_us > WM_WAIT_FDS_US)
        k.limit_us = WM_WAIT_FDS_US;
    bool busy = wm_lanes_on() && wm_lanes_look(d, &k);
    bool is_short = k.limit_us < WM_WAIT_NET_US;
    rt_lock(&d->lock);
    if (rt_unlikely(wm_progress_look(d)) && k.limit_us > RT_DEATHS_US)
        k.limit_us = RT_DEATHS_US;
    wm_sleep_add(&k, d);
    bool rung = true;
    if (!wm_wait_exhaust(d) && !busy && !k.missed) {
        uint64_t begin = rt_now_ns();
        for (int i = 0; i < w->nfds && k.polls; i++)
            k.p[1 + k.nfds++] = w->fds[i];
        fall_asleep(d, &s);
        rt_unlock_plain(&d->lock);
        rung = wm_sleep(&k, d);
        rt_lock(&d->lock);
        wm_wait_count_sleep(d, begin);
        if (!rung && !is_short && was_forgotten(d, &s, &k)) {
            wm_stat_add(&d->stats->rescues, 1);
            rung = true;
        }
        if (s.asleep)
            set_awake(d, &s);
    }
    wm_sleep_end(&k);
    d->wait.watcher = NULL;
    if (rung) /* else the thread sleeps again at once */
        w->idle = (struct rt_idle){ 0 };
    else
        wm_domain_look_for_ended(d, &w->look);
}

/* Until it is woken or the clock reads `end_ns`; may end earlier. */
static void sleep_until(struct wm_sleeper *s, uint64_t end_ns)
{
    struct timespec end = { (time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u) };
    syscall(SYS_futex, &s->asleep, FUTEX_WAIT_BITSET_PRIVATE, 1, &end, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

/* Sleeps while another thread watches. */
static void follow(struct wm_domain *d, struct wm_wait *w)
{
    struct wm_sleeper s = { .w = w };
    int limit_us = wm_wait_publish(d, w);
    if (w->nfds && limit_us > WM_WAIT_FDS_US)
        limit_us = WM_WAIT_FDS_US;
    if (!wm_wait_exhaust(d)) {
        uint64_t begin = rt_now_ns(), end = begin + (uint64_t)limit_us * 1000u;
        fall_asleep(d, &s);
        while (s.asleep && rt_now_ns() < end) {
            rt_unlock_plain(&d->lock);
            sleep_until(&s, end);
            rt_lock(&d->lock);
        }
        wm_wait_count_sleep(d, begin);
    }
    if (!s.asleep) {
        w->idle = (struct rt_idle){ 0 };
        return;
    }
    if (limit_us == WM_WAIT_NET_US && (wm_wait_ended(w) || (!d->wait.nawake && !d->wait.watcher)))
        wm_stat_add(&d->stats->rescues, 1);
    set_awake(d, &s);
}

void wm_wait_sleep(struct wm_domain *d, struct wm_wait *w)
{
    if (rt_unlikely(w->lanes))
        wm_lanes_sleep(d, w);
    else if (d->wait.watcher)
        follow(d, w);
    else
        watch(d, w);
}
