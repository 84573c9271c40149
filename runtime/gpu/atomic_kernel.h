/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomic changes of elements, for atomic.cu and the polling kernel: sums of integers of 4 and 8
 * bytes and of doubles, replacement and compare-and-swap by the device's own instructions, all
 * others by a loop around compare-and-swap of 4 or 8 bytes.  Sums of floats use the loop, too: the
 * device's instruction treats subnormal numbers as zero, and the host does not. */
#ifndef RT_GPU_ATOMIC_KERNEL_H
#define RT_GPU_ATOMIC_KERNEL_H

#include "runtime/gpu/fold_kinds.h"
#include "runtime/gpu/move_kernels.h"
#include "runtime/gpu/ptx.h"

/* The unsigned integer whose atomic operations change a U. */
template <class U> struct atomic_word : pick_type<sizeof(U) == 8, u64, uint32_t> {
};

template <class U> __device__ __forceinline__ bool is_aligned(const U *p)
{
    return !((uintptr_t)p & (sizeof(U) - 1));
}

/* Changes an element that is not aligned, without atomicity: no other kernel may change it. */
template <class U, class F> __device__ __forceinline__ U change_bytes(U *p, F to)
{
    uint8_t *at = (uint8_t *)p;
    U was = 0;

#pragma unroll
    for (unsigned i = 0; i < sizeof(U); i++)
        was |= (U)((U)from<true>::load(at + i) << 8 * i);
    U now = to(was);
#pragma unroll
    for (unsigned i = 0; i < sizeof(U); i++)
        at[i] = (uint8_t)(now >> 8 * i);
    return was;
}

/* *p = to(*p); the value that was there.  Shorter elements lie within a word. */
template <class U, class F> __device__ __forceinline__ U change(U *p, F to)
{
    typedef typename atomic_word<U>::type W;
    constexpr bool part = sizeof(U) < sizeof(W);

    if (!is_aligned(p))
        return change_bytes(p, to);
    const unsigned shift = part ? 8 * ((uintptr_t)p & (sizeof(W) - 1)) : 0;
    W *at = (W *)((uintptr_t)p & ~(uintptr_t)(sizeof(W) - 1)), seen = atomic_load(at);
    for (;;) {
        const W was = seen, now = (W)to((U)(was >> shift));
        const W next = part ? (was & ~((W)(U) ~(U)0 << shift)) | now << shift : now;
        if (next == was || (seen = atomic_cas(at, was, next)) == was)
            return (U)(was >> shift);
    }
}

template <class U> __device__ __forceinline__ U replace(U *p, U v)
{
    return change(p, [=](U) { return v; });
}
template <class W> __device__ __forceinline__ W replace_word(W *p, W v)
{
    return is_aligned(p) ? atomic_swap(p, v) : change_bytes(p, [=](W) { return v; });
}
template <> __device__ __forceinline__ uint32_t replace(uint32_t *p, uint32_t v)
{
    return replace_word(p, v);
}
template <> __device__ __forceinline__ u64 replace(u64 *p, u64 v) { return replace_word(p, v); }

template <class U> __device__ __forceinline__ U replace_if(U *p, U expected, U v)
{
    return change(p, [=](U was) { return was == expected ? v : was; });
}
template <class W> __device__ __forceinline__ W replace_word_if(W *p, W expected, W v)
{
    return is_aligned(p) ? atomic_cas(p, expected, v)
                         : change_bytes(p, [=](W was) { return was == expected ? v : was; });
}
template <>
__device__ __forceinline__ uint32_t replace_if(uint32_t *p, uint32_t expected, uint32_t v)
{
    return replace_word_if(p, expected, v);
}
template <> __device__ __forceinline__ u64 replace_if(u64 *p, u64 expected, u64 v)
{
    return replace_word_if(p, expected, v);
}

template <class U> __device__ __forceinline__ U add(U *p, U v)
{
    return change(p, [=](U was) { return (U)(v + was); });
}
template <class W> __device__ __forceinline__ W add_word(W *p, W v)
{
    return is_aligned(p) ? atomic_add(p, v) : change_bytes(p, [=](W was) { return v + was; });
}
template <> __device__ __forceinline__ uint32_t add(uint32_t *p, uint32_t v)
{
    return add_word(p, v);
}
template <> __device__ __forceinline__ u64 add(u64 *p, u64 v) { return add_word(p, v); }

__device__ __forceinline__ u64 add_double(u64 *p, u64 v)
{
    if (is_aligned(p))
        return as<u64>(atomic_add((double *)p, as<double>(v)));
    return change_bytes(p, [=](u64 was) { return as<u64>(as<double>(v) + as<double>(was)); });
}

__device__ __forceinline__ bool is_real(unsigned type)
{
    return type >= RT_GPU_F16 && type <= RT_GPU_F64;
}

__device__ __forceinline__ bool is_signed(unsigned type)
{
    return type == RT_GPU_I8 || type == RT_GPU_I16 || type == RT_GPU_I32 || type == RT_GPU_I64;
}

/* Calls go(U(), f), where f(address of U, operand) changes an element and returns the old value. */
template <class U, class F>
__device__ __forceinline__ void each_move(unsigned code, U compare, F go)
{
    switch (code) {
    case RT_GPU_FOLD_COPY:
        go(U(), [](U *p, U v) { return replace(p, v); });
        break;
    case RT_GPU_ATOMIC_READ:
        go(U(), [](U *p, U) { return change(p, [](U was) { return was; }); });
        break;
    case RT_GPU_ATOMIC_CAS:
        go(U(), [=](U *p, U v) { return replace_if(p, compare, v); });
        break;
    }
}

template <class U, class F> __device__ __forceinline__ void each_bits(unsigned code, F go)
{
    switch (code) {
    case RT_GPU_FOLD_BAND:
        go(U(), [](U *p, U v) { return change(p, [=](U was) { return (U)(v & was); }); });
        break;
    case RT_GPU_FOLD_BOR:
        go(U(), [](U *p, U v) { return change(p, [=](U was) { return (U)(v | was); }); });
        break;
    case RT_GPU_FOLD_BXOR:
        go(U(), [](U *p, U v) { return change(p, [=](U was) { return (U)(v ^ was); }); });
        break;
    }
}

__device__ __forceinline__ bool is_bits(unsigned code)
{
    return code == RT_GPU_FOLD_BAND || code == RT_GPU_FOLD_BOR || code == RT_GPU_FOLD_BXOR;
}

__device__ __forceinline__ bool is_move(unsigned code)
{
    return code == RT_GPU_FOLD_COPY || code == RT_GPU_ATOMIC_READ || code == RT_GPU_ATOMIC_CAS;
}

template <class S, class U, class F>
__device__ __forceinline__ void each_integer(unsigned type, unsigned code, F go)
{
    if (is_bits(code))
        each_bits<U>(code, go);
    else if (code == RT_GPU_FOLD_SUM)
        go(U(), [](U *p, U v) { return add(p, v); });
    else
        each_int<S, U>(is_signed(type), code, [&](auto op) {
            go(U(), [=](U *p, U v) { return change(p, [=](U was) { return (U)op(v, was); }); });
        });
}

template <class R, class U, class F> __device__ __forceinline__ void each_float(unsigned code, F go)
{
    each_real<R, U>(code, [&](auto op) {
        go(U(), [=](U *p, U v) { return change(p, [=](U was) { return op(v, was); }); });
    });
}

template <class H, class F> __device__ __forceinline__ void each_half(unsigned code, F go)
{
    each_real<float, float>(code, [&](auto op) {
        go(uint16_t(), [=](uint16_t *p, uint16_t v) {
            return change(p, [=](uint16_t was) { return H::down(op(H::up(v), H::up(was))); });
        });
    });
}

template <class F>
__device__ __forceinline__ void each_4(unsigned type, unsigned code, u64 compare, F go)
{
    if (is_move(code))
        each_move<uint32_t>(code, (uint32_t)compare, go);
    else if (is_real(type))
        each_float<float, uint32_t>(code, go);
    else
        each_integer<int32_t, uint32_t>(type, code, go);
}

template <class F>
__device__ __forceinline__ void each_8(unsigned type, unsigned code, u64 compare, F go)
{
    if (is_move(code))
        each_move<u64>(code, compare, go);
    else if (is_real(type) && code == RT_GPU_FOLD_SUM)
        go(u64(), [](u64 *p, u64 v) { return add_double(p, v); });
    else if (is_real(type))
        each_float<double, u64>(code, go);
    else
        each_integer<int64_t, u64>(type, code, go);
}

template <class F>
__device__ __forceinline__ void each_2(unsigned type, unsigned code, u64 compare, F go)
{
    if (is_move(code))
        each_move<uint16_t>(code, (uint16_t)compare, go);
    else if (type == RT_GPU_F16)
        each_half<f16>(code, go);
    else if (type == RT_GPU_BF16)
        each_half<bf16>(code, go);
    else
        each_integer<int16_t, uint16_t>(type, code, go);
}

template <class F>
__device__ __forceinline__ void each_1(unsigned type, unsigned code, u64 compare, F go)
{
    if (is_move(code))
        each_move<uint8_t>(code, (uint8_t)compare, go);
    else
        each_integer<int8_t, uint8_t>(type, code, go);
}

/* Calls go for the change of this type. */
template <class F>
__device__ __forceinline__ void each_change(unsigned type, unsigned code, u64 compare, F go)
{
    if (type == RT_GPU_I32 || type == RT_GPU_U32 || type == RT_GPU_F32)
        each_4(type, code, compare, go);
    else if (type == RT_GPU_I64 || type == RT_GPU_U64 || type == RT_GPU_F64)
        each_8(type, code, compare, go);
    else if (type == RT_GPU_I8 || type == RT_GPU_U8)
        each_1(type, code, compare, go);
    else
        each_2(type, code, compare, go);
}

__device__ __forceinline__ unsigned atomic_nbytes(unsigned type)
{
    return type == RT_GPU_I8 || type == RT_GPU_U8                           ? 1
           : type == RT_GPU_I32 || type == RT_GPU_U32 || type == RT_GPU_F32 ? 4
           : type == RT_GPU_I64 || type == RT_GPU_U64 || type == RT_GPU_F64 ? 8
                                                                            : 2;
}

/* A value that is given, or lies at an address. */
__device__ __forceinline__ u64 value_of(u64 v, bool given, unsigned nbytes)
{
    if (given)
        return v;
    if (nbytes == 8)
        return atomic_load((const u64 *)v);
    if (nbytes == 4)
        return from<true>::load((const uint32_t *)v);
    if (nbytes == 2)
        return from<true>::load((const uint16_t *)v);
    return from<true>::load((const uint8_t *)v);
}

/* What one instruction changes, for the polling kernel: straight code, as is_plain() of
 * fold_ring.h. The ring takes only aligned elements. */
__device__ __forceinline__ bool is_instruction(unsigned type, unsigned code)
{
    unsigned nbytes = atomic_nbytes(type);

    return nbytes >= 4 && (code == RT_GPU_FOLD_COPY || code == RT_GPU_ATOMIC_CAS ||
                           (code == RT_GPU_FOLD_SUM && !is_real(type)));
}

template <class W>
__device__ __forceinline__ void instruction_from_ring(uint32_t fold, u64 dst, u64 old, u64 value,
                                                      u64 compare)
{
    const unsigned code = RT_GPU_RING_CODE(fold), given = RT_GPU_RING_NSRC(fold);
    W v = (W)value, expected = (W)compare, was;

    if (!(given & RT_GPU_GIVEN_SRC))
        v = atomic_load((const W *)value);
    if (code == RT_GPU_ATOMIC_CAS && !(given & RT_GPU_GIVEN_COMPARE))
        expected = atomic_load((const W *)compare);
    if (code == RT_GPU_ATOMIC_CAS)
        was = atomic_cas((W *)dst, expected, v);
    else if (code == RT_GPU_FOLD_COPY)
        was = atomic_swap((W *)dst, v);
    else
        was = atomic_add((W *)dst, v);
    if (old)
        *(W *)old = was;
}

/* One thread, not inlined: registers are scarce in the polling kernel. */
__device__ __noinline__ void atomic_from_ring(uint32_t fold, u64 dst, u64 old, u64 value,
                                              u64 compare)
{
    const unsigned type = RT_GPU_RING_TYPE(fold), code = RT_GPU_RING_CODE(fold);
    const unsigned given = RT_GPU_RING_NSRC(fold), nbytes = atomic_nbytes(type);
    u64 v = 0, expected = 0;

    if (code != RT_GPU_ATOMIC_READ)
        v = value_of(value, given & RT_GPU_GIVEN_SRC, nbytes);
    if (code == RT_GPU_ATOMIC_CAS)
        expected = value_of(compare, given & RT_GPU_GIVEN_COMPARE, nbytes);
    each_change(type, code, expected, [=](auto unit, auto op) {
        typedef decltype(unit) U;
        U was = op((U *)dst, (U)v);
        if (old)
            *(U *)old = was;
    });
}

#endif
