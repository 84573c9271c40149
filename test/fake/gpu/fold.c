/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: the kernels that reduce, on the CPU, as runtime/gpu/kernel.h describes them.
 * Written independently of runtime/reduce, so that each tests the other.  Elements go through
 * buffers in blocks: all sources of a block are read before its destinations are written. */
#include <complex.h>
#include <stdlib.h>
#include <string.h>
#include "test/fake/gpu/fake.h"

#define BLOCK 1024 /* elements */
#define WIDEST 16  /* bytes */

static float float_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    return u;
}

static float up_bf16(uint16_t h) { return float_of((uint32_t)h << 16); }

static uint16_t down_bf16(float f)
{
    uint32_t u = bits_of(f);

    if (f != f)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static float up_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;

    if (exponent == 31)
        return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent)
        return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    return float_of(sign | bits_of((float)fraction * 0x1p-24f));
}

/* Rounds to nearest, ties to even, by means of a float addition: 1.5 * 2^e + f has f's bits from
 * 2^(e-23) on. */
static uint16_t down_f16(float f)
{
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
    uint32_t exponent = mag >> 23, unit;
    float whole;

    if (f != f)
        return (uint16_t)(sign | 0x7e00);
    if (mag >= 0x47800000)
        return (uint16_t)(sign | 0x7c00);
    exponent = exponent < 113 ? 113 : exponent;
    unit = (exponent + 13) << 23; /* 2^13 times f's first bit: its last place is the half's */
    whole = float_of(mag) + float_of(unit);
    return (uint16_t)(sign | (((exponent - 113) << 10) + (bits_of(whole) - unit)));
}

/* acc = acc op v, n elements */
#define EACH(type, expr) \
    do { \
        type *acc = to; \
        const type *v = from; \
        for (i = 0; i < n; i++) { \
            type x = acc[i], y = v[i]; \
            acc[i] = (type)(expr); \
        } \
        return 0; \
    } while (0)
#define INTEGER(type, utype) \
    switch (code) { \
    case RT_GPU_FOLD_SUM: \
        EACH(utype, 1u * x + y); \
    case RT_GPU_FOLD_PROD: \
        EACH(utype, 1u * x * y); \
    case RT_GPU_FOLD_MAX: \
        EACH(type, x > y ? x : y); \
    case RT_GPU_FOLD_MIN: \
        EACH(type, x < y ? x : y); \
    case RT_GPU_FOLD_LAND: \
        EACH(type, x &&y); \
    case RT_GPU_FOLD_LOR: \
        EACH(type, x || y); \
    case RT_GPU_FOLD_LXOR: \
        EACH(type, !x != !y); \
    default: \
        return CU_ERROR_INVALID_VALUE; \
    }
#define REAL(type) \
    switch (code) { \
    case RT_GPU_FOLD_SUM: \
        EACH(type, x + y); \
    case RT_GPU_FOLD_PROD: \
        EACH(type, x *y); \
    case RT_GPU_FOLD_MAX: \
        EACH(type, x > y ? x : y); \
    case RT_GPU_FOLD_MIN: \
        EACH(type, x < y ? x : y); \
    default: \
        return CU_ERROR_INVALID_VALUE; \
    }
#define PAIR(value, index) \
    do { \
        struct { \
            value v; \
            index at; \
        } *acc = to; \
        __typeof__(acc) v = (void *)from; \
        if (code != RT_GPU_FOLD_MINLOC && code != RT_GPU_FOLD_MAXLOC) \
            return CU_ERROR_INVALID_VALUE; \
        for (i = 0; i < n; i++) { \
            bool more = acc[i].v > v[i].v, less = acc[i].v < v[i].v; \
            bool keep = code == RT_GPU_FOLD_MAXLOC ? more : less; \
            if (!keep && (more || less || !(acc[i].at <= v[i].at))) \
                acc[i] = v[i]; \
        } \
        return 0; \
    } while (0)

static int bits(unsigned type, unsigned code, void *to, const void *from, size_t n)
{
    size_t i;

    (void)type;
    switch (code) {
    case RT_GPU_FOLD_BAND:
        EACH(uint8_t, x & y);
    case RT_GPU_FOLD_BOR:
        EACH(uint8_t, x | y);
    case RT_GPU_FOLD_BXOR:
        EACH(uint8_t, x ^ y);
    default:
        return CU_ERROR_INVALID_VALUE;
    }
}

static int small(unsigned type, unsigned code, void *to, const void *from, size_t n)
{
    size_t i;

    switch (type) {
    case RT_GPU_I8:
        INTEGER(int8_t, uint8_t)
    case RT_GPU_U8:
        INTEGER(uint8_t, uint8_t)
    case RT_GPU_I16:
        INTEGER(int16_t, uint16_t)
    case RT_GPU_U16:
        INTEGER(uint16_t, uint16_t)
    case RT_GPU_F16: /* as floats: read() has converted them */
    case RT_GPU_BF16:
        REAL(float)
    default:
        return CU_ERROR_INVALID_VALUE;
    }
}

static int plain(unsigned type, unsigned code, void *to, const void *from, size_t n)
{
    size_t i;

    switch (type) {
    case RT_GPU_I32:
        INTEGER(int32_t, uint32_t)
    case RT_GPU_U32:
        INTEGER(uint32_t, uint32_t)
    case RT_GPU_F32:
        REAL(float)
    case RT_GPU_I64:
        INTEGER(int64_t, uint64_t)
    case RT_GPU_U64:
        INTEGER(uint64_t, uint64_t)
    case RT_GPU_F64:
        REAL(double)
    default:
        return CU_ERROR_INVALID_VALUE;
    }
}

static int wide(unsigned type, unsigned code, void *to, const void *from, size_t n)
{
    size_t i;

    switch (type) {
    case RT_GPU_C32:
        if (code == RT_GPU_FOLD_PROD)
            EACH(float complex, x *y);
        return CU_ERROR_INVALID_VALUE;
    case RT_GPU_C64:
        if (code == RT_GPU_FOLD_PROD)
            EACH(double complex, x *y);
        return CU_ERROR_INVALID_VALUE;
    case RT_GPU_F32_I32:
        PAIR(float, int32_t);
    case RT_GPU_I32_I32:
        PAIR(int32_t, int32_t);
    case RT_GPU_I16_I32:
        PAIR(int16_t, int32_t);
    case RT_GPU_F32_F32:
        PAIR(float, float);
    case RT_GPU_F64_I32:
        PAIR(double, int32_t);
    case RT_GPU_I64_I32:
        PAIR(int64_t, int32_t);
    case RT_GPU_F64_F64:
        PAIR(double, double);
    default:
        return CU_ERROR_INVALID_VALUE;
    }
}

/* The types of each kernel, in the order of enum fake_fold. */
static const struct {
    size_t nbytes;
    int (*fn)(unsigned type, unsigned code, void *to, const void *from, size_t n);
    uint32_t types;
} kernels[FAKE_FOLDS] = {
#define T(type) (1u << RT_GPU_##type)
    [FAKE_FOLD_BITS] = { 1, bits, T(U8) },
    [FAKE_FOLD_4] = { 4, plain, T(I32) | T(U32) | T(F32) },
    [FAKE_FOLD_8] = { 8, plain, T(I64) | T(U64) | T(F64) },
    [FAKE_FOLD_F16] = { 2, small, T(F16) },
    [FAKE_FOLD_BF16] = { 2, small, T(BF16) },
    [FAKE_FOLD_1] = { 1, small, T(I8) | T(U8) },
    [FAKE_FOLD_2] = { 2, small, T(I16) | T(U16) },
    [FAKE_FOLD_WIDE8] = { 8, wide, T(C32) | T(F32_I32) | T(I32_I32) | T(I16_I32) | T(F32_F32) },
    [FAKE_FOLD_WIDE16] = { 16, wide, T(C64) | T(F64_I32) | T(I64_I32) | T(F64_F64) },
#undef T
};

/* ---- memory ---- */

int fake_carry(cu_ctx c, uint64_t at, void *memory, size_t len, bool store)
{
    char *buf = memory;

    size_t n;

    for (; len; at += n, buf += n, len -= n) {
        struct fake_phys *pin;
        char *p;

        n = fake_run(at, len);
        p = n ? fake_pin(c, at, n, FAKE_BY_KERNEL, &pin) : NULL;
        if (!p)
            return CU_ERROR_ILLEGAL_ADDRESS;
        if (store)
            fake_bytes_copy(p, buf, n);
        else
            fake_bytes_copy(buf, p, n);
        fake_unpin(pin);
    }
    return 0;
}

struct buffers {
    _Alignas(16) char acc[BLOCK * WIDEST], v[BLOCK * WIDEST];
};

static void widen(unsigned type, char *p, size_t n)
{
    uint16_t h;
    float f;

    while (n--) { /* from the last element on, in place */
        memcpy(&h, p + n * sizeof h, sizeof h);
        f = type == RT_GPU_F16 ? up_f16(h) : up_bf16(h);
        memcpy(p + n * sizeof f, &f, sizeof f);
    }
}

static void narrow(unsigned type, const char *p, char *to, size_t n)
{
    uint16_t h;
    float f;
    size_t i;

    for (i = 0; i < n; i++) {
        memcpy(&f, p + i * sizeof f, sizeof f);
        h = type == RT_GPU_F16 ? down_f16(f) : down_bf16(f);
        memcpy(to + i * sizeof h, &h, sizeof h);
    }
}

int fake_combine(unsigned type, unsigned code, void *acc, const void *v)
{
    char x[WIDEST], y[WIDEST];
    int which = FAKE_FOLD_4, err;

    while (which < FAKE_FOLDS && !(kernels[which].types & 1u << type))
        which++;
    if (code == RT_GPU_FOLD_BAND || code == RT_GPU_FOLD_BOR || code == RT_GPU_FOLD_BXOR) {
        size_t n = which < FAKE_FOLDS ? kernels[which].nbytes : 1;
        return bits(RT_GPU_U8, code, acc, v, n);
    }
    if (which == FAKE_FOLDS)
        return CU_ERROR_INVALID_VALUE;
    memcpy(x, acc, kernels[which].nbytes);
    memcpy(y, v, kernels[which].nbytes);
    if (type == RT_GPU_F16 || type == RT_GPU_BF16) {
        widen(type, x, 1);
        widen(type, y, 1);
    }
    err = kernels[which].fn(type, code, x, y, 1);
    if (type == RT_GPU_F16 || type == RT_GPU_BF16)
        narrow(type, x, acc, 1);
    else
        memcpy(acc, x, kernels[which].nbytes);
    return err;
}

int fake_fold_rows(enum fake_fold which, const struct rt_gpu_push *k, const char *const *x,
                   char *out, size_t len)
{
    bool half = k->type == RT_GPU_F16 || k->type == RT_GPU_BF16;
    size_t n = len / kernels[which].nbytes;
    struct buffers *b;
    unsigned i;
    int err = 0;

    if (!(kernels[which].types & 1u << k->type) || len % kernels[which].nbytes ||
        len > sizeof b->acc / 2)
        return CU_ERROR_INVALID_VALUE;
    b = malloc(sizeof *b);
    if (!b)
        return CU_ERROR_OUT_OF_MEMORY;
    for (i = 0; i < k->size && !err; i++) {
        memcpy(i ? b->v : b->acc, x[i], len);
        if (half)
            widen(k->type, i ? b->v : b->acc, n);
        if (i)
            err = kernels[which].fn(k->type, k->code, b->acc, b->v, n);
    }
    if (!err && half)
        narrow(k->type, b->acc, out, n);
    else if (!err)
        memcpy(out, b->acc, len);
    free(b);
    return err;
}

/* Two ranges may be exchanged, so both are read before the first is written. */
static int block_of_each(cu_ctx c, const struct rt_gpu_fold_args *k, struct buffers *b,
                         uint64_t off, size_t len)
{
    int err = 0;
    unsigned i;

    for (i = 0; i < k->nsrc && !err; i += 2) {
        bool two = i + 1 < k->nsrc;

        err = fake_carry(c, k->src[i] + off, b->acc, len, false);
        if (!err && two)
            err = fake_carry(c, k->src[i + 1] + off, b->v, len, false);
        if (!err)
            err = fake_carry(c, k->dst[i] + off, b->acc, len, true);
        if (!err && two)
            err = fake_carry(c, k->dst[i + 1] + off, b->v, len, true);
    }
    return err;
}

static int store(cu_ctx c, const struct rt_gpu_fold_args *k, struct buffers *b, uint64_t to,
                 size_t n, size_t nbytes)
{
    char halves[BLOCK * 2];
    bool half = k->type == RT_GPU_F16 || k->type == RT_GPU_BF16;

    if (half)
        narrow(k->type, b->acc, halves, n);
    return fake_carry(c, to, half ? halves : b->acc, n * nbytes, true);
}

static int block(cu_ctx c, const struct rt_gpu_fold_args *k, enum fake_fold which,
                 struct buffers *b, uint64_t first, size_t n)
{
    size_t nbytes = kernels[which].nbytes, len = n * nbytes;
    uint64_t off = first * nbytes;
    bool half = k->type == RT_GPU_F16 || k->type == RT_GPU_BF16;
    unsigned i;
    int err;

    if (k->code == RT_GPU_FOLD_EACH)
        return block_of_each(c, k, b, off, len);
    err = fake_carry(c, k->src[0] + off, b->acc, len, false);
    if (!err && half)
        widen(k->type, b->acc, n);
    for (i = 1; i < k->nsrc && !err; i++) {
        err = fake_carry(c, k->src[i] + off, b->v, len, false);
        if (!err && half)
            widen(k->type, b->v, n);
        if (!err && k->prefixes)
            err = store(c, k, b, k->dst[i - 1] + off, n, nbytes);
        if (!err)
            err = kernels[which].fn(k->type, k->code, b->acc, b->v, n);
    }
    for (i = k->prefixes ? k->ndst - 1 : 0; i < k->ndst && !err; i++)
        err = store(c, k, b, k->dst[i] + off, n, nbytes);
    return err;
}

static bool overlap(uint64_t a, uint64_t b, uint64_t len) { return a < b + len && b < a + len; }

/* With more than two ranges no destination overlaps another range. */
static bool each_is_sound(const struct rt_gpu_fold_args *k)
{
    unsigned i, j;

    for (i = 0; i < k->ndst; i++)
        for (j = 0; j < k->ndst; j++)
            if ((j != i && overlap(k->dst[i], k->dst[j], k->count)) ||
                (k->nsrc > 2 && overlap(k->dst[i], k->src[j], k->count)))
                return false;
    return k->nsrc == k->ndst;
}

/* A destination overlaps no source but its own and the next, and these as a whole. */
static bool prefixes_are_sound(const struct rt_gpu_fold_args *k, uint64_t len)
{
    unsigned i, j;

    for (i = 0; i < k->ndst; i++)
        for (j = 0; j < k->nsrc; j++)
            if ((j != i && overlap(k->dst[i], k->dst[j], len)) ||
                (overlap(k->dst[i], k->src[j], len) &&
                 ((j != i && j != i + 1) || k->dst[i] != k->src[j])))
                return false;
    return k->nsrc == k->ndst && k->nsrc > 1;
}

/* Conditions that the host must guarantee. */
static bool is_sound(const struct rt_gpu_fold_args *k, enum fake_fold which)
{
    uint64_t differ = 0, any = 0, nbytes = kernels[which].nbytes;
    unsigned i;

    if (!(kernels[which].types & 1u << k->type) || !k->nsrc || k->nsrc > RT_GPU_FOLD_PLACES ||
        !k->ndst || k->ndst > RT_GPU_FOLD_PLACES || !k->piece || (k->nsrc == 1 && k->code))
        return false;
    if ((k->code == RT_GPU_FOLD_EACH && !each_is_sound(k)) ||
        (k->prefixes && !prefixes_are_sound(k, k->count * nbytes)))
        return false;
    for (i = 0; i < k->nsrc + k->ndst; i++) {
        uint64_t p = i < k->nsrc ? k->src[i] : k->dst[i - k->nsrc];

        differ |= p ^ k->dst[0];
        any |= p;
    }
    if (k->unit == 16 || (k->unit == 4 && nbytes < 4))
        return !(differ & (k->unit - 1)) && !(any & (nbytes - 1));
    return k->unit == 1 || (!(any & (k->unit - 1)) && k->unit <= nbytes);
}

static int run(cu_ctx c, const struct rt_gpu_fold_args *k, enum fake_fold which)
{
    struct buffers *b = malloc(sizeof *b);
    uint64_t at;
    int err = 0, i;

    if (!b)
        return CU_ERROR_OUT_OF_MEMORY;
    for (i = 0; i < k->ndst && !err; i++)
        err = fake_check_near(c, k->near, k->dst[i]);
    for (at = 0; at < k->count && !err; at += BLOCK)
        err = block(c, k, which, b, at, k->count - at < BLOCK ? (size_t)(k->count - at) : BLOCK);
    free(b);
    return err;
}

int fake_run_fold(struct fake_op *op, enum fake_fold which)
{
    const struct rt_gpu_fold_args *k = (const void *)op->params;

    return is_sound(k, which) ? run(op->stream->ctx, k, which) : CU_ERROR_MISALIGNED_ADDRESS;
}

int fake_ring_fold(cu_ctx c, const struct rt_gpu_desc *d)
{
    static const enum fake_fold which[8] = { [RT_GPU_RING_BITS] = FAKE_FOLD_BITS,
                                             [RT_GPU_RING_4] = FAKE_FOLD_4,
                                             [RT_GPU_RING_8] = FAKE_FOLD_8,
                                             [RT_GPU_RING_F16] = FAKE_FOLD_F16,
                                             [RT_GPU_RING_BF16] = FAKE_FOLD_BF16 };
    uint64_t place[RT_GPU_RING_PLACES] = { d->dst, d->src }, any = d->len;
    enum fake_fold w = which[RT_GPU_RING_KIND(d->fold)];
    unsigned unit = RT_GPU_RING_UNIT(d->fold), same = RT_GPU_RING_SAME(d->fold), i;
    struct rt_gpu_fold_args k = { .type = RT_GPU_RING_TYPE(d->fold),
                                  .code = RT_GPU_RING_CODE(d->fold),
                                  .nsrc = RT_GPU_RING_NSRC(d->fold),
                                  .ndst = RT_GPU_RING_NDST(d->fold),
                                  .count = d->len / kernels[w].nbytes,
                                  .piece = 1,
                                  .unit = 1,
                                  .near = d->near != 0 };

    memcpy(place + 2, d->more, sizeof d->more);
    if (d->fold & RT_GPU_RING_FAR)
        memcpy(place + RT_GPU_RING_NEAR, d->far, sizeof d->far);
    if ((same ? k.ndst > k.nsrc : k.nsrc + k.ndst > RT_GPU_RING_PLACES) ||
        k.nsrc > RT_GPU_RING_SOURCES)
        return CU_ERROR_ILLEGAL_ADDRESS;
    for (i = 0; i < k.nsrc; i++)
        any |= k.src[i] = place[i];
    for (i = 0; i < k.ndst; i++)
        any |= k.dst[i] = place[same ? i : k.nsrc + i];
    if (unit < kernels[w].nbytes || unit > 16 || unit & (unit - 1) || any & (unit - 1))
        return CU_ERROR_MISALIGNED_ADDRESS;
    if (unit == 16 &&
        ((k.nsrc > RT_GPU_RING_WIDE && k.code != RT_GPU_FOLD_EACH) || d->len <= RT_GPU_RING_SHORT))
        return CU_ERROR_ILLEGAL_ADDRESS;
    return is_sound(&k, w) ? run(c, &k, w) : CU_ERROR_ILLEGAL_ADDRESS;
}
