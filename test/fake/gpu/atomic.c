/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: weft_atomic, on the CPU, as runtime/gpu/kernel.h describes it: atomic
 * operations of the CPU on memory that processes share.  An element is changed by a loop around
 * compare-and-swap of the 4 or 8 bytes around it. */
#include <sched.h>
#include <string.h>
#include "test/fake/gpu/fake.h"

struct change {
    cu_ctx ctx;
    unsigned type, code;
    bool alone; /* one element */
    size_t nbytes;
    uint64_t value, compare;
};

static size_t nbytes_of(unsigned type)
{
    switch (type) {
    case RT_GPU_I8:
    case RT_GPU_U8:
        return 1;
    case RT_GPU_I16:
    case RT_GPU_U16:
    case RT_GPU_F16:
    case RT_GPU_BF16:
        return 2;
    case RT_GPU_I32:
    case RT_GPU_U32:
    case RT_GPU_F32:
        return 4;
    case RT_GPU_I64:
    case RT_GPU_U64:
    case RT_GPU_F64:
        return 8;
    default:
        return 0;
    }
}

/* The new value of an element; both in the lowest bytes. */
static int new_value(const struct change *h, uint64_t was, uint64_t *now)
{
    *now = h->value;
    if (h->code == RT_GPU_FOLD_COPY)
        return 0;
    if (h->code == RT_GPU_ATOMIC_READ || h->code == RT_GPU_ATOMIC_CAS) {
        bool swaps = h->code == RT_GPU_ATOMIC_CAS && !memcmp(&was, &h->compare, h->nbytes);
        *now = swaps ? h->value : was;
        return 0;
    }
    return fake_combine(h->type, h->code, now, &was);
}

static int by_words(const struct change *h, char *word, size_t off, uint64_t *old)
{
    bool wide = h->nbytes == 8;
    uint64_t seen = 0, next, now;
    int err;

    for (;;) {
        if (wide)
            seen = __atomic_load_n((uint64_t *)(void *)word, __ATOMIC_SEQ_CST);
        else
            seen = __atomic_load_n((uint32_t *)(void *)word, __ATOMIC_SEQ_CST);
        *old = 0;
        memcpy(old, (char *)&seen + off, h->nbytes);
        err = new_value(h, *old, &now);
        if (err)
            return err;
        next = seen;
        memcpy((char *)&next + off, &now, h->nbytes);
        if (h->alone)
            sched_yield(); /* a lost update shows on few processors, too */
        uint32_t low = (uint32_t)seen;
        if (wide ? __atomic_compare_exchange_n((uint64_t *)(void *)word, &seen, next, false,
                                               __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
                 : __atomic_compare_exchange_n((uint32_t *)(void *)word, &low, (uint32_t)next,
                                               false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return 0;
    }
}

static int one(const struct change *h, uint64_t at, uint64_t *old)
{
    size_t word = h->nbytes == 8 ? 8 : 4, off = at % word;
    struct fake_phys *pin;
    uint64_t now;
    int err;

    if (at % h->nbytes) {
        *old = 0;
        err = fake_carry(h->ctx, at, old, h->nbytes, false);
        if (!err)
            err = new_value(h, *old, &now);
        return err ? err : fake_carry(h->ctx, at, &now, h->nbytes, true);
    }
    char *p = fake_pin(h->ctx, at, h->nbytes, FAKE_BY_KERNEL, &pin);
    if (!p)
        return CU_ERROR_ILLEGAL_ADDRESS;
    err = by_words(h, p - off, off, old);
    fake_unpin(pin);
    return err;
}

/* A value that is given, or lies at an address. */
static int value_of(cu_ctx c, uint64_t v, bool given, size_t nbytes, uint64_t *out)
{
    *out = v;
    if (given)
        return 0;
    if (v % nbytes)
        return CU_ERROR_MISALIGNED_ADDRESS;
    *out = 0;
    return fake_carry(c, v, out, nbytes, false);
}

static int each(struct change *h, const struct rt_gpu_atomic_args *k, uint64_t i)
{
    uint64_t at = k->dst + i * h->nbytes, old;
    bool given = k->given & RT_GPU_GIVEN_SRC || k->code == RT_GPU_ATOMIC_READ;
    int err = value_of(h->ctx, k->src + (given ? 0 : i * h->nbytes), given, h->nbytes, &h->value);

    if (!err && k->table)
        err = fake_carry(h->ctx, k->table + i * sizeof at, &at, sizeof at, false);
    if (!err)
        err = one(h, at, &old);
    if (!err && k->old)
        err = k->old % h->nbytes
                  ? CU_ERROR_MISALIGNED_ADDRESS
                  : fake_carry(h->ctx, k->old + i * h->nbytes, &old, h->nbytes, true);
    return err;
}

int fake_run_atomic(cu_ctx c, const struct rt_gpu_atomic_args *k)
{
    struct change h = { .ctx = c,
                        .type = k->type,
                        .code = k->code,
                        .alone = k->count == 1,
                        .nbytes = nbytes_of(k->type) };
    int err = h.nbytes ? 0 : CU_ERROR_INVALID_VALUE;
    uint64_t i;

    if (!err && (k->old || !k->table))
        err = fake_check_near(c, k->near, k->old ? k->old : k->dst);
    if (!err && k->code == RT_GPU_ATOMIC_CAS)
        err = value_of(c, k->compare, k->given & RT_GPU_GIVEN_COMPARE, h.nbytes, &h.compare);
    for (i = 0; i < k->count && !err; i++)
        err = each(&h, k, i);
    return err;
}

int fake_ring_atomic(cu_ctx c, const struct rt_gpu_desc *d)
{
    size_t nbytes = nbytes_of(RT_GPU_RING_TYPE(d->fold));
    const struct rt_gpu_atomic_args k = { .type = RT_GPU_RING_TYPE(d->fold),
                                          .code = RT_GPU_RING_CODE(d->fold),
                                          .given = RT_GPU_RING_NSRC(d->fold),
                                          .near = d->near != 0,
                                          .count = nbytes ? d->len / nbytes : 0,
                                          .dst = d->dst,
                                          .src = d->more[0],
                                          .compare = d->more[1],
                                          .old = d->src };

    if (!k.count || k.count > RT_GPU_RING_CHANGES || d->dst % nbytes)
        return CU_ERROR_MISALIGNED_ADDRESS;
    return fake_run_atomic(c, &k);
}
