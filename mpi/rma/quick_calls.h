/* SPDX-License-Identifier: BSD-3-Clause */
/* The shortest path of one-sided calls, inline in the bindings: an operation on elements of one
 * predefined datatype in window memory that is mapped, in an epoch with an earlier operation on the
 * target (quick.h).  Every function returns false, and has changed nothing, where the checks of the
 * binding, the body or a wait are needed; all error texts come from there.
 *
 * Inline, against the usual rule: the calls between binding, body, path and copy took longer than
 * the operation. */
#ifndef WM_RMA_QUICK_CALLS_H
#define WM_RMA_QUICK_CALLS_H

#include "mpi/rma/element.h"
#include "mpi/rma/quick.h"
#include "mpi/rma/sync.h"
#include "runtime/base/copy.h"

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

/* Several elements, in place under their stripe. */
static inline bool wm_rma_quick_in_place(struct wm_rma_quick *q, const struct wm_rma_change *c,
                                         rt_reduce_fn *kernel, char *at, const void *origin,
                                         void *result, int64_t count)
{
    uint64_t offset = (uint64_t)(at - q->place.zero);
    if (rt_unlikely(!wm_rma_quick_fits(offset, c, at, origin, count)))
        return false;
    struct wm_rma_stripe *s = wm_rma_stripe_hold(q->place.ctl, offset);
    if (rt_unlikely(!s))
        return false;
    rt_store_relaxed(&q->stored, true);
    if (result)
        wm_rma_quick_copy(result, at, (uint64_t)count * c->size);
    kernel(origin, at, at, count);
    wm_rma_stripe_free(s);
    return true;
}

/* An element of 4 or 8 bytes: without a call, and without code for other lengths. */
static inline WM_RMA_INLINE bool wm_rma_quick_number(struct wm_rma_quick *q,
                                                     const struct wm_rma_element *e, uint64_t old,
                                                     void *result)
{
    if (!wm_rma_element(&q->place, e, &old, &q->stored))
        return false;
    if (result)
        wm_rma_number_store(result, old, e->nbytes);
    return true;
}

/* The sum of integers. */
static inline WM_RMA_INLINE bool wm_rma_quick_add(struct wm_rma_quick *q, char *at, uint64_t n,
                                                  const void *origin, void *result)
{
    if (n != 4 && n != 8)
        __builtin_unreachable();
    struct wm_rma_element e = { .at = at, .nbytes = n, .op = WM_RMA_ADD };
    e.value = wm_rma_number(origin, n);
    return wm_rma_quick_number(q, &e, 0, result);
}

/* `count` elements at `at`; their old values go to `result`, NULL: nowhere. */
static inline WM_RMA_INLINE bool wm_rma_quick_change(struct wm_rma_quick *q, char *at,
                                                     const void *origin, void *result,
                                                     int64_t count, MPI_Datatype type, MPI_Op op)
{
    const struct wm_rma_change *c = &wm_rma_change[(uintptr_t)op % 32][(uintptr_t)type % 256];
    rt_reduce_fn *kernel = rt_load_acquire(&c->kernel);
    if (rt_unlikely((uintptr_t)op / 32 != 1 || !kernel || (!result && op == MPI_NO_OP)))
        return false;
    if (count == 1 && c->adds)
        return wm_rma_quick_add(q, at, c->adds, origin, result);
    if (count == 1 && rt_load_relaxed(&q->place.ctl->rule) == WM_RMA_BY_ELEMENT) {
        struct wm_rma_element e = { .at = at, .nbytes = c->size, .kernel = kernel };
        return wm_rma_element_fold(&q->place, &e, origin, result, &q->stored);
    }
    return wm_rma_quick_in_place(q, c, kernel, at, origin, result, count);
}

static inline WM_RMA_INLINE bool wm_rma_quick_accumulate(const void *buf, MPI_Count count,
                                                         MPI_Datatype type, int rank, MPI_Aint disp,
                                                         MPI_Count target_count,
                                                         MPI_Datatype target_type, MPI_Op op,
                                                         MPI_Win win)
{
    struct wm_rma_quick *q = wm_rma_quick_find(win, rank);
    uint64_t n = wm_rma_quick_nbytes(buf, count, type, target_count, target_type);
    char *at;
    wm_rma_quick_reopen(q);
    return rt_likely(wm_rma_quick_reach(q, disp, n, &at)) &&
           wm_rma_quick_change(q, at, buf, NULL, count, type, op);
}

static inline WM_RMA_INLINE bool
wm_rma_quick_get_accumulate(const void *buf, MPI_Count count, MPI_Datatype type, void *result,
                            MPI_Count result_count, MPI_Datatype result_type, int rank,
                            MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type,
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

/* Sums of integers alone. */
static inline WM_RMA_INLINE bool wm_rma_quick_fetch_and_op(const void *buf, void *result,
                                                           MPI_Datatype type, int rank,
                                                           MPI_Aint disp, MPI_Op op, MPI_Win win)
{
    struct wm_rma_quick *q = wm_rma_quick_find(win, rank);
    uint64_t n = wm_rma_quick_nbytes(buf, 1, type, 1, type);
    char *at;
    if (rt_unlikely(!wm_rma_quick_reach(q, disp, n, &at) || (uintptr_t)op / 32 != 1 ||
                    (uintptr_t)result <= 2))
        return false;
    const struct wm_rma_change *c = &wm_rma_change[(uintptr_t)op % 32][(uintptr_t)type % 256];
    if (rt_unlikely(rt_load_relaxed(&c->adds) != n))
        return false;
    return wm_rma_quick_add(q, at, n, buf, result);
}

static inline bool wm_rma_again_fetch_and_op(const void *buf, void *result, MPI_Datatype type,
                                             int rank, MPI_Aint disp, MPI_Op op, MPI_Win win)
{
    return wm_rma_quick_get_accumulate(buf, 1, type, result, 1, type, rank, disp, 1, type, op, win);
}

static inline WM_RMA_INLINE bool wm_rma_quick_compare_and_swap(const void *buf, const void *compare,
                                                               void *result, MPI_Datatype type,
                                                               int rank, MPI_Aint disp, MPI_Win win)
{
    struct wm_rma_quick *q = wm_rma_quick_find(win, rank);
    uint64_t n = wm_rma_quick_nbytes(buf, 1, type, 1, type);
    char *at;
    if (rt_unlikely(!wm_rma_quick_reach(q, disp, n, &at) || (n != 4 && n != 8) ||
                    (uintptr_t)compare <= 2 || (uintptr_t)result <= 2))
        return false;
    const struct wm_type *t = wm_type_predefined[(uintptr_t)type - WM_RMA_QUICK_TYPE];
    if (rt_unlikely(!(t->ops & 1u << RT_OP_BAND)))
        return false;
    struct wm_rma_element e = { .at = at, .nbytes = n, .op = WM_RMA_SWAP };
    e.value = wm_rma_number(buf, n);
    return wm_rma_quick_number(q, &e, wm_rma_number(compare, n), result);
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

#endif
