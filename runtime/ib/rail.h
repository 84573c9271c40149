/* SPDX-License-Identifier: BSD-3-Clause */
/* What rail.c and reg.c share.  Private to runtime/ib. */
#ifndef RT_IB_RAIL_H
#define RT_IB_RAIL_H

#include "runtime/ib/dev.h"

#define RT_IB_RAILS 16

struct rt_ib_dev *rt_ib_device(int i); /* in use; NULL beyond the last */
void rt_ib_reg_close(void);            /* gives every registration back, before the devices */

#endif
