/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that a process can promise without reserving it: pages that no process has touched yet.
 * Any thread. */
#ifndef RT_MEM_ROOM_H
#define RT_MEM_ROOM_H

#include <stdint.h>

/* Bytes that the host and all control groups of this process can still give, without swapping.  0:
 * unknown, or the kernel refuses memory at the first touch (overcommit_memory is 2).  Up to 100 ms
 * old. */
uint64_t rt_room(void);

#endif
