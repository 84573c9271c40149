/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction kernels for floating point and complex types.  Pure functions: any thread.  The 16-bit
 * types are widened to float, combined there and rounded once (to nearest, ties to even). */
#include "runtime/reduce/kernel.h"

#include <complex.h>
#include <string.h>

#define ID(v) (v)

static inline float f32_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t bits_of_f32(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float load_bf16(uint16_t h) { return f32_of_bits((uint32_t)h << 16); }

static inline uint16_t store_bf16(float f)
{
    uint32_t u = bits_of_f32(f);
    uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
    uint32_t quiet = u >> 16 | 0x40u; /* rounding could carry a NaN to infinity */
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* Exponent and fraction of the half, read as a float, are too small by 2^112; the product corrects
 * this and normalises subnormal halves in the same step. */
static inline float load_f16(uint16_t h)
{
    uint32_t mag = (uint32_t)(h & 0x7fffu) << 13;
    uint32_t u = bits_of_f32(f32_of_bits(mag) * 0x1p112f);
    u = mag >= 0x7c00u << 13 ? mag | 0x7f800000u : u;
    return f32_of_bits(u | (uint32_t)(h & 0x8000u) << 16);
}

static inline uint16_t store_f16(float f)
{
    uint32_t u = bits_of_f32(f), sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;
    /* Below 2^-14 the result is subnormal: one unit of 0.5f is 2^-24, so adding 0.5 rounds to the
     * last place of the half. */
    uint32_t small = bits_of_f32(f32_of_bits(mag) + 0.5f) - bits_of_f32(0.5f);
    uint32_t normal = (mag + 0xfffu + (mag >> 13 & 1) - (112u << 23)) >> 13;
    uint32_t h = mag < 113u << 23 ? small : normal;
    h = mag >= 143u << 23 ? 0x7c00u : h; /* 65536 and more; the steps above have rounded 65520 and
                                          * more up to 65536 */
    h = mag > 0x7f800000u ? 0x7e00u : h;
    return (uint16_t)(sign | h);
}

float rt_half_load(uint16_t h) { return load_f16(h); }
uint16_t rt_half_store(float f) { return store_f16(f); }

/* ---- several sources ---- */

#define WIDE_CHUNK 512 /* elements combined at a time: 2 KiB of stack */

#define WIDE(elem, load, store) \
    static void widen_##elem(const uint16_t *in, float *out, int64_t n) \
    { \
        for (int64_t i = 0; i < n; i++) \
            out[i] = load(in[i]); \
    } \
    static void narrow_##elem(const float *in, uint16_t *out, int64_t n) \
    { \
        for (int64_t i = 0; i < n; i++) \
            out[i] = store(in[i]); \
    } \
    static void combine_##elem(bool sum, const uint16_t *in, float *acc, int64_t n) \
    { \
        for (int64_t i = 0; i < n && sum; i++) \
            acc[i] += load(in[i]); \
        for (int64_t i = 0; i < n && !sum; i++) \
            acc[i] *= load(in[i]); \
    } \
    static void wide_##elem(bool sum, rt_reduce_source_fn *source, const void *arg, int nsources, \
                            uint16_t *out, int64_t n) \
    { \
        float acc[WIDE_CHUNK]; \
        for (int64_t at = 0; at < n; at += WIDE_CHUNK) { \
            int64_t len = n - at < WIDE_CHUNK ? n - at : WIDE_CHUNK; \
            widen_##elem((const uint16_t *)source(arg, 0) + at, acc, len); \
            for (int k = 1; k < nsources; k++) \
                combine_##elem(sum, (const uint16_t *)source(arg, k) + at, acc, len); \
            narrow_##elem(acc, out + at, len); \
        } \
    }
WIDE(F16, load_f16, store_f16)
WIDE(BF16, load_bf16, store_bf16)

void rt_reduce_wide(enum rt_opcode op, enum rt_elem elem, rt_reduce_source_fn *source,
                    const void *arg, int nsources, void *out, int64_t n)
{
    bool sum = op == RT_OP_SUM;
    if (elem == RT_ELEM_F16)
        wide_F16(sum, source, arg, nsources, out, n);
    else
        wide_BF16(sum, source, arg, nsources, out, n);
}

void rt_reduce_widen(enum rt_elem elem, const void *in, float *out, int64_t n)
{
    (elem == RT_ELEM_F16 ? widen_F16 : widen_BF16)(in, out, n);
}

void rt_reduce_narrow(enum rt_elem elem, const float *in, void *out, int64_t n)
{
    (elem == RT_ELEM_F16 ? narrow_F16 : narrow_BF16)(in, out, n);
}

/* ---- two sources ---- */

#define REAL(op, elem, type, expr) RT_REDUCE_KERNELS(op##_##elem, type, type, ID, ID, expr)
#define HALF(op, expr) \
    RT_REDUCE_KERNELS(op##_F16, uint16_t, float, load_f16, store_f16, expr) \
    RT_REDUCE_KERNELS(op##_BF16, uint16_t, float, load_bf16, store_bf16, expr)
#define ALL_REAL(op, expr) \
    HALF(op, expr) \
    REAL(op, F32, float, expr) REAL(op, F64, double, expr) REAL(op, LDBL, long double, expr)
#define ALL_COMPLEX(op, expr) \
    REAL(op, C32, float complex, expr) \
    REAL(op, C64, double complex, expr) REAL(op, CLDBL, long double complex, expr)

ALL_REAL(max, (x > y ? x : y))
ALL_REAL(min, (x < y ? x : y))
ALL_REAL(sum, (x + y))
ALL_REAL(prod, (x * y))
ALL_COMPLEX(sum, (x + y))
ALL_COMPLEX(prod, (x * y))

#define ROW_REAL(op, v) \
    [RT_ELEM_F16] = op##_F16##v, [RT_ELEM_BF16] = op##_BF16##v, [RT_ELEM_F32] = op##_F32##v, \
    [RT_ELEM_F64] = op##_F64##v, [RT_ELEM_LDBL] = op##_LDBL##v
#define ROW_COMPLEX(op, v) \
    [RT_ELEM_C32] = op##_C32##v, [RT_ELEM_C64] = op##_C64##v, [RT_ELEM_CLDBL] = op##_CLDBL##v
#define TABLE(v) \
    [RT_OP_MAX] = { ROW_REAL(max, v) }, [RT_OP_MIN] = { ROW_REAL(min, v) }, \
    [RT_OP_SUM] = { ROW_REAL(sum, v), ROW_COMPLEX(sum, v) }, \
    [RT_OP_PROD] = { ROW_REAL(prod, v), ROW_COMPLEX(prod, v) }

static rt_reduce_fn *const kernels[][RT_OP_COUNT][RT_ELEM_COUNT] = RT_REDUCE_TABLES(TABLE);

rt_reduce_fn *rt_reduce_find_float(enum rt_opcode op, enum rt_elem elem, bool avx2)
{
    return kernels[avx2][op][elem];
}
