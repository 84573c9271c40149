/* SPDX-License-Identifier: BSD-3-Clause */
/* See quota.h.  /proc/PID/cgroup has a line NUMBER:CONTROLLERS:PATH for each hierarchy, that of
 * version 2 without controllers.  In a container the path may be one that is not mounted there; the
 * groups above it that are mounted still count, the mount's root among them. */
#include "runtime/base/quota.h"
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct share {
    long long quota, period; /* microseconds; quota <= 0: no limit */
};

#define FOLDER_MAX 4000 /* bytes of a group's folder; deeper groups have no limit here */

static FILE *open_in(const char *folder, const char *name)
{
    char path[FOLDER_MAX + 32];
    snprintf(path, sizeof path, "%.*s/%.24s", FOLDER_MAX, folder, name);
    return fopen(path, "re");
}

static bool read_number(const char *folder, const char *name, long long *out)
{
    FILE *f = open_in(folder, name);
    bool good = f && fscanf(f, "%lld", out) == 1;
    if (f)
        fclose(f);
    return good;
}

/* "max 100000" or "150000 100000" */
static bool read_v2(const char *folder, struct share *out)
{
    char quota[24];
    FILE *f = open_in(folder, "cpu.max");
    bool good = f && fscanf(f, "%23s %lld", quota, &out->period) == 2;
    if (good && sscanf(quota, "%lld", &out->quota) != 1)
        out->quota = -1; /* "max" */
    if (f)
        fclose(f);
    return good;
}

static bool read_v1(const char *folder, struct share *out)
{
    return read_number(folder, "cpu.cfs_quota_us", &out->quota) &&
           read_number(folder, "cpu.cfs_period_us", &out->period);
}

/* The least number of cores of the group at mount + path and of all above it; `least` until now. */
static int look_up(const char *mount, const char *path, bool (*read)(const char *, struct share *),
                   int least)
{
    char folder[FOLDER_MAX];
    if (snprintf(folder, sizeof folder, "%s%s", mount, path) >= FOLDER_MAX)
        return least;
    for (;;) {
        struct share s;
        if (read(folder, &s) && s.quota > 0 && s.period > 0) {
            long long n = s.quota / s.period + (s.quota % s.period > 0);
            if (n < INT_MAX && (!least || n < least))
                least = (int)n;
        }
        char *slash = strrchr(folder, '/');
        if (!slash || strlen(folder) <= strlen(mount))
            return least;
        *slash = '\0';
    }
}

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
        if (!strncmp(p, word, len) && (p[len] == ',' || !p[len]))
            return true;
    return false;
}

int rt_quota_cores(const char *root, pid_t pid)
{
    char name[256], line[FOLDER_MAX], mount[FOLDER_MAX];
    int least = 0;
    snprintf(name, sizeof name, "%s/proc/%ld/cgroup", root, (long)pid);
    FILE *f = fopen(name, "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'),
             *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        if (!strcmp(path, "/"))
            path = "";
        if (!*controllers) {
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
            least = look_up(mount, path, read_v2, least);
        } else if (has_word(controllers, "cpu")) {
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, controllers);
            least = look_up(mount, path, read_v1, least);
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/cpu", root);
            least = look_up(mount, path, read_v1, least);
        }
    }
    if (f)
        fclose(f);
    return least;
}
