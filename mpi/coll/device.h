/* SPDX-License-Identifier: BSD-3-Clause */
/* Device buffers in collective calls, and device memory of a communicator's team.  Under the
 * domain's lock unless said otherwise. */
#ifndef WM_COLL_DEVICE_H
#define WM_COLL_DEVICE_H

#include "mpi/coll/call.h"

/* Sets args.mem to device memory if a buffer that this process uses in the call is device memory;
 * called only if rt_gpu_watch is set.  at[2]: room for args.found.  -RT_EADDR: a neighbourhood
 * collective, which is not staged, has an invalid buffer. */
int wm_coll_look(struct wm_call *call, struct rt_gpu_ptr *at);
/* The operations `stage` (0 or -RT_E...) and `device` (NULL: there is none) of struct
 * coll_team_ops. */
int wm_coll_stage(struct coll_team *t, struct coll_task *k);
struct rt_gpu *wm_coll_device(struct coll_team *t, const struct coll_args *a);

/* MPI_Reduce_local with buffers of any kind; takes the domain's lock itself.  Returns 0 or
 * -RT_E... */
int wm_coll_reduce_local(const struct rt_op *op, const void *in, void *inout, int64_t count,
                         const struct rt_layout *l);

/* The operations on device memory of struct coll_team_ops, implemented by the transport for device
 * memory: team_dev.c.  Functions that return int return 0 or -RT_E...; -RT_ENOTSUP: the memory
 * cannot be mapped by other ranks. */
int wm_team_dev_describe(struct coll_team *t, const void *p, size_t len, struct coll_dev_mem *out);
void wm_team_dev_release(struct coll_team *t, struct coll_dev_mem *m);
/* Releases the cached descriptions of ranges, before the team is destroyed. */
void wm_team_dev_forget(struct coll_team *t);
int wm_team_dev_attach(struct coll_team *t, int rank, const void *key,
                       const struct rt_gpu_ptr *near, struct coll_dev_map *out);
void wm_team_dev_detach(struct coll_team *t, struct coll_dev_map *m);
void wm_team_dev_unpin(struct coll_team *t, struct coll_dev_map *m, int n);
bool wm_team_dev_repin(struct coll_team *t, struct coll_dev_map *m, int n);

#endif
