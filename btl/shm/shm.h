/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory between the processes of a job on one host: what the files of btl/shm share. */
#ifndef BTL_SHM_SHM_H
#define BTL_SHM_SHM_H

#include "btl/btl.h"
#include "btl/region.h"
#include "btl/shm/ring.h"
#include "runtime/base/list.h"
#include "runtime/mem/node.h"

struct shm_home {        /* rank r's own pair region (r, r) */
    uint64_t probe_addr; /* address of shm_probe_word in r's memory, once open */
    /* Bit s: rank s has opened its ring to r.  Set once by s, before its first slot. */
    _Alignas(RT_CACHE_LINE) uint64_t active[];
};
static inline struct shm_home *shm_home_of(int rank)
{
    return (struct shm_home *)((char *)rt_node_pair(rank, rank) + BTL_NODE_SHM);
}

struct btl_shm_peer {
    struct btl_peer base;
    int rank;             /* local rank */
    bool rx_on;           /* its ring to us is open and on the poll list */
    bool cma, cma_probed; /* process_vm_readv reaches it; has been tried */
    struct rt_list xfers; /* puts and gets to it under way, in order */
    bool lost, told;      /* gone while we had to send; the engine knows */
    struct rt_list work;  /* in btl_shm.work while something is left to do for this peer */
    uint64_t blocked_ns, blocked_at; /* since when no credit has come; the limits then */
    uint32_t blocked_polls;
    struct ring_tx tx;
    struct ring_rx rx;
};

struct btl_shm {
    struct btl base;
    struct btl_up up;
    struct shm_home *home; /* ours */
    int nwords;            /* of home->active */
    int nrx;
    struct btl_shm_peer **rx;    /* peers whose rings are polled, nrx of them */
    uint64_t *seen;              /* copy of home->active, for comparison */
    struct btl_shm_peer **peers; /* by local rank; NULL until needed */
    bool cma; /* large data by process_vm_readv/writev where the peer allows it */
    bool choose; /* a put streams, unless the peer gets the rest meanwhile */
    struct btl_regions regions;
    struct rt_list work; /* peers that progress() must serve beyond looking at their ring */
};

/* Opens the ring to p, and its byte ring when `bytes`.  -RT_ENOSPC, logged. */
int btl_shm_tx_open(struct btl_shm_peer *p, bool bytes);
/* Called when p's ring has no room: finds out, at most every 100 ms, whether p still lives; then
 * -RT_EPEER. */
int btl_shm_blocked(struct btl_shm_peer *p);
/* Puts p on the list that progress() serves. */
void btl_shm_need_work(struct btl_shm_peer *p);

/* rma.c: the part of the contract that moves large data, and what the rest needs of it. */
void btl_shm_rma_open(struct btl_shm *b, struct btl_caps *caps);
void btl_shm_rma_close(struct btl_shm *b);
int btl_shm_mem_reg(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                    struct btl_mem **out);
void btl_shm_mem_dereg(struct btl_mem *m);
int btl_shm_mem_key(const struct btl_mem *m, void *key);
int btl_shm_attach(struct btl_peer *p, const void *key, const struct rt_gpu_ptr *near,
                   struct btl_rmem **out);
void btl_shm_detach(struct btl_rmem *r);
int btl_shm_put(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
                struct btl_op *op);
int btl_shm_get(struct btl_rmem *r, size_t off, struct btl_mem *m, void *dst, size_t len,
                struct btl_op *op);
void btl_shm_chunk_in(struct btl_shm *b, const struct ring_slot *s, const void *data, size_t len);
/* Advances the transfers of a peer; returns events. */
int btl_shm_xfers_step(struct btl_shm_peer *p);
/* Forgets them; done() is not called. */
void btl_shm_xfers_drop(struct btl_shm_peer *p);

extern const struct btl_ops btl_shm_ops;

#endif
