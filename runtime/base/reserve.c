/* SPDX-License-Identifier: BSD-3-Clause */
/* The reserve: memory of the program's image, which costs nothing until it is touched.  Divided
 * into blocks; the first run of free blocks that is long enough is taken.  Any thread; the lock
 * protects the reserve and is not taken where malloc serves. */
#include "runtime/base/reserve.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/atomic.h"
#include "runtime/base/log.h"

#define BLOCK 512u
#define NBLOCKS (RT_RESERVE_NBYTES / BLOCK)

static _Alignas(RT_CACHE_LINE) char memory[RT_RESERVE_NBYTES];
static struct {
    pthread_mutex_t lock;
    bool reported;
    uint16_t run[NBLOCKS]; /* blocks in the run that begins here; 0: no run in use begins here */
} reserve = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool is_reserve(const void *p)
{
    return (uintptr_t)p - (uintptr_t)memory < RT_RESERVE_NBYTES;
}

/* The first of n free blocks; NBLOCKS: there are none. */
static size_t find(size_t n)
{
    size_t first = 0, i = 0;
    while (i < NBLOCKS && i - first < n) {
        if (reserve.run[i])
            first = i += reserve.run[i];
        else
            i++;
    }
    return i - first < n ? NBLOCKS : first;
}

void *rt_reserve_take(size_t nbytes)
{
    size_t n = nbytes / BLOCK + 1, at = NBLOCKS;
    pthread_mutex_lock(&reserve.lock);
    bool reported = reserve.reported;
    if (n < NBLOCKS)
        at = find(n);
    if (at < NBLOCKS)
        reserve.run[at] = (uint16_t)n;
    reserve.reported = true;
    pthread_mutex_unlock(&reserve.lock);
    if (!reported)
        log_warn(BASE,
                 "out of memory (%zu bytes); calls in which other processes take part use a "
                 "reserve of %u bytes",
                 nbytes, RT_RESERVE_NBYTES);
    return at < NBLOCKS ? memory + at * BLOCK : NULL;
}

void *rt_reserve_alloc(size_t nbytes)
{
    void *p = malloc(nbytes);
    return rt_likely(p != NULL) ? p : rt_reserve_take(nbytes);
}

void *rt_reserve_zalloc(size_t nbytes)
{
    void *p = calloc(1, nbytes);
    if (rt_likely(p != NULL))
        return p;
    p = rt_reserve_take(nbytes);
    return p ? memset(p, 0, nbytes) : NULL;
}

void *rt_reserve_realloc(void *p, size_t old_nbytes, size_t nbytes)
{
    void *more = is_reserve(p) ? NULL : realloc(p, nbytes);
    if (rt_likely(more != NULL))
        return more;
    more = rt_reserve_take(nbytes);
    if (more && p) {
        memcpy(more, p, old_nbytes);
        rt_reserve_free(p);
    }
    return more;
}

void rt_reserve_free(void *p)
{
    if (rt_likely(!is_reserve(p))) {
        free(p);
        return;
    }
    pthread_mutex_lock(&reserve.lock);
    reserve.run[(size_t)((char *)p - memory) / BLOCK] = 0;
    pthread_mutex_unlock(&reserve.lock);
}
