/* SPDX-License-Identifier: BSD-3-Clause */
/* test/patience.h: what counts for a limit.  Stopwatches are set back instead of waiting. */
#include "test/check.h"
#include "test/patience.h"

#define SECOND 1000000000u

static struct watch begun(uint64_t seconds_ago, uint64_t looked_ago)
{
    struct watch w = watch_begin();
    w.began -= seconds_ago * SECOND;
    w.looked -= looked_ago * SECOND;
    return w;
}

static void standstill(void)
{
    struct watch w = begun(95, 95);
    CHECK(!watch_over(&w, 20ull * SECOND));
    CHECK(watch_own(w) < 5ull * SECOND);
    w.began -= 25ull * SECOND; /* and 25 s in which it ran */
    CHECK(watch_over(&w, 20ull * SECOND));
}

static void limits(void)
{
    struct watch w = begun(25, 0);
    CHECK(watch_over(&w, 20ull * SECOND));
    w = begun(15, 0);
    CHECK(!watch_over(&w, 20ull * SECOND));
    w = begun(25, 0);
    w.starved -= 10ull * SECOND;
    CHECK(!watch_over(&w, 20ull * SECOND));
    w.began -= 60ull * SECOND;
    w.starved -= 60ull * SECOND;
    CHECK(watch_over(&w, 20ull * SECOND)); /* a hang ends, whatever the machine does */
}

int main(void)
{
    RUN(standstill);
    RUN(limits);
    return check_end();
}
