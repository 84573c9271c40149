/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on integers, and what kinds of elements have in common (fold_loop.h defines a kind).
 * Operations that do not depend on the sign are done unsigned: the bits are the same, and overflow
 * is defined. */
#ifndef RT_GPU_FOLD_INT_H
#define RT_GPU_FOLD_INT_H

#include "runtime/gpu/fold_kernels.h"
#include "runtime/gpu/kernel.h"
#include <stdint.h>

template <bool first, class A, class B> struct pick_type {
    typedef A type;
};
template <class A, class B> struct pick_type<false, A, B> {
    typedef B type;
};
/* A if words are at least as long, else B. */
template <class word, class A, class B> struct larger : pick_type<sizeof(word) >= sizeof(A), A, B> {
};

/* The same bits as another type. */
template <class TO, class FROM> __device__ __forceinline__ TO as(FROM v)
{
    static_assert(sizeof(TO) == sizeof(FROM), "the same bits");
    TO r;
    memcpy(&r, &v, sizeof r);
    return r;
}

/* Elements that are combined in the form in which they are loaded. */
template <class V> struct plain {
    static constexpr bool moves = false;
    static constexpr unsigned ahead = WEFT_FOLD_AHEAD;
    typedef V T;
    typedef typename pick_type<sizeof(V) == 8, uint2, V>::type W;
    template <class word> using E = V;
    template <class word> using A = V;
    static __device__ __forceinline__ V up(V v) { return v; }
    static __device__ __forceinline__ V down(V v) { return v; }
};

template <class V, class U, class F> __device__ __forceinline__ void each_order(unsigned code, F go)
{
    if (code == RT_GPU_FOLD_MAX)
        go([](U x, U y) { return (V)x > (V)y ? x : y; });
    else
        go([](U x, U y) { return (V)x < (V)y ? x : y; });
}

/* Integers of the signed type S and the unsigned one U, held as U. */
template <class S, class U, class F>
__device__ __forceinline__ void each_int(bool is_signed, unsigned code, F go)
{
    switch (code) {
    case RT_GPU_FOLD_SUM:
        go([](U x, U y) { return (U)(1u * x + y); }); /* 1u: nothing is promoted to int */
        break;
    case RT_GPU_FOLD_PROD:
        go([](U x, U y) { return (U)(1u * x * y); });
        break;
    case RT_GPU_FOLD_MAX:
    case RT_GPU_FOLD_MIN:
        if (is_signed)
            each_order<S, U>(code, go);
        else
            each_order<U, U>(code, go);
        break;
    case RT_GPU_FOLD_LAND:
        go([](U x, U y) { return (U)(x && y); });
        break;
    case RT_GPU_FOLD_LOR:
        go([](U x, U y) { return (U)(x || y); });
        break;
    case RT_GPU_FOLD_LXOR:
        go([](U x, U y) { return (U)(!x != !y); });
        break;
    }
}

/* Elements shorter than a register stay packed: four or two of them are combined at a time, or one
 * that was loaded alone. */
template <class U, class OP>
__device__ __forceinline__ uint32_t in_parts(uint32_t x, uint32_t y, OP op)
{
    constexpr unsigned nbits = 8 * sizeof(U);
    uint32_t r = 0;

#pragma unroll
    for (unsigned i = 0; i < 32; i += nbits)
        r |= (uint32_t)op((U)(x >> i), (U)(y >> i)) << i;
    return r;
}

template <class U, class OP> __device__ __forceinline__ U in_parts(U x, U y, OP op)
{
    return op(x, y);
}

template <class U> struct packed {
    static constexpr bool moves = false;
    static constexpr unsigned ahead = WEFT_FOLD_AHEAD;
    typedef U T, W;
    template <class word> using E = typename larger<word, uint32_t, U>::type;
    template <class word> using A = E<word>;
    template <class V> static __device__ __forceinline__ V up(V v) { return v; }
    template <class V> static __device__ __forceinline__ V down(V v) { return v; }
};

#endif
