/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/node over simulated costs.  The test compiles the sources of coll/node with this header in
 * front (-include): each access to shared memory advances the clock of the rank that makes it.
 * Data of more than 64 bytes are not copied, so calls of any length cost little time; what the
 * ranks exchange to agree is shorter, and is copied. */
#ifndef TEST_FAKE_NODE_COSTS_H
#define TEST_FAKE_NODE_COSTS_H

#include "coll/coll.h"
#include "coll/sched.h"
#include "runtime/base/atomic.h"
#include "runtime/base/clock.h"
#include "runtime/base/copy.h"
#include "runtime/base/idle.h"
#include "runtime/mem/segment.h"
#include <string.h>

/* Cores are numbered so that those of a cache, and of a package, follow each other; rank i runs on
 * core i.  Level 0: cores that share an L3 cache. */
#define COST_LEVELS 3
struct cost_machine {
    const char *name;
    int cores;
    struct {
        int cores;   /* that share it */
        double line; /* ns until a line that another of these cores has is here */
        double rate; /* bytes per ns of a copy from another of these cores */
    } level[COST_LEVELS];
    double call;       /* ns of a system call that copies between processes, */
    double page;       /* and of each of its pages */
    const char *where; /* the figures are from */
};
extern const struct cost_machine cost_machines[]; /* ends with a row of zeros */

/* The shared memory is [shm, shm + len). */
void cost_begin(const struct cost_machine *m, int nranks, const char *shm, size_t len);
void cost_end(void);
extern int cost_rank; /* the rank that is running */
double cost_clock(int rank);
/* All ranks have the time of the last one. */
void cost_meet(void);
/* Each rank takes turns until turn() returns true; a turn that returns false has polled lines, and
 * the next one follows when one of them has changed.  slack: how far a rank may get ahead of the
 * others, ns.  False: all ranks wait. */
bool cost_run(bool (*turn)(int rank), double slack);
void cost_spend(double ns);
/* Bytes that are read and written by the rank, at memory of its own or shared memory. */
void cost_read(const void *p, size_t len);
void cost_write(void *p, size_t len);
void cost_peer(int peer, size_t len); /* one copy between processes */

void cost_load(const void *p);
void cost_store(const void *p);
void cost_prefetch(const void *p);
void cost_copy(void *to, const void *from, size_t len);
rt_reduce_fn *cost_reduce_find(void);
uint64_t cost_now(void);

#ifdef NODE_COSTS
#undef rt_load_acquire
#define rt_load_acquire(p) (cost_load(p), __atomic_load_n((p), __ATOMIC_ACQUIRE))
#undef rt_store_release
#define rt_store_release(p, v) (cost_store(p), __atomic_store_n((p), (v), __ATOMIC_RELEASE))
#undef rt_exchange
#define rt_exchange(p, v) \
    (cost_load(p), cost_store(p), __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL))
#define rt_copy_small(to, from, len) cost_copy(to, from, len)
#undef memcpy
#define memcpy(to, from, len) cost_copy(to, from, len)
#define coll_copy(from, n, l, to, m, tl) \
    ((void)(m), (void)(tl), cost_copy(to, from, (size_t)((n) * (l)->size)))
#define rt_reduce_find(op, elem) ((void)(op), (void)(elem), cost_reduce_find())
#define __builtin_prefetch(p) cost_prefetch(p)
#define rt_now_ns() cost_now()
#define rt_idle_oversubscribed() false
#define rt_node_populate(p, len) ((void)(p), (void)(len))
#endif

#endif
