/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the node segment, for runtime/mem only: its layout and the content of its first
 * page. */
#ifndef RT_MEM_SEGMENT_INT_H
#define RT_MEM_SEGMENT_INT_H

#include "runtime/mem/activity.h"
#include "runtime/mem/segment.h"

/* Block area: only address space until blocks are allocated, so it is generous.  A granule is the
 * unit of the bitmap: 64 KiB is little compared with the needs of collectives and MPI_Alloc_mem,
 * and 1024 bits for each rank are searched quickly. */
#define NODE_AREA_PER_RANK (64u << 20)
#define NODE_GRANULE (64u << 10)

/* "nodwefta": changes when something changes that processes of other jobs read. */
#define NODE_MAGIC 0x6174666577646f6eu

/* First page.  The first group of members is constant once the file has its name; the second is
 * accessed atomically. */
struct node_head {
    uint64_t magic;
    uint64_t nbytes, pair_nbytes;
    uint64_t token; /* random: shows to processes of other jobs that this is the file of the card */
    uint32_t size;

    _Alignas(RT_CACHE_LINE) uint32_t attached; /* processes that have attached so far */
    uint32_t stale;                            /* 1: the process that has set it replaces the
                                                * file */
    uint32_t awaited;  /* processes that sleep on `arrivals` until others attach */
    uint32_t arrivals; /* futex word */
    uint64_t promised; /* bytes of share.h that no process has reserved */
    /* deaths.c.  PID namespace of the first process that has attached; time of the next look; how
     * often a process has left or ended. */
    _Alignas(RT_CACHE_LINE) uint64_t pidns, look_ns;
    uint32_t changes;
    _Alignas(RT_CACHE_LINE)
        uint32_t lock; /* of the block bitmap: local rank + 1 of the holder, 0: free */
    uint32_t kept;     /* free granules that have memory; under the lock */
    uint32_t emptied;  /* how often memory was given back: for processes that have registered memory
                        * of the segment */
};

struct node_layout { /* offsets from the start, all multiples of the page size */
    size_t bells, activities, bits, backed, world, pairs, area, nbytes;
    size_t pair_nbytes;
    size_t ngranules;
};

struct node_private {
    struct node_layout at;
    int fd;             /* of the segment, for fallocate and for other jobs; -1: private memory */
    bool alone;         /* no other process maps the segment, so none rings */
    uint64_t pidns;     /* of this process; 0: unknown */
    bool membarrier;    /* registered: rt_bell_arm() may rely on it */
    uint32_t changes;   /* of the segment that this process has seen, */
    uint32_t nended;    /* and the ranks known to have ended then */
    uint64_t look_ns;   /* the next look that this process takes alone */
    uint32_t nreported; /* entries of runtime/boot/dead.h that have been taken */
    bool missed;        /* the next look must confirm what its last look has found */
    int bell_fd;        /* socket of its bell; 0: not needed yet; -1: none */
    char path[512];
};
extern struct node_private rt_node_private;

static inline struct node_head *node_head(void) { return (struct node_head *)rt_node.base; }
static inline uint64_t *node_bits(void)
{
    return (uint64_t *)(rt_node.base + rt_node_private.at.bits);
}

/* The page of local rank `r` in the segment at `base`. */
static inline struct rt_activity *rt_node_activity(void *base, const struct node_layout *at, int r)
{
    char *first = (char *)base + at->activities;
    return (struct rt_activity *)(void *)(first + (size_t)r * RT_ACTIVITY_NBYTES);
}

/* The page of this process; NULL: none any more. */
void rt_activity_attach(struct rt_activity *page);

/* For each granule how many of its pages have memory, counted from its start.  Belongs to the owner
 * of the block; of free granules, to the holder of the lock. */
static inline uint8_t *node_backed(void)
{
    return (uint8_t *)rt_node.base + rt_node_private.at.backed;
}

/* Gives the memory of all free granules back to the file system. */
void rt_node_trim(void);

/* Offsets in a segment for `size` ranks. */
struct node_layout rt_node_layout(size_t size, size_t pair_nbytes);

/* Notifies the processes that wait for this one to attach. */
void rt_node_arrived(void);

/* The pid namespace of this process; 0: unknown. */
uint64_t rt_node_pidns(void);

/* rt_bell.ended.  MISSED: one look has not found the process.  ENDED becomes COUNTED after all
 * others can find it, so that the next look repeats what a process has not completed that died in
 * its look. */
enum { RT_BELL_MISSED = 1, RT_BELL_ENDED, RT_BELL_COUNTED };
/* Whether the process of an attached bell does not exist: one system call. */
bool rt_bell_ended(const struct rt_bell *b);

/* Registers for membarrier and initialises this process's bell. */
void rt_bell_init(void);
/* Processes of other jobs will ring this process, which was alone until now. */
void rt_bell_open(void);
void rt_bell_fini(void);

#endif
