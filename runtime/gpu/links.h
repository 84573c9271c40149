/* SPDX-License-Identifier: BSD-3-Clause */
/* How a device is joined to others by NVLink. */
#ifndef RT_GPU_LINKS_H
#define RT_GPU_LINKS_H

#include "runtime/gpu/devices.h"
#include "runtime/gpu/model.h"

struct rt_gpu;

/* Asks each time, which takes some milliseconds; the driver must have been opened. */
enum rt_gpu_links rt_gpu_links_at(const struct rt_gpu_info *device);
enum rt_gpu_links rt_gpu_links(struct rt_gpu *g); /* asks once */
bool rt_gpu_links_direct(struct rt_gpu *g);       /* those of g */

#endif
