/* SPDX-License-Identifier: BSD-3-Clause */
/* See room.h.  Shared pages count for the control group of the process that touches them first.
 * Groups of version 1 and 2 have the same files under other names. */
#include "runtime/mem/room.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/atomic.h"
#include "runtime/base/clock.h"

#define FOLDER 512 /* longest path of a group that is looked at */
/* A look reads a dozen files, 50 to 200 us.  Callers use half of the
 * answer, so it may be old. */
#define LOOK_NS 100000000u

struct version {
    const char *top, *most, *now, *cache;
};
static const struct version v1 = { "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                   "memory.usage_in_bytes", "total_inactive_file" };
static const struct version v2 = { "/sys/fs/cgroup", "memory.max", "memory.current",
                                   "inactive_file" };

/* The number behind `key` in a file of lines "key number"; "": the first number.  False: there is
 * no such file or number. */
static bool read_number(const char *folder, const char *file, const char *key, uint64_t *out)
{
    char path[FOLDER + 64], line[256];
    size_t len = strlen(key);
    bool found = false;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        char *end, *at = line + len;
        if (strncmp(line, key, len) != 0 || (len && *at != ' ' && *at != ':'))
            continue;
        at += len && *at == ':';
        *out = strtoull(at, &end, 10);
        found = end != at;
    }
    if (f)
        fclose(f);
    return found;
}

static uint64_t lower(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* What one group can still give.  Its cache counts as free where it would be evicted first. */
static uint64_t room_of(const struct version *v, const char *folder, uint64_t room)
{
    uint64_t most, now, cache = 0;
    if (!read_number(folder, v->most, "", &most) || !read_number(folder, v->now, "", &now))
        return room; /* "max", or not a group */
    if (most >= now && most - now >= room)
        return room;
    read_number(folder, "memory.stat", v->cache, &cache);
    now -= lower(cache, now);
    return lower(room, most > now ? most - now : 0);
}

/* The group and all groups around it; in a container the outermost one that is visible. */
static uint64_t room_of_all(const struct version *v, const char *group, uint64_t room)
{
    char folder[FOLDER];
    size_t top = strlen(v->top);
    if (snprintf(folder, sizeof folder, "%s%s", v->top, group) >= FOLDER)
        return 0;
    for (;;) {
        room = room_of(v, folder, room);
        char *end = strrchr(folder + top, '/');
        if (!end)
            return room;
        *end = '\0';
    }
}

static uint64_t look(void)
{
    uint64_t kib, mode;
    char line[FOLDER + 64];
    if (!read_number("/proc", "meminfo", "MemAvailable", &kib) ||
        !read_number("/proc/sys/vm", "overcommit_memory", "", &mode) || mode == 2)
        return 0;
    uint64_t room = kib << 10;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *kind = strchr(line, ':'), *group = kind ? strchr(kind + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        if (!strcmp(kind, ":memory"))
            room = room_of_all(&v1, group, room);
        else if (!strcmp(kind, ":"))
            room = room_of_all(&v2, group, room);
    }
    if (f)
        fclose(f);
    return room;
}

uint64_t rt_room(void)
{
    static uint64_t room, looked;
    uint64_t now = rt_now_ns(), last = rt_load_acquire(&looked);
    if (last && now - last < LOOK_NS)
        return rt_load_relaxed(&room);
    uint64_t found = look();
    rt_store_relaxed(&room, found);
    rt_store_release(&looked, now);
    return found;
}
