/* SPDX-License-Identifier: BSD-3-Clause */
/* The kinds of elements that few programs reduce (fold_loop.h defines a kind): integers of 1 and 2
 * bytes, products of complex numbers, pairs.  A pair is moved whole, with the padding between its
 * parts. */
#ifndef RT_GPU_FOLD_RARE_KINDS_H
#define RT_GPU_FOLD_RARE_KINDS_H

#include "runtime/gpu/fold_int.h"
#include "runtime/gpu/kernel.h"

template <class S, class U, unsigned SIGNED> struct integers : packed<U> {
    template <class F>
    static __device__ __forceinline__ void each(unsigned type, unsigned code, F go)
    {
        each_int<S, U>(type == SIGNED, code,
                       [&](auto op) { go([&](auto x, auto y) { return in_parts<U>(x, y, op); }); });
    }
};

/* ---- pairs: of equal values the one with the smaller index ---- */

template <class P, class F> __device__ __forceinline__ void each_pair(unsigned code, F go)
{
    typedef typename P::T T;

    if (code == RT_GPU_FOLD_MAXLOC)
        go([](T x, T y) {
            return P::value(x) > P::value(y)    ? x
                   : P::value(y) > P::value(x)  ? y
                   : P::index(x) <= P::index(y) ? x
                                                : y;
        });
    else
        go([](T x, T y) {
            return P::value(x) < P::value(y)    ? x
                   : P::value(y) < P::value(x)  ? y
                   : P::index(x) <= P::index(y) ? x
                                                : y;
        });
}

__device__ __forceinline__ uint64_t low_half(uint4 v) { return v.x | (uint64_t)v.y << 32; }
__device__ __forceinline__ uint64_t high_half(uint4 v) { return v.z | (uint64_t)v.w << 32; }

template <class V, class I> struct pair8 {
    typedef uint2 T;
    static __device__ __forceinline__ V value(uint2 v) { return as<V>(v.x); }
    static __device__ __forceinline__ I index(uint2 v) { return as<I>(v.y); }
};
struct short_pair : pair8<uint32_t, int32_t> {
    static __device__ __forceinline__ int16_t value(uint2 v) { return (int16_t)v.x; }
};
template <class V> struct pair16 {
    typedef uint4 T;
    static __device__ __forceinline__ V value(uint4 v) { return as<V>(low_half(v)); }
    static __device__ __forceinline__ int32_t index(uint4 v) { return (int32_t)v.z; }
};
struct double_pair : pair16<double> {
    static __device__ __forceinline__ double index(uint4 v) { return as<double>(high_half(v)); }
};

/* ---- products of complex numbers ---- */

__device__ __forceinline__ float times(float x, float y) { return __fmul_rn(x, y); }
__device__ __forceinline__ double times(double x, double y) { return __dmul_rn(x, y); }

template <class R> struct complex {
    R re, im;
};

/* An infinite part becomes +-1, another one +-0; a NaN of the other operand +-0 (C11, annex G). */
template <class R> __device__ __forceinline__ R boxed(R v)
{
    return copysign((R)(isinf(v) ? 1 : 0), v);
}
template <class R> __device__ __forceinline__ R unnan(R v)
{
    return isnan(v) ? copysign((R)0, v) : v;
}

/* (NaN, NaN) is infinite after all if an operand or a product of parts is infinite. */
template <class R>
__device__ __noinline__ complex<R> repair(complex<R> x, complex<R> y, complex<R> r)
{
    bool again = false;

    if (isinf(x.re) || isinf(x.im)) {
        x = { boxed(x.re), boxed(x.im) };
        y = { unnan(y.re), unnan(y.im) };
        again = true;
    }
    if (isinf(y.re) || isinf(y.im)) {
        y = { boxed(y.re), boxed(y.im) };
        x = { unnan(x.re), unnan(x.im) };
        again = true;
    }
    if (!again && (isinf(times(x.re, y.re)) || isinf(times(x.im, y.im)) ||
                   isinf(times(x.re, y.im)) || isinf(times(x.im, y.re)))) {
        x = { unnan(x.re), unnan(x.im) };
        y = { unnan(y.re), unnan(y.im) };
        again = true;
    }
    if (!again)
        return r;
    const R inf = (R)INFINITY;
    return { inf * (times(x.re, y.re) - times(x.im, y.im)),
             inf * (times(x.re, y.im) + times(x.im, y.re)) };
}

/* Like the host's kernels, without fused operations. */
template <class R> __device__ __forceinline__ complex<R> product(complex<R> x, complex<R> y)
{
    complex<R> r = { times(x.re, y.re) - times(x.im, y.im), times(x.re, y.im) + times(x.im, y.re) };

    return isnan(r.re) && isnan(r.im) ? repair(x, y, r) : r;
}

/* ---- kinds ---- */

struct wide8 : plain<uint2> {
    static constexpr unsigned ahead = 2;
    typedef uint32_t W;
    template <class F>
    static __device__ __forceinline__ void each(unsigned type, unsigned code, F go)
    {
        switch (type) {
        case RT_GPU_C32:
            go([](uint2 x, uint2 y) {
                return as<uint2>(product(as<complex<float>>(x), as<complex<float>>(y)));
            });
            break;
        case RT_GPU_F32_I32:
            each_pair<pair8<float, int32_t>>(code, go);
            break;
        case RT_GPU_I32_I32:
            each_pair<pair8<int32_t, int32_t>>(code, go);
            break;
        case RT_GPU_I16_I32:
            each_pair<short_pair>(code, go);
            break;
        case RT_GPU_F32_F32:
            each_pair<pair8<float, float>>(code, go);
            break;
        }
    }
};

struct wide16 : plain<uint4> {
    static constexpr unsigned ahead = 2;
    typedef uint2 W;
    template <class F>
    static __device__ __forceinline__ void each(unsigned type, unsigned code, F go)
    {
        switch (type) {
        case RT_GPU_C64:
            go([](uint4 x, uint4 y) {
                return as<uint4>(product(as<complex<double>>(x), as<complex<double>>(y)));
            });
            break;
        case RT_GPU_F64_I32:
            each_pair<pair16<double>>(code, go);
            break;
        case RT_GPU_I64_I32:
            each_pair<pair16<int64_t>>(code, go);
            break;
        case RT_GPU_F64_F64:
            each_pair<double_pair>(code, go);
            break;
        }
    }
};

typedef integers<int8_t, uint8_t, RT_GPU_I8> integers1;
typedef integers<int16_t, uint16_t, RT_GPU_I16> integers2;

#endif
