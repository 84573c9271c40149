/* SPDX-License-Identifier: BSD-3-Clause */
/* The devices that the driver shows to this process, without their contexts. */
#ifndef RT_GPU_DEVICES_H
#define RT_GPU_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the settings and the machine allow the use of devices.  Any thread. */
bool rt_gpu_possible(void);

struct rt_gpu_info {
    int ordinal;
    char name[64];
    uint8_t uuid[16];
    char pci[16]; /* "0000:18:00.0" */
    int major, minor, nsm;
    size_t mem_nbytes;
    bool unified_managed; /* the CPU may access managed memory while kernels run */
    bool exclusive;       /* compute mode: one process at a time */
    bool mps;             /* processes use it at the same time; without MPS, in turns */
};

/* Opens the driver (loads it if needed) and returns the number of devices; 0 without a driver.  For
 * tools; the message path never loads the driver itself. */
int rt_gpu_count(void);
/* -RT_ENOENT: no such device; -RT_EGPU; both logged. */
int rt_gpu_describe(int ordinal, struct rt_gpu_info *out);
int rt_gpu_driver_version(void);  /* 13000 for CUDA 13.0; 0 without one */
const char *rt_gpu_why_not(void); /* why there is no driver or no device, as text for a user */
/* Whether one device can access the memory of another; ordinals of this process. */
bool rt_gpu_can_access(int ordinal, int peer);

/* -RT_ENOENT, logged: no such device. */
int rt_gpu_check_ordinal(int ordinal);
/* d: a cu_device.  -RT_EGPU, logged. */
int rt_gpu_describe_device(int d, int ordinal, struct rt_gpu_info *out);
/* 0: not known to the driver, too. */
int rt_gpu_attribute(int d, int which);

#endif
