/* SPDX-License-Identifier: BSD-3-Clause */
/* Time limits on a machine that may be busy, like test/tool/patience.py: time in which a process
 * waited for a processor or the disk does not count, if the kernel measures it. */
#ifndef TEST_PATIENCE_H
#define TEST_PATIENCE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PATIENCE 4u /* a hang is detected in the end, whatever the machine does */

struct watch {
    uint64_t began, starved;
};

static inline uint64_t watch_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t watch_pressure_us(const char *file)
{
    char line[160];
    uint64_t us = 0;
    FILE *f = fopen(file, "re");
    if (f && fgets(line, sizeof line, f) && strstr(line, "total="))
        sscanf(strstr(line, "total="), "total=%" SCNu64, &us);
    if (f)
        fclose(f);
    return us;
}

static inline uint64_t watch_starved(void)
{
    uint64_t us = watch_pressure_us("/proc/pressure/cpu");
    return (us + watch_pressure_us("/proc/pressure/io")) * 1000u;
}

static inline struct watch watch_begin(void)
{
    return (struct watch){ watch_clock(), watch_starved() };
}

/* Nanoseconds since then that count for the program. */
static inline uint64_t watch_own(struct watch w)
{
    uint64_t wall = watch_clock() - w.began, starved = watch_starved() - w.starved;
    return starved < wall ? wall - starved : 0;
}

/* Whether a limit that guards against hanging has been reached. */
static inline bool watch_over(struct watch w, uint64_t limit_ns)
{
    uint64_t wall = watch_clock() - w.began;
    return wall > PATIENCE * limit_ns || (wall > limit_ns && watch_own(w) > limit_ns);
}

#endif
