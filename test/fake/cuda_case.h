/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the cases over cuda_pair.h; a header, because checks count per file. */
#ifndef TEST_FAKE_CUDA_CASE_H
#define TEST_FAKE_CUDA_CASE_H

#include "test/check.h"
#include "test/fake/cuda_pair.h"

#define LEN 300001u

static inline int verdict(void)
{
    if (tp)
        pair_end();
    return check_failed_case ? 2 : 0;
}

static inline int attach_key(struct btl_peer *p, const void *key, cu_ptr near, struct btl_rmem **r)
{
    struct rt_gpu_ptr at;
    int err = rt_gpu_query((void *)(uintptr_t)near, 1, &at);
    return err ? err : p->btl->ops->attach(p, key, &at, r);
}

static inline int attach(int k, cu_ptr near, struct btl_rmem **r)
{
    return attach_key(peer, words->key[k], near, r);
}

/* Rank 0 keeps n allocations registered; rank 1 gets their keys. */
#define MANY 10
static cu_ptr many[MANY];
static struct btl_mem *many_mem[MANY];

static inline void many_make(enum mem_how how, int n)
{
    for (int i = 0; i < n; i++) {
        many[i] = mem_make(how, 0, 4096);
        mem_fill(many[i], 4096, 100u + (unsigned)i);
        CHECK_EQ(give_key(many[i], 4096, i, &many_mem[i]), 0);
    }
}

static inline void many_drop(int n)
{
    for (int i = 0; i < n; i++)
        tp->ops->mem_dereg(many_mem[i]);
}

static inline void read_many(int i, cu_ptr dst)
{
    struct btl_rmem *r;

    CHECK_EQ(attach(i, dst, &r), 0);
    CHECK_EQ(get_now(r, 0, dst, 4096), 0);
    CHECK(mem_is(dst, 4096, 100u + (unsigned)i));
    tp->ops->detach(r);
}

#endif
