/* SPDX-License-Identifier: BSD-3-Clause */
/* What rail.c and reg.c share.  Private to runtime/ib. */
#ifndef RT_IB_RAIL_H
#define RT_IB_RAIL_H

#include "runtime/ib/dev.h"

struct rt_gpu;
struct rt_reg;

#define RT_IB_RAILS 16

struct rt_ib_dev *rt_ib_device(int i); /* in use; NULL beyond the last */
const struct rt_ib_rail *rt_ib_rail(int i); /* likewise */
void rt_ib_reg_close(void);            /* gives every registration back, before the devices */
void rt_ib_flush_close(void);

/* One registration with one device. */
struct rt_ib_held {
    struct rt_ib_mr mr;   /* first: what the transport sees */
    struct ibv_mr *verbs;
    struct rt_reg *reg;   /* the cache's; NULL: strict, the caller's alone */
    uintptr_t start;
    int device;
    int ordinal;          /* of the GPU; -1: host memory */
    struct rt_gpu *g;     /* as long as rt_gpu_era is `era` */
    uint32_t era;
};

#endif
