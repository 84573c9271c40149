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

/* Ranks that wait give a core back within microseconds.  A yield that took so long went to somebody
 * who computes, and each further one would give him a whole turn again, even if he is nice: the
 * scheduler puts who yields behind all others, whereas who wakes up is soon on.  One such yield may
 * be a daemon's; after the second there are none for so many times its length, nor long spins. */
#define LONG_YIELD_NS  500000u
#define LONG_YIELDS    2u
#define CROWDED_TIMES  16u
#define CROWDED_NS     1000000000u  /* but at most for so long */

#define CLOCK_EVERY    64u          /* polls between two looks at the clock (20 ns each) */
#define YIELDING       0x80000000u  /* in rt_idle.polls: the spin phase is over */

static struct {
    uint64_t spin_ns, yield_ns;
    uint32_t spin_polls;            /* spin for so many polls; 0 = spin_ns counts */
    bool oversubscribed;
    bool adapts_spin, adapts_yield; /* not set by the user */
} policy = { SPIN_NS, YIELD_NS, 0, false, true, true };

/* What the process has seen of its cores; any thread, and no harm if two write at once. */
static struct {
    uint64_t until_ns;              /* others compute on them, until then; 0: not known to */
    uint32_t long_yields;           /* in succession */
} crowd;

void rt_idle_configure(int nranks, int ncpus)
{
    policy.oversubscribed = nranks > ncpus;
    policy.adapts_spin = cfg.spin_us < 0;
    policy.adapts_yield = cfg.sleep_us < 0;
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

static bool is_crowded(uint64_t now) { return now < rt_load_relaxed(&crowd.until_ns); }

bool rt_idle_yield(void)
{
    uint64_t before = rt_now_ns();
    if (policy.adapts_yield && is_crowded(before))
        return false;
    sched_yield();
    uint64_t after = rt_now_ns(), took = after - before;
    if (rt_likely(took < LONG_YIELD_NS)) {
        rt_store_relaxed(&crowd.long_yields, 0);
        return true;
    }
    uint32_t n = rt_load_relaxed(&crowd.long_yields) + 1;
    rt_store_relaxed(&crowd.long_yields, n);
    if (n < LONG_YIELDS)
        return true;
    uint64_t pause = took < CROWDED_NS / CROWDED_TIMES ? took * CROWDED_TIMES : CROWDED_NS;
    rt_store_relaxed(&crowd.until_ns, after + pause);
    return !policy.adapts_yield;
}

/* True when the spin phase ends with this poll. */
static bool spin_over(struct rt_idle *i)
{
    if (i->polls == SHARED_POLLS && policy.adapts_spin && rt_load_relaxed(&crowd.until_ns) &&
        is_crowded(rt_now_ns()))
        return true;
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
    if (rt_now_ns() - i->since_ns >= policy.yield_ns)
        return RT_IDLE_SLEEP;
    return rt_idle_yield() ? RT_IDLE_POLL : RT_IDLE_SLEEP;
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
