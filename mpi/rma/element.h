/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates in memory that this process reaches: what they change, and how one element changes.
 *
 * wm_rma_element() is the change of one element of 1, 2, 4 or 8 bytes, for the shortest path of
 * calls (quick_calls.h) as for the others (element.c).  It follows the rule of the target:
 *
 *   by element  an atomic operation of the processor.  A process publishes with a plain store that
 *               it changes an element, and reads the rule after that without a fence.
 *   by stripe   loads and stores under the stripe of the element, if no other process holds it.
 *
 * A target begins with the first rule.  The first accumulate that needs stripes (acc.c) ends it for
 * good: a reduction of many elements by atomic operations would take ten times as long as under a
 * stripe. */
#ifndef WM_RMA_ELEMENT_H
#define WM_RMA_ELEMENT_H

#include <string.h>
#include "mpi/p2p/resolve.h"
#include "mpi/rma/ctl.h"
#include "runtime/base/lock.h"
#include "runtime/layout/layout.h"
#include "runtime/mem/segment.h"
#include "runtime/reduce/reduce.h"

struct wm_rma;
struct wm_rma_args;

/* A part of an accumulate at its target, for a process that reaches the memory. */
struct wm_rma_acc {
    const struct wm_rma *rma;
    struct wm_rma_ctl *ctl; /* of the target */
    int cma;                /* local rank of the process to whose memory `base` belongs; -1: ours */
    char *zero;             /* where the window's memory begins, in the address space of `base` */
    char *base;             /* where the target's elements begin */
    int64_t count;
    const struct rt_layout *layout; /* of an element */
    const struct wm_mem *mem;       /* of the target's elements in device memory of ours; NULL */
    bool atomic;                    /* devices of other processes may change them, too */
    enum rt_opcode op;
    enum rt_elem elem;
    int64_t esize;      /* packed bytes of a basic element */
    int64_t pos, len;   /* this part of the packed form */
    const char *origin; /* packed, len bytes; NULL with RT_OP_NO_OP */
    char *result;       /* packed, len bytes; NULL: not wanted */
};

/* Around a change of one element by an atomic operation: `mine` is the caller's block, `c` the
 * target's.  False: the rule is, or will be, that of stripes. */
static inline bool wm_rma_element_begin(struct wm_rma_ctl *mine, const struct wm_rma_ctl *c)
{
    rt_store_relaxed(&mine->changing, 1u);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the other half of rt_node_barrier() in element.c */
    if (rt_likely(rt_load_acquire(&c->rule) == WM_RMA_BY_ELEMENT))
        return true;
    rt_store_release(&mine->changing, 0u);
    return false;
}
static inline void wm_rma_element_end(struct wm_rma_ctl *mine)
{
    rt_store_release(&mine->changing, 0u);
}

/* The memory of a target, for a process that addresses it. */
struct wm_rma_place {
    char *zero;                    /* where it begins */
    struct wm_rma_ctl *ctl, *mine; /* of the target; of this process */
};

enum wm_rma_element_op {
    WM_RMA_ADD,  /* adds `value`; 4 or 8 bytes */
    WM_RMA_SWAP, /* stores `value` if *old is there */
    WM_RMA_FOLD  /* reduces `value` into the element by `kernel` */
};

/* An element, and what becomes of it. */
struct wm_rma_element {
    char *at;
    uint64_t nbytes; /* 1, 2, 4 or 8 */
    enum wm_rma_element_op op;
    rt_reduce_fn *kernel;
    uint64_t value;
};

/* The value of an element in a buffer of the caller, which may be at any address.  The most
 * frequent length is the first one here. */
static inline uint64_t wm_rma_number(const void *from, uint64_t nbytes)
{
    uint64_t v = 0;
    rt_likely(nbytes == 8) ? memcpy(&v, from, 8)
    : nbytes == 4          ? memcpy(&v, from, 4)
    : nbytes == 2          ? memcpy(&v, from, 2)
                           : memcpy(&v, from, 1);
    return v;
}
static inline void wm_rma_number_store(void *to, uint64_t v, uint64_t nbytes)
{
    rt_likely(nbytes == 8) ? memcpy(to, &v, 8)
    : nbytes == 4          ? memcpy(to, &v, 4)
    : nbytes == 2          ? memcpy(to, &v, 2)
                           : memcpy(to, &v, 1);
}

/* The same for an aligned element that other processes may change. */
static inline uint64_t wm_rma_number_load(const void *at, uint64_t nbytes)
{
    return rt_likely(nbytes == 8) ? rt_load_relaxed((const uint64_t *)at)
           : nbytes == 4          ? rt_load_relaxed((const uint32_t *)at)
           : nbytes == 2          ? rt_load_relaxed((const uint16_t *)at)
                                  : rt_load_relaxed((const uint8_t *)at);
}

/* Stores `next` if *old is there; else sets *old.  Atomic. */
static inline bool wm_rma_number_swap(void *at, uint64_t *old, uint64_t next, uint64_t nbytes)
{
    uint32_t old4 = (uint32_t)*old;
    uint16_t old2 = (uint16_t)*old;
    uint8_t old1 = (uint8_t)*old;
    if (rt_likely(nbytes == 8))
        return rt_cas((uint64_t *)at, old, next);
    bool done = nbytes == 4   ? rt_cas((uint32_t *)at, &old4, (uint32_t)next)
                : nbytes == 2 ? rt_cas((uint16_t *)at, &old2, (uint16_t)next)
                              : rt_cas((uint8_t *)at, &old1, (uint8_t)next);
    *old = nbytes == 4 ? old4 : nbytes == 2 ? old2 : old1;
    return done;
}

static inline uint64_t wm_rma_next(const struct wm_rma_element *e, uint64_t old, uint64_t expected)
{
    uint64_t next = old, value = e->value;
    if (e->op == WM_RMA_FOLD)
        e->kernel(&value, &next, &next, 1);
    return e->op == WM_RMA_ADD                       ? old + e->value
           : e->op == WM_RMA_SWAP && old == expected ? e->value
                                                     : next;
}

/* The caller has published that it changes an element. */
static inline void wm_rma_element_atomic(const struct wm_rma_element *e, uint64_t *old)
{
    uint64_t n = e->nbytes, next;
    void *at = e->at;
    if (e->op == WM_RMA_ADD) {
        *old = rt_likely(n == 8) ? rt_fetch_add((uint64_t *)at, e->value)
                                 : rt_fetch_add((uint32_t *)at, (uint32_t)e->value);
    } else if (e->op == WM_RMA_SWAP) {
        wm_rma_number_swap(at, old, e->value, n);
    } else {
        *old = wm_rma_number_load(at, n);
        do
            next = wm_rma_next(e, *old, 0);
        while (next != *old && !wm_rma_number_swap(at, old, next, n));
    }
}

/* Locks the stripe of an offset.  NULL: another process holds it, or the target has no stripes
 * yet. */
static inline struct wm_rma_stripe *wm_rma_stripe_hold(struct wm_rma_ctl *c, uint64_t offset)
{
    struct wm_rma_stripe *s = &c->stripe[wm_rma_stripe_of(offset)];
    return rt_likely(rt_load_acquire(&c->rule) == WM_RMA_BY_STRIPE &&
                     wm_rma_stripe_try(s, rt_node.rank))
               ? s
               : NULL;
}

/* The compiler keeps the whole path in the binding. */
#define WM_RMA_INLINE __attribute__((always_inline))

/* *old: the value before.  *stored is set if the change may still be in the processor's store
 * buffer.  False: nothing has been changed; wm_rma_acc() or wm_rma_cas() have to. */
static inline WM_RMA_INLINE bool wm_rma_element(const struct wm_rma_place *p,
                                                const struct wm_rma_element *e, uint64_t *old,
                                                bool *stored)
{
    uint64_t n = e->nbytes;
    if (!RT_ATOMIC_FENCES)
        rt_store_relaxed(stored, true);
    if (rt_unlikely((uintptr_t)e->at & (n - 1)))
        return false;
    if (rt_likely(!rt_threaded) && wm_rma_element_begin(p->mine, p->ctl)) {
        wm_rma_element_atomic(e, old);
        wm_rma_element_end(p->mine);
        return true;
    }
    struct wm_rma_stripe *s = wm_rma_stripe_hold(p->ctl, (uint64_t)(e->at - p->zero));
    if (rt_unlikely(!s))
        return false;
    rt_store_relaxed(stored, true);
    uint64_t now = wm_rma_number(e->at, n), next = wm_rma_next(e, now, *old);
    if (next != now)
        wm_rma_number_store(e->at, next, n);
    wm_rma_stripe_free(s);
    *old = now;
    return true;
}

/* The same out of line.  `origin`: the value, NULL: MPI_NO_OP; `result`: NULL: the old value is not
 * wanted. */
bool wm_rma_element_fold(const struct wm_rma_place *p, struct wm_rma_element *e, const void *origin,
                         void *result, bool *stored);
/* Carries out an accumulate or compare-and-swap on one element at once; `c` has its ctl, cma,
 * zero, base, layout, elem and esize.  False: it needs
 * wm_rma_acc() or wm_rma_cas(). */
bool wm_rma_element_try(const struct wm_rma *r, const struct wm_rma_acc *c,
                        const struct wm_rma_args *a);
/* From here on, accumulates on the target with this block take stripes.  Waits for a change of an
 * element that another process has begun. */
void wm_rma_stripes_begin(const struct wm_rma *r, struct wm_rma_ctl *c);

#endif
