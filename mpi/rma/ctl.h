/* SPDX-License-Identifier: BSD-3-Clause */
/* Control blocks: the state of a window that the processes of one host share.  There is one block
 * for each local rank, in the window's file (runtime/mem/share.h), used by its owner and by all
 * processes of the host that are in the window.  Processes of other hosts have no access: the owner
 * applies their messages to the same words. */
#ifndef WM_RMA_CTL_H
#define WM_RMA_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/atomic.h"

/* A lock with two modes that exclude each other.  Mode 0 admits any number of holders; so does mode
 * 1, except where the caller passes `solo`.  Waiters form a queue: first come, first served. */
struct wm_rma_lock {
    _Alignas(RT_CACHE_LINE) uint32_t word; /* WM_RMA_QUEUED | WM_RMA_MODE1 | number of holders */
    uint32_t guard;      /* of the queue: local rank + 1 of the process that changes the queue */
    uint32_t head, tail; /* wait nodes; 0: none */
};
#define WM_RMA_QUEUED (1u << 31)
#define WM_RMA_MODE1 (1u << 30)
#define WM_RMA_HOLDERS (WM_RMA_MODE1 - 1)

/* A place in the queue of a lock.  Numbered from 1 over all blocks: WM_RMA_NODES a process. */
struct wm_rma_node {
    uint32_t next, granted;
    uint16_t mode, solo;
    uint32_t used; /* by the owner of the block alone */
};
#define WM_RMA_NODES 8

/* Locks of accumulates: a stripe stands for pages of WM_RMA_PAGE bytes of the owner's memory. */
#define WM_RMA_STRIPES 64
#define WM_RMA_PAGE 4096
struct wm_rma_stripe {
    _Alignas(RT_CACHE_LINE) uint32_t holder; /* local rank + 1; 0: free */
};
_Static_assert(WM_RMA_STRIPES == 64, "the hash of wm_rma_stripe_of() gives 6 bits");

/* The stripe of an offset in the window.  All processes compute the same stripe. */
static inline unsigned wm_rma_stripe_of(uint64_t offset)
{
    return (unsigned)((offset / WM_RMA_PAGE) * 0x9e3779b97f4a7c15ull >> 58);
}

/* One attempt to lock a stripe by the process with this local rank. */
static inline bool wm_rma_stripe_try(struct wm_rma_stripe *s, int local)
{
    uint32_t holder = 0;
    return rt_likely(rt_cas(&s->holder, &holder, (uint32_t)local + 1));
}
static inline void wm_rma_stripe_free(struct wm_rma_stripe *s) { rt_store_release(&s->holder, 0u); }

/* How accumulates on a target are atomic (element.c). */
enum wm_rma_rule {
    WM_RMA_BY_ELEMENT, /* each changes one element, by an atomic operation of the processor */
    WM_RMA_TO_STRIPES, /* a process waits until no process changes an element in that way */
    WM_RMA_BY_STRIPE   /* each holds the stripes of its elements; never another rule again */
};

/* What a process has done so far for the owner of a block.  Only that process stores here, without
 * waiting for the cache line, and only the owner reads. */
struct wm_rma_from {
    uint32_t posts;     /* MPI_Win_post calls that name the owner */
    uint32_t completes; /* MPI_Win_complete calls of epochs with the owner */
};

/* Where the memory of a window lies. */
enum wm_rma_where {
    WM_RMA_NOWHERE, /* size 0 */
    WM_RMA_IN_FILE, /* in the window's file, at `off` */
    WM_RMA_IN_NODE, /* in the node segment, at `off` */
    WM_RMA_PRIVATE, /* of the process, at `base` */
    WM_RMA_DYNAMIC  /* displacements are addresses of the process */
};

#define WM_RMA_KEY 32 /* bytes; at least BTL_KEY_MAX */

struct wm_rma_ctl {
    /* Constant once the window has been created. */
    _Alignas(RT_CACHE_LINE) uint64_t base; /* address in the owner's process */
    uint64_t nbytes, off;
    int64_t unit;
    uint32_t where;       /* enum wm_rma_where */
    uint32_t by_messages; /* the owner takes part in synchronisation by messages only */
    /* 1: the memory is device memory, or device memory has been attached; never 0 again.  Then
     * operations are carried out by the owner, or by a device that has mapped the memory: map.c,
     * acc_origin.c. */
    uint32_t on_device;
    uint32_t has_key; /* 1: `key` is that of the memory, which is device memory; map.c */
    uint32_t atomic;  /* 1: devices carry out accumulates by atomic operations: acc_origin.c */
    char key[WM_RMA_KEY];
    /* an address that other processes read to find out whether they have access */
    uint64_t probe;
    uint32_t rule; /* enum wm_rma_rule; the only word of this part that changes later */

    struct wm_rma_lock lock; /* mode 0: shared, mode 1: exclusive */
    struct wm_rma_lock all; /* of the leader only: mode 0: MPI_Win_lock_all, mode 1: exclusive locks
                               of any process of the host */
    _Alignas(RT_CACHE_LINE) uint32_t left; /* 1: the owner has passed the barrier of MPI_Win_free */
    _Alignas(RT_CACHE_LINE) uint32_t changing; /* 1: the owner changes an element of any target */
    /* MPI_Win_fence calls of the owner, where the window has two processes of one host */
    _Alignas(RT_CACHE_LINE) uint32_t nfences;
    _Alignas(RT_CACHE_LINE) struct wm_rma_node node[WM_RMA_NODES];
    struct wm_rma_stripe stripe[WM_RMA_STRIPES];
    /* By local rank; behind these, the notifications. */
    _Alignas(RT_CACHE_LINE) struct wm_rma_from from[];
};

/* Notifications of puts: for each number, how many have arrived and have not been taken, apart for
 * MPIX_Put_notify and for enqueued calls that the host carries out. */
#define WM_RMA_NOTES_DEFAULT 64
#define WM_RMA_NOTES_MOST 1024
struct wm_rma_note {
    uint32_t here, on_stream;
};

static inline struct wm_rma_note *wm_rma_notes_of(struct wm_rma_ctl *c, int nlocal)
{
    return (struct wm_rma_note *)(void *)(c->from + nlocal);
}

static inline size_t wm_rma_ctl_nbytes(int nlocal, int nnotes)
{
    size_t n = sizeof(struct wm_rma_ctl) + (size_t)nlocal * sizeof(struct wm_rma_from) +
               (size_t)nnotes * sizeof(struct wm_rma_note);
    return (n + 4095) & ~(size_t)4095;
}

#endif
