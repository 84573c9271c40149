/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation of a device: a copy, a reduction, a launch. */
#ifndef RT_GPU_OP_H
#define RT_GPU_OP_H

#include "runtime/base/list.h"
#include <stdbool.h>
#include <stddef.h>

struct rt_gpu;

/* Embedded by the caller, lent until done(). */
struct rt_gpu_op {
    void (*done)(struct rt_gpu_op *op, int err); /* err: 0 or -RT_E..., logged */
    struct rt_list link;                         /* the rest is private to runtime/gpu */
    struct rt_gpu *g;
    void *dst;
    const void *src;
    size_t len;
    int err;
    bool near; /* a copy of rt_gpu_copy_near() */
};

extern int rt_gpu_nactive; /* operations in progress, and waits for streams: threads that wait must
                              not sleep */

#endif
