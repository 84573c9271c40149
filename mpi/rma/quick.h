/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of targets on the shortest path of one-sided calls (quick_calls.h), and its look-up.
 *
 * The inline functions are called without the domain's lock.  Threads of a correct program do not
 * free a window or end an epoch while another thread uses that window or epoch, so the row of a
 * target is constant while a thread uses the target.  A thread that looks for the row of a target
 * may meet a change of the row to another target: the change begins and ends with a store to
 * `win`. */
#ifndef WM_RMA_QUICK_H
#define WM_RMA_QUICK_H

#include "mpi/core/state.h"
#include "mpi/datatype/type.h"
#include "mpi/rma/element.h"
#include "runtime/gpu/gpu.h"
#include "runtime/reduce/reduce.h"

struct wm_rma;
struct wm_rma_target;

/* A target on the shortest path: quick.c fills and clears the row, under the domain's lock. */
struct wm_rma_quick {
    _Alignas(RT_CACHE_LINE) uintptr_t win; /* handle */
    int rank;
    bool passive; /* the epoch is one of MPI_Win_lock or MPI_Win_lock_all */
    /* Stores to the target's memory since the last flush may still be in the processor's store
     * buffer. */
    bool stored;
    bool fences;     /* `stored` stays set: shared windows, and processes with threads */
    uint64_t nbytes; /* of the target's window memory; 0: operations take the long path now */
    struct wm_rma_place place; /* where the memory is mapped */
    int64_t unit;
    struct wm_rma *rma;
    struct wm_rma_target *t;
};
#define WM_RMA_QUICK 64 /* bits of wm_rma.targets.quick */
extern RT_HIDDEN struct wm_rma_quick wm_rma_quick[WM_RMA_QUICK];

/* Counts calls that found everything done.  One in WM_RMA_QUICK_TURNS takes the long path and makes
 * progress: this process may be in a loop that waits for a flag in a window, while the process that
 * will set it waits for a message.  Not for each thread: a thread-local variable would need a call,
 * a third of the time of a flush, or make the library one that a program cannot open late, because
 * the memory for such variables is used up (after `import torch`). */
#define WM_RMA_QUICK_TURNS 128
extern RT_HIDDEN unsigned wm_rma_quick_calls; /* threads may lose counts of each other */
static inline unsigned wm_rma_quick_count(void)
{
    unsigned n = rt_load_relaxed(&wm_rma_quick_calls) + 1;
    rt_store_relaxed(&wm_rma_quick_calls, n);
    return n;
}
static inline bool wm_rma_quick_due(void)
{
    return rt_unlikely(wm_rma_quick_count() % WM_RMA_QUICK_TURNS == 0);
}

/* How an operation changes elements of a predefined datatype without gaps; by the handles of both.
 * Filled by the first call whose arguments have been checked. */
struct wm_rma_change {
    rt_reduce_fn *kernel; /* NULL: the long path; stored last */
    uint32_t size, align; /* of an element */
    uint32_t adds;        /* 4, 8: the sum of integers of so many bytes; else 0 */
};
extern RT_HIDDEN struct wm_rma_change wm_rma_change[32][256];

static inline struct wm_rma_quick *wm_rma_quick_at(uintptr_t win, int rank)
{
    return &wm_rma_quick[(win + (uintptr_t)(unsigned)rank) % WM_RMA_QUICK];
}

/* The row of a target; NULL: it has none.  A row without a window has `nbytes` and `passive` 0. */
static inline struct wm_rma_quick *wm_rma_quick_find(MPI_Win win, int rank)
{
    struct wm_rma_quick *q = wm_rma_quick_at((uintptr_t)win, rank);
    return rt_likely(rt_load_acquire(&q->win) == (uintptr_t)win && q->rank == rank &&
                     rt_load_relaxed(&wm_state.users))
               ? q
               : NULL;
}

/* quick.c: the first operation of an epoch opens the row again, if the target has the row already
 * and may be accessed now. */
void wm_rma_quick_again(const struct wm_rma_quick *q);

/* Where the target's elements are.  False: the long path, also for `nbytes` 0. */
static inline bool wm_rma_quick_reach(const struct wm_rma_quick *q, MPI_Aint disp, uint64_t nbytes,
                                      char **out)
{
    int64_t at;
    if (rt_unlikely(!q || rt_gpu_watch))
        return false;
    uint64_t most = rt_load_relaxed(&q->nbytes);
    if (rt_unlikely(nbytes - 1 >= most || __builtin_mul_overflow((int64_t)disp, q->unit, &at) ||
                    (uint64_t)at > most - nbytes))
        return false;
    *out = q->place.zero + at;
    return true;
}

static inline void wm_rma_quick_reopen(const struct wm_rma_quick *q)
{
    if (q && !rt_load_relaxed(&q->nbytes) && !rt_gpu_watch)
        wm_rma_quick_again(q);
}

/* Bytes of an element of a predefined type without gaps, by its handle; 0: the long path.  Filled
 * before the first row. */
#define WM_RMA_QUICK_TYPE 0x200u /* the first handle */
extern RT_HIDDEN uint8_t wm_rma_quick_size[256];

/* Bytes of data; 0: the long path. */
static inline uint64_t wm_rma_quick_nbytes(const void *buf, MPI_Count count, MPI_Datatype type,
                                           MPI_Count target_count, MPI_Datatype target_type)
{
    int64_t n;
    uintptr_t i = (uintptr_t)type - WM_RMA_QUICK_TYPE;
    if (rt_unlikely(type != target_type || count != target_count || (uintptr_t)buf <= 2 ||
                    i > 255 || __builtin_mul_overflow((int64_t)count, wm_rma_quick_size[i], &n)))
        return 0;
    return (uint64_t)n; /* a negative count is more than a window has */
}

/* quick.c: the table, from the long path. */
/* An operation on the target has been carried out in memory, or its lock is held. */
void wm_rma_quick_open(struct wm_rma *r, struct wm_rma_target *t);
/* The epoch with the target, or with all targets, ends. */
void wm_rma_quick_close(const struct wm_rma *r, const struct wm_rma_target *t);
void wm_rma_quick_close_all(const struct wm_rma *r);
/* An accumulate with this operation and type of the target is allowed. */
struct wm_op;
void wm_rma_quick_learn(const struct wm_op *o, const struct wm_type *t);
void wm_rma_quick_forget(const struct wm_rma *r); /* the targets are about to be freed */

#endif
