/* SPDX-License-Identifier: BSD-3-Clause */
/* Which lane (mpi/p2p/lane.h) a communicator belongs to.  Its members agree with the context id:
 * the lane is a function of the context, of the least number of lanes that a member has, and of the
 * hint weft_lane, if all give the same.  Lane 0 has every communicator with a member below
 * MPI_THREAD_MULTIPLE, with members that do not share memory, or with a remote group; and all
 * communicators of a process with a GPU, with `ft` or `check`. */
#ifndef WM_CORE_LANES_H
#define WM_CORE_LANES_H

#include "mpi/base/comm.h"

#define WM_LANE_HINT "weft_lane"

/* When the library comes up: the number of lanes that this process may have. */
void wm_lanes_init(void);

/* What this process offers in the agreement on the context id of `c`; NULL: it is not a member.
 * wm_lanes_merge() combines the offers of two processes. */
uint32_t wm_lanes_offer(const struct wm_comm *c);
uint32_t wm_lanes_merge(uint32_t a, uint32_t b);
/* The lane of a communicator with this context, by the combined offers; made if need be.  NULL:
 * lane 0.  Under the lock of lane 0. */
struct wm_domain *wm_lane_of(uint32_t ctx, uint32_t agreed);

#endif
