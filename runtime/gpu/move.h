/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of operations. */
#ifndef RT_GPU_MOVE_H
#define RT_GPU_MOVE_H

#include "runtime/gpu/move_state.h"

/* Ends an operation that cannot begin, because its context has failed. */
void move_refuse(struct rt_gpu_op *op);
/* Removes op from its list; the next progress call calls done(err). */
void move_end(struct move_state *m, struct rt_gpu_op *op, int err);
/* The context has failed: every operation ends with -RT_EGPU. */
void move_end_everything(struct move_state *m);
bool move_call_ended(void); /* calls each done() that is due; whether there was one */
/* A call for m has returned r: logged, and every operation of m ends with -RT_EGPU. */
void move_fail(struct move_state *m, cu_result r, const char *what);
/* A copy that was handed to a kernel, which will not do it: copy engines do it. */
void move_by_engine(struct move_state *m, struct rt_gpu_op *op);
/* Whether the context itself has failed, and not only one call. */
bool move_is_dead(struct move_state *m, cu_result r);

#endif
