/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes: several domains of one process, so that threads with communicators of their own share no
 * lock.  Lane 0 is wm_main_domain.  The others exist only with MPI_THREAD_MULTIPLE; each is made
 * with the first communicator that belongs to it (mpi/core/lanes.h).
 *
 * A lane carries the messages, partitions and collectives of its communicators.  Everything else of
 * a communicator (windows, files, its creation and end) is of lane 0.  So a communicator `c` of
 * another lane has a part there, `c->lane`: an internal communicator of the same group and context,
 * with peers and references of its own, which change under that lane's lock.  Bodies of
 * point-to-point calls use wm_on_lane(c) in place of c; the team of collectives is that of `c`,
 * used under the lock of the lane.  The part keeps `c` alive.
 *
 * A thread never waits for the lock of a lane while it holds that of another one. */
#ifndef WM_P2P_LANE_H
#define WM_P2P_LANE_H

#include "mpi/base/comm.h"
#include "mpi/p2p/domain.h"

struct wm_lanes {
    int n; /* the highest lane that has been made, plus 1; 0: none but lane 0 */
    struct wm_domain *at[WM_LANES_MAX]; /* NULL: not made yet */
    /* Threads that sleep on the bell of the process, or are about to; every call reads the rest. */
    _Alignas(RT_CACHE_LINE) uint32_t nsleeping;
    uint32_t polled; /* one of them polls the descriptors of lane 0's transports, too: 1 */
};
extern struct wm_lanes wm_lanes;

/* Whether this process has further lanes.  Once true, always true. */
static inline bool wm_lanes_on(void) { return rt_threaded && rt_load_acquire(&wm_lanes.n); }
/* Lane i < wm_lanes.n, or NULL. */
static inline struct wm_domain *wm_lane_at(int i) { return rt_load_acquire(&wm_lanes.at[i]); }

/* The part of `c` that carries its messages. */
static inline struct wm_comm *wm_on_lane(struct wm_comm *c)
{
    return rt_unlikely(c->lane != NULL) ? c->lane : c;
}
/* The communicator that the user knows. */
static inline struct wm_comm *wm_lane_whole(const struct wm_comm *c)
{
    return rt_unlikely(c->whole != NULL) ? c->whole : (struct wm_comm *)(uintptr_t)c;
}

#endif
