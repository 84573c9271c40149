/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of this host as a picture: the pages that they publish in their node segment, and what
 * the kernel says of their processes.  No rank has to answer.  One thread. */
#ifndef LAUNCHER_EXPLAIN_COLLECT_H
#define LAUNCHER_EXPLAIN_COLLECT_H

#include <sys/types.h>

#include "launcher/explain/explain.h"

/* A rank as its launcher knows it. */
struct explain_known {
    int rank;   /* of the job */
    pid_t pid;  /* of what the launcher has started: the rank, or a process above it; 0: unknown */
    bool ended; /* with `status` of waitpid() */
    int status;
};

/* The ranks of this host that are process `pid`, below it, or share its node segment; malloc'ed, in
 * the order of their numbers.  Returns their number; -RT_EPERM: the kernel forbids to look at them;
 * -RT_ENOMEM. */
int explain_find(pid_t pid, struct explain_known **out);

/* The pages of the ranks of this host.  Keeps their segments open. */
struct explain_pages;
struct explain_pages *explain_pages_new(int n); /* ranks; NULL: no memory */
void explain_pages_free(struct explain_pages *p);
/* Reads the pages of all ranks; those that are not in MPI yet, or that may not be read, are
 * missing. */
void explain_pages_read(struct explain_pages *p, const struct explain_known *known);
/* After explain_pages_read(): a value that stays the same while no rank does anything in MPI, and
 * since when the oldest wait lasts (0: no rank waits). */
uint64_t explain_pages_movement(const struct explain_pages *p);
uint64_t explain_pages_oldest_ns(const struct explain_pages *p);

/* A picture of the ranks whose pages have been read last, with their places in the sources. */
struct explain_picture;
struct explain_picture *explain_picture_take(struct explain_pages *p,
                                             const struct explain_known *known, const char *host,
                                             int total);
void explain_picture_free(struct explain_picture *p);
/* The stacks of the main threads of all ranks, at most EXPLAIN_STACKS of them. */
#define EXPLAIN_STACKS 64
void explain_picture_stacks(const struct explain_picture *p, FILE *f);
struct explain_job *explain_picture_job(struct explain_picture *p);
/* A line for the user about what could not be found out; "": nothing. */
const char *explain_picture_lacks(const struct explain_picture *p);

#endif
