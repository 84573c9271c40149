/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel files of runtime/reduce share: the loop that all kernels are, and the C types
 * behind enum rt_elem. Private to this folder. */
#ifndef RT_REDUCE_KERNEL_H
#define RT_REDUCE_KERNEL_H

#include "runtime/reduce/reduce.h"

/* `out` may be `a` or `b`, which the vectoriser must take for a carried dependence; element i only
 * ever depends on element i, so it may assume there is none. */
#if defined(__clang__)
#define RT_REDUCE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define RT_REDUCE_LOOP _Pragma("GCC ivdep")
#endif

/* One kernel: `expr` of x (lower rank) and y, both loaded by `load` as type `wide` and stored by
 * `store` as type `type`. */
#define RT_REDUCE_KERNEL(name, type, wide, load, store, expr) \
    static void name(const void *pa, const void *pb, void *pout, int64_t n) \
    { \
        const type *a = pa, *b = pb; \
        type *out = pout; \
        RT_REDUCE_LOOP \
        for (int64_t i = 0; i < n; i++) { \
            wide x = load(a[i]), y = load(b[i]); \
            out[i] = store(expr); \
        } \
    }

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
struct rt_pair_2f32 { /* Fortran's */
    float v, i;
};
struct rt_pair_2f64 {
    double v, i;
};

/* Look-ups of one family each; NULL when the family has no such kernel. */
rt_reduce_fn *rt_reduce_find_int(enum rt_opcode op, enum rt_elem elem);
rt_reduce_fn *rt_reduce_find_float(enum rt_opcode op, enum rt_elem elem);
rt_reduce_fn *rt_reduce_find_pair(enum rt_opcode op, enum rt_elem elem);

#endif
