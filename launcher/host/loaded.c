/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that loads another MPI's library, although the launcher has put Weft's in its place (a
 * script may set the loader's folders again), is rank 0 of 1 without a word.  Only the memory maps
 * of the process show the library, and they vanish before its end is reported: so the maps are read
 * at times that grow by a quarter, which finds a library that was mapped for a fifth of the run.
 * A rank that has connected, or has Weft's library, is looked at no more.  Main thread only. */
#include "launcher/host/loaded.h"
#include "launcher/abi/abi.h"
#include "runtime/base/clock.h"

#include <stdlib.h>
#include <string.h>

/* Sooner no library with dependencies has been initialised. */
#define FIRST_NS 50000000u
/* A look may take this part of the time until the next. */
#define PART 20
/* Processes of one rank that are looked at: a wrapper's children. */
#define MOST_CHILDREN 32

/* Whether the file is Weft's.  All ranks load the same few files. */
static bool is_ours(const char *path)
{
    static struct {
        char path[512];
        bool ours;
    } seen[8];
    static unsigned next;
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++)
        if (!strcmp(seen[i].path, path))
            return seen[i].ours;
    bool ours = abi_is_ours(path);
    unsigned at = next++ % (sizeof seen / sizeof seen[0]);
    snprintf(seen[at].path, sizeof seen[at].path, "%s", path);
    seen[at].ours = ours;
    return ours;
}

/* Reads the maps of a process for the first library of another MPI.  *ours: Weft's own is there,
 * which a shim loads with the first call of MPI. */
static void read_maps(long pid, char *other, size_t len, bool *ours)
{
    char name[64], line[4352], last[4352] = "";
    snprintf(name, sizeof name, "/proc/%ld/maps", pid);
    FILE *f = fopen(name, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *path = strchr(line, '/');
        const char *slash = path ? strrchr(path, '/') : NULL;
        if (!slash || strncmp(slash, "/libmpi", 7))
            continue;
        path[strcspn(path, "\n")] = '\0';
        enum abi_kind kind = abi_kind_of_file(slash + 1);
        if (!strcmp(path, last) || kind == ABI_NONE)
            continue;
        snprintf(last, sizeof last, "%s", path);
        if (is_ours(path))
            *ours |= kind == ABI_STANDARD;
        else if (!*other)
            snprintf(other, len, "%s", path);
    }
    if (f)
        fclose(f);
}

/* Adds the children of a process; returns the new number. */
static int add_children(long pid, long *pids, int n)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%ld/task/%ld/children", pid, pid);
    FILE *f = fopen(name, "re");
    while (f && n < MOST_CHILDREN && fscanf(f, "%ld", &pids[n]) == 1)
        n++;
    if (f)
        fclose(f);
    return n;
}

/* Looks at a rank and its children; whether it must be looked at again. */
static bool look(struct launch_job *job, struct launch_rank *r,
                 void (*found)(struct launch_job *job, const struct launch_event *e))
{
    struct launch_event e = { .kind = LAUNCH_LOADED, .rank = r->rank };
    long pids[MOST_CHILDREN] = { r->pid };
    bool ours = false;
    if (!r->running || r->connected || r->looked || job->opts->apps[r->app].warned)
        return false;
    for (int i = 0, n = 1; i < n; i++) {
        read_maps(pids[i], e.text, sizeof e.text, &ours);
        n = add_children(pids[i], pids, n);
    }
    r->looked = ours || *e.text;
    if (*e.text && !ours)
        found(job, &e);
    return !r->looked;
}

void launch_look_begin(struct launch_job *job)
{
    job->look_from_ns = rt_now_ns();
    job->look_at_ns = job->total > 1 ? job->look_from_ns + FIRST_NS : 0;
}

uint64_t launch_look_loaded(struct launch_job *job,
                            void (*found)(struct launch_job *job, const struct launch_event *e))
{
    uint64_t now = rt_now_ns();
    if (!job->look_at_ns || now < job->look_at_ns)
        return job->look_at_ns;
    bool again = false;
    for (int i = 0; i < job->n; i++)
        again |= look(job, &job->ranks[i], found);
    uint64_t done = rt_now_ns(), pause = (done - job->look_from_ns) / 4;
    pause = pause > (done - now) * PART ? pause : (done - now) * PART;
    job->look_at_ns = again ? done + pause : 0;
    return job->look_at_ns;
}
