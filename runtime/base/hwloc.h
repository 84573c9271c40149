/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps hwloc from loading its plugins.  Everything Weft asks for is in the built-in Linux
 * back-end; the plugins pull libOpenCL, libX11 or libcuda into every rank, make hwloc's
 * initialisation 30 times slower (2.1 ms against 0.07) and, where there is a GPU, start its driver:
 * 0.4 s for each rank (2 x H200).  hwloc loads them once in a process. */
#ifndef RT_BASE_HWLOC_H
#define RT_BASE_HWLOC_H

#include <stdbool.h>

/* Around calls that may be the first to use hwloc; what the first answers goes to the second. */
bool rt_hwloc_hide_plugins(void);
void rt_hwloc_show_plugins(bool hidden);

#endif
