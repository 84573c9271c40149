/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared-memory transport between the processes of one host: declarations for the files of
 * btl/shm. */
#ifndef BTL_SHM_SHM_H
#define BTL_SHM_SHM_H

#include "btl/btl.h"
#include "btl/region.h"
#include "btl/shm/ring.h"
#include "runtime/base/list.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/others.h"
#include "runtime/mem/segment.h"

/* A process of another job announces its ring.  The sender claims a free entry. */
enum { SHM_POST_FREE, SHM_POST_CLAIMED, SHM_POST_FULL };
struct shm_post {
    uint32_t state, zero;
    struct rt_name from;
    uint64_t off; /* of the ring in the sender's segment */
};
#define SHM_POSTS 64u /* the reader empties them with each call of progress */

struct shm_home {        /* in rank r's own pair region (r, r) */
    uint64_t probe_addr; /* address of probe_word in r's memory; 0 until r has opened */
    struct shm_post posts[SHM_POSTS];
    _Alignas(RT_CACHE_LINE) uint64_t nposts; /* announcements so far */
    /* Bit s: rank s has opened its ring to r.  Set once by s, before its first slot.  On lanes
     * other than 0 followed by the offset of that ring in the segment, for each rank. */
    uint64_t active[];
};
/* Each lane of rank r has a home. */
#define SHM_HOME_NBYTES 4096u
static inline struct shm_home *shm_home_of(int rank, int lane)
{
    return (struct shm_home *)((char *)rt_node_pair(rank, rank) + BTL_NODE_SHM +
                               (unsigned)lane * SHM_HOME_NBYTES);
}

struct btl_shm_peer {
    struct btl_peer base;
    int rank;                  /* local rank; -1: of another job */
    struct rt_other *other;    /* of another job; NULL: of this one */
    struct shm_home *home;     /* the peer's */
    size_t ring_off;           /* of another job: block of the ring to it; 0: none */
    struct btl_shm_peer *next; /* in btl_shm.guests */
    bool rx_on;                /* the peer's ring to this process is open and on the poll list */
    bool cma, cma_probed;      /* process_vm_readv works on the peer; has been tested */
    struct rt_list xfers;      /* puts and gets to the peer in progress, in order */
    bool lost, notified;       /* it has gone; the engine has been notified */
    struct rt_list work;       /* in btl_shm.work while the peer needs work beyond its ring */
    struct ring_tx tx;
    struct ring_rx rx;
};

struct btl_shm {
    struct btl base;
    struct btl_up up;
    struct shm_home *home; /* this process's, of the lane up.lane */
    int nwords;            /* length of home->active */
    int nrx;
    struct btl_shm_peer **rx;    /* peers whose rings are polled, nrx of them */
    uint64_t *seen;              /* last seen home->active */
    struct btl_shm_peer **peers; /* by local rank; NULL until needed */
    struct btl_shm_peer *guests; /* of other jobs */
    uint64_t posts_seen;         /* last seen home->nposts */
    uint32_t nguests;
    uint32_t nended; /* last seen rt_node.nended */
    bool cma;        /* large data by process_vm_readv and writev if the peer allows this */
    bool choose;     /* a put streams, unless the peer gets the rest at the same time */
    struct btl_regions regions;
    struct rt_list work; /* peers that progress() must serve beyond reading their rings */
};

/* guest.c: peers of other jobs.  Their rings are blocks of the writer's segment, announced to the
 * reader.  btl_shm_guest_get: 0; -RT_EUNREACH: no such process, or it has ended; -RT_ENOMEM. */
int btl_shm_guest_get(struct btl_shm *b, struct rt_proc proc, struct btl_shm_peer **out);
/* Takes the announcements up to number `n`. */
void btl_shm_posts_take(struct btl_shm *b, uint64_t n);
/* Makes the ring to p and announces it.  0; -RT_ENOSPC, logged; -RT_EAGAIN: the reader's entries
 * are in use; -RT_EPEER. */
int btl_shm_guest_open(struct btl_shm_peer *p);
/* p has ended, and the engine has been notified: its rings are used no more. */
void btl_shm_guest_close(struct btl_shm_peer *p);
/* Adds p to the poll list; its ring to this process is open. */
void btl_shm_rx_add(struct btl_shm *b, struct btl_shm_peer *p);
/* Opens the ring to p, and its byte ring if `bytes`.  0; -RT_ENOSPC, logged; for a process of
 * another job also the errors of btl_shm_guest_open(). */
int btl_shm_tx_open(struct btl_shm_peer *p, bool bytes);
/* Call it when p's ring has no room.  -RT_EPEER: p's process has gone; -RT_EAGAIN. */
int btl_shm_blocked(struct btl_shm_peer *p);
/* Adds p to the list that progress() serves. */
void btl_shm_need_work(struct btl_shm_peer *p);

/* rma.c: the calls of the contract that move large data, and its interface to shm.c. */
void btl_shm_rma_open(struct btl_shm *b, struct btl_caps *caps);
void btl_shm_rma_close(struct btl_shm *b);
int btl_shm_window_reg(struct btl *b, void *base, size_t len, struct btl_mem **out);
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
/* Advances the transfers of a peer; returns the number of events. */
int btl_shm_xfers_step(struct btl_shm_peer *p);
/* Frees the transfers of a peer without calling done(). */
void btl_shm_xfers_drop(struct btl_shm_peer *p);

extern const struct btl_ops btl_shm_ops;

#endif
