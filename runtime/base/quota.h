/* SPDX-License-Identifier: BSD-3-Clause */
/* The share of this machine's processor time that control groups leave to a process: containers and
 * batch systems limit it (cpu.max) without taking cores away, so that the affinity mask, and hwloc,
 * show cores that the kernel stops for the rest of each period. */
#ifndef RT_BASE_QUOTA_H
#define RT_BASE_QUOTA_H

#include <sys/types.h>

/* Cores that the control groups of a process allow, rounded up; 0: no limit, or unknown.  The least
 * of its group and of those above it that can be seen.  root: "" (a test has a folder of its own
 * with proc/ and sys/ in it). */
int rt_quota_cores(const char *root, pid_t pid);

#endif
