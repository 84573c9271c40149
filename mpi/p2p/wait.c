/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting, and how threads that wait share the doorbell of their process.
 *
 * A thread that waits is awake (it calls wm_progress() again and again) or asleep.  Of the threads
 * that are asleep at most one, the watcher, sleeps on the process's bell and on the descriptors of
 * the transports; each other one sleeps on a condition variable of its own.  Two rules hold
 * whenever the lock is free, so no notification is lost and no sleep needs a time limit:
 *
 * 1. The wait of no sleeping thread has ended.  Each thread that releases the lock checks the
 *    conditions of all sleepers and wakes those whose wait has ended (on_release).
 * 2. If no thread that waits is awake, there is a watcher, and since its bell was armed progress
 * has been made until nothing was left to do.  So a thread that releases the lock, and does not
 *    itself wait, makes progress on behalf of the sleepers; it wakes one of them when more is left,
 *    or when no thread watches (the last watcher or the last awake thread has left).
 *
 * Whatever arrives from outside rings the armed bell or makes a descriptor readable, and a
 * transport that sets itself a new timer rings, too.  Called under the domain's lock. */
#include "mpi/p2p/wait.h"
#include <pthread.h>
#include <time.h>
#include "mpi/p2p/describe.h"
#include "mpi/p2p/domain.h"
#include "mpi/p2p/ended.h"
#include "mpi/p2p/progress.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/frames.h"
#include "runtime/base/req.h"
#include "runtime/mem/deaths.h"

/* Microseconds.  The longest sleep, a safety net: only a defect ever needs it, and then `rescues`
 * counts. */
#define NET_US 1000000
/* Passes on behalf of sleepers until nothing is left; waking a thread costs as much as many
 * passes. */
#define LOOKS 4

/* A wait that has slept looks for processes that have ended without any communication, first after
 * LOOK_FIRST_NS and then after twice the time of before: the answer comes from mpirun, which many
 * ranks may ask at the same time. */
#define LOOK_FIRST_NS 1000000000u
#define LOOK_MAX_NS 32000000000u
/* Polls without success after which the clock is read. */
#define LOOK_POLLS 256

struct wm_sleeper {          /* on the stack of a thread that is asleep, or about to be */
    struct rt_list link;     /* in domain->wait.sleepers */
    const struct wm_wait *w; /* what it waits for */
    bool asleep;
    pthread_cond_t wake; /* not used by the watcher */
};

bool wm_wait_done(void *done) { return rt_load_acquire((const uint32_t *)done); }

struct early_wait { /* of wm_domain_until_or() */
    struct wm_wait wait;
    struct wm_interrupt by;
    uint32_t seen; /* rt_interrupts() when `by` was last asked; 0: not yet */
};

static bool interrupted(const struct wm_wait *w)
{
    return w->may_end && rt_container(w, const struct early_wait, wait)->seen != rt_interrupts();
}

/* Whether its thread must wake up. */
static bool ended(const struct wm_wait *w)
{
    return (w->ready && w->ready(w->arg)) || interrupted(w);
}

/* 0: nothing is left to do until a bell rings. */
static int exhaust(struct wm_domain *d)
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
    s->asleep = false;
    d->wait.nawake++;
    rt_list_del(&s->link);
    if (rt_list_empty(&d->wait.sleepers))
        d->lock.on_release = NULL;
}

static void wake(struct wm_domain *d, struct wm_sleeper *s)
{
    set_awake(d, s);
    if (s == d->wait.watcher)
        rt_bell_ring_self();
    else
        pthread_cond_signal(&s->wake);
}

static void wake_ended(struct wm_domain *d)
{
    struct rt_list *pos, *next;
    rt_list_each_safe (pos, next, &d->wait.sleepers) {
        struct wm_sleeper *s = rt_container(pos, struct wm_sleeper, link);
        if (ended(s->w))
            wake(d, s);
    }
}

static void on_release(struct rt_lock *l)
{
    struct wm_domain *d = rt_container(l, struct wm_domain, lock);
    bool more = !d->wait.nawake;
    for (int i = 0; more && i < LOOKS; i++)
        more = exhaust(d) > 0;
    wake_ended(d);
    if (!d->wait.nawake && (more || !d->wait.watcher))
        wake(d, d->wait.watcher ? d->wait.watcher
                                : rt_container(d->wait.sleepers.next, struct wm_sleeper, link));
}

static void fall_asleep(struct wm_domain *d, struct wm_sleeper *s)
{
    s->asleep = true;
    d->wait.nawake--;
    rt_list_append(&d->wait.sleepers, &s->link);
    d->lock.on_release = on_release;
    wake_ended(d); /* the last pass may have ended waits, this one, too */
}

int wm_domain_sleep_fds(const struct wm_domain *d, int *fds, int *limit_us)
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
        fds[n++] = fd;
    }
    return n;
}

/* The sleep of a watcher has ended at NET_US, and the bell is still armed.  True: there was
 * something to do, or its wait had ended, and no event has reported that.  (A short sleep often
 * ends between the arrival of a message and its bell.) */
static bool was_forgotten(struct wm_domain *d, const struct wm_sleeper *s, uint32_t armed,
                          const int *fds, int nfds)
{
    if (nfds && rt_bell_poll(armed, fds, nfds, 0))
        return false;
    bool found = ended(s->w) || wm_progress(d);
    return found && s->asleep && !rt_bell_rung(armed);
}

/* A sleep has ended without an event, or many polls have found nothing. */
static void look_for_ended(struct wm_domain *d, struct wm_wait *w)
{
    uint64_t now = rt_now_ns();
    if (now < w->look_ns)
        return;
    if (w->look_ns)
        wm_domain_look_for_ended(d);
    w->every_ns = w->every_ns ? w->every_ns * 2 : LOOK_FIRST_NS;
    if (w->every_ns > LOOK_MAX_NS)
        w->every_ns = LOOK_MAX_NS;
    w->look_ns = now + w->every_ns;
}

/* Writes the description, or writes it anew. */
static void publish(struct wm_domain *d, struct wm_wait *w)
{
    struct rt_wait_note *n = w->note;
    w->published = true;
    w->nunex = d->match.nunex;
    if (n) {
        rt_activity_change(n);
        n->nreqs = 0;
    } else if (!(n = w->note = rt_activity_begin(w->begin_ns))) {
        return;
    } else {
        n->nstack = (uint32_t)rt_frames(n->stack, RT_ACTIVITY_STACK, n->call, sizeof n->call);
    }
    if (w->what.describe)
        w->what.describe(w->what.of, n);
    wm_describe_unexpected(d, n);
    rt_activity_publish(n);
}

/* The next publication of this process comes after this many times the time that the last one has
 * taken: on a busy machine every wait is old, and all of them together must cost little. */
#define PUBLISH_PART 100u

/* Before a sleep.  Returns the longest one, in microseconds: it ends when a description is due. */
static int publish_if_old(struct wm_domain *d, struct wm_wait *w)
{
    static uint64_t next_ns; /* under the lock */
    uint64_t now = rt_now_ns();
    if (w->limit_us) /* a loop of polls */
        return (int)w->limit_us;
    if (w->internal)
        return NET_US;
    if (!w->begin_ns)
        w->begin_ns = now;
    if (w->published && (!w->note || w->nunex == d->match.nunex))
        return NET_US;
    if (now < next_ns || (!w->published && now - w->begin_ns < RT_ACTIVITY_NS)) {
        uint64_t us = now < next_ns ? (next_ns - now) / 1000 : 0;
        return us < RT_ACTIVITY_NS / 1000 ? (int)(RT_ACTIVITY_NS / 1000)
               : us < NET_US              ? (int)us
                                          : NET_US;
    }
    publish(d, w);
    uint64_t end = rt_now_ns();
    next_ns = end + PUBLISH_PART * (end - now);
    return NET_US;
}

/* Sleeps on the bell, armed before the last look; any later event rings. */
static void watch(struct wm_domain *d, struct wm_wait *w)
{
    struct wm_sleeper s = { .w = w };
    int fds[WM_BTL_MAX], limit_us = publish_if_old(d, w);
    bool is_short = limit_us < NET_US;
    d->wait.watcher = &s;
    rt_unlock_plain(&d->lock);
    uint32_t armed = rt_bell_arm(d->has_fds);
    rt_lock(&d->lock);
    if (rt_unlikely(wm_progress_look(d)) && limit_us > RT_DEATHS_US)
        limit_us = RT_DEATHS_US;
    int nfds = wm_domain_sleep_fds(d, fds, &limit_us);
    bool rung = true;
    if (nfds >= 0 && !exhaust(d)) {
        uint64_t begin = rt_now_ns();
        fall_asleep(d, &s);
        rt_unlock_plain(&d->lock);
        rung = nfds ? rt_bell_poll(armed, fds, nfds, limit_us) : rt_bell_sleep(armed, limit_us);
        rt_lock(&d->lock);
        wm_stat_add(&d->stats->sleeps, 1);
        wm_stat_add(&d->stats->sleep_ns, rt_now_ns() - begin);
        if (!rung && !is_short && was_forgotten(d, &s, armed, fds, nfds)) {
            wm_stat_add(&d->stats->rescues, 1);
            rung = true;
        }
        if (s.asleep)
            set_awake(d, &s);
    }
    rt_bell_disarm();
    d->wait.watcher = NULL;
    if (rung) /* else the thread sleeps again at once */
        w->idle = (struct rt_idle){ 0 };
    else
        look_for_ended(d, w);
}

/* By the monotonic clock.  A function of its own, because the clock of a condition variable is set
 * by an attribute. */
static void cond_init(pthread_cond_t *c)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(c, &a);
    pthread_condattr_destroy(&a);
}

/* Sleeps while another thread watches. */
static void follow(struct wm_domain *d, struct wm_wait *w)
{
    struct wm_sleeper s = { .w = w };
    int err = 0, limit_us = publish_if_old(d, w);
    if (!exhaust(d)) {
        uint64_t begin = rt_now_ns(), end = begin + (uint64_t)limit_us * 1000u;
        struct timespec limit = { (time_t)(end / 1000000000u), (long)(end % 1000000000u) };
        cond_init(&s.wake);
        fall_asleep(d, &s);
        while (s.asleep && !err)
            err = pthread_cond_timedwait(&s.wake, &d->lock.m, &limit);
        pthread_cond_destroy(&s.wake);
        wm_stat_add(&d->stats->sleeps, 1);
        wm_stat_add(&d->stats->sleep_ns, rt_now_ns() - begin);
    }
    if (!s.asleep) {
        w->idle = (struct rt_idle){ 0 };
        return;
    }
    if (limit_us == NET_US && (ended(w) || (!d->wait.nawake && !d->wait.watcher)))
        wm_stat_add(&d->stats->rescues, 1);
    set_awake(d, &s);
}

static void count(struct wm_domain *d, struct wm_wait *w)
{
    if (w->counted)
        return;
    w->counted = true;
    d->wait.nawake++;
    d->wait.nwaits += !w->internal;
}

static void sleep_once(struct wm_domain *d, struct wm_wait *w)
{
    if (d->wait.watcher)
        follow(d, w);
    else
        watch(d, w);
}

void wm_domain_sleep(struct wm_domain *d, struct wm_wait *w)
{
    count(d, w);
    sleep_once(d, w);
}

void wm_domain_idle(struct wm_domain *d, struct wm_wait *w)
{
    bool by_timer = rt_gpu_nactive; /* no bell rings when a GPU has finished */
    enum rt_idle_advice advice = RT_IDLE_POLL;
    count(d, w);
    int nawake = d->wait.nawake;
    rt_unlock(&d->lock);
    bool slept = false;
    if (rt_unlikely(by_timer))
        slept = rt_idle_pause(&w->idle, nawake);
    else
        advice = rt_idle_step(&w->idle, nawake);
    rt_lock(&d->lock);
    if (rt_unlikely(slept)) {
        wm_progress_look(d);
        publish_if_old(d, w);
    }
    if (rt_unlikely(advice == RT_IDLE_SLEEP))
        sleep_once(d, w);
}

void wm_domain_leave(struct wm_domain *d, struct wm_wait *w)
{
    d->wait.nawake--;
    w->counted = false;
    if (w->published)
        rt_activity_end(w->note, rt_now_ns());
    w->published = false;
    w->note = NULL;
}

/* What a process has sent before its death is taken first. */
static bool must_end(struct wm_domain *d, struct early_wait *e)
{
    e->seen = rt_interrupts();
    for (int i = 0; i < LOOKS && wm_progress(d) > 0; i++)
        continue;
    return !e->wait.ready(e->wait.arg) && e->by.hits(e->by.of);
}

bool wm_domain_until_or(struct wm_domain *d, bool (*ready)(void *arg), void *arg,
                        struct wm_what what, struct wm_interrupt by)
{
    struct early_wait e = {
        .wait = { .ready = ready, .arg = arg, .what = what, .may_end = by.hits != NULL }, .by = by
    };
    struct wm_wait *w = &e.wait;
    bool over = false;
    while (!over && !ready(arg)) {
        if (rt_unlikely(interrupted(w)))
            over = must_end(d, &e);
        else if (wm_progress(d) > 0)
            w->idle = (struct rt_idle){ 0 };
        else if (!ready(arg))
            wm_domain_idle(d, w);
    }
    wm_domain_left(d, w);
    return !over;
}

void wm_domain_until(struct wm_domain *d, bool (*ready)(void *arg), void *arg, struct wm_what what)
{
    wm_domain_until_or(d, ready, arg, what, (struct wm_interrupt){ 0 });
}

__attribute__((noinline)) void wm_domain_wait_as(struct wm_domain *d, const struct rt_req *r,
                                                 struct wm_what what)
{
    struct wm_wait w = WM_WAIT_REQ(r, what);
    while (!rt_req_done(r)) {
        if (wm_progress(d) > 0)
            w.idle = (struct rt_idle){ 0 };
        else if (!rt_req_done(r))
            wm_domain_idle(d, &w);
    }
    wm_domain_left(d, &w);
}

void wm_domain_wait(struct wm_domain *d, const struct rt_req *r)
{
    if (!rt_req_done(r))
        wm_progress(d); /* most often one pass is enough */
    if (rt_unlikely(!rt_req_done(r)))
        wm_domain_wait_as(d, r, (struct wm_what){ wm_describe_request, r });
}

/* Polls without success until the next look, and whether a poll has succeeded since the last look
 * and since the last idle step of a loop; approximate with threads. */
static int32_t polls_left = LOOK_POLLS;
static uint8_t poll_succeeded;
#define SINCE_LOOK 1u
#define SINCE_IDLE 2u

/* Whether a poll has succeeded, for the first time since this was last asked. */
static bool take_success(uint8_t since)
{
    uint8_t all = rt_load_relaxed(&poll_succeeded);
    rt_store_relaxed(&poll_succeeded, (uint8_t)(all & ~since));
    return all & since;
}

/* A loop of polls is published with the time of its last look, because it ends without a word. */
static void publish_polling(struct wm_wait *w)
{
    uint64_t now = rt_now_ns();
    if (!w->begin_ns)
        w->begin_ns = now;
    if (!w->published && now - w->begin_ns >= RT_ACTIVITY_NS) {
        struct rt_wait_note *n = w->note = rt_activity_begin(w->begin_ns);
        w->published = true;
        if (n) {
            n->nstack = (uint32_t)rt_frames(n->stack, RT_ACTIVITY_STACK, n->call, sizeof n->call);
            n->polled_ns = now;
            rt_activity_publish(n);
        }
    }
    if (w->note)
        rt_store_relaxed(&w->note->polled_ns, now);
}

/* A program that polls until it finds something never sleeps. */
static __attribute__((noinline, cold)) void look_for_ended_polling(void)
{
    static struct wm_wait polling; /* under the lock */
    static _Thread_local struct rt_idle looks;
    struct wm_domain *d = wm_main_domain;
    rt_lock(&d->lock);
    rt_store_relaxed(&polls_left, LOOK_POLLS);
    if (take_success(SINCE_LOOK)) {
        if (polling.published)
            rt_activity_end(polling.note, rt_now_ns());
        polling = (struct wm_wait){ 0 };
        looks = (struct rt_idle){ 0 };
    }
    publish_polling(&polling);
    look_for_ended(d, &polling);
    rt_unlock(&d->lock);
    rt_idle_look(&looks);
}

/* A program that does something else between two calls takes longer than this. */
#define LOOP_NS 2000u

/* Until an event, at most as long as the loop has lasted, or 1 ms: each sleep that ends without an
 * event uses up some of the share of the core with which the thread would wake up for a message. */
#define LOOP_FIRST_US 20u
#define LOOP_MOST_US 1000u
static void sleep_in_loop(struct wm_domain *d, struct wm_wait *w, uint64_t waited_ns)
{
    uint64_t us = waited_ns / 1000;
    if (rt_gpu_nactive) { /* no bell rings when a GPU has finished */
        rt_idle_nap(waited_ns);
        return;
    }
    w->limit_us = us < LOOP_FIRST_US  ? LOOP_FIRST_US
                  : us < LOOP_MOST_US ? (uint32_t)us
                                      : LOOP_MOST_US;
    rt_lock(&d->lock);
    wm_domain_sleep(d, w);
    wm_domain_left(d, w);
    rt_unlock(&d->lock);
}

/* With threads, a thread that polls takes the lock again before another one has woken up, for whose
 * sake the lock was released.  With more ranks than cores, a rank that polls keeps the sender of
 * the answer off the core until its time slice ends, milliseconds later.  So a poll that finds
 * nothing yields, and a loop of such polls, which does nothing else, becomes a wait. */
static __attribute__((noinline)) void idle_in_loop(void)
{
    static _Thread_local struct {
        struct wm_wait wait;
        uint64_t left_ns, begin_ns;
    } loop;
    uint64_t now = rt_now_ns();
    bool loops = !take_success(SINCE_IDLE) && now - loop.left_ns <= LOOP_NS;
    if (!loops) {
        loop.wait = (struct wm_wait){ 0 };
        loop.begin_ns = now;
    }
    enum rt_idle_advice advice = rt_idle_oversubscribed() ? rt_idle_step_shared(&loop.wait.idle)
                                                          : rt_idle_step(&loop.wait.idle, 2);
    if (advice == RT_IDLE_SLEEP && loops)
        sleep_in_loop(wm_main_domain, &loop.wait, now - loop.begin_ns);
    loop.left_ns = rt_now_ns();
}

void wm_domain_polled(bool found)
{
    if (found) {
        rt_store_relaxed(&poll_succeeded, SINCE_LOOK | SINCE_IDLE);
        return;
    }
    int32_t left = rt_load_relaxed(&polls_left) - 1;
    rt_store_relaxed(&polls_left, left);
    if (rt_unlikely(left < 0))
        look_for_ended_polling();
    if (rt_threaded || rt_idle_contended())
        idle_in_loop();
}
