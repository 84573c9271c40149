/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting collective calls. */
#ifndef COLL_START_START_H
#define COLL_START_START_H

#include "coll/coll.h"

/* Selects and starts an algorithm; coll_task_advance() completes the task's req.  The caller owns
 * the task.  0 or -RT_E...: a failure (out of memory) has no effects, and the call may be
 * repeated. */
int coll_start(struct coll_team *t, const struct coll_args *a, struct coll_task *task);
/* The same for a persistent call.  coll_prepare() copies the arguments; all ranks create their
 * persistent calls in the same order.  coll_restart() starts the call; ranks may start their calls
 * in different orders.  So these calls use messages, or what the ranks agreed on when they created
 * the call: devices, or a team of its own. */
void coll_prepare(struct coll_team *t, const struct coll_args *a, struct coll_task *task);
int coll_restart(struct coll_task *task);
/* After coll_prepare(), alike on all ranks: the call uses the shared memory of `own`, which
 * coll_team_own() has made. */
void coll_prepare_own(struct coll_task *task, struct coll_team *own);
/* Call before freeing a prepared task; the task must not be started. */
void coll_unprepare(struct coll_task *task);

#endif
