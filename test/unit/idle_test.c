/* SPDX-License-Identifier: BSD-3-Clause */
/* The waiting policy: how many steps and how much time pass before a waiter is told to sleep.  Time
 * passes here by looking at the clock and by yielding, so a busy machine changes nothing. */
#include <sched.h>
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/idle.h"
#include "test/check.h"

#define LOOK_NS 50u
#define QUICK_NS 2000u    /* a yield among ranks that wait */
#define LONG_NS 4000000u  /* one to somebody who computes */

static uint64_t now_ns = 1000000000u, yield_ns = QUICK_NS, wait_ns;
static unsigned yields;

/* In the place of the C library's. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    (void)id;
    now_ns += LOOK_NS;
    *t = (struct timespec){ (time_t)(now_ns / 1000000000u), (long)(now_ns % 1000000000u) };
    return 0;
}

int sched_yield(void)
{
    now_ns += yield_ns;
    yields++;
    return 0;
}

/* Steps until the advice is to sleep. */
static unsigned steps(struct rt_idle *i)
{
    unsigned n = 1;
    uint64_t start = rt_now_ns();
    yields = 0;
    while (rt_idle_step(i) == RT_IDLE_POLL && rt_now_ns() - start < 5000000000u)
        n++;
    wait_ns = rt_now_ns() - start;
    return n;
}

static void core_each_spins_long_then_sleeps(void)
{
    struct rt_idle i = { 0 };
    rt_idle_configure(2, 2);
    CHECK(!rt_idle_oversubscribed());
    CHECK(steps(&i) > 1000);
    CHECK_MSG(wait_ns >= 2000000 && wait_ns < 10000000, "slept after %llu ns",
              (unsigned long long)wait_ns);
}

static void oversubscribed_polls_little(void)
{
    struct rt_idle i = { 0 };
    rt_idle_configure(16, 2);
    CHECK(rt_idle_oversubscribed());
    steps(&i);
    CHECK_MSG(wait_ns >= 1000000 && wait_ns < 10000000, "slept after %llu ns",
              (unsigned long long)wait_ns);
    CHECK((i.polls & 0x7fffffffu) <= 20);
}

static void sleeper_that_finds_nothing_sleeps_again(void)
{
    struct rt_idle i = { 0 };
    rt_idle_configure(16, 2);
    steps(&i);
    CHECK_EQ(steps(&i), 1);
    i = (struct rt_idle){ 0 };                /* progress was made: polls again */
    CHECK(steps(&i) > 20);
}

/* After all that has been seen of crowded cores is over. */
static void rest(void)
{
    now_ns += 2000000000u;
    yield_ns = QUICK_NS;
    steps(&(struct rt_idle){ 0 });
}

static void one_long_yield_is_no_crowd(void)
{
    struct rt_idle i = { 0 };
    rt_idle_configure(2, 2);
    yield_ns = LONG_NS;
    CHECK(rt_idle_yield());
    yield_ns = QUICK_NS;
    CHECK(steps(&i) > 1000);
    CHECK(yields > 100);
    yield_ns = LONG_NS;
    CHECK(rt_idle_yield()); /* the first again: not one after the other */
    rest();
}

/* Somebody computes on the core: each yield would cost a turn of his. */
static void crowded_sleeps_instead_of_yielding(void)
{
    for (int ranks = 2; ranks <= 16; ranks += 14) {
        struct rt_idle i = { 0 };
        rt_idle_configure(ranks, 2);
        yield_ns = LONG_NS;
        for (int n = 0; n < 2; n++) {
            i = (struct rt_idle){ 0 };
            steps(&i);
        }
        CHECK(yields < 2);
        for (int wait = 0; wait < 10; wait++) {
            i = (struct rt_idle){ 0 };
            CHECK(steps(&i) <= 20);
            CHECK_EQ(yields, 0);
            CHECK_MSG(wait_ns < 100000, "slept after %llu ns", (unsigned long long)wait_ns);
        }
        CHECK(!rt_idle_yield());
        rest();
        CHECK(rt_idle_yield());
        i = (struct rt_idle){ 0 };
        CHECK(steps(&i) > 20);
    }
}

/* What yields cost stays a small part of the time. */
static void crowd_is_looked_for_rarely(void)
{
    rt_idle_configure(16, 2);
    yield_ns = LONG_NS;
    uint64_t start = now_ns, yielded = 0;
    while (now_ns - start < 2000000000u) {
        struct rt_idle i = { 0 };
        steps(&i);
        yielded += yields * yield_ns;
        now_ns += 100000; /* the sleep */
    }
    CHECK(yielded > 0 && yielded < (now_ns - start) / 10);
    rest();
}

static void settings_override(void)
{
    struct rt_idle i = { 0 };
    CHECK_EQ(rt_cfg_set("spin_us", "0", RT_CFG_CMD), 0);
    CHECK_EQ(rt_cfg_set("sleep_us", "0", RT_CFG_CMD), 0);
    rt_idle_configure(2, 2);
    CHECK_EQ(steps(&i), 1);
    CHECK_EQ(rt_cfg_set("spin_us", "5000", RT_CFG_CMD), 0);
    rt_idle_configure(16, 2);
    i = (struct rt_idle){ 0 };
    CHECK(steps(&i) > 64);
    CHECK_MSG(wait_ns >= 5000000, "slept after %llu ns", (unsigned long long)wait_ns);
    /* In a crowd, too. */
    CHECK_EQ(rt_cfg_set("sleep_us", "50000", RT_CFG_CMD), 0);
    rt_idle_configure(2, 2);
    yield_ns = LONG_NS;
    for (int wait = 0; wait < 3; wait++) {
        i = (struct rt_idle){ 0 };
        steps(&i);
        CHECK_MSG(wait_ns >= 55000000, "slept after %llu ns", (unsigned long long)wait_ns);
    }
    CHECK(rt_idle_yield());
    rest();
    CHECK_EQ(rt_cfg_set("spin_us", "-1", RT_CFG_CMD), 0);
    CHECK_EQ(rt_cfg_set("sleep_us", "-1", RT_CFG_CMD), 0);
}

int main(void)
{
    CHECK_EQ(rt_cfg_set("spin_us", "-1", RT_CFG_CMD), 0);
    RUN(core_each_spins_long_then_sleeps);
    RUN(oversubscribed_polls_little);
    RUN(sleeper_that_finds_nothing_sleeps_again);
    RUN(one_long_yield_is_no_crowd);
    RUN(crowded_sleeps_instead_of_yielding);
    RUN(crowd_is_looked_for_rarely);
    RUN(settings_override);
    return check_end();
}
