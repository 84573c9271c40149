/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of the library: one holder at a time, no lost wake-up, and what it counts. */
#include <pthread.h>
#include <unistd.h>
#include "runtime/base/lock.h"
#include "test/check.h"

enum { THREADS = 6, ROUNDS = 20000 };

static struct rt_lock lock;
static long sum; /* under the lock, but not atomic */
static bool asked[THREADS];

static void *add(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        rt_lock(&lock);
        sum++;
        rt_unlock(&lock);
        if (i % 64 == 0)
            rt_lock_offer(&lock);
    }
    return NULL;
}

static void nothing_before_it_is_enabled(void)
{
    rt_lock(&lock);
    rt_lock(&lock);
    CHECK_EQ(lock.state, 0);
    rt_unlock(&lock);
    CHECK_EQ((long)lock.ntaken, 0);
    rt_lock_always(&lock); /* a lock of more threads than the program's */
    CHECK_EQ(lock.state, 1);
    rt_unlock_always(&lock);
    CHECK_EQ(lock.state, 0);
}

static void one_holder(void)
{
    pthread_t id[THREADS];
    rt_lock_enable();
    lock = (struct rt_lock)RT_LOCK_INIT;
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&id[i], NULL, add, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    CHECK_EQ(sum, (long)THREADS * ROUNDS);
    CHECK_EQ((long)lock.ntaken, (long)THREADS * ROUNDS);
    CHECK_EQ(lock.state, 0);
    CHECK_EQ(lock.wanted, 0);
}

static void *take_once(void *arg)
{
    rt_store_release((bool *)arg, true);
    rt_lock(&lock);
    sum++;
    rt_unlock(&lock);
    return NULL;
}

/* Each thread must sleep in the kernel, because the lock is held until all do. */
static void sleepers_are_woken(void)
{
    pthread_t id[THREADS];
    lock = (struct rt_lock)RT_LOCK_INIT;
    sum = 0;
    rt_lock(&lock);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&id[i], NULL, take_once, &asked[i]), 0);
    for (int i = 0; i < THREADS; i++)
        while (!rt_load_acquire(&asked[i]))
            usleep(1000);
    while (rt_load_relaxed(&lock.state) != 2 || rt_load_relaxed(&lock.wanted))
        usleep(1000);
    CHECK_EQ(sum, 0);
    rt_unlock(&lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    CHECK_EQ(sum, THREADS);
    CHECK_EQ(lock.state, 0);
    CHECK((long)lock.nwaited >= 1 && (long)lock.nwaited <= THREADS);
}

static void *let_go(void *arg)
{
    (void)arg;
    usleep(20000);
    rt_unlock_always(&lock);
    return NULL;
}

static void counts_waits(void)
{
    pthread_t id;
    lock = (struct rt_lock)RT_LOCK_INIT;
    rt_lock(&lock);
    CHECK_EQ((long)lock.nwaited, 0);
    CHECK_EQ(pthread_create(&id, NULL, let_go, NULL), 0);
    rt_lock(&lock);
    CHECK_EQ((long)lock.nwaited, 1);
    CHECK_EQ((long)lock.ntaken, 2);
    rt_unlock(&lock);
    pthread_join(id, NULL);
    CHECK_EQ(lock.state, 0);
}

int main(void)
{
    RUN(nothing_before_it_is_enabled);
    RUN(one_holder);
    RUN(sleepers_are_woken);
    RUN(counts_waits);
    return check_end();
}
