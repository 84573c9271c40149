/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread's wait: progress, and one idle step after each pass that finds nothing.  How long a
 * thread polls and yields before it sleeps is decided in runtime/base/idle.c, how it sleeps in
 * wait_sleep.c, and what others can read about it in wait_note.c. */
#include "mpi/p2p/describe.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/wait_int.h"
#include "runtime/base/req.h"

/* Passes before a wait ends early: what a process has sent before its death is taken first. */
#define LAST_PASSES 4

bool wm_wait_done(void *done) { return rt_load_acquire((const uint32_t *)done); }

static void count(struct wm_domain *d, struct wm_wait *w)
{
    if (w->counted)
        return;
    w->counted = true;
    wm_wait_count_awake(d, 1);
    d->wait.nwaits += !w->internal;
}

/* The next thread that finds nothing makes progress. */
static void resign(struct wm_domain *d, const struct wm_wait *w)
{
    if (d->wait.poller == w)
        rt_store_relaxed(&d->wait.poller, NULL);
}

void wm_domain_sleep(struct wm_domain *d, struct wm_wait *w)
{
    count(d, w);
    resign(d, w);
    wm_wait_sleep(d, w);
}

/* Whether another thread makes progress, and this one can see the end of its wait by itself.  Where
 * threads outnumber cores the other one may not run. */
static bool is_beside(const struct wm_domain *d, const struct wm_wait *w)
{
    return d->wait.poller && d->wait.poller != w && w->ready == wm_wait_done &&
           rt_idle_suffices(d->wait.nawake);
}

/* Polls nothing but the word that ends the wait, so that the thread that makes progress has the
 * lock and its lines for itself; until it leaves. */
static enum rt_idle_advice stand_beside(struct wm_domain *d, struct wm_wait *w, int nawake)
{
    enum rt_idle_advice advice = RT_IDLE_POLL;
    while (advice == RT_IDLE_POLL && !wm_wait_done(w->arg) && rt_load_relaxed(&d->wait.poller) &&
           !wm_wait_interrupted(w))
        advice = rt_idle_step(&w->idle, nawake);
    return advice;
}

void wm_domain_idle(struct wm_domain *d, struct wm_wait *w)
{
    bool by_timer = rt_gpu_nactive; /* no bell rings when a GPU has finished */
    enum rt_idle_advice advice = RT_IDLE_POLL;
    count(d, w);
    int nawake = d->wait.nawake + d->wait.nelsewhere;
    bool beside = rt_unlikely(nawake > 1) && is_beside(d, w);
    if (!beside && !d->wait.poller && !w->internal)
        rt_store_relaxed(&d->wait.poller, w);
    rt_unlock(&d->lock);
    bool slept = false;
    if (rt_unlikely(by_timer))
        slept = rt_idle_pause(&w->idle, nawake);
    else if (beside)
        advice = stand_beside(d, w, nawake);
    else
        advice = rt_idle_step(&w->idle, nawake);
    if (rt_unlikely(rt_threaded) && !beside)
        rt_lock_offer(&d->lock);
    rt_lock(&d->lock);
    if (rt_unlikely(slept)) {
        wm_progress_look(d);
        wm_wait_publish(d, w);
    }
    if (rt_unlikely(advice == RT_IDLE_SLEEP)) {
        resign(d, w);
        wm_wait_sleep(d, w);
    }
}

bool wm_domain_step(struct wm_domain *d, struct wm_wait *w)
{
    bool progress = wm_progress(d) > 0;
    if (progress)
        w->idle = (struct rt_idle){ 0 };
    else if (!w->ready || !w->ready(w->arg))
        wm_domain_idle(d, w);
    return progress;
}

void wm_domain_leave(struct wm_domain *d, struct wm_wait *w)
{
    resign(d, w);
    wm_wait_count_awake(d, -1);
    w->counted = false;
    wm_wait_unpublish(w);
}

static bool must_end(struct wm_domain *d, struct wm_wait *w)
{
    w->seen = rt_interrupts();
    for (int i = 0; i < LAST_PASSES && wm_progress(d) > 0; i++)
        continue;
    return !w->ready(w->arg) && w->by.hits(w->by.of);
}

bool wm_domain_until_or(struct wm_domain *d, bool (*ready)(void *arg), void *arg,
                        struct wm_what what, struct wm_interrupt by)
{
    struct wm_wait w = { .ready = ready, .arg = arg, .what = what, .by = by };
    bool over = false;
    while (!over && !ready(arg)) {
        if (rt_unlikely(wm_wait_interrupted(&w)))
            over = must_end(d, &w);
        else
            wm_domain_step(d, &w);
    }
    wm_domain_left(d, &w);
    return !over;
}

void wm_domain_until(struct wm_domain *d, bool (*ready)(void *arg), void *arg, struct wm_what what)
{
    wm_domain_until_or(d, ready, arg, what, (struct wm_interrupt){ 0 });
}

void wm_domain_wait(struct wm_domain *d, const struct rt_req *r)
{
    if (!rt_req_done(r))
        wm_progress(d); /* most often one pass is enough */
    if (rt_unlikely(!rt_req_done(r)))
        wm_domain_until(d, wm_wait_done, WM_WAIT_DONE(r),
                        (struct wm_what){ wm_describe_request, r });
}
