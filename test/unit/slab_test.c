/* SPDX-License-Identifier: BSD-3-Clause */
/* Object tables: handle layout, stale and invented handles, LIFO reuse, exhaustion, threads. */
#include "runtime/base/slab.h"
#include "test/check.h"

#include <pthread.h>
#include <unistd.h>

struct thing {
    struct rt_obj obj;
    int value;
    char pad[90];
};
static struct rt_slab slab = RT_SLAB(5, "thing", struct thing);

static void handle_layout(void)
{
    struct thing *t = rt_slab_alloc(&slab);
    CHECK(t != NULL);
    CHECK_EQ(t->obj.handle, 5u << RT_SLAB_CLASS_SHIFT); /* index 0, generation 0 */
    CHECK_EQ(t->obj.refs, 1);
    CHECK(t->obj.handle > 4095);
    CHECK_EQ((uintptr_t)t % RT_CACHE_LINE, 0);
    CHECK(rt_slab_get(&slab, t->obj.handle) == t);
    rt_slab_free(&slab, t);
    rt_slab_fini(&slab);
}

static void stale_handles_are_found_wrong(void)
{
    struct thing *t = rt_slab_alloc(&slab);
    uint32_t first = t->obj.handle;
    t->value = 42;
    rt_slab_free(&slab, t);
    CHECK(rt_slab_get(&slab, first) == NULL);
    struct thing *again = rt_slab_alloc(&slab);
    CHECK(again == t);         /* LIFO */
    CHECK_EQ(again->value, 0); /* zeroed */
    CHECK(again->obj.handle != first);
    CHECK_EQ(again->obj.handle, first + (1u << RT_SLAB_GEN_SHIFT));
    CHECK(rt_slab_get(&slab, first) == NULL);
    CHECK(rt_slab_get(&slab, again->obj.handle) == again);
    rt_slab_free(&slab, again);
    rt_slab_fini(&slab);
}

static void generation_wraps(void)
{
    struct thing *t = rt_slab_alloc(&slab);
    uint32_t first = t->obj.handle;
    for (int i = 1; i < 128; i++) {
        rt_slab_free(&slab, t);
        t = rt_slab_alloc(&slab);
        CHECK(t->obj.handle != first);
        CHECK(t->obj.handle >> RT_SLAB_CLASS_SHIFT == 5);
    }
    rt_slab_free(&slab, t);
    t = rt_slab_alloc(&slab);
    CHECK_EQ(t->obj.handle, first);
    rt_slab_free(&slab, t);
    rt_slab_fini(&slab);
}

static void invented_handles(void)
{
    struct thing *t = rt_slab_alloc(&slab);
    uint32_t h = t->obj.handle;
    static const uintptr_t wrong[] = {
        0, 1, 4095, 0x7fffffff, 0xffffffff, (uintptr_t)-1, (uintptr_t)-4096
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(rt_slab_get(&slab, wrong[i]) == NULL);
    CHECK(rt_slab_get(&slab, h + 1) == NULL);   /* index that was never used */
    CHECK(rt_slab_get(&slab, h + 500) == NULL); /* chunk that does not exist */
    CHECK(rt_slab_get(&slab, h ^ (1u << RT_SLAB_CLASS_SHIFT)) == NULL);
    CHECK(rt_slab_get(&slab, h | (uintptr_t)1 << 40) == NULL);
    CHECK(rt_slab_get(&slab, h) == t);
    rt_slab_free(&slab, t);
    rt_slab_fini(&slab);
}

static void add_value(void *obj, void *arg) { *(int *)arg += ((struct thing *)obj)->value; }

static void free_list_is_lifo_and_each_sees_the_living(void)
{
    struct thing *t[300];
    int sum = 0;
    for (int i = 0; i < 300; i++) {
        t[i] = rt_slab_alloc(&slab);
        t[i]->value = 1;
    }
    CHECK_EQ(slab.used, 300);
    CHECK_EQ(slab.high, 300);
    rt_slab_free(&slab, t[7]);
    rt_slab_free(&slab, t[200]);
    rt_slab_each(&slab, add_value, &sum);
    CHECK_EQ(sum, 298);
    CHECK(rt_slab_alloc(&slab) == t[200]);
    CHECK(rt_slab_alloc(&slab) == t[7]);
    CHECK_EQ(slab.high, 300);
    for (int i = 0; i < 300; i++)
        rt_slab_free(&slab, t[i]);
    CHECK_EQ(slab.used, 0);
    rt_slab_fini(&slab);
}

/* 2^20 objects of one cache line are 64 MiB; the error line is expected, so it goes to
 * /dev/null. */
static void all_indices_used(void)
{
    static struct rt_slab small = RT_SLAB(15, "small", struct rt_obj);
    struct rt_obj *o = NULL, *last = NULL;
    uint32_t n = 0;
    int err = dup(2);
    CHECK(freopen("/dev/null", "w", stderr) != NULL);
    while (n <= RT_SLAB_INDEX_MASK + 1 && (o = rt_slab_alloc(&small))) {
        last = o;
        n++;
    }
    dup2(err, 2);
    close(err);
    CHECK_EQ(n, RT_SLAB_INDEX_MASK + 1);
    CHECK(o == NULL);
    CHECK_EQ(last->handle, 0x7fffffffu & ~(127u << RT_SLAB_GEN_SHIFT));
    rt_slab_free(&small, last);
    CHECK(rt_slab_alloc(&small) == last);
    rt_slab_fini(&small);
}

static void *churn(void *arg)
{
    (void)arg;
    for (int round = 0; round < 2000; round++) {
        struct thing *t[4];
        for (int i = 0; i < 4; i++) {
            t[i] = rt_slab_alloc(&slab);
            t[i]->value = i;
        }
        for (int i = 0; i < 4; i++) {
            if (rt_slab_get(&slab, t[i]->obj.handle) != t[i] || t[i]->value != i)
                return "wrong object";
            rt_slab_free(&slab, t[i]);
        }
    }
    return NULL;
}

static void threads_share_a_slab(void)
{
    pthread_t id[3];
    rt_lock_enable();
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&id[i], NULL, churn, NULL), 0);
    for (int i = 0; i < 3; i++) {
        void *why;
        pthread_join(id[i], &why);
        CHECK_MSG(!why, "%s", (char *)why);
    }
    CHECK_EQ(slab.used, 0);
    rt_slab_fini(&slab);
}

int main(void)
{
    RUN(handle_layout);
    RUN(stale_handles_are_found_wrong);
    RUN(generation_wraps);
    RUN(invented_handles);
    RUN(free_list_is_lifo_and_each_sees_the_living);
    RUN(all_indices_used);
    RUN(threads_share_a_slab);
    return check_end();
}
