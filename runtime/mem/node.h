/* SPDX-License-Identifier: BSD-3-Clause */
/* The node segment: one sparse shared-memory file for all processes of a job on one host.  The first process creates it,
 * every process attaches in MPI_Init, the last to attach unlinks the name, so a crash leaves nothing (and mpirun removes
 * the name of a job that died before that).  Pages are used only when touched; a range is reserved (fallocate) before its
 * first touch, so that a full /dev/shm is -RT_ENOSPC here and never SIGBUS later.
 *
 * It holds, for btl/shm, a region for every ordered pair of local ranks; for waiting, one doorbell a rank; and an area
 * from which node collectives and MPI_Alloc_mem take blocks. */
#ifndef RT_MEM_NODE_H
#define RT_MEM_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/atomic.h"

/* One per local rank.  The owner alone writes `asleep`; others write `word` (and wake) only while it is set. */
struct rt_bell {
    _Alignas(RT_CACHE_LINE) uint32_t asleep;        /* 1 while the owner sleeps or is about to */
    uint32_t word;                                  /* futex word: changes with every ring */
    uint32_t pid;                                   /* owner's pid in the host's view; 0 until it has attached */
    uint32_t alive;                                 /* 0 before attach, 1 attached, 2 detached in order */
};

struct rt_node {
    char *base;                   /* start of the mapping; offsets in the segment are from here */
    size_t nbytes;                /* of the mapping, sparse */
    int rank, size;               /* local rank and number of local ranks */
    struct rt_bell *bells;        /* size of them */
    bool fence_needed;            /* membarrier is missing: ringers must use a full fence */
};
extern struct rt_node rt_node;    /* base NULL until opened; singletons have size 1 */

/* Creates or attaches the segment of this job on this host.  -RT_ENOSPC, -RT_ESYS, -RT_EPERM with the cause and what to do
 * logged.  Waits for nobody. */
int  rt_node_open(size_t pair_nbytes);
void rt_node_close(void);

/* The pair region written by local rank `from` and read by `to`; zeros at first.  The writer reserves it before its
 * first write; -RT_ENOSPC when the file system is full. */
void *rt_node_pair(int from, int to);
int   rt_node_pair_reserve(int from, int to);

/* A zeroed, page-aligned block that every local process may use by its offset; SIZE_MAX when the file system is full. */
size_t rt_node_alloc(size_t nbytes);
void   rt_node_free(size_t off, size_t nbytes);
static inline void *rt_node_at(size_t off) { return rt_node.base + off; }

/* Wakes local rank `to` if it sleeps.  Called after the data that it waits for has been stored. */
void rt_bell_wake(struct rt_bell *b);
static inline void rt_bell_ring(int to)
{
    struct rt_bell *b = &rt_node.bells[to];
    if (rt_unlikely(rt_node.fence_needed))
        rt_fence();               /* data before the look at `asleep`; otherwise the sleeper's membarrier orders them */
    if (rt_unlikely(rt_load_relaxed(&b->asleep)))
        rt_bell_wake(b);
}

/* Sleeping is in two steps so that nothing is missed: arm, look once more for work, then sleep or disarm.
 * rt_bell_sleep returns after a ring or timeout_us microseconds. */
uint32_t rt_bell_arm(void);
void rt_bell_disarm(void);
void rt_bell_sleep(uint32_t armed, int timeout_us);

#endif
