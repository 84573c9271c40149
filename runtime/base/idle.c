/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a waiting rank polls, yields and only then sleeps.  The policy is set once by boot
 * and read-only after; a wait's own state is in its struct rt_idle, so any thread may wait. */
#include "runtime/base/idle.h"
#include "runtime/base/atomic.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"

#include <sched.h>

/* Defaults.  A wake-up through a futex costs 5 to 50 us, so with a core of its own a rank polls
 * well beyond that; a peer that computes for longer than 2 ms makes the cost of sleeping
 * invisible.  Oversubscribed, the message can only come when another rank gets this core: 20
 * polls (about 1 us) catch a sender that runs right now, all else is the scheduler's. */
#define SPIN_NS        200000u
#define YIELD_NS       2000000u
#define SHARED_POLLS   20u
#define SHARED_NS      1500000u

#define CLOCK_EVERY    64u          /* polls between two looks at the clock (20 ns each) */
#define YIELDING       0x80000000u  /* in rt_idle.polls: the spin phase is over */

static struct {
    uint64_t spin_ns, yield_ns;
    uint32_t spin_polls;            /* spin for so many polls; 0 = spin_ns counts */
    bool oversubscribed;
} policy = { SPIN_NS, YIELD_NS, 0, false };

void rt_idle_configure(int nranks, int ncpus)
{
    policy.oversubscribed = nranks > ncpus;
    policy.spin_ns = SPIN_NS;
    policy.yield_ns = YIELD_NS;
    policy.spin_polls = 0;
    if (policy.oversubscribed) {
        policy.spin_polls = SHARED_POLLS;
        policy.yield_ns = SHARED_NS;
    }
    if (cfg.spin_us >= 0) {
        policy.spin_ns = (uint64_t)cfg.spin_us * 1000u;
        policy.spin_polls = cfg.spin_us ? 0 : 1;
    }
    if (cfg.sleep_us >= 0)
        policy.yield_ns = (uint64_t)cfg.sleep_us * 1000u;
}

bool rt_idle_oversubscribed(void)
{
    return policy.oversubscribed;
}

/* True when the spin phase ends with this poll. */
static bool spin_over(struct rt_idle *i)
{
    if (policy.spin_polls)
        return i->polls >= policy.spin_polls;
    if (i->polls % CLOCK_EVERY)
        return false;
    uint64_t now = rt_now_ns();
    if (!i->since_ns)
        i->since_ns = now;
    return now - i->since_ns >= policy.spin_ns;
}

/* The yield phase counts from its own start. */
static enum rt_idle_advice yield_step(struct rt_idle *i)
{
    uint64_t now = rt_now_ns();
    if (now - i->since_ns >= policy.yield_ns)
        return RT_IDLE_SLEEP;
    sched_yield();
    return RT_IDLE_POLL;
}

enum rt_idle_advice rt_idle_step(struct rt_idle *i)
{
    if (i->polls & YIELDING)
        return yield_step(i);
    i->polls++;
    if (!spin_over(i)) {
        rt_relax();
        return RT_IDLE_POLL;
    }
    i->polls |= YIELDING;
    i->since_ns = rt_now_ns();
    return yield_step(i);
}
