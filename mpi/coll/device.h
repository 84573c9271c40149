/* SPDX-License-Identifier: BSD-3-Clause */
/* Device buffers in collective calls.  Under the domain's lock unless said otherwise. */
#ifndef WM_COLL_DEVICE_H
#define WM_COLL_DEVICE_H

#include "mpi/coll/call.h"

/* Finds out whether a buffer that this process uses in the call is device memory, for args.mem;
 * only where rt_gpu_watch is set.  -RT_EADDR: a neighbourhood collective, which is not staged, has
 * a buffer that is not what it should be. */
int wm_coll_look(struct wm_call *call);
/* coll_team_ops.stage and .device. */
int wm_coll_stage(struct coll_team *t, struct coll_task *k);
struct rt_gpu *wm_coll_device(struct coll_team *t, const struct coll_args *a);

/* MPI_Reduce_local with buffers of any kind; takes the domain's lock itself.  0 or -RT_E... */
int wm_coll_reduce_local(const struct rt_op *op, const void *in, void *inout, int64_t count,
                         const struct rt_layout *l);

#endif
