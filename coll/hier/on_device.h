/* SPDX-License-Identifier: BSD-3-Clause */
/* Which calls of several hosts a rank carries out on its device. */
#ifndef COLL_HIER_ON_DEVICE_H
#define COLL_HIER_ON_DEVICE_H

#include "coll/coll.h"

/* Called before this rank votes on the memory that it passes: whether this rank would use its
 * device, and whether the schedule for that has been written into the task. */
bool coll_hier_on_device(struct coll_task *k);

#endif
