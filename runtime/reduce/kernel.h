/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the kernel files of runtime/reduce: the loop of all kernels, and the C types behind
 * enum rt_elem.  Private to this folder. */
#ifndef RT_REDUCE_KERNEL_H
#define RT_REDUCE_KERNEL_H

#include "runtime/reduce/reduce.h"

#include <float.h>

/* `out` may equal `a` or `b`, which the vectoriser would treat as a dependence between iterations.
 * Element i depends on element i only, so the vectoriser may assume that there is none. */
#if defined(__clang__)
#define RT_REDUCE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define RT_REDUCE_LOOP _Pragma("GCC ivdep")
#endif

/* One kernel: `expr` of x (lower rank) and y.  Both are of type `type` in memory, loaded by `load`
 * as type `wide`; `store` stores the result. */
#define RT_REDUCE_ONE(attributes, name, type, wide, load, store, expr) \
    attributes static void name(const void *pa, const void *pb, void *pout, int64_t n) \
    { \
        const type *a = pa, *b = pb; \
        type *out = pout; \
        RT_REDUCE_LOOP \
        for (int64_t i = 0; i < n; i++) { \
            wide x = load(a[i]), y = load(b[i]); \
            out[i] = store(expr); \
        } \
    }

#define RT_REDUCE_KERNEL(...) RT_REDUCE_ONE(, __VA_ARGS__)

/* Each kernel of the common types exists twice on x86: with SSE2, and with AVX2, whose registers
 * are twice as wide.  TABLE(suffix) is the list of initialisers of a table of kernels. */
#if defined(__x86_64__)
#define RT_REDUCE_KERNELS(name, ...) \
    RT_REDUCE_ONE(, name, __VA_ARGS__) \
    RT_REDUCE_ONE(__attribute__((target("avx2"))), name##_avx2, __VA_ARGS__)
#define RT_REDUCE_TABLES(TABLE) \
    { \
        { TABLE() }, { TABLE(_avx2) } \
    }
static inline bool rt_reduce_has_avx2(void) { return __builtin_cpu_supports("avx2"); }
#else
#define RT_REDUCE_KERNELS(name, ...) RT_REDUCE_ONE(, name, __VA_ARGS__)
#define RT_REDUCE_TABLES(TABLE) \
    { \
        { \
            TABLE() \
        } \
    }
static inline bool rt_reduce_has_avx2(void) { return false; }
#endif

/* 16-byte types.  Packed data may have any address; with the compiler's own alignment of 16 it
 * could use instructions that fault. */
#if defined(__SIZEOF_INT128__)
#define RT_HAVE_I128 1
__extension__ typedef __int128 rt_i128 __attribute__((aligned(1)));
__extension__ typedef unsigned __int128 rt_u128 __attribute__((aligned(1)));
#else
#define RT_HAVE_I128 0
#endif
#if LDBL_MANT_DIG == 113
#define RT_HAVE_F128 1
typedef long double rt_f128 __attribute__((aligned(1)));
#elif defined(__SIZEOF_FLOAT128__)
#define RT_HAVE_F128 1
__extension__ typedef __float128 rt_f128 __attribute__((aligned(1)));
#else
#define RT_HAVE_F128 0
#endif

/* C types behind the pairs of MPI_MINLOC and MPI_MAXLOC (MPI-5.0 section 6.9.4). */
struct rt_pair_f32 {
    float v;
    int i;
};
struct rt_pair_f64 {
    double v;
    int i;
};
struct rt_pair_i64 {
    int64_t v;
    int i;
};
struct rt_pair_i32 {
    int32_t v;
    int i;
};
struct rt_pair_i16 {
    int16_t v;
    int i;
};
struct rt_pair_ldbl {
    long double v;
    int i;
};
struct rt_pair_2f32 { /* of Fortran */
    float v, i;
};
struct rt_pair_2f64 {
    double v, i;
};

/* rt_reduce_find(), with or without kernels that use AVX2. */
rt_reduce_fn *rt_reduce_find_for(enum rt_opcode op, enum rt_elem elem, bool avx2);
/* Lookup in one family; NULL: the family has no such kernel. */
rt_reduce_fn *rt_reduce_find_int(enum rt_opcode op, enum rt_elem elem, bool avx2);
rt_reduce_fn *rt_reduce_find_float(enum rt_opcode op, enum rt_elem elem, bool avx2);
rt_reduce_fn *rt_reduce_find_pair(enum rt_opcode op, enum rt_elem elem);
rt_reduce_fn *rt_reduce_find_wide(enum rt_opcode op, enum rt_elem elem);
rt_reduce_fn *rt_reduce_find_move(enum rt_opcode op, int64_t nbytes); /* replace and no-op */
/* 16-bit floats, for the complex types. */
float rt_half_load(uint16_t h);
uint16_t rt_half_store(float f);

#endif
