/* SPDX-License-Identifier: BSD-3-Clause */
/* Loops of calls that poll and find nothing, such as MPI_Test, become waits: they let others have
 * the core, look for processes that have ended, and are published. */
#include "mpi/p2p/wait_int.h"
#include "runtime/base/clock.h"

/* Polls without success after which the clock is read. */
#define LOOK_POLLS 256

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

/* A program that polls until it finds something never sleeps. */
static __attribute__((noinline, cold)) void look_for_ended_polling(void)
{
    static struct wm_wait polling; /* under the lock */
    static _Thread_local struct rt_idle looks;
    struct wm_domain *d = wm_main_domain;
    rt_lock(&d->lock);
    rt_store_relaxed(&polls_left, LOOK_POLLS);
    if (take_success(SINCE_LOOK)) {
        wm_wait_unpublish(&polling);
        polling = (struct wm_wait){ 0 };
        looks = (struct rt_idle){ 0 };
    }
    wm_wait_publish_polls(&polling);
    wm_domain_look_for_ended(d, &polling.look);
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
        loop.wait = (struct wm_wait){ .of_polls = true };
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
