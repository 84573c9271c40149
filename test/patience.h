/* SPDX-License-Identifier: BSD-3-Clause */
/* Time limits on a machine that may be busy, like test/tool/patience.py: time in which a process
 * waited for a processor or the disk does not count, if the kernel measures it, and neither does
 * time in which the machine stood still. */
#ifndef TEST_PATIENCE_H
#define TEST_PATIENCE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PATIENCE 4u                 /* a hang is detected in the end, whatever the machine does */
#define PATIENCE_GAP_NS 1000000000u /* more between two looks: it stood still */

struct watch {
    uint64_t began, starved;
    uint64_t looked, still; /* when it was last asked; time in which nothing ran */
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
    uint64_t now = watch_clock();
    return (struct watch){ .began = now, .looked = now, .starved = watch_starved() };
}

/* Nanoseconds since then that count for the program. */
static inline uint64_t watch_own(struct watch w)
{
    uint64_t ran = watch_clock() - w.began - w.still, starved = watch_starved() - w.starved;
    return starved < ran ? ran - starved : 0;
}

/* Whether a limit that guards against hanging has been reached.  For loops that call it again and
 * again: of the time between two calls only PATIENCE_GAP_NS counts. */
static inline bool watch_over(struct watch *w, uint64_t limit_ns)
{
    uint64_t now = watch_clock(), gap = now - w->looked, ran;
    w->still += gap > PATIENCE_GAP_NS ? gap - PATIENCE_GAP_NS : 0;
    w->looked = now;
    ran = now - w->began - w->still;
    return ran > PATIENCE * limit_ns || (ran > limit_ns && watch_own(*w) > limit_ns);
}

#endif
