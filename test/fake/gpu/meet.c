/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: weft_meet, as runtime/gpu/kernel.h describes it.  It waits in its stream's
 * thread, as the real kernel does in a warp. */
#include <sched.h>
#include <time.h>
#include "test/fake/gpu/fake.h"

/* The words of one launch, at the driver's own addresses. */
struct meeting {
    const struct rt_gpu_meet *k;
    cu_ctx ctx;
    uint32_t *count, *runs, *poison, *wait[RT_GPU_MEET_MAX];
    struct rt_gpu_meet_words *words;
    struct fake_phys *pins[4 + RT_GPU_MEET_MAX];
    int npins;
};

static void *pin(struct meeting *m, uint64_t addr, size_t len)
{
    struct fake_phys *phys;
    char *p = addr & 3 ? NULL : fake_pin(m->ctx, addr, len, FAKE_BY_KERNEL, &phys);

    if (p)
        m->pins[m->npins++] = phys;
    return p;
}

static int store(cu_ctx c, uint64_t addr, uint32_t v)
{
    struct fake_phys *phys;
    char *p = addr & 3 ? NULL : fake_pin(c, addr, 4, FAKE_BY_KERNEL, &phys);

    if (!p)
        return CU_ERROR_ILLEGAL_ADDRESS;
    __atomic_store_n((uint32_t *)(void *)p, v, __ATOMIC_RELEASE);
    fake_unpin(phys);
    return 0;
}

static int add(cu_ctx c, uint64_t addr)
{
    struct fake_phys *phys;
    char *p = addr & 3 ? NULL : fake_pin(c, addr, 4, FAKE_BY_KERNEL, &phys);

    if (!p)
        return CU_ERROR_ILLEGAL_ADDRESS;
    __atomic_fetch_add((uint32_t *)(void *)p, 1u, __ATOMIC_RELEASE);
    fake_unpin(phys);
    return 0;
}

static int store_all(struct meeting *m, const uint64_t *addr, uint32_t n, uint32_t v)
{
    int err = 0;
    uint32_t i;

    for (i = 0; i < n && !err; i++)
        err = store(m->ctx, addr[i], v);
    return err;
}

static int pin_all(struct meeting *m)
{
    const struct rt_gpu_meet *k = m->k;
    uint32_t i;

    if (k->nsignal > RT_GPU_MEET_MAX || k->nwait > RT_GPU_MEET_MAX || k->npoison > RT_GPU_MEET_MAX)
        return CU_ERROR_ILLEGAL_ADDRESS;
    m->count = pin(m, k->count, 4);
    m->runs = pin(m, k->runs, 4);
    m->poison = pin(m, k->poison, 4);
    m->words = pin(m, k->words, sizeof(*m->words));
    for (i = 0; i < k->nwait; i++)
        if (!(m->wait[i] = pin(m, k->wait[i], 4)))
            return CU_ERROR_ILLEGAL_ADDRESS;
    return m->count && m->runs && m->poison && m->words ? 0 : CU_ERROR_ILLEGAL_ADDRESS;
}

static bool given_up(const struct meeting *m)
{
    return __atomic_load_n(m->poison, __ATOMIC_ACQUIRE) ||
           __atomic_load_n(&m->words->abort, __ATOMIC_ACQUIRE);
}

/* Sleeps soon, because a device takes no processor time: a thread that only yields may keep other
 * threads that yield off the processor for many seconds. */
static bool wait_for(const struct meeting *m, const uint32_t *flag, uint32_t e)
{
    for (int polls = 0; (int32_t)(__atomic_load_n(flag, __ATOMIC_ACQUIRE) - e) < 0; polls++) {
        if (given_up(m))
            return false;
        if (polls < 100)
            sched_yield();
        else
            nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
    }
    return true;
}

static int meet(struct meeting *m)
{
    const struct rt_gpu_meet *k = m->k;
    uint32_t e = *m->count + k->step, run = *m->runs + 1, i;
    bool came = true;
    int err;

    *m->count = e;
    *m->runs = run;
    __atomic_store_n(&m->words->begun, run, __ATOMIC_RELEASE);
    err = k->adds ? 0 : store_all(m, k->signal, k->nsignal, e);
    for (i = 0; k->adds && i < k->nsignal && !err; i++)
        err = add(m->ctx, k->signal[i]);
    for (i = 0; i < k->nwait && !err; i++)
        came = wait_for(m, m->wait[i], e - k->behind) && came;
    if (!came) {
        err = store_all(m, k->poison_of, k->npoison, 1);
        __atomic_store_n(&m->words->failed, 1u, __ATOMIC_RELEASE);
    }
    if (k->ticket)
        __atomic_store_n(&m->words->ended, k->ticket, __ATOMIC_RELEASE);
    __atomic_store_n(&m->words->over, run, __ATOMIC_RELEASE);
    return err;
}

int fake_run_meet(struct fake_op *op)
{
    struct meeting m = { .k = (const void *)op->params, .ctx = op->stream->ctx };
    int err = pin_all(&m);

    if (!err)
        err = meet(&m);
    while (m.npins)
        fake_unpin(m.pins[--m.npins]);
    return err;
}
