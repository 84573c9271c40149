/* SPDX-License-Identifier: BSD-3-Clause */
/* The shortest path of one-sided calls, inline in the bindings: an operation on elements of one
 * predefined datatype in window memory that is mapped, in an epoch with an earlier operation on the
 * target.  A small table has the facts of such targets.  Every function returns false, and has
 * changed nothing, where the checks of the binding, the body or a wait are needed; all error texts
 * come from there.
 *
 * Inline, against the usual rule: the calls between binding, body, path and copy took longer than
 * the operation.
 *
 * The functions are called without the domain's lock.  Threads of a correct program do not free a
 * window or end an epoch while another thread uses that window or epoch, so the row of a target is
 * constant while a thread uses the target.  A thread that looks for the row of a target may meet a
 * change of the row to another target: the change begins and ends with a store to `win`. */
#ifndef WM_RMA_QUICK_H
#define WM_RMA_QUICK_H

#include "mpi/core/life.h"
#include "mpi/datatype/type.h"
#include "mpi/op/op.h"
#include "mpi/rma/ctl.h"
#include "runtime/base/copy.h"
#include "runtime/base/lock.h"
#include "runtime/gpu/gpu.h"
#include "runtime/mem/segment.h"

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
    char *ptr;       /* where the memory is mapped */
    int64_t unit;
    struct wm_rma_ctl *ctl, *mine; /* of the target; of this process */
    struct wm_rma *rma;
    struct wm_rma_target *t;
};
#define WM_RMA_QUICK 64 /* bits of wm_rma.targets.quick */
extern RT_HIDDEN struct wm_rma_quick wm_rma_quick[WM_RMA_QUICK];

/* The model without a call: a call would take a third of the time of a flush. */
#define WM_RMA_QUICK_TLS __attribute__((tls_model("initial-exec")))

/* Counts calls that found everything done.  One in WM_RMA_QUICK_TURNS takes the long path and makes
 * progress: this process may be in a loop that waits for a flag in a window, while the process that
 * will set it waits for a message. */
#define WM_RMA_QUICK_TURNS 128
extern _Thread_local unsigned wm_rma_quick_calls WM_RMA_QUICK_TLS;
static inline bool wm_rma_quick_due(void)
{
    return rt_unlikely(++wm_rma_quick_calls % WM_RMA_QUICK_TURNS == 0);
}

/* How an operation changes elements of a predefined datatype without gaps; by the handles of both.
 * Filled by the first call whose arguments have been checked. */
struct wm_rma_change {
    rt_reduce_fn *kernel; /* NULL: the long path; stored last */
    uint32_t size, align; /* of an element */
    uint32_t adds;        /* 4, 8: the sum of integers of so many bytes; else 0 */
};
extern RT_HIDDEN struct wm_rma_change wm_rma_change[32][256];

/* element.c: changes one element by the kernel and an atomic operation.  False: the long path. */
bool wm_rma_element(struct wm_rma_ctl *mine, const struct wm_rma_ctl *c, rt_reduce_fn *kernel,
                    void *at, const void *origin, void *result, uint64_t nbytes);

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
    *out = q->ptr + at;
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

static inline void wm_rma_quick_copy(void *to, const void *from, uint64_t nbytes)
{
    if (rt_likely(nbytes == 8)) /* the most frequent length */
        memcpy(to, from, 8);
    else if (rt_likely(nbytes <= 64))
        rt_copy_small(to, from, nbytes);
    else
        memmove(to, from, nbytes); /* a process may name its own memory twice */
}

/* Puts and gets.  wm_rma_quick_X() calls a function at most as its last act: the binding saves
 * fewer registers, and a put takes 3 % less time (2-core VM, Zen 5).  wm_rma_again_X() is the
 * second attempt, out of line: it opens the row again first. */
static inline bool wm_rma_quick_put(const void *buf, MPI_Count count, MPI_Datatype type, int rank,
                                    MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type,
                                    MPI_Win win)
{
    uint64_t n = wm_rma_quick_nbytes(buf, count, type, target_count, target_type);
    char *at;
    struct wm_rma_quick *q = wm_rma_quick_find(win, rank);
    if (rt_unlikely(!wm_rma_quick_reach(q, disp, n, &at)))
        return false;
    rt_store_relaxed(&q->stored, true);
    wm_rma_quick_copy(at, buf, n);
    return true;
}

static inline bool wm_rma_again_put(const void *buf, MPI_Count count, MPI_Datatype type, int rank,
                                    MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type,
                                    MPI_Win win)
{
    wm_rma_quick_reopen(wm_rma_quick_find(win, rank));
    return wm_rma_quick_put(buf, count, type, rank, disp, target_count, target_type, win);
}

static inline bool wm_rma_quick_get(void *buf, MPI_Count count, MPI_Datatype type, int rank,
                                    MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type,
                                    MPI_Win win)
{
    uint64_t n = wm_rma_quick_nbytes(buf, count, type, target_count, target_type);
    char *at;
    if (rt_unlikely(!wm_rma_quick_reach(wm_rma_quick_find(win, rank), disp, n, &at)))
        return false;
    wm_rma_quick_copy(buf, at, n);
    return true;
}

static inline bool wm_rma_again_get(void *buf, MPI_Count count, MPI_Datatype type, int rank,
                                    MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type,
                                    MPI_Win win)
{
    wm_rma_quick_reopen(wm_rma_quick_find(win, rank));
    return wm_rma_quick_get(buf, count, type, rank, disp, target_count, target_type, win);
}

/* Elements within one page, and so under one stripe, aligned for the kernels. */
static inline bool wm_rma_quick_fits(uint64_t offset, const struct wm_rma_change *c, const char *at,
                                     const void *origin, int64_t count)
{
    return offset % WM_RMA_PAGE + (uint64_t)count * c->size <= WM_RMA_PAGE &&
           !(((uintptr_t)at | (uintptr_t)origin) & (c->align - 1));
}

/* Locks the stripe of an element; false: another process holds it, or this target has no stripes
 * yet.  The caller stores to the target's memory. */
static inline bool wm_rma_quick_stripe(struct wm_rma_quick *q, const char *at,
                                       struct wm_rma_stripe **out)
{
    struct wm_rma_stripe *s = &q->ctl->stripe[wm_rma_stripe_of((uint64_t)(at - q->ptr))];
    if (rt_unlikely(rt_load_acquire(&q->ctl->rule) != WM_RMA_BY_STRIPE ||
                    !wm_rma_stripe_try(s, rt_node.rank)))
        return false;
    rt_store_relaxed(&q->stored, true);
    *out = s;
    return true;
}

static inline void wm_rma_quick_copy_number(void *to, const void *from, uint64_t nbytes)
{
    nbytes == 4 ? memcpy(to, from, 4) : memcpy(to, from, 8);
}

static inline uint64_t wm_rma_quick_number(const void *from, uint64_t nbytes)
{
    uint64_t v = 0;
    wm_rma_quick_copy_number(&v, from, nbytes);
    return v;
}

static inline bool wm_rma_quick_element_begin(struct wm_rma_quick *q)
{
    if (!RT_ATOMIC_FENCES)
        rt_store_relaxed(&q->stored, true);
    return rt_likely(!rt_threaded) && wm_rma_element_begin(q->mine, q->ctl);
}

/* The sum of an integer of 4 or 8 bytes by one atomic operation; *old: the value before. */
static inline bool wm_rma_quick_add(struct wm_rma_quick *q, void *at, uint64_t v, uint64_t n,
                                    uint64_t *old)
{
    if (rt_unlikely(!wm_rma_quick_element_begin(q)))
        return false;
    *old = n == 8 ? rt_fetch_add((uint64_t *)at, v) : rt_fetch_add((uint32_t *)at, (uint32_t)v);
    wm_rma_element_end(q->mine);
    return true;
}

/* `count` elements at `at`; their old values go to `result`, NULL: nowhere. */
static inline bool wm_rma_quick_change(struct wm_rma_quick *q, char *at, const void *origin,
                                       void *result, int64_t count, MPI_Datatype type, MPI_Op op)
{
    const struct wm_rma_change *c = &wm_rma_change[(uintptr_t)op % 32][(uintptr_t)type % 256];
    rt_reduce_fn *kernel = rt_load_acquire(&c->kernel);
    if (rt_unlikely((uintptr_t)op / 32 != 1 || !kernel || (!result && op == MPI_NO_OP)))
        return false;
    struct wm_rma_stripe *s;
    uint64_t old;
    if (count == 1 && rt_load_relaxed(&q->ctl->rule) == WM_RMA_BY_ELEMENT) {
        if (!RT_ATOMIC_FENCES)
            rt_store_relaxed(&q->stored, true);
        if (c->adds && !result && !((uintptr_t)at & (c->size - 1)))
            return wm_rma_quick_add(q, at, wm_rma_quick_number(origin, c->size), c->size, &old);
        return wm_rma_element(q->mine, q->ctl, kernel, at, origin, result, c->size);
    }
    if (rt_unlikely(!wm_rma_quick_fits((uint64_t)(at - q->ptr), c, at, origin, count) ||
                    !wm_rma_quick_stripe(q, at, &s)))
        return false;
    if (result)
        wm_rma_quick_copy(result, at, (uint64_t)count * c->size);
    if (count == 1 && c->adds == 8)
        *(uint64_t *)(void *)at += *(const uint64_t *)origin;
    else if (count == 1 && c->adds == 4)
        *(uint32_t *)(void *)at += *(const uint32_t *)origin;
    else
        kernel(origin, at, at, count);
    wm_rma_stripe_free(s);
    return true;
}

static inline bool wm_rma_quick_accumulate(const void *buf, MPI_Count count, MPI_Datatype type,
                                           int rank, MPI_Aint disp, MPI_Count target_count,
                                           MPI_Datatype target_type, MPI_Op op, MPI_Win win)
{
    struct wm_rma_quick *q = wm_rma_quick_find(win, rank);
    uint64_t n = wm_rma_quick_nbytes(buf, count, type, target_count, target_type);
    char *at;
    wm_rma_quick_reopen(q);
    return rt_likely(wm_rma_quick_reach(q, disp, n, &at)) &&
           wm_rma_quick_change(q, at, buf, NULL, count, type, op);
}

static inline bool wm_rma_quick_get_accumulate(const void *buf, MPI_Count count, MPI_Datatype type,
                                               void *result, MPI_Count result_count,
                                               MPI_Datatype result_type, int rank, MPI_Aint disp,
                                               MPI_Count target_count, MPI_Datatype target_type,
                                               MPI_Op op, MPI_Win win)
{
    struct wm_rma_quick *q = wm_rma_quick_find(win, rank);
    uint64_t n = wm_rma_quick_nbytes(buf, count, type, target_count, target_type);
    char *at;
    wm_rma_quick_reopen(q);
    return rt_likely(result_type == type && result_count == count && (uintptr_t)result > 2) &&
           rt_likely(wm_rma_quick_reach(q, disp, n, &at)) &&
           wm_rma_quick_change(q, at, buf, result, count, type, op);
}

/* Sums of integers: without a kernel, and so without a call. */
static inline bool wm_rma_quick_fetch_and_op(const void *buf, void *result, MPI_Datatype type,
                                             int rank, MPI_Aint disp, MPI_Op op, MPI_Win win)
{
    struct wm_rma_quick *q = wm_rma_quick_find(win, rank);
    uint64_t n = wm_rma_quick_nbytes(buf, 1, type, 1, type), old;
    struct wm_rma_stripe *s;
    char *at;
    if (rt_unlikely(!wm_rma_quick_reach(q, disp, n, &at) || (uintptr_t)op / 32 != 1 ||
                    (uintptr_t)result <= 2))
        return false;
    const struct wm_rma_change *c = &wm_rma_change[(uintptr_t)op % 32][(uintptr_t)type % 256];
    /* aligned: also within one page, and so under one stripe */
    if (rt_unlikely(rt_load_relaxed(&c->adds) != n || (uintptr_t)at & (n - 1)))
        return false;
    uint64_t v = wm_rma_quick_number(buf, n); /* `adds` is 4 or 8 */
    if (!wm_rma_quick_add(q, at, v, n, &old)) {
        if (!wm_rma_quick_stripe(q, at, &s))
            return false;
        old = wm_rma_quick_number(at, n);
        v += old;
        wm_rma_quick_copy_number(at, &v, n);
        wm_rma_stripe_free(s);
    }
    wm_rma_quick_copy_number(result, &old, n);
    return true;
}

static inline bool wm_rma_again_fetch_and_op(const void *buf, void *result, MPI_Datatype type,
                                             int rank, MPI_Aint disp, MPI_Op op, MPI_Win win)
{
    return wm_rma_quick_get_accumulate(buf, 1, type, result, 1, type, rank, disp, 1, type, op, win);
}

static inline bool wm_rma_quick_swap(struct wm_rma_quick *q, void *at, uint64_t v, uint64_t n,
                                     uint64_t *old)
{
    uint32_t old4 = (uint32_t)*old;
    if (rt_unlikely((uintptr_t)at & (n - 1) || !wm_rma_quick_element_begin(q)))
        return false;
    if (n == 8) {
        rt_cas((uint64_t *)at, old, v);
    } else {
        rt_cas((uint32_t *)at, &old4, (uint32_t)v);
        *old = old4;
    }
    wm_rma_element_end(q->mine);
    return true;
}

static inline bool wm_rma_quick_compare_and_swap(const void *buf, const void *compare, void *result,
                                                 MPI_Datatype type, int rank, MPI_Aint disp,
                                                 MPI_Win win)
{
    struct wm_rma_quick *q = wm_rma_quick_find(win, rank);
    uint64_t n = wm_rma_quick_nbytes(buf, 1, type, 1, type);
    struct wm_rma_stripe *s;
    char *at;
    if (rt_unlikely(!wm_rma_quick_reach(q, disp, n, &at) || (n != 4 && n != 8) ||
                    (uintptr_t)compare <= 2 || (uintptr_t)result <= 2))
        return false;
    const struct wm_type *t = wm_type_predefined[(uintptr_t)type - WM_RMA_QUICK_TYPE];
    uint64_t old = wm_rma_quick_number(compare, n);
    if (rt_unlikely(!(t->ops & 1u << RT_OP_BAND)))
        return false;
    if (!wm_rma_quick_swap(q, at, wm_rma_quick_number(buf, n), n, &old)) {
        if (!wm_rma_quick_stripe(q, at, &s))
            return false;
        old = wm_rma_quick_number(at, n);
        if (old == wm_rma_quick_number(compare, n))
            wm_rma_quick_copy_number(at, buf, n);
        wm_rma_stripe_free(s);
    }
    wm_rma_quick_copy_number(result, &old, n);
    return true;
}

static inline bool wm_rma_again_compare_and_swap(const void *buf, const void *compare, void *result,
                                                 MPI_Datatype type, int rank, MPI_Aint disp,
                                                 MPI_Win win)
{
    wm_rma_quick_reopen(wm_rma_quick_find(win, rank));
    return wm_rma_quick_compare_and_swap(buf, compare, result, type, rank, disp, win);
}

/* Operations on such a target are complete when their call returns, except for stores in the
 * processor's store buffer.  The fence orders these before loads that follow: two processes that
 * both put, flush and then read what the other has put do not both find the old value, whether they
 * read by a get or by a load (MPI-5.0 section 12.7: a put is visible when it is complete at the
 * target).  Gets and atomic operations leave nothing in the store buffer. */
static inline bool wm_rma_quick_flush(int rank, MPI_Win win)
{
    struct wm_rma_quick *q = wm_rma_quick_find(win, rank);
    if (rt_unlikely(!q || !rt_load_relaxed(&q->passive)) || wm_rma_quick_due())
        return false;
    if (rt_load_relaxed(&q->stored)) {
        rt_store_relaxed(&q->stored, rt_load_relaxed(&q->fences));
        rt_fence();
    }
    rt_fence_acquire();
    return true;
}
static inline bool wm_rma_quick_flush_local(int rank, MPI_Win win)
{
    const struct wm_rma_quick *q = wm_rma_quick_find(win, rank);
    bool done = rt_likely(q && rt_load_relaxed(&q->passive)) && !wm_rma_quick_due();
    rt_fence_acquire();
    return done;
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

/* sync.c: locks that no process holds in the other mode.  They change the epoch, therefore only
 * without threads. */
bool wm_rma_quick_lock(int lock_type, int rank, int assert, MPI_Win win);
bool wm_rma_quick_unlock(int rank, MPI_Win win);

#endif
