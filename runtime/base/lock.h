/* SPDX-License-Identifier: BSD-3-Clause */
/* A mutex that costs one predictable branch in a single-threaded program: it locks only after
 * rt_lock_enable() (MPI_THREAD_MULTIPLE, or a helper thread of the library).  Locks are enabled
 * before a second thread enters the library, and never disabled.  Not recursive. */
#ifndef RT_BASE_LOCK_H
#define RT_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

extern bool rt_threaded; /* set once by rt_lock_enable() */
void rt_lock_enable(void);

struct rt_lock {
    pthread_mutex_t m;
    /* Called by the holder just before it releases the lock; NULL: nothing.  Only holders change
     * it. */
    void (*on_release)(struct rt_lock *l);
};
#define RT_LOCK_INIT \
    { \
        .m = PTHREAD_MUTEX_INITIALIZER \
    }

static inline void rt_lock_init(struct rt_lock *l)
{
    pthread_mutex_init(&l->m, NULL);
    l->on_release = NULL;
}
static inline void rt_lock_fini(struct rt_lock *l) { pthread_mutex_destroy(&l->m); }

static inline void rt_lock(struct rt_lock *l)
{
    if (__builtin_expect(rt_threaded, 0))
        pthread_mutex_lock(&l->m);
}

/* Unlocks without on_release(). */
static inline void rt_unlock_plain(struct rt_lock *l)
{
    if (__builtin_expect(rt_threaded, 0))
        pthread_mutex_unlock(&l->m);
}

static inline void rt_unlock(struct rt_lock *l)
{
    if (__builtin_expect(rt_threaded, 0) && __builtin_expect(l->on_release != NULL, 0))
        l->on_release(l);
    rt_unlock_plain(l);
}

#endif
