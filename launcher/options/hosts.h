/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of hosts, from text to struct launch_host.  hostlist.c parses words and ranges; hosts.c
 * handles --host and --hostfile; hostfile.c reads files; allocation.c reads the allocation of a
 * resource manager.  Main thread, before anything is started. */
#ifndef LAUNCHER_OPTIONS_HOSTS_H
#define LAUNCHER_OPTIONS_HOSTS_H

#include "launcher/job.h"

/* A list of hosts that is being built; names are owned. */
struct launch_hosts {
    struct launch_host *v;
    int n, cap;
    int *table; /* 2 * cap entries, by key: 1 + index in v, 0: empty */
};

/* One word of a list: "name", "name:4", "[fe80::1]:4", "node[01-04]:2", "+n3", "+e2". */
struct launch_word {
    char name[256]; /* without the count; ranges as given */
    int slots;      /* 0: not given */
    int max_slots;  /* 0: none */
};

enum {
    LAUNCH_HOSTS_MOST = 100000, /* a list with more hosts is taken for a mistake */
    LAUNCH_SLOTS_MOST = 65536
};

/* Handles a name; returns 0, or an exit code after a message, which ends the walk. */
typedef int launch_name_fn(void *arg, const char *name);

/* ---- hostlist.c ---- */
/* Length of the first word of a list with commas; commas inside [] do not separate. */
size_t launch_word_len(const char *text);
/* Parses a word of `len` bytes; `where` begins the messages ("--host", "file line 3").  Returns 0
 * or an exit code after a message. */
int launch_word_parse(const char *where, const char *text, size_t len, struct launch_word *out);
/* Parses a number in low..high with nothing after it. */
bool launch_number(const char *text, int low, int high, int *out);
/* Calls fn for each name in a word with ranges, such as "r[1-2]n[01-04,07]"; a word without ranges
 * is one name.  Returns 0, or an exit code after a message: its own, or that of fn. */
int launch_ranges(const char *where, const char *text, launch_name_fn *fn, void *arg);
/* Parses Slurm's counts, "2(x3),1", into out[0..n).  Returns their number, which may exceed n, or
 * -1 for other text. */
int launch_counts(const char *text, int *out, int n);

/* ---- hosts.c ---- */
/* Whether two names mean one host: they are equal, or one is the short form of the other. */
bool launch_same_host(const char *a, const char *b);
/* Whether a name is an address, which is stored in addr in IPv6 form. */
struct in6_addr;
bool launch_is_address(const char *name, struct in6_addr *addr);
/* Whether a name or address means this host. */
bool launch_is_self(const char *name);
/* Index of the host with that name, which is added if it is new.  -1: out of memory. */
int launch_hosts_add(struct launch_hosts *h, const char *name);
/* Called when the command line has been read: sets o->resources.hosts from the allocation,
 * --hostfile and --host; none of these: no hosts.  Returns 0 or an exit code after a message. */
int launch_choose_hosts(struct launch_opts *o);
/* Removes the other hosts. */
void launch_hosts_keep(struct launch_opts *o, const bool *keep);

/* ---- hostfile.c ---- */
/* Calls fn for each line that names hosts.  Returns 0, or an exit code after a message: its own, or
 * that of fn. */
typedef int launch_word_fn(void *arg, const char *where, const struct launch_word *word);
int launch_hostfile_read(const char *path, launch_word_fn *fn, void *arg);

/* ---- allocation.c ---- */
struct launch_alloc {
    struct launch_hosts hosts; /* none: mpirun does not run in an allocation */
    char name[128];            /* "the Slurm allocation (job 17)" */
    bool slurm;
    int cpus_per_task; /* hardware threads, Slurm's processors; 0: not given */
    int n;             /* ranks requested from the manager; 0: not given */
};
/* Reads the environment.  Returns 0 or an exit code after a message. */
int launch_alloc_find(struct launch_alloc *a);

#endif
