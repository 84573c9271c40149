/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory between the processes of a job on one host: what the files of btl/shm share. */
#ifndef BTL_SHM_SHM_H
#define BTL_SHM_SHM_H

#include "btl/btl.h"
#include "btl/shm/ring.h"
#include "runtime/base/list.h"
#include "runtime/mem/node.h"

struct shm_home {                 /* rank r's own pair region (r, r) */
    uint64_t probe_addr;          /* address of shm_probe_word in r's memory, once open */
    /* Bit s: rank s has opened its ring to r.  Set once by s, before its first slot. */
    _Alignas(RT_CACHE_LINE) uint64_t active[];
};

struct btl_shm_peer {
    struct btl_peer base;
    int rank;                     /* local rank */
    bool rx_on;                   /* its ring to us is open and on the poll list */
    bool lost, told;              /* gone while we had to send; the engine knows */
    struct rt_list work;          /* in btl_shm.work while something is left to do for this peer */
    uint64_t blocked_ns, blocked_at;                /* since when no credit has come; the limits then */
    uint32_t blocked_polls;
    struct ring_tx tx;
    struct ring_rx rx;
};

struct btl_shm {
    struct btl base;
    struct btl_up up;
    struct shm_home *home;        /* ours */
    int nwords;                   /* of home->active */
    int nrx;
    struct btl_shm_peer **rx;     /* peers whose rings are polled, nrx of them */
    uint64_t *seen;               /* copy of home->active, for comparison */
    struct btl_shm_peer **peers;  /* by local rank; NULL until needed */
    struct rt_list work;          /* peers that progress() must serve beyond looking at their ring */
};

/* Opens the ring to p (nbytes 0) or its byte ring too.  -RT_ENOSPC, logged. */
int  btl_shm_tx_open(struct btl_shm_peer *p, bool bytes);
/* Called when p's ring has no room: finds out, at most every 100 ms, whether p still lives; then -RT_EPEER. */
int  btl_shm_blocked(struct btl_shm_peer *p);
/* Puts p on the list that progress() serves. */
void btl_shm_need_work(struct btl_shm_peer *p);

extern const struct btl_ops btl_shm_ops;

#endif
