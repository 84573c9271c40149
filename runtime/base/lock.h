/* SPDX-License-Identifier: BSD-3-Clause */
/* A lock that costs one predictable branch in a single-threaded program: it locks only after
 * rt_lock_enable() (MPI_THREAD_MULTIPLE, or a helper thread of the library).  Locks are enabled
 * before a second thread enters the library, and never disabled.  Not recursive.
 *
 * It is held for tens to hundreds of nanoseconds, so a thread that meets a holder polls for a while
 * before it sleeps in the kernel, ever less often: it is not fair, because a lock that stays with a
 * core is several times as fast as one that moves. */
#ifndef RT_BASE_LOCK_H
#define RT_BASE_LOCK_H

#include "runtime/base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern bool rt_threaded; /* set once by rt_lock_enable() */
void rt_lock_enable(void);

struct rt_lock {
    uint32_t state;  /* 0: free, 1: held, 2: held, and threads may sleep on it */
    uint32_t wanted; /* threads that poll for it */
    /* By its holder: times that it was taken, and that it was held by another thread then. */
    uint64_t ntaken, nwaited;
    /* Called by the holder just before it releases the lock; NULL: nothing.  Only holders change
     * it. */
    void (*on_release)(struct rt_lock *l);
};
#define RT_LOCK_INIT \
    { \
        0 \
    }

void rt_lock_wait(struct rt_lock *l); /* it is held by another thread */
void rt_lock_wake(struct rt_lock *l); /* one of the threads that sleep */
/* After the release, by a thread that takes the lock again at once: lets one that wants it take it
 * first, if it runs. */
void rt_lock_offer(struct rt_lock *l);

/* Whether or not locks are enabled. */
static inline void rt_lock_always(struct rt_lock *l)
{
    uint32_t unlocked = 0;
    if (rt_unlikely(!rt_cas(&l->state, &unlocked, 1u)))
        rt_lock_wait(l);
    rt_store_relaxed(&l->ntaken, l->ntaken + 1);
}
static inline void rt_unlock_always(struct rt_lock *l)
{
    if (rt_unlikely(rt_exchange(&l->state, 0u) == 2))
        rt_lock_wake(l);
}

/* False: it is held.  Only where locks are enabled. */
static inline bool rt_lock_try(struct rt_lock *l)
{
    uint32_t unlocked = 0;
    if (rt_load_relaxed(&l->state) || !rt_cas(&l->state, &unlocked, 1u))
        return false;
    rt_store_relaxed(&l->ntaken, l->ntaken + 1);
    return true;
}

static inline void rt_lock(struct rt_lock *l)
{
    if (rt_unlikely(rt_threaded))
        rt_lock_always(l);
}

/* Unlocks without on_release(). */
static inline void rt_unlock_plain(struct rt_lock *l)
{
    if (rt_unlikely(rt_threaded))
        rt_unlock_always(l);
}

static inline void rt_unlock(struct rt_lock *l)
{
    if (rt_unlikely(rt_threaded) && rt_unlikely(l->on_release != NULL))
        l->on_release(l);
    rt_unlock_plain(l);
}

#endif
