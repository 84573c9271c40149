/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of the kernels that reduce, for any kind of element.  A kind K has
 *     T         an element,
 *     W         the longest word that elements are aligned to in C,
 *     E<word>   the unit that is combined at a time, of data loaded by words: mostly T,
 *     A<word>   the form of E during the operation,
 *     up, down  conversions from E to A and back,
 *     ahead     groups of 16 bytes of each of two sources that a thread has in flight,
 *     moves     supports RT_GPU_FOLD_EACH,
 *     each      calls f(operation) for the requested code, so that the choice of the operation is
 *               outside the loops over elements.
 * A thread loads its part of all sources, AHEAD groups of each, before it combines the first, then
 * stores.  With more than SOURCES sources beside the first, it loads SOURCES of them at a time. */
#ifndef RT_GPU_FOLD_LOOP_H
#define RT_GPU_FOLD_LOOP_H

#include "runtime/gpu/completion.h"
#include "runtime/gpu/fold_kernels.h"
#include "runtime/gpu/kernel.h"
#include "runtime/gpu/ptx.h"

/* Loaded as words of W, whole elements of K: one, or as many as fill W. */
template <class K, class W> struct group {
    typedef typename K::template E<W> E;
    typedef typename K::template A<W> A;
    static constexpr unsigned nbytes = sizeof(W) > sizeof(typename K::T) ? sizeof(W)
                                                                         : sizeof(typename K::T);
    static constexpr unsigned nelems = nbytes / sizeof(typename K::T);
    static constexpr unsigned nwords = nbytes / sizeof(W), nparts = nbytes / sizeof(E);
    union {
        W w[nwords];
        E e[nparts];
    };
    __device__ __forceinline__ group() {}
    /* Before a conditional load: without it the compiler keeps the registers' last contents alive
     * through all enclosing loops. */
    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (unsigned i = 0; i < nwords; i++)
            w[i] = W();
    }
};

template <bool stays, class K, class W>
__device__ __forceinline__ void load_group(group<K, W> &v, uint64_t at)
{
#pragma unroll
    for (unsigned i = 0; i < v.nwords; i++)
        v.w[i] = from<stays>::load((const W *)at + i);
}

template <class K, class W, unsigned AHEAD>
__device__ __forceinline__ void store_groups(const group<K, W> (&v)[AHEAD], uint64_t at,
                                             uint64_t step, const bool (&on)[AHEAD])
{
#pragma unroll
    for (unsigned a = 0; a < AHEAD; a++)
#pragma unroll
        for (unsigned i = 0; i < group<K, W>::nwords; i++)
            if (on[a])
                ((W *)(at + a * step))[i] = v[a].w[i];
}

/* acc = acc op v, for the sources that exist. */
template <class K, class W, unsigned SOURCES, unsigned AHEAD, class OP>
__device__ __forceinline__ void combine(typename group<K, W>::A (&acc)[AHEAD][group<K, W>::nparts],
                                        const group<K, W> (&v)[SOURCES][AHEAD], unsigned n, OP op)
{
#pragma unroll
    for (unsigned s = 0; s < SOURCES; s++) {
        if (s >= n)
            return;
#pragma unroll
        for (unsigned a = 0; a < AHEAD; a++)
#pragma unroll
            for (unsigned i = 0; i < group<K, W>::nparts; i++)
                acc[a][i] = op(acc[a][i], K::up(v[s][a].e[i]));
    }
}

template <class K, class W, unsigned AHEAD>
__device__ __forceinline__ void
round_down(group<K, W> (&v)[AHEAD],
           const typename group<K, W>::A (&acc)[AHEAD][group<K, W>::nparts])
{
#pragma unroll
    for (unsigned a = 0; a < AHEAD; a++)
#pragma unroll
        for (unsigned i = 0; i < group<K, W>::nparts; i++)
            v[a].e[i] = K::down(acc[a][i]);
}

/* Groups at bytes off + a * step of every source, for those `on`.  For prefixes SOURCES is 1. */
template <bool stays, class K, class W, unsigned SOURCES, unsigned AHEAD>
__device__ __forceinline__ void fold_groups(const struct rt_gpu_fold_args &f, uint64_t off,
                                            uint64_t step, const bool (&on)[AHEAD])
{
    typename group<K, W>::A acc[AHEAD][group<K, W>::nparts];
    group<K, W> first[AHEAD], v[SOURCES][AHEAD];

#pragma unroll
    for (unsigned a = 0; a < AHEAD; a++) {
        first[a].clear();
        if (on[a])
            load_group<stays>(first[a], f.src[0] + off + a * step);
    }
#pragma unroll 1
    for (unsigned done = 1; done < f.nsrc || done == 1; done += SOURCES) {
        const unsigned n = f.nsrc - done;
#pragma unroll
        for (unsigned s = 0; s < SOURCES; s++)
#pragma unroll
            for (unsigned a = 0; a < AHEAD; a++) {
                v[s][a].clear();
                if (s < n && on[a])
                    load_group<stays>(v[s][a], f.src[done + s] + off + a * step);
            }
        if (K::moves && f.code == RT_GPU_FOLD_EACH) {
            if (done == 1)
                store_groups(first, f.dst[0] + off, step, on);
#pragma unroll
            for (unsigned s = 0; s < SOURCES; s++)
                if (s < n)
                    store_groups(v[s], f.dst[done + s] + off, step, on);
            continue;
        }
        if (done == 1)
#pragma unroll
            for (unsigned a = 0; a < AHEAD; a++)
#pragma unroll
                for (unsigned i = 0; i < group<K, W>::nparts; i++)
                    acc[a][i] = K::up(first[a].e[i]);
        if (SOURCES == 1 && f.prefixes) { /* the loaded source may lie at this destination */
            loads_end();
            round_down<K, W>(first, acc);
            store_groups(first, f.dst[done - 1] + off, step, on);
        }
        K::each(f.type, f.code, [&](auto op) { combine<K, W, SOURCES, AHEAD>(acc, v, n, op); });
    }
    if (K::moves && f.code == RT_GPU_FOLD_EACH)
        return;
    round_down<K, W>(first, acc);
#pragma unroll 1
    for (unsigned d = SOURCES == 1 && f.prefixes ? f.ndst - 1u : 0; d < f.ndst; d++)
        store_groups(first, f.dst[d] + off, step, on);
}

/* The threads that work: thread t of nt, of one of the blocks. */
struct share {
    unsigned t, nt, block, nblocks;
};

/* Number of elements before the first whole unit. */
template <class K> __device__ __forceinline__ uint64_t head_of(const struct rt_gpu_fold_args &f)
{
    constexpr unsigned nbytes = sizeof(typename K::T);
    unsigned head = f.unit > nbytes ? (-(uint32_t)f.dst[0] & (f.unit - 1u)) / nbytes : 0;

    return head < f.count ? head : f.count;
}

/* The elements before and behind the whole units, at most 30: one for each lane of the last warp of
 * the last block, which has the least work. */
template <bool stays, class K>
__device__ __forceinline__ void fold_edge(const struct rt_gpu_fold_args &f, struct share w,
                                          uint64_t head)
{
    constexpr unsigned nbytes = sizeof(typename K::T);
    unsigned lane = w.t - (w.nt - 32);
    unsigned behind = (unsigned)(f.count - head) * nbytes & (f.unit - 1u);
    unsigned ntail = f.unit > nbytes ? behind / nbytes : 0;
    uint64_t at = lane < head ? lane : f.count - ntail + (lane - head);
    const bool on[1] = { true };

    if (w.block != w.nblocks - 1 || w.t < w.nt - 32 || lane >= head + ntail)
        return;
    at *= nbytes;
    if (f.prefixes)
        fold_groups<stays, K, typename K::W, 1, 1>(f, at, 0, on);
    else
        fold_groups<stays, K, typename K::W, WEFT_FOLD_SOURCES, 1>(f, at, 0, on);
}

/* The whole units from element `head` on. */
template <bool stays, class K, class W, unsigned SOURCES, unsigned AHEAD>
__device__ __forceinline__ void fold_as(const struct rt_gpu_fold_args &f, struct share w,
                                        uint64_t head)
{
    typedef group<K, W> G;
    constexpr unsigned nbytes = sizeof(typename K::T);
    const uint64_t ngroups = (f.count - head) / G::nelems;

    for (uint64_t p = (uint64_t)w.block * f.piece; p < ngroups;
         p += (uint64_t)w.nblocks * f.piece) {
        uint32_t n = ngroups - p < f.piece ? (uint32_t)(ngroups - p) : f.piece;
#pragma unroll 1
        for (uint32_t i = w.t; i < n; i += AHEAD * w.nt) {
            bool on[AHEAD];
#pragma unroll
            for (unsigned a = 0; a < AHEAD; a++)
                on[a] = i + a * w.nt < n;
            fold_groups<stays, K, W, SOURCES, AHEAD>(f, head * nbytes + (p + i) * G::nbytes,
                                                     (uint64_t)w.nt * G::nbytes, on);
        }
    }
}

/* A round trip over a link takes longer than all the rest, so all sources are loaded at once.  For
 * prefixes, which are long, groups of one source are loaded after another's. */
template <class K, class W, unsigned AHEAD>
__device__ __forceinline__ void fold_by(const struct rt_gpu_fold_args &f, struct share w,
                                        uint64_t head)
{
    if (f.nsrc <= 2 || f.prefixes)
        fold_as<false, K, W, 1, AHEAD>(f, w, head);
    else
        fold_as<false, K, W, WEFT_FOLD_SOURCES, 1>(f, w, head);
}

/* The whole kernel. */
template <class K> __device__ __forceinline__ void fold(const struct rt_gpu_fold_args &f)
{
    struct share w = { threadIdx.x, blockDim.x, blockIdx.x, gridDim.x };
    uint64_t head = head_of<K>(f);

    if (sizeof(typename K::T) < 16) /* longer elements are all in whole units */
        fold_edge<false, K>(f, w, head);
    if (f.unit == 16)
        fold_by<K, uint4, K::ahead>(f, w, head);
    else if (sizeof(typename K::T) < 4 && f.unit == 4)
        fold_by<K, uint32_t, WEFT_FOLD_AHEAD>(f, w, head);
    else if (f.unit == sizeof(typename K::W))
        fold_by<K, typename K::W, WEFT_FOLD_AHEAD>(f, w, head);
    else
        fold_as<false, K, uint8_t, 1, 1>(f, w, 0);
    notify_end(f.flag, f.value, f.counter, f.near);
}

#define FOLD_KERNEL(name, K) \
    extern "C" __global__ void __launch_bounds__(WEFT_FOLD_THREADS, WEFT_FOLD_BLOCKS_SM) \
        name(const __grid_constant__ struct rt_gpu_fold_args f) \
    { \
        fold<K>(f); \
    }

#endif
