/* SPDX-License-Identifier: BSD-3-Clause */
/* The node segment: one sparse shared-memory file for all processes of a job on one host.  The
 * first process creates it, every process attaches in MPI_Init, the last to attach unlinks the
 * name, so a crash leaves nothing (and mpirun removes the name of a job that died before that).
 * Pages are used only when touched; a range is reserved (fallocate) before its first touch, so that
 * a full /dev/shm is -RT_ENOSPC here and never SIGBUS later.
 *
 * It holds, for btl/shm, a region for every ordered pair of local ranks; for waiting, one doorbell
 * a rank; and an area from which node collectives and MPI_Alloc_mem take blocks.  Opened and closed
 * by one thread; the rest may be called by any thread, except where said. */
#ifndef RT_MEM_NODE_H
#define RT_MEM_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/atomic.h"

/* What rt_bell.asleep holds.  FENCE is "awake" of an owner that has no membarrier(2): ringers must
 * fence and look again.  POLLS: asleep in poll(2) over its bell socket and descriptors of
 * transports. */
enum { RT_BELL_AWAKE = 0, RT_BELL_ASLEEP = 1, RT_BELL_FENCE = 2, RT_BELL_POLLS = 3 };

/* One per local rank.  The owner alone sets `asleep`; others clear it and change `word` when they
 * wake the owner. */
struct rt_bell {
    _Alignas(RT_CACHE_LINE) uint32_t asleep; /* RT_BELL_... */
    uint32_t word;                           /* futex word: changes with every wake-up */
    uint32_t pid;   /* owner's pid as it sees itself; 0 until it has attached */
    uint32_t alive; /* 0 before attach, 1 attached, 2 detached in order, 3 in MPI_Finalize */
    uint64_t pidns; /* owner's pid namespace: pids compare only within one */
    char socket[8]; /* abstract name of its bell socket, as the kernel chose it; "": it has none */
};

struct rt_node {
    char *base;            /* start of the mapping; offsets in the segment are from here */
    size_t nbytes;         /* of the mapping, sparse */
    int rank, size;        /* local rank and number of local ranks */
    struct rt_bell *bells; /* size of them */
    bool fence_needed;     /* membarrier is missing here: this process fences when it rings */
};
extern struct rt_node rt_node; /* base NULL until opened; singletons have size 1 */

/* Path of the segment of the job `nspace` on its host number `node`, from cfg.shm_dir and the
 * user's id; mpirun removes what a dead job left.  The number keeps hosts apart that
 * share a file system, such as two network namespaces of one machine. */
void rt_node_name(const char *nspace, int node, char *buf, size_t len);

/* First of all, while this process has one thread: with several, such as PMIx's, the kernel takes
 * 20 to 35 ms for the same in rt_node_open(). */
void rt_node_register(void);

/* Creates or attaches the segment of this job on this host.  -RT_ENOSPC, -RT_ESYS, -RT_EPERM with
 * the cause and what to do logged.  Waits for no other process.  pair_nbytes: length of a pair
 * region, the same in every process. */
int rt_node_open(size_t pair_nbytes);
void rt_node_close(void);
/* Publishes that this process has finished with MPI for now, and that it is back.  The
 * mapping and all that peers have written stay. */
void rt_node_leave(void);
void rt_node_rejoin(void);

/* The pair region written by local rank `from` and read by `to`, page-aligned, zeros at first.  The
 * region of the pair (r, r) is rank r's own, for what a transport publishes.  Neither side touches
 * a page of it before one of them has reserved it: even a read of a hole takes a page. */
void *rt_node_pair(int from, int to);
/* Makes sure that [p, p + nbytes) of the segment has memory behind it; repeating it is harmless.
 * -RT_ENOSPC, logged. */
int rt_node_reserve(const void *p, size_t nbytes);
/* The same, without a log message when the file system is full. */
int rt_node_try_reserve(const void *p, size_t nbytes);

/* A zeroed, page-aligned block that every local process may use by its offset; SIZE_MAX when the
 * file system is full. */
size_t rt_node_alloc(size_t nbytes);
/* The same for callers with a fallback: logs nothing when there is no room, and leaves a quarter of
 * the area to callers without one. */
size_t rt_node_try_alloc(size_t nbytes);
void rt_node_free(size_t off, size_t nbytes);
/* Bytes of all blocks taken now, by any local process. */
size_t rt_node_used(void);
static inline void *rt_node_at(size_t off) { return rt_node.base + off; }

/* The one block that needs no agreement: RT_NODE_WORLD_PER_RANK bytes for every local rank, zeroed
 * and reserved, for the collectives of MPI_COMM_WORLD, which exists before any message. */
#define RT_NODE_WORLD_PER_RANK 1024u
size_t rt_node_world_block(void);

/* True when local rank `r` has attached and has gone: it detached, or its process does not exist
 * (one system call). */
bool rt_node_gone(int r);
/* Publishes that this process posts no further receives; whether rank `r` has published that, or
 * has detached in order; and whether it has, or has gone. */
void rt_node_say_last(void);
bool rt_node_said_last(int r);
bool rt_node_is_last(int r);

/* Wakes local rank `to` if it sleeps.  Called after the data that it waits for has been stored. */
void rt_bell_wake(struct rt_bell *b);
static inline void rt_bell_ring_at(struct rt_bell *b)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the other half of the sleeper's membarrier */
    if (rt_unlikely(rt_node.fence_needed))
        rt_fence(); /* data before the look at `asleep`; otherwise the sleeper's membarrier orders
                       them */
    if (rt_unlikely(rt_load_relaxed(&b->asleep)))
        rt_bell_wake(b);
}
static inline void rt_bell_ring(int to) { rt_bell_ring_at(&rt_node.bells[to]); }

/* This process's own bell: for work that one of its threads leaves to the thread that sleeps. */
static inline void rt_bell_ring_self(void)
{
    if (rt_likely(rt_node.bells != NULL))
        rt_bell_ring(rt_node.rank);
}

/* Sleeping is in steps so that nothing is missed: arm, look once more for work, sleep unless there
 * is some, disarm.  Of the threads of a process one at a time does so.  rt_bell_sleep returns true
 * after a ring since the arming, false after timeout_us microseconds (< 0: no limit).  rt_bell_poll
 * also returns true when one of the nfds descriptors (at most RT_BELL_FDS) is readable; arm with
 * `polls` for it. */
#define RT_BELL_FDS 8
uint32_t rt_bell_arm(bool polls);
bool rt_bell_rung(uint32_t armed); /* since the arming */
void rt_bell_disarm(void);
bool rt_bell_sleep(uint32_t armed, int timeout_us);
bool rt_bell_poll(uint32_t armed, const int *fds, int nfds, int timeout_us);

#endif
