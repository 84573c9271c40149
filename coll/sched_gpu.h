/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules on device memory. */
#ifndef COLL_SCHED_GPU_H
#define COLL_SCHED_GPU_H

#include "coll/sched_int.h"

/* For ops->stage() of a call that uses messages on all ranks (k->messages, or an algorithm without
 * shared memory): starts the same algorithm on the user's buffers, which are memory of g's device.
 * Temporaries are in that memory, too; g does the copies and reductions.  -RT_ENOMEM, -RT_ENOTSUP:
 * nothing has started, the call must be staged. */
int coll_begin_device(struct coll_task *k, struct rt_gpu *g);

/* ---- for sched.c ---- */

void *coll_sched_gpu_tmp(struct coll_sched *s, int64_t nbytes);
int coll_sched_gpu_ready(struct coll_sched *s); /* call after the last step is written; 0,
                                                 * -RT_E... */
/* Runs the local steps of the round.  1: all done, and the next round begins; 0: not yet;
 * -RT_E... */
int coll_sched_gpu_locals(struct coll_sched *s);
void coll_sched_gpu_free(struct coll_sched *s);

#endif
