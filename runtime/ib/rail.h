/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations for rail.c, reg.c and flush.c.  Private to runtime/ib. */
#ifndef RT_IB_RAIL_H
#define RT_IB_RAIL_H

#include "runtime/ib/dev.h"

struct rt_gpu;
struct rt_reg;

#define RT_IB_RAILS 16

struct rt_ib_dev *rt_ib_device(int i);      /* in use; NULL beyond the last */
const struct rt_ib_rail *rt_ib_rail(int i); /* the same */
void rt_ib_reg_close(void); /* releases all registrations; call it before the devices are closed */
void rt_ib_flush_close(void);

/* A registration on one device. */
struct rt_ib_held {
    struct rt_ib_mr mr; /* first member: the part for the transport */
    struct ibv_mr *verbs;
    struct rt_reg *reg; /* owned by the cache; NULL: of a window, not cached */
    uintptr_t start;
    int device;
    int ordinal;      /* of the GPU; -1: host memory */
    struct rt_gpu *g; /* valid while rt_gpu_era is `era` */
    uint32_t era;
};

#endif
