/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory of a communicator's team: the device-memory operations of struct coll_team_ops,
 * implemented by the transport for device memory.  Functions that return int return 0 or -RT_E...;
 * -RT_ENOTSUP: the memory cannot be mapped by other ranks.  Under the domain's lock. */
#ifndef WM_COLL_TEAM_DEV_H
#define WM_COLL_TEAM_DEV_H

#include "coll/coll.h"

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
