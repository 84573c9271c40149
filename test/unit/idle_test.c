/* SPDX-License-Identifier: BSD-3-Clause */
/* The waiting policy: how many steps and how much time pass before a waiter is told to sleep. 
 * Only lower bounds of time are tight; upper ones are generous, because the machine may be busy. */
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/idle.h"
#include "test/check.h"

static uint64_t wait_ns;

/* Steps until the advice is to sleep. */
static unsigned steps(struct rt_idle *i)
{
    unsigned n = 1;
    uint64_t start = rt_now_ns();
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
    CHECK_MSG(wait_ns >= 2000000 && wait_ns < 1000000000, "slept after %llu ns",
              (unsigned long long)wait_ns);
}

static void oversubscribed_polls_little(void)
{
    struct rt_idle i = { 0 };
    rt_idle_configure(16, 2);
    CHECK(rt_idle_oversubscribed());
    steps(&i);
    CHECK_MSG(wait_ns >= 1000000 && wait_ns < 1000000000, "slept after %llu ns",
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
    CHECK_EQ(rt_cfg_set("spin_us", "-1", RT_CFG_CMD), 0);
    CHECK_EQ(rt_cfg_set("sleep_us", "-1", RT_CFG_CMD), 0);
}

int main(void)
{
    CHECK_EQ(rt_cfg_set("spin_us", "-1", RT_CFG_CMD), 0);
    RUN(core_each_spins_long_then_sleeps);
    RUN(oversubscribed_polls_little);
    RUN(sleeper_that_finds_nothing_sleeps_again);
    RUN(settings_override);
    return check_end();
}
