/* SPDX-License-Identifier: BSD-3-Clause */
/* Sections of weft_info that ask several processes of a job.  One thread. */
#ifndef LAUNCHER_INFO_JOB_H
#define LAUNCHER_INFO_JOB_H

#include <stdint.h>
#include "btl/btl.h"
#include "runtime/boot/boot.h"

/* Opens the transports in all processes of the job, as the library does, and calls `show` in rank
 * 0. Without mpirun: runs this program with the option `section` and two ranks under the mpirun of
 * its own folder.  Returns the exit code. */
int info_in_job(const char *self, const char *section, void (*show)(struct btl *open[], int n));

/* The value that a process has published under "info.`name`": malloc'ed, or NULL. */
void *info_published(struct rt_proc of, const char *name, size_t *len);

/* Published as "probe" by each process: an address of its memory (uint64_t) that others may try to
 * read. */
#define INFO_PROBE "probe"

/* The transport over which this process sends messages to another; NULL: it is out of reach. */
struct btl *info_connect(struct btl *open[], int n, struct rt_proc to);

#endif
