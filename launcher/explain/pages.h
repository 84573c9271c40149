/* SPDX-License-Identifier: BSD-3-Clause */
/* The pages that the ranks of this host publish in their node segment (activity.h).  No rank has to
 * answer.  One thread. */
#ifndef LAUNCHER_EXPLAIN_PAGES_H
#define LAUNCHER_EXPLAIN_PAGES_H

#include <stdbool.h>
#include <sys/types.h>

#include "runtime/mem/activity.h"

struct launch_job;

/* A rank as its launcher knows it. */
struct explain_known {
    int rank;   /* of the job */
    pid_t pid;  /* of what the launcher has started: the rank, or a process above it; 0: unknown */
    bool ended; /* with `status` of waitpid() */
    int status;
};

/* A hash over words: FNV-1a. */
#define EXPLAIN_HASH 0xcbf29ce484222325u
static inline uint64_t explain_mix(uint64_t h, uint64_t v) { return (h ^ v) * 0x100000001b3u; }

/* The job->n ranks of this host. */
void explain_known_of(const struct launch_job *job, struct explain_known *out);
/* The ranks of this host that are process `pid`, below it, or share its node segment; malloc'ed, in
 * the order of their numbers.  Returns their number; -RT_EPERM: the kernel forbids to look at them;
 * -RT_ENOMEM. */
int explain_find(pid_t pid, struct explain_known **out);

/* Keeps the segments of the ranks open. */
struct explain_pages;
struct explain_pages *explain_pages_new(int n); /* ranks; NULL: no memory */
void explain_pages_free(struct explain_pages *p);
int explain_pages_n(const struct explain_pages *p);
/* Reads the pages of all ranks; those that are not in MPI yet, or that may not be read, are
 * missing. */
void explain_pages_read(struct explain_pages *p, const struct explain_known *known);
/* Reads the pages again.  Waits that have changed since the last reading count as ended: they do
 * not belong to one picture with the others, and a running job would show cycles. */
void explain_pages_keep(struct explain_pages *p, const struct explain_known *known);
/* After a reading: a value that stays the same while no rank does anything in MPI, and since when
 * the oldest wait lasts (0: no rank waits). */
uint64_t explain_pages_movement(const struct explain_pages *p);
uint64_t explain_pages_oldest_ns(const struct explain_pages *p);
/* The page of the i-th rank as read last (NULL: it is missing), and its process. */
const struct rt_activity *explain_pages_of(const struct explain_pages *p, int i);
pid_t explain_pages_pid(const struct explain_pages *p, int i, const struct explain_known *known);

#endif
