/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of elements that most programs reduce (fold_loop.h defines a kind).  x is the operand
 * of the lower rank.  The bits equal those of the host's kernels, except the bits of a NaN. */
#ifndef RT_GPU_FOLD_KINDS_H
#define RT_GPU_FOLD_KINDS_H

#include "runtime/gpu/fold_int.h"
#include "runtime/gpu/ptx.h"

struct bits : packed<uint8_t> {
    static constexpr bool moves = true;
    template <class F>
    static __device__ __forceinline__ void each(unsigned type, unsigned code, F go)
    {
        switch (code) {
        case RT_GPU_FOLD_BAND:
            go([](auto x, auto y) { return x & y; });
            break;
        case RT_GPU_FOLD_BOR:
            go([](auto x, auto y) { return x | y; });
            break;
        case RT_GPU_FOLD_BXOR:
            go([](auto x, auto y) { return x ^ y; });
            break;
        }
    }
};

/* Floats R with the bits of T. */
template <class R, class T, class F> __device__ __forceinline__ void each_real(unsigned code, F go)
{
    switch (code) {
    case RT_GPU_FOLD_SUM:
        go([](T x, T y) { return as<T>(as<R>(x) + as<R>(y)); });
        break;
    case RT_GPU_FOLD_PROD:
        go([](T x, T y) { return as<T>(as<R>(x) * as<R>(y)); });
        break;
    case RT_GPU_FOLD_MAX:
        go([](T x, T y) { return as<R>(x) > as<R>(y) ? x : y; });
        break;
    case RT_GPU_FOLD_MIN:
        go([](T x, T y) { return as<R>(x) < as<R>(y) ? x : y; });
        break;
    }
}

/* Integers and floats of one size. */
template <class S, class U, class R, unsigned SIGNED, unsigned REAL> struct numbers : plain<U> {
    template <class F>
    static __device__ __forceinline__ void each(unsigned type, unsigned code, F go)
    {
        if (type == REAL)
            each_real<R, U>(code, go);
        else
            each_int<S, U>(type == SIGNED, code, go);
    }
};

struct f16 {
    static __device__ __forceinline__ float up(uint16_t h) { return float_of_f16(h); }
    static __device__ __forceinline__ uint16_t down(float f) { return f16_of_float(f); }
};

struct bf16 {
    static __device__ __forceinline__ float up(uint16_t h) { return as<float>((uint32_t)h << 16); }
    static __device__ __forceinline__ uint16_t down(float f) { return bf16_of_float(f); }
};

template <class H> struct halves : H {
    static constexpr bool moves = false;
    static constexpr unsigned ahead = 2;
    typedef uint16_t T, W;
    template <class word> using E = uint16_t;
    template <class word> using A = float;
    template <class F>
    static __device__ __forceinline__ void each(unsigned type, unsigned code, F go)
    {
        each_real<float, float>(code, go);
    }
};

typedef numbers<int32_t, uint32_t, float, RT_GPU_I32, RT_GPU_F32> numbers4;
typedef numbers<int64_t, uint64_t, double, RT_GPU_I64, RT_GPU_F64> numbers8;

#endif
