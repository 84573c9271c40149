/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: copies, fills and stream-ordered stores.  The fake checks at the call what the
 * real driver checks at the call (unknown device address, range beyond its allocation); an error
 * that the real driver finds when the operation runs becomes the context's error.  A copy with
 * ordinary host memory is synchronous. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "test/fake/gpu/fake.h"

/* Not memcpy: sanitizers would report this thread's accesses as races of the library. */
void fake_bytes_copy(char *dst, const char *src, size_t len)
{
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len) : : "memory");
#else
    volatile char *d = dst;

    while (len--)
        *d++ = *src++;
#endif
}

static void bytes_fill(char *dst, int c, size_t len)
{
#if defined(__x86_64__)
    __asm__ volatile("rep stosb" : "+D"(dst), "+c"(len) : "a"(c) : "memory");
#else
    volatile char *d = dst;

    while (len--)
        *d++ = (char)c;
#endif
}

struct move { /* one copy of a batch */
    uint64_t dst, src;
    size_t len;
};

/* An end of a copy: known memory, pinned, or ordinary host memory. */
struct end {
    char *p;
    struct fake_phys *pin;
    bool pageable;
};

static int end_open(struct end *e, cu_ctx c, uint64_t addr, size_t len)
{
    e->pageable = false;
    e->p = fake_pin(c, addr, len, FAKE_BY_ENGINE, &e->pin);
    if (e->p)
        return 0;
    pthread_mutex_lock(&fake.lock);
    e->pageable = !fake_is_known(addr);
    pthread_mutex_unlock(&fake.lock);
    e->p = (char *)addr;
    return e->pageable ? 0 : CU_ERROR_ILLEGAL_ADDRESS;
}

/* Copies through the kernel, so that a wrong host address is an error and not a crash of this
 * thread. */
static int copy_pageable(const struct end *dst, const struct end *src, size_t len)
{
    size_t at = 0;

    while (at < len) {
        struct iovec to = { dst->p + at, len - at }, from = { src->p + at, len - at };
        ssize_t n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

        if (n <= 0)
            return CU_ERROR_INVALID_VALUE;
        at += (size_t)n;
    }
    return 0;
}

/* With delays each copy has two steps: first the second half of each run is copied, and after a
 * while the first half. */
enum step { WHOLE, SECOND_HALF, FIRST_HALF };

static void copy_known(char *dst, const char *src, size_t len, enum step step)
{
    size_t half = step == WHOLE ? 0 : len / 2;

    if (step == FIRST_HALF)
        fake_bytes_copy(dst, src, half);
    else
        fake_bytes_copy(dst + half, src + half, len - half);
}

/* *bad: the error that the call itself returns, for a host address that does not exist. */
static int copy_part(cu_ctx c, uint64_t dst, uint64_t src, size_t len, enum step step, int *bad)
{
    struct end d = { 0 }, s = { 0 };
    int err = end_open(&d, c, dst, len);

    if (!err)
        err = end_open(&s, c, src, len);
    if (!err && (d.pageable || s.pageable))
        *bad = copy_pageable(&d, &s, len);
    else if (!err)
        copy_known(d.p, s.p, len, step);
    fake_unpin(d.pin);
    fake_unpin(s.pin);
    return err;
}

static int copy_row(cu_ctx c, const struct move *m, enum step step, int *bad)
{
    size_t at, n;
    int err = 0;

    for (at = 0; at < m->len && !err && !*bad; at += n) {
        n = fake_run(m->dst + at, fake_run(m->src + at, m->len - at));
        err = copy_part(c, m->dst + at, m->src + at, n, step, bad);
    }
    return err;
}

/* The rows of one copy, or the copies of a batch. */
static int copy_all(struct fake_op *op, enum step step, int *bad)
{
    const struct move *batch = (const struct move *)(void *)op->params;
    int err = 0;
    size_t y;

    for (y = 0; y < op->height && !err && !*bad; y++) {
        struct move row = { op->dst + y * op->dst_pitch, op->src + y * op->src_pitch, op->len };

        err = copy_row(op->stream->ctx, op->nparams ? &batch[y] : &row, step, bad);
    }
    return err;
}

#define INLINE_NBYTES (64u << 10)

static int device_of(uint64_t p)
{
    struct fake_mem *m = fake_mem_find(p);

    return m && m->kind >= FAKE_DEVICE ? m->dev : -1;
}

/* The driver copies within a device by a kernel of its own.  Short copies from the host in one
 * piece need the compute engine as well, but no room for a kernel. */
static void wait_for_room(const struct fake_op *op)
{
    pthread_mutex_lock(&fake.lock);
    int dst = op->nparams ? -1 : device_of(op->dst), src = device_of(op->src);
    bool within = dst >= 0 && dst == src;
    bool inlined = dst >= 0 && src < 0 && op->height == 1 && op->len < INLINE_NBYTES;
    pthread_mutex_unlock(&fake.lock);
    if (within || inlined)
        fake_fails("turn");
    if (within)
        fake_room_wait(dst);
}

static int run_copy(struct fake_op *op)
{
    int err = fake_fails("copy"), bad = 0;

    wait_for_room(op);
    if (!err && fake.delay_us) {
        err = copy_all(op, SECOND_HALF, &bad);
        fake_nap_us(fake.delay_us / 2);
    }
    if (!err && !bad)
        err = copy_all(op, fake.delay_us ? FIRST_HALF : WHOLE, &bad);
    if (op->result)
        *op->result = bad;
    return err;
}

/* Errors that the call itself returns; *wait: the call returns after the copy. */
static int range_check(uint64_t p, size_t len, bool *wait)
{
    struct fake_mem *m;
    int err = 0;

    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(p);
    if (m)
        err = fake_reaches(p, len) ? 0 : CU_ERROR_INVALID_VALUE;
    else if (fake_is_known(p) || !p)
        err = CU_ERROR_INVALID_VALUE;
    else
        *wait = true;
    pthread_mutex_unlock(&fake.lock);
    return err;
}

static int submit_copy(cu_stream s, uint64_t dst, size_t dst_pitch, uint64_t src, size_t src_pitch,
                       size_t width, size_t height, bool wait)
{
    struct fake_op *op;
    int err, result = 0;

    if (!width || !height)
        return 0;
    err = range_check(dst, (height - 1) * dst_pitch + width, &wait);
    if (!err)
        err = range_check(src, (height - 1) * src_pitch + width, &wait);
    if (err)
        return err;
    op = fake_op_make(run_copy, 0);
    if (op) {
        op->dst = dst;
        op->src = src;
        op->dst_pitch = dst_pitch;
        op->src_pitch = src_pitch;
        op->len = width;
        op->height = height;
        op->result = wait ? &result : NULL;
    }
    err = fake_submit(s, op);
    if (err || !wait)
        return err;
    fake_stream_wait(s, UINT64_MAX);
    return s->ctx->err ? s->ctx->err : result;
}

cu_result cuMemcpyAsync(cu_ptr dst, cu_ptr src, size_t nbytes, cu_stream s)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuMemcpyAsync", &c);

    if (!err)
        err = fake_stream_of(c, s, &s);
    return err ? err : submit_copy(s, dst, 0, src, 0, nbytes, 1, false);
}

cu_result cuMemcpy(cu_ptr dst, cu_ptr src, size_t nbytes)
{
    cu_stream s;
    cu_ctx c;
    int err = fake_enter_ctx("cuMemcpy", &c);

    if (!err)
        err = fake_stream_of(c, NULL, &s);
    return err ? err : submit_copy(s, dst, 0, src, 0, nbytes, 1, true);
}

cu_result cuMemcpy2DAsync_v2(const struct cu_copy2d *k, cu_stream s)
{
    uint64_t dst, src;
    cu_ctx c;
    int err = fake_enter_ctx("cuMemcpy2DAsync_v2", &c);

    if (!err)
        err = fake_stream_of(c, s, &s);
    if (err)
        return err;
    src = k->src_type == CU_MEMORY_HOST ? (uint64_t)(uintptr_t)k->src_host : k->src_device;
    dst = k->dst_type == CU_MEMORY_HOST ? (uint64_t)(uintptr_t)k->dst_host : k->dst_device;
    if (k->src_type > 4 || !k->src_type || k->src_type == 3 || k->dst_type > 4 || !k->dst_type ||
        k->dst_type == 3)
        return CU_ERROR_INVALID_VALUE;
    if (k->height > 1 &&
        ((k->src_pitch && k->src_pitch < k->width) || (k->dst_pitch && k->dst_pitch < k->width)))
        return CU_ERROR_INVALID_VALUE;
    return submit_copy(s, dst + k->dst_y * k->dst_pitch + k->dst_x,
                       k->dst_pitch ? k->dst_pitch : k->width,
                       src + k->src_y * k->src_pitch + k->src_x,
                       k->src_pitch ? k->src_pitch : k->width, k->width, k->height, false);
}

/* Copies that depend only on earlier work of the stream. */
cu_result cuMemcpyBatchAsync(cu_ptr *dst, cu_ptr *src, size_t *nbytes, size_t n,
                             struct cu_copy_attr *attrs, size_t *first_of_attr, size_t nattrs,
                             size_t *failed, cu_stream s)
{
    bool null = !s, wait = false;
    struct fake_op *op;
    struct move *moves;
    cu_ctx c;
    int err = fake_enter_ctx("cuMemcpyBatchAsync", &c);

    if (!err)
        err = fake_stream_of(c, s, &s);
    if (!err && (null || !n || nattrs != 1 || *first_of_attr ||
                 attrs->order != CU_COPY_ORDER_STREAM || attrs->flags))
        err = CU_ERROR_INVALID_VALUE;
    if (err)
        return err;
    for (size_t i = 0; i < n && !err; i++) {
        *failed = i;
        err = nbytes[i] ? range_check(dst[i], nbytes[i], &wait) : CU_ERROR_INVALID_VALUE;
        err = err ? err : range_check(src[i], nbytes[i], &wait);
    }
    if (err || wait) /* memory that is not pinned: not needed by the library */
        return err ? err : CU_ERROR_INVALID_VALUE;
    op = fake_op_make(run_copy, n * sizeof(*moves));
    if (op) {
        moves = (struct move *)(void *)op->params;
        for (size_t i = 0; i < n; i++)
            moves[i] = (struct move){ dst[i], src[i], nbytes[i] };
        op->height = n;
    }
    return fake_submit(s, op);
}

/* ---- fills and stores ---- */

static int run_fill(struct fake_op *op)
{
    struct fake_phys *pin;
    size_t at, n;
    char *p;

    for (at = 0; at < op->len; at += n) {
        n = fake_run(op->dst + at, op->len - at);
        p = fake_pin(op->stream->ctx, op->dst + at, n, FAKE_BY_ENGINE, &pin);
        if (!p)
            return CU_ERROR_ILLEGAL_ADDRESS;
        bytes_fill(p, (int)op->value, n);
        fake_unpin(pin);
    }
    return 0;
}

static int submit_fill(cu_stream s, cu_ptr p, unsigned char value, size_t n, bool wait)
{
    bool pageable = false;
    int err = range_check(p, n, &pageable);
    struct fake_op *op;

    if (err || pageable || !n)
        return n ? CU_ERROR_INVALID_VALUE : 0;
    op = fake_op_make(run_fill, 0);
    if (op) {
        op->dst = p;
        op->len = n;
        op->value = value;
    }
    err = fake_submit(s, op);
    if (err || !wait)
        return err;
    fake_stream_wait(s, UINT64_MAX);
    return s->ctx->err;
}

cu_result cuMemsetD8Async(cu_ptr p, unsigned char value, size_t n, cu_stream s)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuMemsetD8Async", &c);

    if (!err)
        err = fake_stream_of(c, s, &s);
    return err ? err : submit_fill(s, p, value, n, false);
}

cu_result cuMemsetD8_v2(cu_ptr p, unsigned char value, size_t n)
{
    cu_stream s;
    cu_ctx c;
    int err = fake_enter_ctx("cuMemsetD8_v2", &c);

    if (!err)
        err = fake_stream_of(c, NULL, &s);
    return err ? err : submit_fill(s, p, value, n, true);
}

static int run_store(struct fake_op *op)
{
    struct fake_phys *pin;
    char *p = fake_pin(op->stream->ctx, op->dst, 4, FAKE_BY_KERNEL, &pin);

    if (!p)
        return CU_ERROR_ILLEGAL_ADDRESS;
    __atomic_store_n((uint32_t *)(void *)p, op->value, __ATOMIC_RELEASE);
    fake_unpin(pin);
    return 0;
}

/* Sleeps soon, as a kernel that waits does (meet.c). */
static int run_wait(struct fake_op *op)
{
    struct fake_phys *pin;
    char *p = fake_pin(op->stream->ctx, op->dst, 4, FAKE_BY_ENGINE, &pin);

    if (!p)
        return CU_ERROR_ILLEGAL_ADDRESS;
    const uint32_t *word = (const uint32_t *)(void *)p;
    for (int polls = 0; (int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - op->value) < 0; polls++)
        polls < 100 ? (void)sched_yield() : fake_nap_us(50);
    fake_unpin(pin);
    return 0;
}

static int submit_word(const char *symbol, int (*run)(struct fake_op *op), cu_stream s, cu_ptr addr,
                       uint32_t value)
{
    bool pageable = false;
    struct fake_op *op;
    cu_ctx c;
    int err = fake_enter_ctx(symbol, &c);

    if (!err)
        err = fake_stream_of(c, s, &s);
    if (!err)
        err = range_check(addr, 4, &pageable);
    if (err || pageable || addr & 3)
        return err ? err : CU_ERROR_INVALID_VALUE;
    op = fake_op_make(run, 0);
    if (op) {
        op->dst = addr;
        op->value = value;
    }
    return fake_submit(s, op);
}

cu_result cuStreamWriteValue32_v2(cu_stream s, cu_ptr addr, uint32_t value, unsigned flags)
{
    (void)flags; /* 1: no memory barrier; this store has one anyway */
    return submit_word("cuStreamWriteValue32_v2", run_store, s, addr, value);
}

cu_result cuStreamWaitValue32_v2(cu_stream s, cu_ptr addr, uint32_t value, unsigned flags)
{
    return flags == CU_WAIT_VALUE_GEQ
               ? submit_word("cuStreamWaitValue32_v2", run_wait, s, addr, value)
               : CU_ERROR_INVALID_VALUE;
}
