/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of hosts: from text to struct launch_host.  Between hostlist.c (words and ranges), hosts.c
 * (--host, --hostfile and what they select from), hostfile.c and alloc.c (what a resource manager
 * gave us).  Main thread, before anything is started. */
#ifndef LAUNCHER_OPTIONS_HOSTS_H
#define LAUNCHER_OPTIONS_HOSTS_H

#include "launcher/job.h"

/* A list of hosts in the making; names are owned. */
struct launch_hosts {
    struct launch_host *v;
    int n, cap;
    int *table; /* 2 * cap places, by key: 1 + index in v, 0 = empty */
};

/* One word of a list: "name", "name:4", "[fe80::1]:4", "node[01-04]:2", "+n3", "+e2". */
struct launch_word {
    char name[256]; /* without the count; ranges as they were written */
    int slots;      /* 0 = not said */
    int max_slots;  /* 0 = none */
};

enum {
    LAUNCH_HOSTS_MOST = 100000, /* a list that names more is a slip of the pen */
    LAUNCH_SLOTS_MOST = 65536
};

/* What to do with each name; 0 or an exit code after a message, which ends the walk. */
typedef int launch_name_fn(void *arg, const char *name);

/* ---- hostlist.c ---- */
/* The length of the first word of a list with commas, which inside [] do not separate. */
size_t launch_word_len(const char *text);
/* Splits `text` of `len` bytes; `where` begins the message ("--host", "file line 3"). */
int launch_word_parse(const char *where, const char *text, size_t len, struct launch_word *out);
/* A number in low..high with nothing behind it. */
bool launch_number(const char *text, int low, int high, int *out);
/* Calls fn for each name that ranges like "r[1-2]n[01-04,07]" stand for; a name without ranges is
 * itself. */
int launch_ranges(const char *where, const char *text, launch_name_fn *fn, void *arg);
/* Slurm's counts "2(x3),1" into out[0..n); how many there were, which may be more than n, or -1 for
 * other text. */
int launch_counts(const char *text, int *out, int n);

/* ---- hosts.c ---- */
/* One host by two names: equal, or one is the short name of the other. */
bool launch_same_host(const char *a, const char *b);
/* Whether a name is an address, which goes into addr, IPv4 as IPv6 writes it. */
struct in6_addr;
bool launch_is_address(const char *name, struct in6_addr *addr);
/* A name or address of the host that we run on. */
bool launch_is_self(const char *name);
/* The host of that name; -1: there is none. */
int launch_hosts_find(const struct launch_hosts *h, const char *name);
/* The same, added when it is new.  -1: no memory. */
int launch_hosts_add(struct launch_hosts *h, const char *name);
void launch_hosts_fini(struct launch_hosts *h);
/* After the command line was read: opts->hosts from the allocation, --hostfile and --host;
 * none when nothing names any.  0 or an exit code after a message. */
int launch_choose_hosts(struct launch_opts *o);
/* Leaves out the others. */
void launch_hosts_keep(struct launch_opts *o, const bool *keep);

/* ---- hostfile.c: calls fn for each line that names hosts ---- */
typedef int launch_word_fn(void *arg, const char *where, const struct launch_word *word);
int launch_hostfile_read(const char *path, launch_word_fn *fn, void *arg);

/* ---- alloc.c ---- */
struct launch_alloc {
    struct launch_hosts hosts; /* none: we are in no allocation */
    char name[128];            /* "the Slurm allocation (job 17)" */
    bool slurm;
    int cpus_per_task; /* Slurm's processors: hardware threads; 0 = not said */
    int n;             /* ranks that the user asked the manager for; 0 = not said */
};
/* Reads the environment.  0 or an exit code after a message. */
int launch_alloc_find(struct launch_alloc *a);

#endif
