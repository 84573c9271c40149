/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting and advancing a task by an algorithm for host memory. */
#ifndef COLL_BEGIN_H
#define COLL_BEGIN_H

#include "coll/coll.h"

/* Starts the host-memory algorithm of a task that has its number and tag; for ops->stage().  0 or
 * -RT_E...: not started. */
int coll_begin_host(struct coll_task *k);
/* Starts the task again with the best algorithm that needs no shared memory; the same on every
 * rank.  0 or -RT_E...: not started. */
int coll_start_messages(struct coll_task *k);
/* Calls step(); completes task->req at the end.  1: completed in this call, else 0. */
int coll_task_advance(struct coll_task *task);
/* Communicators that have been revoked so far, in this process: their calls in shared memory end
 * with -RT_EREVOKED; those by messages end with their messages. */
extern uint32_t coll_revocations;
/* Ends the job: this rank has no memory to take part in a call, in which other ranks would wait. */
_Noreturn void coll_cannot_take_part(void);

#endif
