/* SPDX-License-Identifier: BSD-3-Clause */
/* Short collectives and messages of streams: kernels that store their data into the inboxes of
 * other devices, with flags in the data.  push_kernels.h has the contract and the proofs. */
#include "runtime/gpu/push_kernels.h"
#include "runtime/gpu/fold_loop.h"
#include "runtime/gpu/fold_kinds.h"
#include "runtime/gpu/fold_rare_kinds.h"
#include <stddef.h>

/* A thread that waits looks for the end of waiting once in this many polls; the host's word lies
 * across PCIe. */
#define LOOK_POISON 32u
#define LOOK_ABORT 1024u
#define NAP_POLLS 512u /* from then on it sleeps between polls */

/* At the first two of so many calls a kernel renews the numbers in its slot. */
#define RENEW_CALLS 0x80000000u

struct place { /* of a launch */
    uint32_t number;
    unsigned slot, thread, nthreads;
};

__device__ __forceinline__ const struct rt_gpu_push_rank &own(const struct rt_gpu_push &p)
{
    return p.of[p.rank];
}

/* Where the words from `from` to `to` begin. */
__device__ __forceinline__ uint64_t region(const struct rt_gpu_push &p, unsigned slot,
                                           unsigned from, unsigned to)
{
    return p.of[to].inbox + (uint64_t)slot * p.slot +
           (uint64_t)(from < to ? from : from - 1) * p.stride;
}

__device__ __forceinline__ uint64_t mark(const struct rt_gpu_push &p, unsigned slot, unsigned from,
                                         unsigned to)
{
    return p.of[to].marks + 8 * (RT_GPU_PUSH_RANKS * slot + from);
}

/* ---- the user's data ---- */

/* Up to a group, with zeros behind. */
__device__ __forceinline__ uint4 load_data(uint64_t at, unsigned n)
{
    union {
        uint4 v;
        uint2 half[2];
        uint32_t w[4];
    } u;

    if (n == 16 && !(at & 15))
        return from<false>::load((const uint4 *)at);
    if (n == 16 && !(at & 7)) {
        u.half[0] = from<false>::load((const uint2 *)at);
        u.half[1] = from<false>::load((const uint2 *)at + 1);
        return u.v;
    }
    u.w[0] = u.w[1] = u.w[2] = u.w[3] = 0;
    if (!((at | n) & 3)) {
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            if (4 * i < n)
                u.w[i] = from<false>::load((const uint32_t *)at + i);
        return u.v;
    }
#pragma unroll
    for (unsigned i = 0; i < 16; i++)
        if (i < n)
            u.w[i / 4] |= (uint32_t)from<false>::load((const uint8_t *)at + i) << (8 * (i & 3));
    return u.v;
}

__device__ __forceinline__ void store_data(uint64_t at, uint4 v, unsigned n)
{
    const uint32_t w[4] = { v.x, v.y, v.z, v.w };

    if (n == 16 && !(at & 15)) {
        *(uint4 *)at = v;
    } else if (!((at | n) & 3)) {
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            if (4 * i < n)
                ((uint32_t *)at)[i] = w[i];
    } else {
#pragma unroll
        for (unsigned i = 0; i < 16; i++)
            if (i < n)
                ((uint8_t *)at)[i] = (uint8_t)(w[i / 4] >> (8 * (i & 3)));
    }
}

/* ---- groups in an inbox ---- */

__device__ __forceinline__ void store_group(uint64_t at, uint4 v, uint32_t number)
{
    const u64 flag = (u64)number << 32;

    store_words((u64 *)at, flag | v.x, flag | v.y);
    store_words((u64 *)at + 2, flag | v.z, flag | v.w);
}

struct words4 {
    u64 w[4];
};

__device__ __forceinline__ struct words4 load_group(uint64_t at)
{
    struct words4 r;

    load_words((const u64 *)at, r.w[0], r.w[1]);
    load_words((const u64 *)at + 2, r.w[2], r.w[3]);
    return r;
}

__device__ __forceinline__ bool is_there(const struct words4 &g, uint32_t number)
{
    return (uint32_t)(g.w[0] >> 32) == number && (uint32_t)(g.w[1] >> 32) == number &&
           (uint32_t)(g.w[2] >> 32) == number && (uint32_t)(g.w[3] >> 32) == number;
}

__device__ __forceinline__ uint4 data_of(const struct words4 &g)
{
    uint4 v;

    v.x = (uint32_t)g.w[0];
    v.y = (uint32_t)g.w[1];
    v.z = (uint32_t)g.w[2];
    v.w = (uint32_t)g.w[3];
    return v;
}

/* ---- waiting ---- */

__device__ __forceinline__ uint64_t poison_word(const struct rt_gpu_push &p)
{
    return own(p).poison;
}

__device__ __forceinline__ uint64_t poison_word(const struct rt_gpu_message &m) { return m.poison; }

/* Whether a thread that has polled so often must stop. */
template <class P> __device__ __forceinline__ bool must_stop(const P &p, uint32_t polls)
{
    if (polls % LOOK_POISON == 0 && from<true>::load((const uint32_t *)poison_word(p)))
        return true;
    if (polls % LOOK_ABORT == 0 &&
        from<true>::load((const uint32_t *)(p.words + offsetof(struct rt_gpu_meet_words, abort)))) {
        host_store(poison_word(p), 1); /* for the other threads */
        return true;
    }
    if (polls > NAP_POLLS)
        __nanosleep(200);
    return false;
}

/* `g` has been loaded once. */
template <class P>
__device__ __forceinline__ bool await_group(const P &p, uint64_t at, uint32_t number,
                                            struct words4 &g)
{
    for (uint32_t polls = 1; !is_there(g, number); polls++) {
        if (must_stop(p, polls))
            return false;
        g = load_group(at);
    }
    return true;
}

/* Another signature makes the waiting threads of this rank stop, too: their data may not come. */
__device__ __forceinline__ bool await_mark(const struct rt_gpu_push &p, struct place l,
                                           unsigned from)
{
    const uint64_t at = mark(p, l.slot, from, p.rank);

    for (uint32_t polls = 1;; polls++) {
        u64 m = load_word64((const u64 *)at);

        if ((uint32_t)(m >> 32) == l.number) {
            if ((uint32_t)m == RT_GPU_PUSH_SIGNATURE(&p, p.of[from].receive))
                return true;
            host_store(p.words + offsetof(struct rt_gpu_meet_words, differs), from + 1);
            host_store(own(p).poison, 1);
            return false;
        }
        if (must_stop(p, polls))
            return false;
    }
}

/* ---- kinds of calls ---- */

/* A thread stores its groups to all ranks before it stores the result there, because the result may
 * replace them. */
__device__ __forceinline__ void push_to_all(const struct rt_gpu_push &p, struct place l)
{
    const unsigned ngroups = p.stride / RT_GPU_PUSH_ROOM;

    for (unsigned g = l.thread; g < ngroups; g += l.nthreads) {
        const uint32_t off = g * RT_GPU_PUSH_GROUP;
        uint64_t loaded = 0;
        unsigned loaded_n = 0;
        uint4 v = uint4();

        for (unsigned d = 0; d < p.size; d++) {
            const struct rt_gpu_push_rank &to = p.of[d];
            if (d == p.rank || off >= to.send)
                continue;
            unsigned n = to.send - off < 16 ? to.send - off : 16;
            if (loaded != to.src + off || loaded_n != n)
                v = load_data(to.src + off, n);
            loaded = to.src + off;
            loaded_n = n;
            store_group(region(p, l.slot, p.rank, d) + g * RT_GPU_PUSH_ROOM, v, l.number);
        }
    }
}

__device__ __forceinline__ unsigned next_other(const struct rt_gpu_push &p, unsigned r)
{
    return r + 1 == p.rank ? r + 2 : r + 1;
}

/* One group of the result.  The next rank's words are under way while this rank's are combined. */
template <class K>
__device__ __forceinline__ bool fold_group(const struct rt_gpu_push &p, struct place l, unsigned g)
{
    typedef group<K, uint4> G;
    typename G::A acc[1][G::nparts];
    G v[1][1];
    const uint32_t off = g * RT_GPU_PUSH_GROUP;
    const unsigned n = own(p).receive - off < 16 ? own(p).receive - off : 16;
    unsigned next = p.rank == 0 ? 1 : 0;
    struct words4 ahead = { { 0, 0, 0, 0 } };

    if (next < p.size)
        ahead = load_group(region(p, l.slot, next, p.rank) + g * RT_GPU_PUSH_ROOM);
#pragma unroll 1
    for (unsigned r = 0; r < p.size; r++) {
        if (r == p.rank) {
            v[0][0].w[0] = load_data(own(p).src + off, n);
        } else {
            struct words4 words = ahead;
            next = next_other(p, r);
            if (next < p.size)
                ahead = load_group(region(p, l.slot, next, p.rank) + g * RT_GPU_PUSH_ROOM);
            if (!await_group(p, region(p, l.slot, r, p.rank) + g * RT_GPU_PUSH_ROOM, l.number,
                             words))
                return false;
            v[0][0].w[0] = data_of(words);
        }
        if (r == 0) {
#pragma unroll
            for (unsigned i = 0; i < G::nparts; i++)
                acc[0][i] = K::up(v[0][0].e[i]);
        } else {
            K::each(p.type, p.code, [&](auto op) { combine<K, uint4, 1, 1>(acc, v, 1, op); });
        }
    }
    round_down<K, uint4>(v[0], acc);
    store_data(own(p).dst + off, v[0][0].w[0], n);
    return true;
}

template <class K>
__device__ __forceinline__ bool fold_all(const struct rt_gpu_push &p, struct place l)
{
    for (unsigned g = l.thread; g * RT_GPU_PUSH_GROUP < own(p).receive; g += l.nthreads)
        if (!fold_group<K>(p, l, g))
            return false;
    return true;
}

/* Pairs of a partner and a group, in the same order on both sides: the k-th partner of rank r is
 * rank k - r, modulo the number of ranks, whose k-th partner is r. */
__device__ __forceinline__ unsigned partner(const struct rt_gpu_push &p, unsigned k)
{
    return k >= p.rank ? k - p.rank : k + p.size - p.rank;
}

__device__ __forceinline__ void push_each(const struct rt_gpu_push &p, struct place l)
{
    const unsigned ngroups = p.stride / RT_GPU_PUSH_ROOM;

    for (unsigned i = l.thread; i < p.size * ngroups; i += l.nthreads) {
        const unsigned d = partner(p, i / ngroups), g = i % ngroups, off = g * RT_GPU_PUSH_GROUP;
        const struct rt_gpu_push_rank &to = p.of[d];

        if (off >= to.send)
            continue;
        const unsigned n = to.send - off < 16 ? to.send - off : 16;
        const uint4 v = load_data(to.src + off, n);
        if (d != p.rank)
            store_group(region(p, l.slot, p.rank, d) + g * RT_GPU_PUSH_ROOM, v, l.number);
        else if (to.src != to.dst)
            store_data(to.dst + off, v, n);
    }
}

__device__ __forceinline__ bool move_all(const struct rt_gpu_push &p, struct place l)
{
    const unsigned ngroups = p.stride / RT_GPU_PUSH_ROOM;

    for (unsigned i = l.thread; i < p.size * ngroups; i += l.nthreads) {
        const unsigned r = partner(p, i / ngroups), g = i % ngroups, off = g * RT_GPU_PUSH_GROUP;
        const struct rt_gpu_push_rank &of = p.of[r];

        if (r == p.rank || off >= of.receive)
            continue;
        const uint64_t at = region(p, l.slot, r, p.rank) + g * RT_GPU_PUSH_ROOM;
        struct words4 words = load_group(at);
        if (!await_group(p, at, l.number, words))
            return false;
        store_data(of.dst + off, data_of(words), of.receive - off < 16 ? of.receive - off : 16);
    }
    return true;
}

/* ---- begin and end ---- */

__device__ __forceinline__ void give_up(const struct rt_gpu_push &p)
{
    for (unsigned r = 0; r < p.size; r++)
        host_store(p.of[r].poison, 1);
    host_store(p.words + offsetof(struct rt_gpu_meet_words, failed), 1);
    fence_system(); /* failed, before ended */
}

__device__ __forceinline__ void give_up(const struct rt_gpu_message &m)
{
    for (unsigned r = 0; r < m.nranks; r++)
        host_store(m.poison_of[r], 1);
    host_store(m.words + offsetof(struct rt_gpu_meet_words, failed), 1);
    fence_system();
}

/* Stores another number to words of an inbox, by one thread, which takes a millisecond every few
 * hours.  No other rank stores there meanwhile. */
__device__ __forceinline__ void renew(uint64_t at, uint32_t nbytes, uint32_t number)
{
    const u64 other = (u64)~number << 32;

    for (uint32_t i = 0; i < nbytes; i += 16)
        store_words((u64 *)(at + i), other, other);
}

/* Whether this is the last block to end. */
template <class P> __device__ __forceinline__ bool is_last(const P &p)
{
    return gridDim.x == 1 || atomicAdd((uint32_t *)p.ended, 1u) == gridDim.x - 1;
}

/* By one thread of the last block, which leaves the words as the next launch needs them. */
template <class P> __device__ __forceinline__ void close(const P &p, uint32_t number)
{
    const uint32_t run = load_word((const uint32_t *)p.runs) + 1;

    store_word((uint32_t *)p.ended, 0);
    store_word((uint32_t *)p.epochs, number);
    store_word((uint32_t *)p.runs, run);
    if (p.ticket)
        host_store(p.words + offsetof(struct rt_gpu_meet_words, ended), p.ticket);
    host_store(p.words + offsetof(struct rt_gpu_meet_words, over), run);
}

/* By one thread of each block.  Other ranks store to this slot only after this kernel has ended. */
__device__ __forceinline__ void leave(const struct rt_gpu_push &p, struct place l, bool came)
{
    if (!came)
        give_up(p);
    if (!is_last(p))
        return;
    if (l.number % RENEW_CALLS <= 1)
        renew(own(p).inbox + (uint64_t)l.slot * p.slot, p.slot, l.number);
    close(p, l.number);
}

template <class K> __device__ __forceinline__ void push(const struct rt_gpu_push &p)
{
    struct place l;
    bool came = !p.gives_up;

    l.number = load_word((const uint32_t *)p.epochs) + 1;
    l.slot = l.number & 1;
    l.thread = blockIdx.x * blockDim.x + threadIdx.x;
    l.nthreads = gridDim.x * blockDim.x;
    if (l.thread == 0)
        host_store(p.words + offsetof(struct rt_gpu_meet_words, begun),
                   load_word((const uint32_t *)p.runs) + 1);
    const unsigned k = blockDim.x - 1 - threadIdx.x; /* the last threads have the marks */
    const unsigned other = blockIdx.x == 0 && k < p.size ? partner(p, k) : p.rank;
    if (came && other != p.rank)
        store_word64((u64 *)mark(p, l.slot, p.rank, other),
                     (u64)l.number << 32 | RT_GPU_PUSH_SIGNATURE(&p, p.of[other].send));
    if (came && p.folds)
        push_to_all(p, l);
    else if (came)
        push_each(p, l);
    if (came && other != p.rank)
        came = await_mark(p, l, other);
    if (came)
        came = p.folds ? fold_all<K>(p, l) : move_all(p, l);
    came = __syncthreads_and(came);
    if (threadIdx.x == 0)
        leave(p, l, came);
}

#define PUSH_KERNEL(name, K) \
    extern "C" __global__ void __launch_bounds__(WEFT_PUSH_THREADS, 1) \
        name(const __grid_constant__ struct rt_gpu_push p) \
    { \
        push<K>(p); \
    }

PUSH_KERNEL(weft_push_bits, bits)
PUSH_KERNEL(weft_push_4, numbers4)
PUSH_KERNEL(weft_push_8, numbers8)
PUSH_KERNEL(weft_push_f16, halves<f16>)
PUSH_KERNEL(weft_push_bf16, halves<bf16>)
PUSH_KERNEL(weft_push_1, integers1)
PUSH_KERNEL(weft_push_2, integers2)
PUSH_KERNEL(weft_push_wide8, wide8)
PUSH_KERNEL(weft_push_wide16, wide16)

/* ---- messages ---- */

/* An empty message is one group, too. */
__device__ __forceinline__ unsigned ngroups_of(const struct rt_gpu_message &m)
{
    return m.nbytes ? (m.nbytes + RT_GPU_PUSH_GROUP - 1) / RT_GPU_PUSH_GROUP : 1;
}

__device__ __forceinline__ bool await_credit(const struct rt_gpu_message &m, uint32_t number)
{
    for (uint32_t polls = 1;; polls++) {
        if ((int32_t)(from<true>::load((const uint32_t *)m.credit) - (number - 1)) >= 0)
            return true;
        if (must_stop(m, polls))
            return false;
    }
}

/* The first data are loaded together with the credit. */
__device__ __forceinline__ bool put_message(const struct rt_gpu_message &m, struct place l)
{
    for (unsigned g = l.thread; g < ngroups_of(m); g += l.nthreads) {
        const uint32_t off = g * RT_GPU_PUSH_GROUP;
        const uint4 v = load_data(m.data + off, m.nbytes - off < 16 ? m.nbytes - off : 16);

        if (g == l.thread && !await_credit(m, l.number))
            return false;
        store_group(m.slot + g * RT_GPU_PUSH_ROOM, v, l.number);
    }
    return true;
}

/* Also words that are not kept must have come: then none comes later. */
__device__ __forceinline__ bool take_message(const struct rt_gpu_message &m, struct place l)
{
    for (unsigned g = l.thread; g < ngroups_of(m); g += l.nthreads) {
        const uint32_t off = g * RT_GPU_PUSH_GROUP;
        const uint64_t at = m.slot + g * RT_GPU_PUSH_ROOM;
        struct words4 words = load_group(at);

        if (!await_group(m, at, l.number, words))
            return false;
        if (off < m.keep)
            store_data(m.data + off, data_of(words), m.keep - off < 16 ? m.keep - off : 16);
    }
    return true;
}

/* The store of the credit depends on all loads of the slot, by the barrier and the count of blocks
 * that lie between: no load is later. */
__device__ __forceinline__ void leave(const struct rt_gpu_message &m, struct place l, bool came)
{
    if (!came)
        give_up(m);
    if (!is_last(m))
        return;
    if (!m.sends && l.number % RENEW_CALLS == 0) {
        renew(m.slot, m.room, l.number);
        fence_system(); /* before the credit */
    }
    if (!m.sends && came)
        host_store(m.credit, l.number);
    close(m, l.number);
}

extern "C" __global__ void __launch_bounds__(WEFT_PUSH_THREADS, 1)
    weft_message(const __grid_constant__ struct rt_gpu_message m)
{
    struct place l;

    l.number = load_word((const uint32_t *)m.epochs) + 1;
    l.slot = 0;
    l.thread = blockIdx.x * blockDim.x + threadIdx.x;
    l.nthreads = gridDim.x * blockDim.x;
    if (l.thread == 0)
        host_store(m.words + offsetof(struct rt_gpu_meet_words, begun),
                   load_word((const uint32_t *)m.runs) + 1);
    bool came = m.sends ? put_message(m, l) : take_message(m, l);
    came = __syncthreads_and(came);
    if (threadIdx.x == 0)
        leave(m, l, came);
}
