/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: the kernels of test/bench/limits.cu on the CPU, on the thread of their stream,
 * so that --limits is tested without a GPU.  A kernel's words stay pinned while it runs. */
#include <sched.h>
#include <string.h>
#include <time.h>
#include "test/bench/limits.h"
#include "test/fake/gpu/fake.h"

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool wait_for(uint32_t *w, uint32_t value, uint64_t until)
{
    while (__atomic_load_n(w, __ATOMIC_ACQUIRE) != value) {
        if (now_ns() > until)
            return false;
        sched_yield(); /* there are few processors */
    }
    return true;
}

static void run(const struct bench_kernel *k, bool pong, uint32_t *in, uint32_t *out,
                uint64_t *took)
{
    uint64_t start = now_ns(), until = start + k->limit_ns;
    bool first = pong && k->first;
    uint32_t i;

    for (i = 1; i <= k->rounds; i++) {
        if (first)
            __atomic_store_n(out, i, __ATOMIC_RELEASE);
        if (!wait_for(in, i, until))
            return;
        if (!first)
            __atomic_store_n(out, i, __ATOMIC_RELEASE);
        if (i == 1)
            start = now_ns();
    }
    if (first)
        *took = now_ns() - start;
}

static void work(uint32_t rounds)
{
    static volatile float sink;
    float x = sink + 1;

    for (uint32_t i = 0; i < rounds; i++)
        x = x * 0.999999f + 1e-6f;
    sink = x;
}

int fake_run_bench(struct fake_op *op, enum fake_bench which)
{
    const struct bench_kernel *k = (const void *)op->params;
    uint64_t at[3] = { which == FAKE_BENCH_FLAG ? k->out : k->in, k->out,
                       which == FAKE_BENCH_PONG ? k->took : k->out };
    struct fake_phys *pin[3] = { NULL, NULL, NULL };
    void *word[3];
    int err = 0;

    if (which == FAKE_BENCH_EMPTY)
        return 0;
    if (which == FAKE_BENCH_WORK) {
        work(k->rounds);
        return 0;
    }
    for (int i = 0; i < 3; i++) {
        word[i] = fake_pin(op->stream->ctx, at[i], i == 2 ? 8 : 4, FAKE_BY_KERNEL, &pin[i]);
        if (!word[i])
            err = CU_ERROR_ILLEGAL_ADDRESS;
    }
    if (!err && which == FAKE_BENCH_FLAG)
        __atomic_store_n((uint32_t *)word[1], k->rounds, __ATOMIC_RELEASE);
    else if (!err)
        run(k, which == FAKE_BENCH_PONG, word[0], word[1], word[2]);
    for (int i = 0; i < 3; i++)
        fake_unpin(pin[i]);
    return err;
}
