/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps hwloc from loading its plugins.  The built-in Linux back-end has everything that Weft
 * needs.  The plugins load libOpenCL, libX11 or libcuda into every rank, make hwloc's
 * initialisation 30 times slower (2.1 ms instead of 0.07) and start the driver of a GPU: 0.4 s for
 * each rank (2 x H200).  hwloc loads its plugins once in a process. */
#ifndef RT_BASE_HWLOC_H
#define RT_BASE_HWLOC_H

#include <stdbool.h>

/* Whether hwloc can read this machine; false after logging what is missing.  Without
 * sched_getaffinity(2), hwloc 2 asks for ever. */
bool rt_hwloc_works(void);

/* Called before and after calls that may be the first to use hwloc; the second call takes the
 * result of the first. */
bool rt_hwloc_hide_plugins(void);
void rt_hwloc_show_plugins(bool hidden);

#endif
