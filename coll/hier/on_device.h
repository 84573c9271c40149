/* SPDX-License-Identifier: BSD-3-Clause */
/* Which calls of several hosts a rank carries out on its device. */
#ifndef COLL_HIER_ON_DEVICE_H
#define COLL_HIER_ON_DEVICE_H

#include "coll/coll.h"

/* Before this rank says what memory it passes: whether it would go by its device, and the schedule
 * for that has been written into the task. */
bool coll_hier_on_device(struct coll_task *k);
extern int64_t coll_hier_device_min; /* bytes from which it does; a test has its own */

#endif
