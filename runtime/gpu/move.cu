/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that copy: weft_batch, launched for up to 64 copies at once, and weft_linger, which
 * stays for a while and takes copies from a ring in host memory.  kernel.h has their contract.
 *
 * Order.  A block's threads store, meet at a barrier, and one thread then executes a fence of system
 * scope: by cumulativity it covers the stores of all of them, and only then is a counter raised or
 * the host's flag stored. */
#include "runtime/gpu/kernel.h"
#include "runtime/gpu/move.h"
#include <stddef.h>

typedef unsigned long long u64;
#define EVERY_LANE 0xffffffffu

__device__ __forceinline__ void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

__device__ __forceinline__ void host_store(uint64_t addr, uint32_t v)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(addr), "r"(v) : "memory");
}

/* Words that blocks of one launch poll; whoever found what it waited for calls fence_device(). */
__device__ __forceinline__ u64 load_word(const uint64_t *p)
{
    u64 v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ uint32_t load_word(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void fence_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

__device__ __forceinline__ void store_release(uint64_t *p, u64 v)
{
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ u64 now_ns()
{
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

/* Loads of the data.  A kernel that stays must not find in the first-level cache what it loaded
 * before someone else wrote there, so its loads are of system scope; a fresh kernel starts with an
 * empty cache. */
#define LOADS(STAYS, OP) \
    template <> struct from<STAYS> { \
        static __device__ __forceinline__ uint4 load(const uint4 *p) \
        { \
            uint4 v; \
            asm volatile(OP ".v4.u32 {%0, %1, %2, %3}, [%4];" \
                         : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) \
                         : "l"(p)); \
            return v; \
        } \
        static __device__ __forceinline__ uint2 load(const uint2 *p) \
        { \
            uint2 v; \
            asm volatile(OP ".v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p)); \
            return v; \
        } \
        static __device__ __forceinline__ uint32_t load(const uint32_t *p) \
        { \
            uint32_t v; \
            asm volatile(OP ".u32 %0, [%1];" : "=r"(v) : "l"(p)); \
            return v; \
        } \
        static __device__ __forceinline__ uint8_t load(const uint8_t *p) \
        { \
            uint32_t v; \
            asm volatile(OP ".u8 %0, [%1];" : "=r"(v) : "l"(p)); \
            return (uint8_t)v; \
        } \
    }
template <bool stays> struct from;
LOADS(true, "ld.relaxed.sys.global");
LOADS(false, "ld.global.L1::no_allocate");
#undef LOADS

/* n units by threads t of nt, four loads in flight each, or one. */
template <bool stays, unsigned ahead, class T>
__device__ __forceinline__ void copy_units(T *d, const T *s, uint32_t n, unsigned t, unsigned nt)
{
    uint32_t i = t;
    T v[ahead];

#pragma unroll 1
    for (; i + (ahead - 1) * nt < n; i += ahead * nt) {
#pragma unroll
        for (unsigned j = 0; j < ahead; j++)
            v[j] = from<stays>::load(s + i + j * nt);
#pragma unroll
        for (unsigned j = 0; j < ahead; j++)
            d[i + j * nt] = v[j];
    }
#pragma unroll
    for (unsigned j = 0; j + 1 < ahead; j++)
        if (i + j * nt < n)
            v[j] = from<stays>::load(s + i + j * nt);
#pragma unroll
    for (unsigned j = 0; j + 1 < ahead; j++)
        if (i + j * nt < n)
            d[i + j * nt] = v[j];
}

/* The bytes before and behind the whole units, at most 30, go by one thread each; their load is in
 * flight beside the others.  nt is at least 32. */
template <bool stays, unsigned ahead, class T>
__device__ __forceinline__ void copy_as(uint64_t dst, uint64_t src, uint32_t len, unsigned t,
                                        unsigned nt)
{
    uint32_t room = -(uint32_t)dst & (sizeof(T) - 1);
    uint32_t head = room < len ? room : len, tail = (len - head) % sizeof(T);
    bool edge = t < head + tail;
    uint32_t at = t < head ? t : len - tail + (t - head);
    uint8_t byte = 0;

    if (edge)
        byte = from<stays>::load((const uint8_t *)src + at);
    copy_units<stays, ahead>((T *)(dst + head), (const T *)(src + head),
                             (len - head) / (uint32_t)sizeof(T), t, nt);
    if (edge)
        ((uint8_t *)dst)[at] = byte;
}

/* Called by nt threads with the same dst, src and len, which is less than 2^31. */
template <bool stays, unsigned ahead>
__device__ __forceinline__ void copy(uint64_t dst, uint64_t src, uint32_t len, unsigned t,
                                     unsigned nt)
{
    unsigned differ = (unsigned)(dst ^ src);

    if (!(differ & 15))
        copy_as<stays, ahead, uint4>(dst, src, len, t, nt);
    else if (!(differ & 7))
        copy_as<stays, ahead, uint2>(dst, src, len, t, nt);
    else if (!(differ & 3))
        copy_as<stays, ahead, uint32_t>(dst, src, len, t, nt);
    else
        copy_as<stays, ahead, uint8_t>(dst, src, len, t, nt);
}

/* ---- the batch ---- */

__device__ __forceinline__ uint32_t sum_to_lane(uint32_t v, unsigned lane)
{
    for (unsigned d = 1; d < 32; d *= 2) {
        uint32_t left = __shfl_up_sync(EVERY_LANE, v, d);
        if (lane >= d)
            v += left;
    }
    return v;
}

__device__ __forceinline__ uint32_t npieces(const struct rt_gpu_batch &b, unsigned i)
{
    return i < b.n ? (uint32_t)((b.move[i].len + WEFT_BATCH_PIECE - 1) / WEFT_BATCH_PIECE) : 0;
}

/* Lane l knows where the pieces of move l (end0) and of move 32 + l (end1) end in the row of all;
 * every warp works this out for itself, which costs less than a barrier. */
extern "C" __global__ void __launch_bounds__(WEFT_BATCH_THREADS, 4)
    weft_batch(const __grid_constant__ struct rt_gpu_batch b)
{
    unsigned lane = threadIdx.x & 31;
    uint32_t end0 = sum_to_lane(npieces(b, lane), lane);
    uint32_t half = __shfl_sync(EVERY_LANE, end0, 31), total = half, end1 = half;

    if (b.n > 32) {
        end1 = half + sum_to_lane(npieces(b, lane + 32), lane);
        total = __shfl_sync(EVERY_LANE, end1, 31);
    }
    for (uint32_t p = blockIdx.x; p < total; p += gridDim.x) {
        unsigned before = __popc(__ballot_sync(EVERY_LANE, end0 <= p));
        uint32_t first = __shfl_sync(EVERY_LANE, end0, before ? before - 1 : 0);
        if (before == 0)
            first = 0;
        if (before == 32) {
            unsigned more = __popc(__ballot_sync(EVERY_LANE, end1 <= p));
            first = __shfl_sync(EVERY_LANE, end1, more ? more - 1 : 0);
            if (more == 0)
                first = half;
            before += more;
        }
        u64 off = (u64)(p - first) * WEFT_BATCH_PIECE, len = b.move[before].len - off;
        copy<false, 4>(b.move[before].dst + off, b.move[before].src + off,
                       len < WEFT_BATCH_PIECE ? (uint32_t)len : WEFT_BATCH_PIECE, threadIdx.x,
                       blockDim.x);
    }
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    fence_system();
    if (gridDim.x > 1) {
        uint32_t *counter = (uint32_t *)b.counter;
        if (atomicAdd(counter, 1u) != gridDim.x - 1)
            return;
        *(volatile uint32_t *)counter = 0;
        fence_system(); /* the other blocks' data, seen by way of the counter, before the flag */
    }
    host_store(b.flag, b.value);
}

/* ---- the lingering kernel ---- */

#define POST_LEAVE 0xffffffffu

struct task { /* in shared memory: what all threads of a block do next */
    uint64_t dst, src, len;
    uint32_t part, parts; /* which part of the copy is this block's */
    uint32_t seq;
    bool leave;
};

__device__ __forceinline__ void copy_part(const struct task *k)
{
    uint32_t len = (uint32_t)k->len, part = ((len + k->parts - 1) / k->parts + 127) & ~127u;
    uint32_t off = k->part * part;

    if (off < len)
        copy<true, 4>(k->dst + off, k->src + off, len - off < part ? len - off : part, threadIdx.x,
                      blockDim.x);
}

/* Thread 0 of a helper.  Block 0 may not have started, and may never: then nobody counts on us. */
__device__ bool helper_join(const struct rt_gpu_linger &p, struct task *k)
{
    struct rt_gpu_work *w = (struct rt_gpu_work *)p.work;
    u64 start = now_ns(), mine = (u64)p.launch << 32;

    while (load_word(&w->post) >> 32 != p.launch)
        if (now_ns() - start > p.life_ns)
            return false;
    u64 old = load_word(&w->present), seen, want;
    for (;; old = seen) {
        want = old >> 32 == p.launch ? old + 1 : mine + 1;
        seen = atomicCAS((u64 *)&w->present, old, want);
        if (seen == old)
            break;
    }
    k->part = (uint32_t)want; /* block 0 has part 0 */
    return true;
}

/* Thread 0 of a helper: waits for a copy that it takes part in, or the end.  The fields of a copy
 * stay as they are until its helpers have finished it, so only they may read them. */
__device__ __forceinline__ void helper_wait(const struct rt_gpu_linger &p, struct task *k)
{
    struct rt_gpu_work *w = (struct rt_gpu_work *)p.work;
    uint32_t post;

    do
        post = (uint32_t)load_word(&w->post);
    while (post == k->seq || (post != POST_LEAVE && k->part > (post & 0xff)));
    k->seq = post;
    k->leave = post == POST_LEAVE;
    fence_device(); /* the fields were stored before post */
    k->dst = *(volatile uint64_t *)&w->dst;
    k->src = *(volatile uint64_t *)&w->src;
    k->len = *(volatile uint64_t *)&w->len;
    k->parts = (post & 0xff) + 1;
}

struct leader { /* the same in all lanes of warp 0, but for number and known, which lane 0 keeps */
    uint64_t start, last; /* of the launch, of the last work */
    uint32_t next, number, known;
};

/* Lane 0 of block 0: hands a copy to as many helpers as it needs and as have started. */
__device__ __forceinline__ void share(const struct rt_gpu_linger &p, struct leader *l,
                                      struct task *k)
{
    struct rt_gpu_work *w = (struct rt_gpu_work *)p.work;

    k->parts = 1;
    if (k->len <= WEFT_LINGER_SOLO || gridDim.x == 1)
        return;
    if (l->known < gridDim.x - 1) {
        u64 present = load_word(&w->present);
        l->known = present >> 32 == p.launch ? (uint32_t)present : 0;
    }
    u64 parts = (k->len + WEFT_LINGER_PART - 1) / WEFT_LINGER_PART;
    k->parts = parts < l->known + 1 ? (uint32_t)parts : l->known + 1;
    if (k->parts == 1)
        return;
    l->number = (l->number + 1) & 0x7fffff;
    w->dst = k->dst;
    w->src = k->src;
    w->len = k->len;
    w->finished = 0;
    store_release(&w->post, (u64)p.launch << 32 | l->number << 8 | (k->parts - 1));
}

__device__ __forceinline__ u64 word64(uint32_t v, unsigned i)
{
    return __shfl_sync(EVERY_LANE, v, i) | (u64)__shfl_sync(EVERY_LANE, v, i + 1) << 32;
}

/* Warp 0 of block 0: polls, does the shortest copies itself, and returns with a task for the block.
 * The time is read while the descriptor is on its way. */
__device__ __forceinline__ void look(const struct rt_gpu_linger &p, struct leader *l,
                                     struct task *k)
{
    unsigned lane = threadIdx.x;

    for (;;) {
        __syncwarp(); /* one load for all of the descriptor */
        const uint32_t *slot = (const uint32_t *)p.ring + l->next % RT_GPU_RING_SLOTS * 16;
        uint32_t v = from<true>::load(slot + (lane & 15));
        u64 now = now_ns();
        bool late = now - l->start > p.life_ns, idle = now - l->last > p.idle_ns;
        late = __shfl_sync(EVERY_LANE, late, 0); /* the lanes may see two ticks of the clock */
        idle = __shfl_sync(EVERY_LANE, idle, 0);
        bool whole = __shfl_sync(EVERY_LANE, v, 0) == l->next &&
                     __shfl_sync(EVERY_LANE, v, 15) == l->next;
        if (late || (idle && !whole)) {
            if (lane == 0)
                k->leave = true;
            return;
        }
        if (!whole)
            continue;
        uint64_t dst = word64(v, 2), src = word64(v, 4), len = word64(v, 6);
        l->last = now;
        l->next++;
        if (len <= WEFT_LINGER_TINY) {
            copy<true, 1>(dst, src, (uint32_t)len, lane, 32);
            __syncwarp();
            if (lane == 0) {
                fence_system();
                host_store(p.words, l->next - 1);
            }
            continue;
        }
        if (lane == 0) {
            k->dst = dst;
            k->src = src;
            k->len = len;
            k->seq = l->next - 1;
            share(p, l, k);
        }
        return;
    }
}

/* Thread 0 of block 0, after the block's part of a copy. */
__device__ __forceinline__ void finish(const struct rt_gpu_linger &p, const struct task *k)
{
    struct rt_gpu_work *w = (struct rt_gpu_work *)p.work;

    while (k->parts > 1 && load_word(&w->finished) != k->parts - 1)
        ;
    fence_system(); /* all data, the helpers' too, before the host sees the number */
    host_store(p.words, k->seq);
}

/* Thread 0 of block 0, at the end. */
__device__ __forceinline__ void leave(const struct rt_gpu_linger &p)
{
    struct rt_gpu_work *w = (struct rt_gpu_work *)p.work;

    if (gridDim.x > 1)
        store_release(&w->post, (u64)p.launch << 32 | POST_LEAVE);
    fence_system(); /* done, stored earlier, before left */
    host_store(p.words + offsetof(struct rt_gpu_words, left), p.launch);
}

__device__ __forceinline__ bool enter(const struct rt_gpu_linger &p, struct task *k)
{
    struct rt_gpu_work *w = (struct rt_gpu_work *)p.work;

    k->seq = 0;
    k->leave = false;
    k->part = 0;
    if (blockIdx.x != 0)
        return helper_join(p, k);
    if (gridDim.x > 1)
        store_release(&w->post, (u64)p.launch << 32);
    return true;
}

extern "C" __global__ void __launch_bounds__(WEFT_LINGER_THREADS, 2)
    weft_linger(const __grid_constant__ struct rt_gpu_linger p)
{
    __shared__ struct task k;
    __shared__ bool joined;
    bool leads = blockIdx.x == 0, first = threadIdx.x == 0;
    struct leader l;

    l.start = l.last = now_ns();
    l.next = p.next;
    l.number = l.known = 0;
    if (first)
        joined = enter(p, &k);
    __syncthreads();
    if (!joined)
        return;
    for (;;) {
        if (leads && threadIdx.x < 32)
            look(p, &l, &k);
        else if (!leads && first)
            helper_wait(p, &k);
        __syncthreads();
        if (k.leave)
            break;
        copy_part(&k);
        __syncthreads();
        if (first && leads)
            finish(p, &k);
        if (first && !leads) {
            fence_system();
            atomicAdd(&((struct rt_gpu_work *)p.work)->finished, 1u);
        }
    }
    if (first && leads)
        leave(p);
}
