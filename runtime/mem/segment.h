/* SPDX-License-Identifier: BSD-3-Clause */
/* The node segment: one sparse shared-memory file for all processes of a job on one host.  The
 * first process creates it, every process attaches in MPI_Init, and the last process to attach
 * removes the name, so a crash leaves nothing (mpirun removes the name if the job dies before
 * that).  Pages use memory only when they are touched.  A range is reserved (fallocate) before its
 * first touch, so that a full /dev/shm is -RT_ENOSPC at that point and never SIGBUS later.
 *
 * The segment holds a region for every ordered pair of local ranks, for btl/shm; one doorbell for
 * each rank; and an area from which node collectives and MPI_Alloc_mem allocate blocks.  Opened and
 * closed by one thread; any thread may call the other functions, unless stated. */
#ifndef RT_MEM_SEGMENT_H
#define RT_MEM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/atomic.h"
#include "runtime/boot/boot.h"

/* Flags of rt_bell.asleep.  POLLS: the sleep is in poll(2) over its bell socket and descriptors of
 * transports.  FENCE: the owner has no membarrier(2), so ringing processes must fence and read
 * again, asleep or not.  SHARED: several threads sleep. */
enum { RT_BELL_ASLEEP = 1, RT_BELL_POLLS = 2, RT_BELL_FENCE = 4, RT_BELL_SHARED = 8 };

/* One for each local rank.  Only the owner sets `asleep`; others clear it and change `word` to wake
 * the owner. */
struct rt_bell {
    _Alignas(RT_CACHE_LINE) uint32_t asleep; /* RT_BELL_...; 0: awake */
    uint32_t word;                           /* futex word: changes with every wake-up */
    uint32_t pid;   /* owner's pid in its own namespace; 0: not attached yet */
    uint32_t alive; /* 0: not attached, 1: attached, 2: detached normally, 3: in MPI_Finalize */
    uint64_t pidns; /* owner's pid namespace: pids are comparable only within one; 0: unknown */
    char socket[8]; /* abstract name of its bell socket, chosen by the kernel; "": none */
    /* Set of transports (btl/btl.h) whose data in the owner's pair region processes of other jobs
     * may use: they cannot reserve memory of this segment. */
    uint32_t regions;
    uint32_t ended; /* whether its process is known to have ended: deaths.c */
};

struct rt_node {
    char *base;            /* start of the mapping; offsets in the segment are relative to it */
    size_t nbytes;         /* length of the mapping, sparse */
    int rank, size;        /* local rank and number of local ranks */
    struct rt_bell *bells; /* `size` of them */
    bool fence_needed;     /* membarrier is not available: this process fences when it rings */
    /* Processes of this host, of this job and of others, that are known to have ended
     * (runtime/mem/deaths.h). */
    uint32_t nended;
    /* Local processes that are known to map another segment; no more will be found. */
    uint32_t napart;
    bool settled;
};
extern RT_HIDDEN struct rt_node rt_node; /* base is NULL until opened; a singleton has size 1 */

/* Whether the owner's pid names it in this process.  If not, it would name another process. */
static inline bool rt_bell_same_pids(const struct rt_bell *b)
{
    return b->pidns && b->pidns == rt_node.bells[rt_node.rank].pidns;
}

/* Path of the segment of job `nspace` on host number `node`, from cfg.shm_dir and the user's id;
 * mpirun removes the file of a dead job.  The number distinguishes hosts that share a file system,
 * such as two network namespaces of one machine. */
void rt_node_name(const char *nspace, int node, char *buf, size_t len);

/* Called first, while this process has one thread.  With several threads, such as PMIx's, the same
 * call in rt_node_open() would take 20 to 35 ms. */
void rt_node_register(void);

/* Creates or attaches the segment of this job on this host.  pair_nbytes: length of a pair region,
 * equal in all processes.  Waits for no other process, unless one replaces a file of an earlier
 * job: at most 5 s.  After logging the cause and what to do: -RT_ENOSPC, -RT_ENOMEM, -RT_ESYS,
 * -RT_EPERM; -RT_EEXIST: a running job has this file; -RT_ETIMEOUT: an old file could not be
 * replaced. */
int rt_node_open(size_t pair_nbytes);
void rt_node_close(void);
/* Publish that this process has finalized MPI for now, and that it has initialised it again.  The
 * mapping and all data in it stay valid. */
void rt_node_leave(void);
void rt_node_rejoin(void);

/* The pair region that local rank `from` writes and `to` reads, page-aligned, initially zero.  The
 * region of the pair (r, r) belongs to rank r, for data that a transport publishes.  Neither
 * process touches a page of it before one of them has reserved it: even a read of a hole allocates
 * a page. */
void *rt_node_pair(int from, int to);
/* Reserves memory for [p, p + nbytes) of the segment; may be repeated.  -RT_ENOSPC, -RT_ESYS,
 * logged. */
int rt_node_reserve(const void *p, size_t nbytes);
/* Clears and maps reserved pages in one call, 1 us each, so that no first write to a page is
 * delayed.  Does nothing before Linux 5.14. */
void rt_node_populate(void *p, size_t nbytes);
/* The same as rt_node_reserve(), without logging a full file system. */
int rt_node_try_reserve(const void *p, size_t nbytes);

/* Allocates a zeroed, page-aligned block that every local process may use by its offset.  SIZE_MAX:
 * the file system is full. */
size_t rt_node_alloc(size_t nbytes);
/* The same for callers with a fallback: logs nothing if there is no room, and leaves a quarter of
 * the area for callers without a fallback.  Without `zero` the block may have any content. */
size_t rt_node_try_alloc(size_t nbytes, bool zero);
/* The next block in the same place needs no system call: freed blocks keep their memory, up to
 * three quarters of the area (48 MiB for each local rank), while the file system is not full. */
void rt_node_free(size_t off, size_t nbytes);
/* Bytes of all blocks allocated now, by all local processes. */
size_t rt_node_used(void);
static inline void *rt_node_at(size_t off) { return rt_node.base + off; }

/* A block that needs no allocation: RT_NODE_WORLD_PER_RANK bytes for each local rank, zeroed and
 * reserved, for collectives of MPI_COMM_WORLD, which exists before any message. */
#define RT_NODE_WORLD_PER_RANK 2560u
size_t rt_node_world_block(void);

/* ---- segment_apart.c: which processes of this host map this segment.  The only place that may
 * answer whether a process shares memory with this one: rt_boot_local() is the launcher's view.
 * ----
 */

/* Local rank of a job rank that maps this segment; -1: it is on another host, or has a segment of
 * its own, as in a container with a private /dev/shm, or has died (dead.h) before it attached.
 * Waits until that is known: until the process is in MPI_Init. */
int rt_node_find(uint32_t rank);
static inline int rt_node_local(uint32_t rank)
{
    return rt_likely(rt_load_acquire(&rt_node.settled) && !rt_load_relaxed(&rt_node.napart))
               ? rt_boot_local(rank)
               : rt_node_find(rank);
}
/* Without waiting; -1 also for a process that has not attached yet. */
int rt_node_attached(uint32_t rank);
/* Finds processes that map another segment, while rt_node.settled is false.  Called now and then by
 * a process that waits (deaths.h). */
void rt_node_seek(void);
/* Publishes this process's segment, if others may look for it; before rt_boot_leave(). */
void rt_node_publish(void);

/* Makes all other processes of the segment execute a fence, those excepted for which
 * rt_node_fences(): they have no membarrier(2).  So another process may publish a store and read
 * without a fence what this process has stored before the call: either the other process reads
 * that, or this process, after the call, sees what the other has published. */
void rt_node_barrier(void);
bool rt_node_fences(int r);

/* Wake the owner of a bell if it sleeps: local rank `to`, or the owner of `b`.  Called after
 * storing the data for which the owner waits.  rt_bell_wake() is the slow path of the others. */
void rt_bell_wake(struct rt_bell *b);
static inline void rt_bell_ring_at(struct rt_bell *b)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the other half of the sleeper's membarrier */
    if (rt_unlikely(rt_node.fence_needed))
        rt_fence(); /* the data before the read of `asleep`; otherwise the sleeper's membarrier
                     * orders them */
    if (rt_unlikely(rt_load_relaxed(&b->asleep)))
        rt_bell_wake(b);
}
static inline void rt_bell_ring(int to) { rt_bell_ring_at(&rt_node.bells[to]); }

/* Rings this process's own bell: a thread has work for the thread that sleeps. */
static inline void rt_bell_ring_self(void)
{
    if (rt_likely(rt_node.bells != NULL))
        rt_bell_ring(rt_node.rank);
}

/* To sleep without missing work: arm, poll once more for work, sleep unless there is some, disarm.
 * Several threads may do so at once, of which one at a time with `polls`.  rt_bell_sleep returns
 * true after a ring since the arming, false after timeout_us microseconds (< 0: no limit).
 * rt_bell_poll also returns true when one of the descriptors p[1..nfds] has an event; p[0] is for
 * the bell.  Arm with `polls` for it.
 */
struct pollfd;
uint32_t rt_bell_arm(bool polls);
bool rt_bell_rung(uint32_t armed); /* since the arming */
void rt_bell_disarm(bool polls);   /* as it was armed */
bool rt_bell_sleep(uint32_t armed, int timeout_us);
bool rt_bell_poll(uint32_t armed, struct pollfd *p, int nfds, int timeout_us);

#endif
