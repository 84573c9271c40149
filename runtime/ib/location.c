/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts about an RDMA device that the kernel has and verbs do not: its location and the cores near
 * it. */
#include "runtime/ib/dev.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rt_ib_sysfs(const char *dev, const char *file, char *text, size_t len)
{
    char path[192];
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/%s", dev, file);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool ok = fgets(text, (int)len, f) != NULL;
    fclose(f);
    if (ok)
        text[strcspn(text, "\n")] = '\0';
    return ok;
}

bool rt_ib_may_run_on(const char *cpulist)
{
    union {
        cpu_set_t set;
        unsigned char bits[1024]; /* 8192 processors: more than any kernel supports */
    } mine;
    memset(&mine, 0, sizeof mine);
    if (sched_getaffinity(0, sizeof mine, &mine.set) < 0 || !*cpulist)
        return true;
    for (const char *p = cpulist; *p;) {
        char *end;
        unsigned long first = strtoul(p, &end, 10), last = first;
        if (end == p)
            return true;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long i = first; i <= last && i / 8 < sizeof mine.bits; i++)
            if (mine.bits[i / 8] & 1u << i % 8) /* longs are little endian on all supported
                                                 * platforms */
                return true;
        p = end + (*end == ',');
        if (p == end && *end)
            return true;
    }
    return false;
}

uint32_t rt_ib_mbit(unsigned width, unsigned speed)
{
    unsigned lanes = width == 1    ? 1
                     : width == 2  ? 4
                     : width == 4  ? 8
                     : width == 8  ? 12
                     : width == 16 ? 2
                                   : 0;
    static const struct {
        unsigned code, mbit;
    } lane[] = {
        { 1, 2000 },   { 2, 4000 },     { 4, 8000 },   /* SDR, DDR, QDR: 8 bits of 10 are data */
        { 8, 10000 },  { 16, 13600 },   { 32, 25000 }, /* FDR10, FDR, EDR */
        { 64, 50000 }, { 128, 100000 },                /* HDR, NDR */
    };
    for (size_t i = 0; i < sizeof lane / sizeof *lane; i++)
        if (lane[i].code == speed)
            return lanes * lane[i].mbit;
    /* XDR's code does not fit into the old field */
    return speed == 0 && lanes ? lanes * 200000 : 0;
}
