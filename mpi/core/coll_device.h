/* SPDX-License-Identifier: BSD-3-Clause */
/* Device buffers in collective calls: they are copied to host memory and back around the call.
 * Under the domain's lock. */
#ifndef WM_CORE_COLL_DEVICE_H
#define WM_CORE_COLL_DEVICE_H

#include "mpi/core/coll_call.h"

struct wm_coll_stage;

/* When a buffer of the call is device memory: host memory takes its place in call->args, and *out
 * has what is needed to copy; else *out is NULL.  0 or -RT_E... */
int wm_coll_stage_make(struct wm_call *call, struct wm_coll_stage **out);
/* Before each start, and after success.  0 or -RT_E... */
int wm_coll_stage_in(struct wm_coll_stage *s);
int wm_coll_stage_out(struct wm_coll_stage *s);
/* Makes a started task copy before it is done. */
void wm_coll_stage_follow(struct wm_coll_stage *s, struct coll_task *k);
void wm_coll_stage_destroy(struct wm_coll_stage *s); /* NULL: nothing */

/* MPI_Reduce_local with buffers of any kind; takes the domain's lock itself.  0 or -RT_E... */
int wm_coll_reduce_local(const struct rt_op *op, const void *in, void *inout, int64_t count,
                         const struct rt_layout *l);

#endif
