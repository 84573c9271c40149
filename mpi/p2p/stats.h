/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of a domain for the tool information interface, and for mpirun, which sees by them that
 * this process moves (runtime/mem/activity.h).  Counted under the domain's lock and
 * read by tools without it, so every access is a relaxed atomic: a plain add for the processor. */
#ifndef WM_P2P_STATS_H
#define WM_P2P_STATS_H

#include <stddef.h>
#include <stdint.h>
#include "coll/coll.h"
#include "runtime/base/atomic.h"

struct wm_stats {
    uint64_t eager, rndv; /* messages sent by protocol, those of collectives too */
    uint64_t sent_bytes;
    uint64_t received, received_bytes;
    uint64_t unexpected;      /* messages that arrived before their receive was posted */
    uint64_t unexpected_peak; /* most unexpected messages at one time since a tool last read this */
    uint64_t unexpected_bytes; /* memory of the unexpected messages that wait now: mpi/p2p/flow.h */
    uint64_t stops;            /* times that a sender was asked to stop eager messages */
    uint64_t device, device_bytes; /* messages sent and received of device buffers, their bytes */
    uint64_t staged_bytes;         /* part of these that went through staging memory on this side */
    uint64_t peers;
    uint64_t coll[COLL_KINDS];
    /* From here on they count also while nothing moves. */
    uint64_t retries; /* messages deferred for lack of room */
    uint64_t sleeps, sleep_ns;
    uint64_t rescues; /* sleeps that ended at their limit although there was work: p2p/wait.c */
};
#define WM_STATS_MOVING (offsetof(struct wm_stats, retries) / sizeof(uint64_t))

static inline void wm_stat_add(uint64_t *counter, uint64_t n)
{
    rt_store_relaxed(counter, rt_load_relaxed(counter) + n);
}

#endif
