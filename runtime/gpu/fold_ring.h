/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions by the polling kernel, for move.cu.  Registers are scarce there.  So a thread moves
 * units of at most 8 bytes (16 with few sources), and one function combines them for all types:
 * shorter units are combined as if they were extended by zeros. */
#ifndef RT_GPU_FOLD_RING_H
#define RT_GPU_FOLD_RING_H

#include "runtime/gpu/fold_loop.h"
#include "runtime/gpu/fold_kinds.h"
#include "runtime/gpu/move_kernels.h"
#include "runtime/gpu/ptx.h"

struct ring_fold { /* in shared memory */
    uint64_t src[RT_GPU_RING_SOURCES], dst[RT_GPU_RING_PLACES];
    uint32_t fold, nunits; /* fold: of the descriptor */
};

/* From a descriptor, one word a lane, by one warp.  Addresses are in words 2, 4, 8, 10, 12, and
 * from 18 on. */
__device__ __forceinline__ void take_fold(struct ring_fold *f, uint32_t v)
{
    unsigned lane = threadIdx.x, word;

    word = lane < 2 ? 2 + 2 * lane : lane < RT_GPU_RING_NEAR ? 4 + 2 * lane : 8 + 2 * lane;
    word = lane < RT_GPU_RING_PLACES ? word : 0;
    uint32_t fold = __shfl_sync(EVERY_LANE, v, 1), len = __shfl_sync(EVERY_LANE, v, 6);
    uint64_t low = __shfl_sync(EVERY_LANE, v, word), high = __shfl_sync(EVERY_LANE, v, word + 1);
    uint32_t nsrc = RT_GPU_RING_NSRC(fold), first = RT_GPU_RING_SAME(fold) ? 0 : nsrc;

    if (lane < nsrc)
        f->src[lane] = low | high << 32;
    if (lane >= first && lane < first + RT_GPU_RING_NDST(fold))
        f->dst[lane - first] = low | high << 32;
    if (lane == 0) {
        uint32_t unit = RT_GPU_RING_UNIT(fold);
        f->fold = fold;
        f->nunits = len >> (unit == 16 ? 4 : (unit >> 1) - (unit >> 3)); /* else 1, 2, 4, 8 */
    }
    __syncwarp();
}

template <class K, class W, unsigned SOURCES>
__device__ __forceinline__ W combine_as(uint32_t fold, const W (&from)[SOURCES])
{
    typedef group<K, W> G;
    G first, v[SOURCES - 1][1];
    typename G::A acc[1][G::nparts];

    first.w[0] = from[0];
#pragma unroll
    for (unsigned s = 1; s < SOURCES; s++)
        v[s - 1][0].w[0] = from[s];
#pragma unroll
    for (unsigned i = 0; i < G::nparts; i++)
        acc[0][i] = K::up(first.e[i]);
    K::each(RT_GPU_RING_TYPE(fold), RT_GPU_RING_CODE(fold), [&](auto op) {
        combine<K, W, SOURCES - 1, 1>(acc, v, RT_GPU_RING_NSRC(fold) - 1, op);
    });
#pragma unroll
    for (unsigned i = 0; i < G::nparts; i++)
        first.e[i] = K::down(acc[0][i]);
    return first.w[0];
}

template <class W, unsigned SOURCES>
__device__ __forceinline__ W combine_any(uint32_t fold, const W (&v)[SOURCES])
{
    switch (RT_GPU_RING_KIND(fold)) {
    case RT_GPU_RING_4:
        return combine_as<numbers4>(fold, v);
    case RT_GPU_RING_8:
        return combine_as<numbers8>(fold, v);
    case RT_GPU_RING_F16:
        return combine_as<halves<f16>>(fold, v);
    case RT_GPU_RING_BF16:
        return combine_as<halves<bf16>>(fold, v);
    default:
        return combine_as<bits>(fold, v);
    }
}

/* Functions that are not inlined, with their arguments in registers. */
__device__ __noinline__ uint2 combine_few(uint32_t fold, uint2 v0, uint2 v1, uint2 v2, uint2 v3)
{
    return combine_any<uint2, 4>(fold, { v0, v1, v2, v3 });
}

__device__ __noinline__ uint2 combine_many(uint32_t fold, uint2 v0, uint2 v1, uint2 v2, uint2 v3,
                                           uint2 v4, uint2 v5, uint2 v6, uint2 v7)
{
    return combine_any<uint2, 8>(fold, { v0, v1, v2, v3, v4, v5, v6, v7 });
}

__device__ __noinline__ uint4 combine_two(uint32_t fold, uint4 v0, uint4 v1)
{
    return combine_any<uint4, 2>(fold, { v0, v1 });
}

__device__ __noinline__ uint4 combine_four(uint32_t fold, uint4 v0, uint4 v1, uint4 v2, uint4 v3)
{
    return combine_any<uint4, 4>(fold, { v0, v1, v2, v3 });
}

__device__ __forceinline__ uint2 combine_units(uint32_t fold, const uint2 (&v)[4])
{
    return combine_few(fold, v[0], v[1], v[2], v[3]);
}

__device__ __forceinline__ uint2 combine_units(uint32_t fold, const uint2 (&v)[8])
{
    return combine_many(fold, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
}

__device__ __forceinline__ uint2 load_unit(uint64_t at, uint32_t nbytes)
{
    uint2 v = { 0, 0 };

    if (nbytes == 8)
        v = from<true>::load((const uint2 *)at);
    else if (nbytes == 4)
        v.x = from<true>::load((const uint32_t *)at);
    else if (nbytes == 2)
        v.x = from<true>::load((const uint16_t *)at);
    else
        v.x = from<true>::load((const uint8_t *)at);
    return v;
}

__device__ __forceinline__ void store_unit(uint64_t at, uint32_t nbytes, uint2 v)
{
    if (nbytes == 8)
        *(uint2 *)at = v;
    else if (nbytes == 4)
        *(uint32_t *)at = v.x;
    else if (nbytes == 2)
        *(uint16_t *)at = (uint16_t)v.x;
    else
        *(uint8_t *)at = (uint8_t)v.x;
}

/* Units [at, end) by threads t of nt.  The threads have met at a barrier since f was written and
 * meet before it is written again; AHEAD units of all sources are in flight at a time. */
template <unsigned SOURCES, unsigned AHEAD>
__device__ __forceinline__ void fold_units(const struct ring_fold *f, uint32_t at, uint32_t end,
                                           unsigned t, unsigned nt)
{
    const uint32_t fold = f->fold, nbytes = RT_GPU_RING_UNIT(fold), nsrc = RT_GPU_RING_NSRC(fold);

#pragma unroll 1
    for (at += t; at < end; at += AHEAD * nt) {
        uint2 v[AHEAD][SOURCES];
#pragma unroll
        for (unsigned a = 0; a < AHEAD; a++)
#pragma unroll
            for (unsigned s = 0; s < SOURCES; s++) {
                v[a][s] = { 0, 0 };
                if (s < nsrc && at + a * nt < end)
                    v[a][s] = load_unit(f->src[s] + (uint64_t)(at + a * nt) * nbytes, nbytes);
            }
#pragma unroll
        for (unsigned a = 0; a < AHEAD; a++) {
            uint2 r = combine_units(fold, v[a]);
#pragma unroll 1
            for (unsigned d = 0; at + a * nt < end && d < RT_GPU_RING_NDST(fold); d++)
                store_unit(f->dst[d] + (uint64_t)(at + a * nt) * nbytes, nbytes, r);
        }
    }
}

/* The same with units of 16 bytes of one or two sources. */
template <unsigned AHEAD>
__device__ __forceinline__ void fold_wide(const struct ring_fold *f, uint32_t at, uint32_t end,
                                          unsigned t, unsigned nt)
{
    const uint32_t fold = f->fold, nsrc = RT_GPU_RING_NSRC(fold);
    const uint4 *first = (const uint4 *)f->src[0], *second = (const uint4 *)f->src[nsrc - 1];

#pragma unroll 1
    for (at += t; at < end; at += AHEAD * nt) {
        uint4 x[AHEAD], y[AHEAD];
#pragma unroll
        for (unsigned a = 0; a < AHEAD; a++) {
            x[a] = y[a] = { 0, 0, 0, 0 };
            if (at + a * nt < end)
                y[a] = from<true>::load(second + at + a * nt);
            if (at + a * nt < end && nsrc > 1)
                x[a] = from<true>::load(first + at + a * nt);
        }
#pragma unroll
        for (unsigned a = 0; a < AHEAD; a++) {
            uint4 r = nsrc > 1 ? combine_two(fold, x[a], y[a]) : y[a];
#pragma unroll 1
            for (unsigned d = 0; at + a * nt < end && d < RT_GPU_RING_NDST(fold); d++)
                ((uint4 *)f->dst[d])[at + a * nt] = r;
        }
    }
}

/* The same with three or four sources. */
template <unsigned AHEAD>
__device__ __forceinline__ void fold_four(const struct ring_fold *f, uint32_t at, uint32_t end,
                                          unsigned t, unsigned nt)
{
    const uint32_t fold = f->fold, nsrc = RT_GPU_RING_NSRC(fold);

#pragma unroll 1
    for (at += t; at < end; at += AHEAD * nt) {
        uint4 v[AHEAD][RT_GPU_RING_WIDE] = {};
#pragma unroll
        for (unsigned a = 0; a < AHEAD; a++)
#pragma unroll
            for (unsigned s = 0; s < RT_GPU_RING_WIDE; s++)
                if (s < nsrc && at + a * nt < end)
                    v[a][s] = from<true>::load((const uint4 *)f->src[s] + at + a * nt);
#pragma unroll
        for (unsigned a = 0; a < AHEAD; a++) {
            uint4 r = combine_four(fold, v[a][0], v[a][1], v[a][2], v[a][3]);
#pragma unroll 1
            for (unsigned d = 0; at + a * nt < end && d < RT_GPU_RING_NDST(fold); d++)
                ((uint4 *)f->dst[d])[at + a * nt] = r;
        }
    }
}

/* The same for RT_GPU_FOLD_EACH: units of up to PAIRS sources are in flight, AHEAD of each. */
template <class W, unsigned PAIRS, unsigned AHEAD>
__device__ __forceinline__ void copy_pairs(const struct ring_fold *f, uint32_t at, uint32_t end,
                                           unsigned t, unsigned nt)
{
    const uint32_t n = RT_GPU_RING_NSRC(f->fold);

#pragma unroll 1
    for (at += t; at < end; at += AHEAD * nt) {
        W v[PAIRS][AHEAD] = {};
#pragma unroll
        for (unsigned i = 0; i < PAIRS; i++)
#pragma unroll
            for (unsigned a = 0; a < AHEAD; a++)
                if (i < n && at + a * nt < end)
                    v[i][a] = from<true>::load((const W *)f->src[i] + at + a * nt);
#pragma unroll
        for (unsigned i = 0; i < PAIRS; i++)
#pragma unroll
            for (unsigned a = 0; a < AHEAD; a++)
                if (i < n && at + a * nt < end)
                    ((W *)f->dst[i])[at + a * nt] = v[i][a];
    }
}

__device__ __forceinline__ void fold_pairs(const struct ring_fold *f, uint32_t at, uint32_t end,
                                           unsigned t, unsigned nt)
{
    const uint32_t unit = RT_GPU_RING_UNIT(f->fold);

    if (unit == 16 && RT_GPU_RING_NSRC(f->fold) == 2)
        copy_pairs<uint4, 2, 2>(f, at, end, t, nt);
    else if (unit == 16)
        copy_pairs<uint4, RT_GPU_RING_PLACES / 2, 1>(f, at, end, t, nt);
    else if (unit == 8)
        copy_pairs<uint2, RT_GPU_RING_PLACES / 2, 1>(f, at, end, t, nt);
    else if (unit == 4)
        copy_pairs<uint32_t, RT_GPU_RING_PLACES / 2, 1>(f, at, end, t, nt);
    else if (unit == 2)
        copy_pairs<uint16_t, RT_GPU_RING_PLACES / 2, 1>(f, at, end, t, nt);
    else
        copy_pairs<uint8_t, RT_GPU_RING_PLACES / 2, 1>(f, at, end, t, nt);
}

/* An address from the descriptor in v, one word a lane. */
__device__ __forceinline__ uint64_t place_in(uint32_t v, unsigned i)
{
    unsigned word = i < 2 ? 2 + 2 * i : i < RT_GPU_RING_NEAR ? 4 + 2 * i : 8 + 2 * i;
    uint64_t low = __shfl_sync(EVERY_LANE, v, word), high = __shfl_sync(EVERY_LANE, v, word + 1);

    return low | high << 32;
}

template <unsigned SOURCES, unsigned PLACES>
__device__ __forceinline__ void fold_lanes(uint32_t v, uint32_t fold, uint32_t len)
{
    const uint32_t nbytes = RT_GPU_RING_UNIT(fold), off = threadIdx.x * nbytes;
    const uint32_t nsrc = RT_GPU_RING_NSRC(fold), first = RT_GPU_RING_SAME(fold) ? 0 : nsrc;
    const bool on = off < len;
    uint2 x[SOURCES];

#pragma unroll
    for (unsigned s = 0; s < SOURCES; s++) {
        uint64_t at = place_in(v, s) + off;
        x[s] = { 0, 0 };
        if (on && s < nsrc)
            x[s] = load_unit(at, nbytes);
    }
    uint2 r = combine_units(fold, x);
#pragma unroll
    for (unsigned i = 0; i < PLACES; i++) {
        uint64_t at = place_in(v, i) + off;
        if (on && i >= first && i < first + RT_GPU_RING_NDST(fold))
            store_unit(at, nbytes, r);
    }
}

#define PLAIN 4 /* most sources of a plain reduction */

/* The sum of the n values in x, in their order; E: elements of which one or two are a unit. */
template <class E> __device__ __forceinline__ uint2 sum_as(const uint2 (&x)[PLAIN], uint32_t n)
{
    constexpr unsigned each = sizeof(uint2) / sizeof(E);
    struct alignas(8) unit {
        E e[each];
    } acc = as<unit>(x[0]);

#pragma unroll
    for (unsigned s = 1; s < PLAIN; s++) {
        unit v = as<unit>(x[s]);
#pragma unroll
        for (unsigned i = 0; i < each; i++)
            if (s < 2 || s < n)
                acc.e[i] = acc.e[i] + v.e[i];
    }
    return as<uint2>(acc);
}

__device__ __forceinline__ uint2 sum_of(uint32_t type, const uint2 (&x)[PLAIN], uint32_t n)
{
    if (type == RT_GPU_F32)
        return sum_as<float>(x, n);
    if (type == RT_GPU_F64)
        return sum_as<double>(x, n);
    if (type == RT_GPU_I32 || type == RT_GPU_U32)
        return sum_as<uint32_t>(x, n);
    return sum_as<uint64_t>(x, n);
}

/* Most short reductions: two to four sources, in units of 4 or 8 bytes, and up to two destinations
 * of two sources, one of more.  Straight code, with sums of numbers inline: the general path takes
 * 1 us longer (H200). */
__device__ __forceinline__ bool is_plain(uint32_t fold)
{
    uint32_t nsrc = RT_GPU_RING_NSRC(fold);

    return nsrc >= 2 && nsrc <= PLAIN && RT_GPU_RING_NDST(fold) <= (nsrc == 2 ? 2 : 1) &&
           RT_GPU_RING_UNIT(fold) >= 4;
}

__device__ __forceinline__ bool is_number(uint32_t fold)
{
    return RT_GPU_RING_KIND(fold) == RT_GPU_RING_4 || RT_GPU_RING_KIND(fold) == RT_GPU_RING_8;
}

__device__ __forceinline__ uint2 unit_from(uint2 w) { return w; }
__device__ __forceinline__ uint2 unit_from(uint32_t w) { return { w, 0 }; }
__device__ __forceinline__ void unit_to(uint2 *to, uint2 v) { *to = v; }
__device__ __forceinline__ void unit_to(uint32_t *to, uint2 v) { *to = v.x; }

template <class W> __device__ __forceinline__ uint2 load_plain(uint64_t at, bool on)
{
    W w = W();

    if (on)
        w = from<true>::load((const W *)at);
    return unit_from(w);
}

/* One unit W a lane.  Places 2 and 3 are sources or destinations. */
template <class W>
__device__ __forceinline__ void fold_plain(uint32_t v, uint32_t fold, uint32_t len)
{
    const uint32_t off = threadIdx.x * (uint32_t)sizeof(W), nsrc = RT_GPU_RING_NSRC(fold);
    const bool on = off < len, same = RT_GPU_RING_SAME(fold);
    uint64_t at[PLAIN];
    uint2 x[PLAIN] = {};

    at[0] = place_in(v, 0) + off;
    at[1] = place_in(v, 1) + off;
    x[1] = load_plain<W>(at[1], on);
    x[0] = load_plain<W>(at[0], on);
    at[2] = place_in(v, 2) + off;
    at[3] = place_in(v, 3) + off;
    uint64_t to = at[2];
    if (nsrc > 2) {
        x[2] = load_plain<W>(at[2], on);
        x[3] = load_plain<W>(at[3], on && nsrc > 3);
        to = nsrc > 3 ? place_in(v, 4) + off : at[3];
    }
    uint2 r = RT_GPU_RING_CODE(fold) == RT_GPU_FOLD_SUM && is_number(fold)
                  ? sum_of(RT_GPU_RING_TYPE(fold), x, nsrc)
                  : combine_few(fold, x[0], x[1], x[2], x[3]);
    if (on) {
        unit_to((W *)(same ? at[0] : to), r);
        if (RT_GPU_RING_NDST(fold) == 2)
            unit_to((W *)(same ? at[1] : at[3]), r);
    }
}

/* Most units of a lane in copies by one warp, all in flight at once: the lanes are divided among
 * the destinations. */
#define WARP_COPY_UNITS 4

__device__ __forceinline__ bool is_copies(uint32_t fold)
{
    return RT_GPU_RING_CODE(fold) == RT_GPU_FOLD_COPY || RT_GPU_RING_CODE(fold) == RT_GPU_FOLD_EACH;
}

/* log2 of the lanes of a destination. */
__device__ __forceinline__ unsigned copy_lanes_log(uint32_t fold)
{
    uint32_t n = RT_GPU_RING_NDST(fold);

    return n <= 2 ? 6 - n : n <= 4 ? 3 : n <= 8 ? 2 : 1;
}

/* No lane stores before all have loaded: two ranges may change places. */
template <class W>
__device__ __forceinline__ void copy_lanes(uint64_t dst, uint64_t src, uint32_t nunits, unsigned at,
                                           unsigned step)
{
    W v[WARP_COPY_UNITS] = {};

#pragma unroll
    for (unsigned i = 0; i < WARP_COPY_UNITS; i++)
        if (at + i * step < nunits)
            v[i] = from<true>::load((const W *)src + at + i * step);
    __syncwarp();
#pragma unroll
    for (unsigned i = 0; i < WARP_COPY_UNITS; i++)
        if (at + i * step < nunits)
            ((W *)dst)[at + i * step] = v[i];
}

__device__ __forceinline__ void copies_by_warp(uint32_t v, uint32_t fold, uint32_t len)
{
    const unsigned log = copy_lanes_log(fold), step = 1u << log, at = threadIdx.x & (step - 1);
    const unsigned i = threadIdx.x >> log, unit = RT_GPU_RING_UNIT(fold);
    const uint32_t nsrc = RT_GPU_RING_NSRC(fold), first = RT_GPU_RING_SAME(fold) ? 0 : nsrc;
    uint64_t src = place_in(v, nsrc == 1 ? 0 : i), dst = place_in(v, first + i);
    uint32_t n = i < RT_GPU_RING_NDST(fold) ? len : 0;

    if (unit == 16)
        copy_lanes<uint4>(dst, src, n / 16, at, step);
    else if (unit == 8)
        copy_lanes<uint2>(dst, src, n / 8, at, step);
    else if (unit == 4)
        copy_lanes<uint32_t>(dst, src, n / 4, at, step);
    else if (unit == 2)
        copy_lanes<uint16_t>(dst, src, n / 2, at, step);
    else
        copy_lanes<uint8_t>(dst, src, n, at, step);
}

/* Most bytes of a reduction by one warp. */
__device__ __forceinline__ uint32_t fold_lanes_most(uint32_t fold)
{
    uint32_t unit = RT_GPU_RING_UNIT(fold);

    if (is_copies(fold))
        return unit * WARP_COPY_UNITS << copy_lanes_log(fold);
    return unit < 8 ? unit * 32 : RT_GPU_RING_SHORT;
}

/* The shortest reductions: one unit a lane, straight from the descriptor, because a warp that runs
 * alone takes about 3 ns an instruction. */
__device__ __forceinline__ void fold_by_warp(uint32_t v, uint32_t fold, uint32_t len)
{
    if (is_copies(fold))
        copies_by_warp(v, fold, len);
    else if (is_plain(fold) && RT_GPU_RING_UNIT(fold) == 4)
        fold_plain<uint32_t>(v, fold, len);
    else if (is_plain(fold))
        fold_plain<uint2>(v, fold, len);
    else if (!(fold & RT_GPU_RING_FAR) && RT_GPU_RING_NSRC(fold) <= 4)
        fold_lanes<4, RT_GPU_RING_NEAR>(v, fold, len);
    else
        fold_lanes<RT_GPU_RING_SOURCES, RT_GPU_RING_PLACES>(v, fold, len);
}

#endif
