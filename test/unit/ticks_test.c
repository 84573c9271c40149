/* SPDX-License-Identifier: BSD-3-Clause */
/* The rate of the cheap clock: never more ticks than pass, before and after it is measured. */
#include "runtime/base/ticks.h"
#include "test/check.h"

#include <time.h>

static void rate_is_measured(void)
{
    struct timespec t = { 0, 20000000 };
    uint64_t from = rt_ticks(), assumed = rt_ticks_in_ms(20);
    rt_ticks_init();
    CHECK_EQ(rt_ticks_in_ms(20), assumed); /* too early */
    nanosleep(&t, NULL);
    uint64_t measured = rt_ticks_in_ms(20), passed = rt_ticks() - from;
    CHECK_MSG(assumed <= passed && measured <= passed, "%llu, then %llu; %llu have passed",
              (unsigned long long)assumed, (unsigned long long)measured,
              (unsigned long long)passed);
    CHECK(measured >= assumed);
    CHECK_EQ(rt_ticks_in_ms(20), measured); /* once */
    CHECK_EQ(rt_ticks_in_ms(0), 0);
}

int main(void)
{
    RUN(rate_is_measured);
    return check_end();
}
