/* SPDX-License-Identifier: BSD-3-Clause */
/* Hardware threads for the library's threads that work while the program computes.  A new thread
 * inherits the binding of its creator; on the core of a bound rank, the thread and the program
 * would take turns.  Any thread. */
#include "runtime/boot/boot.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parses "0-3,8".  False: invalid text, or numbers that the set cannot hold. */
static bool parse(const char *text, cpu_set_t *out)
{
    CPU_ZERO(out);
    while (*text) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (end == text)
            return false;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        if (last >= CPU_SETSIZE || (*end && *end != ','))
            return false;
        for (unsigned long i = first; i <= last; i++)
            CPU_SET(i, out);
        text = *end ? end + 1 : end;
    }
    return CPU_COUNT(out) > 0;
}

/* Read here and not by hwloc, which takes 10 ms and more to load. */
int rt_boot_l3_cpus(void)
{
    cpu_set_t own, all, both;
    int cpu = 0;
    char path[128], text[1024] = "";
    if (pthread_getaffinity_np(pthread_self(), sizeof own, &own))
        return 0;
    while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &own))
        cpu++;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index3/shared_cpu_list", cpu);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    bool good = fgets(text, sizeof text, f) != NULL;
    fclose(f);
    text[strcspn(text, "\n")] = '\0';
    if (!good || !parse(text, &all))
        return 0;
    CPU_AND(&both, &all, &own);
    return CPU_EQUAL(&both, &own) ? CPU_COUNT(&all) : 0;
}

/* A launcher that publishes nothing: the set of the parent process, which such a launcher has
 * usually not bound.  But if Slurm has allocated a part of this host only and confines nothing, the
 * rest belongs to other jobs. */
static bool of_parent(cpu_set_t *out)
{
    const char *text = getenv("SLURM_CPUS_ON_NODE");
    long allocated = text ? strtol(text, NULL, 10) : 0;
    return sched_getaffinity(getppid(), sizeof *out, out) == 0 &&
           (allocated <= 0 || CPU_COUNT(out) <= allocated);
}

bool rt_boot_cpus(cpu_set_t *out)
{
    cpu_set_t own, both;
    if (rt_boot.singleton || !(rt_boot.cpulist ? parse(rt_boot.cpulist, out) : of_parent(out)) ||
        pthread_getaffinity_np(pthread_self(), sizeof own, &own))
        return false;
    CPU_AND(&both, out, &own);
    if (CPU_COUNT(&both) == CPU_COUNT(out))
        return false;
    CPU_XOR(out, out, &both);
    return true;
}
