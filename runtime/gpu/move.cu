/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that copy: weft_batch, launched for up to 64 copies at once, and weft_linger, the
 * polling kernel, which stays for a while and takes copies and short reductions from a ring in host
 * memory.  kernel.h has their contract.
 *
 * Memory order: as in completion.h, also where the blocks of the polling kernel notify each other
 * or the host. */
#include "runtime/gpu/atomic_kernel.h"
#include "runtime/gpu/completion.h"
#include "runtime/gpu/fold_ring.h"
#include "runtime/gpu/move_kernels.h"
#include "runtime/gpu/ptx.h"
#include <stddef.h>

/* n units by threads t of nt, with four loads in flight each, or one.  A conditional load starts
 * from zero; otherwise the compiler keeps its registers alive from one round of the kernel to the
 * next. */
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
    for (unsigned j = 0; j + 1 < ahead; j++) {
        v[j] = T();
        if (i + j * nt < n)
            v[j] = from<stays>::load(s + i + j * nt);
    }
#pragma unroll
    for (unsigned j = 0; j + 1 < ahead; j++)
        if (i + j * nt < n)
            d[i + j * nt] = v[j];
}

/* The bytes before and behind the whole units, at most 30, are copied by one thread each; their
 * loads are in flight beside the others.  nt is at least 32. */
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

/* Whether the launch of this number was recalled: kernel.h.  One thread of each block that copies.
 */
__device__ __forceinline__ bool is_recalled(uint64_t recall, uint32_t number)
{
    return (uint32_t)(count_up((u64 *)recall) >> 32) == number;
}

/* Lane l knows where the pieces of move l (end0) and of move 32 + l (end1) end in the sequence of
 * all pieces.  Every warp computes this for itself, which costs less than a barrier. */
extern "C" __global__ void __launch_bounds__(WEFT_BATCH_THREADS, 4)
    weft_batch(const __grid_constant__ struct rt_gpu_batch b)
{
    unsigned lane = threadIdx.x & 31;
    uint32_t end0 = sum_to_lane(npieces(b, lane), lane);
    uint32_t half = __shfl_sync(EVERY_LANE, end0, 31), total = half, end1 = half;
    __shared__ bool recalled;

    if (threadIdx.x == 0)
        recalled = is_recalled(b.counter + offsetof(struct rt_gpu_line, recall), b.value);
    if (b.n > 32) {
        end1 = half + sum_to_lane(npieces(b, lane + 32), lane);
        total = __shfl_sync(EVERY_LANE, end1, 31);
    }
    __syncthreads();
    if (recalled) {
        total = 0;
        if (threadIdx.x == 0) {
            host_store(b.flag + offsetof(struct rt_gpu_flag, skipped), b.value);
            fence_system(); /* before the flag */
        }
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
    notify_end(b.flag, b.value, b.counter, b.near);
}

/* ---- the polling kernel ---- */

/* Warp 0 of block 0 polls the ring; warp 0 of each other block polls the task of block 0; all other
 * warps wait at a barrier.  While a copy runs no warp on its multiprocessor polls: a fence waits
 * for the loads of all warps there, and a load from host memory takes 1.4 us.  Reads of the ring
 * stay under way; fences do not wait for those. */
struct task { /* in shared memory: what all threads of a block do next */
    uint64_t dst, src;
    uint32_t len, seq;
    uint32_t part, parts; /* index of this block's part of the work, and number of parts */
    bool leave, is_fold, near;
    struct ring_fold fold;
};

__device__ __forceinline__ struct rt_gpu_work *work_of(const struct rt_gpu_linger &p)
{
    return (struct rt_gpu_work *)p.work;
}

__device__ __forceinline__ uint32_t lane_word(uint32_t v, unsigned i)
{
    return __shfl_sync(EVERY_LANE, v, i);
}

__device__ __forceinline__ uint64_t lane_words(uint32_t v, unsigned i)
{
    return lane_word(v, i) | (uint64_t)lane_word(v, i + 1) << 32;
}

/* Warp 0 has a descriptor in v, one word a lane. */
__device__ __forceinline__ void take_task(struct task *k, uint32_t v, uint32_t part, uint32_t parts)
{
    uint64_t dst = lane_words(v, 2), src = lane_words(v, 4);
    uint32_t fold = lane_word(v, 1), len = lane_word(v, 6), seq = lane_word(v, 0);
    uint32_t near = lane_word(v, WEFT_TASK_NEAR);

    if (fold)
        take_fold(&k->fold, v);
    if (threadIdx.x != 0)
        return;
    k->leave = false;
    k->dst = dst;
    k->src = src;
    k->len = len;
    k->seq = seq;
    k->is_fold = fold != 0;
    k->near = near != 0;
    k->part = part;
    k->parts = parts;
}

/* Whether the descriptor in v is whole, and its number. */
__device__ __forceinline__ bool is_whole(uint32_t v, uint32_t seq)
{
    unsigned same = __ballot_sync(EVERY_LANE, v == seq);
    unsigned all = lane_word(v, 1) & RT_GPU_RING_FAR ? 0x80018001u : 0x8001u;

    return (same & all) == all;
}

/* ---- the blocks beside block 0 ---- */

/* Reads the task once.  True: it is whole and of this launch. */
__device__ __forceinline__ bool see_task(const struct rt_gpu_linger &p, uint32_t *v)
{
    *v = warp_load(work_of(p)->task.word + threadIdx.x);
    return is_whole(*v, lane_word(*v, 0)) &&
           lane_word(*v, WEFT_TASK_LAUNCH_PARTS) >> 8 == (p.launch & 0xffffff);
}

/* The rank of this block, from 1. 0 if block 0 has not started, and may never start: then this
 * block takes no part. */
__device__ __forceinline__ uint32_t join(const struct rt_gpu_linger &p)
{
    u64 start = now_ns(), mine = (u64)p.launch << 32, want = 0;
    uint32_t v;

    while (!see_task(p, &v))
        if (__any_sync(EVERY_LANE, now_ns() - start > p.life_ns))
            return 0;
    if (threadIdx.x == 0) {
        u64 *present = (u64 *)&work_of(p)->present, old = *(volatile u64 *)present, seen;
        for (;; old = seen) {
            want = old >> 32 == p.launch ? old + 1 : mine + 1;
            seen = atomicCAS(present, old, want);
            if (seen == old)
                break;
        }
    }
    return lane_word((uint32_t)want, 0);
}

/* Waits for a copy in which this block, number `rank`, takes part, or for the end.  Block 0 waits
 * for the blocks that take part before it stores the next task. */
__device__ __forceinline__ void wait_task(const struct rt_gpu_linger &p, struct task *k,
                                          uint32_t rank, uint32_t *seen)
{
    uint32_t v = 0, parts = 0;

    if (rank != 0)
        do {
            while (!see_task(p, &v) || lane_word(v, 0) == *seen)
                ;
            parts = lane_word(v, WEFT_TASK_LAUNCH_PARTS) & 0xff;
        } while (parts != 0 && rank >= parts);
    *seen = lane_word(v, 0);
    if (parts != 0)
        take_task(k, v, rank, parts);
    else if (threadIdx.x == 0)
        k->leave = true;
}

/* ---- block 0 ---- */

struct leader {           /* equal in all lanes */
    u64 start, last;      /* time of the launch, of the last work */
    uint32_t next, known; /* the next descriptor; other blocks that have started */
    uint32_t at, turns;   /* the read of the ring that arrives next; a bit for each: line_wait() */
    /* Nothing has been read yet: the first descriptor may be in the parameters. */
    bool fresh;
    bool spent; /* the read before `at` has arrived, and its successor is not started */
};

/* Reads of the ring that are under way, in shared memory. */
struct alignas(128) reads {
    struct rt_gpu_desc line[WEFT_LINGER_READS], first;
    u64 arrived[WEFT_LINGER_READS];
};

__device__ __forceinline__ const void *slot_of(const struct rt_gpu_linger &p, uint32_t seq)
{
    return (const struct rt_gpu_desc *)p.ring + seq % RT_GPU_RING_SLOTS;
}

__device__ __forceinline__ void start_reads(const struct rt_gpu_linger &p, struct reads *r)
{
    unsigned lane = threadIdx.x;

    ((uint32_t *)&r->first)[lane] = ((const uint32_t *)&p.first)[lane];
    if (lane == 0)
        for (unsigned i = 0; i < WEFT_LINGER_READS; i++) {
            line_prepare(&r->arrived[i]);
            line_start(&r->arrived[i], &r->line[i], slot_of(p, p.next));
        }
    __syncwarp();
}

/* The oldest read, after it has arrived.  It may be of an earlier slot. */
__device__ __forceinline__ const struct rt_gpu_desc *wait_read(const struct rt_gpu_linger &p,
                                                               struct leader *l, struct reads *r)
{
    struct rt_gpu_desc *d = &r->line[l->at];

    line_wait(&r->arrived[l->at], l->turns >> l->at & 1, d, slot_of(p, l->next));
    l->turns ^= 1u << l->at;
    l->at = (l->at + 1) % WEFT_LINGER_READS;
    return d;
}

/* Another read in place of the one that all lanes have looked at. */
__device__ __forceinline__ void start_next(const struct rt_gpu_linger &p, struct leader *l,
                                           struct reads *r)
{
    unsigned i = (l->at + WEFT_LINGER_READS - 1) % WEFT_LINGER_READS;

    __syncwarp();
    if (threadIdx.x == 0)
        line_start(&r->arrived[i], &r->line[i], slot_of(p, l->next));
    l->spent = false;
}

/* No read may arrive when the block has left its shared memory. */
__device__ __forceinline__ void end_reads(const struct rt_gpu_linger &p, struct leader *l,
                                          struct reads *r)
{
    for (unsigned n = WEFT_LINGER_READS - l->spent; n > 0; n--)
        wait_read(p, l, r);
}

/* Whether the descriptor has been read as a whole, and has this number. */
__device__ __forceinline__ bool is_whole(const struct rt_gpu_desc *d, uint32_t seq)
{
    bool near = d->seq == seq && d->seq_too == seq;

    return near && (!(d->fold & RT_GPU_RING_FAR) || (d->seq_far == seq && d->seq_far_too == seq));
}

/* Stores the task: the words of a descriptor, one a lane, or only a number, the same in all
 * lanes. */
__device__ __forceinline__ void store_task(const struct rt_gpu_linger &p, uint32_t v,
                                           uint32_t parts)
{
    unsigned lane = threadIdx.x;

    if (lane == WEFT_TASK_LAUNCH_PARTS)
        v = p.launch << 8 | parts;
    warp_store(work_of(p)->task.word + lane, v, true);
}

/* Into how many parts the work is cut: only as many as blocks have started.  If the work is in the
 * launch's parameters, block 0 is ahead of the others and waits for them for a moment, because
 * block 0 alone takes 25 us for 1 MiB. */
__device__ __forceinline__ uint32_t parts_for(const struct rt_gpu_linger &p, struct leader *l,
                                              uint32_t len, bool fold)
{
    uint32_t solo = fold ? WEFT_LINGER_FOLD_PART : WEFT_LINGER_SOLO;
    uint32_t least = fold ? WEFT_LINGER_FOLD_PART : WEFT_LINGER_PART;

    if (len <= solo || gridDim.x == 1)
        return 1;
    uint32_t parts = (len + least - 1) / least;
    parts = parts < gridDim.x ? parts : gridDim.x;
    while (l->known + 1 < parts) {
        u64 present = *(volatile u64 *)&work_of(p)->present;
        l->known = lane_word(present >> 32 == p.launch ? (uint32_t)present : 0, 0);
        if (lane_word(now_ns() - l->start > WEFT_LINGER_JOIN_NS, 0))
            break;
    }
    return parts < l->known + 1 ? parts : l->known + 1;
}

/* All loads are in flight at once; each lane stores what it has loaded. */
__device__ __forceinline__ void copy_near(uint4 *pocket, uint4 *dst, const uint4 *src, uint32_t len,
                                          unsigned lane)
{
    for (unsigned i = lane; i < len / 16; i += 32)
        start_load(pocket + i, src + i);
    wait_loads();
    for (unsigned i = lane; i < len / 16; i += 32)
        dst[i] = pocket[i];
}

/* The number of bytes that warp 0 copies or reduces alone. */
__device__ __forceinline__ uint32_t alone_most(uint64_t dst, uint64_t src, uint32_t len,
                                               uint32_t fold, uint32_t near)
{
    if (fold)
        return RT_GPU_RING_KIND(fold) == RT_GPU_RING_ATOMIC ? len : fold_lanes_most(fold);
    return near && !(((uint32_t)dst | (uint32_t)src | len) & 15) ? WEFT_LINGER_NEAR
                                                                 : WEFT_LINGER_TINY;
}

__device__ __forceinline__ void reduce_alone(uint32_t v, uint32_t fold, uint64_t dst, uint64_t src,
                                             uint32_t len)
{
    if (RT_GPU_RING_KIND(fold) != RT_GPU_RING_ATOMIC) {
        fold_by_warp(v, fold, len);
        return;
    }
    uint64_t value = lane_words(v, 8), compare = lane_words(v, 10);
    uint32_t off = threadIdx.x * atomic_nbytes(RT_GPU_RING_TYPE(fold));
    if (off >= len)
        return;
    src = src ? src + off : 0;
    value = RT_GPU_RING_NSRC(fold) & RT_GPU_GIVEN_SRC ? value : value + off;
    if (!is_instruction(RT_GPU_RING_TYPE(fold), RT_GPU_RING_CODE(fold)))
        atomic_from_ring(fold, dst + off, src, value, compare);
    else if (atomic_nbytes(RT_GPU_RING_TYPE(fold)) == 8)
        instruction_from_ring<u64>(fold, dst + off, src, value, compare);
    else
        instruction_from_ring<uint32_t>(fold, dst + off, src, value, compare);
}

/* Does the copy or the reduction of warp 0, with the descriptor in v, one word a lane. */
__device__ __forceinline__ void move_alone(uint32_t v, uint32_t fold, uint64_t dst, uint64_t src,
                                           uint32_t len, uint4 *pocket)
{
    unsigned lane = threadIdx.x;

    if (fold) {
        reduce_alone(v, fold, dst, src, len);
    } else if (len <= 256 && !(((uint32_t)dst | (uint32_t)src | len) & 7)) {
        if (lane * 8 < len) /* a few words: no loop */
            ((uint2 *)dst)[lane] = from<true>::load((const uint2 *)src + lane);
    } else if (len > WEFT_LINGER_TINY) {
        copy_near(pocket, (uint4 *)dst, (const uint4 *)src, len, lane);
    } else {
        copy<true, 4>(dst, src, len, lane, 32);
    }
}

/* Polls, does the shortest copies itself, and returns with a task for the block.  The time is read
 * while the reads are on their way. */
__device__ __forceinline__ void look(const struct rt_gpu_linger &p, struct leader *l,
                                     struct task *k, struct reads *r, uint4 *pocket)
{
    unsigned lane = threadIdx.x;

    for (;;) {
        if (l->spent)
            start_next(p, l, r);
        u64 now = now_ns();
        /* Lanes may read different times. */
        uint32_t late = lane_word(now - l->start > p.life_ns, 0);
        uint32_t idle = lane_word(now - l->last > p.idle_ns, 0);
        l->spent = !l->fresh;
        const struct rt_gpu_desc *d = l->fresh ? &r->first : wait_read(p, l, r);
        l->fresh = false;
        bool whole = is_whole(d, l->next);
        if (late | (idle & !whole)) {
            end_reads(p, l, r);
            if (lane == 0)
                k->leave = true;
            return;
        }
        if (!whole)
            continue;
        uint32_t seq = l->next++, v = ((const uint32_t *)d)[lane], len = d->len, fold = d->fold;
        uint32_t near = d->near;
        uint64_t dst = d->dst, src = d->src;
        l->last = now;
        if (len > alone_most(dst, src, len, fold, near)) {
            uint32_t parts = parts_for(p, l, len, fold != 0);
            if (parts > 1)
                store_task(p, v, parts);
            take_task(k, v, 0, parts);
            return;
        }
        move_alone(v, fold, dst, src, len, pocket);
        __syncwarp();
        if (lane == 0) {
            fence_for(near);
            host_store(p.words, seq);
        }
    }
}

/* Warp 0, at the end: all blocks that have started leave, too. */
__device__ __forceinline__ void part_with(const struct rt_gpu_linger &p, uint32_t next)
{
    if (gridDim.x > 1)
        store_task(p, next, 0);
    if (threadIdx.x == 0) {
        fence_system(); /* done, stored earlier, before left */
        host_store(p.words + offsetof(struct rt_gpu_words, left), p.launch);
    }
}

/* ---- any block ---- */

__device__ __forceinline__ void copy_part(const struct task *k)
{
    uint32_t part = ((k->len + k->parts - 1) / k->parts + 127) & ~127u, off = k->part * part;

    if (off < k->len)
        copy<true, 4>(k->dst + off, k->src + off, k->len - off < part ? k->len - off : part,
                      threadIdx.x, blockDim.x);
}

__device__ __forceinline__ void fold_part(const struct task *k)
{
    uint32_t n = k->fold.nunits, at = 0, end = n;

    if (k->parts > 1) { /* whole sectors: 32 units */
        uint32_t part = ((n + k->parts - 1) / k->parts + 31) & ~31u;
        at = k->part * part;
        end = n < at + part ? n : at + part;
    }
    if (RT_GPU_RING_CODE(k->fold.fold) == RT_GPU_FOLD_EACH)
        fold_pairs(&k->fold, at, end, threadIdx.x, blockDim.x);
    else if (RT_GPU_RING_UNIT(k->fold.fold) == 16 && RT_GPU_RING_NSRC(k->fold.fold) > 2)
        fold_four<2>(&k->fold, at, end, threadIdx.x, blockDim.x);
    else if (RT_GPU_RING_UNIT(k->fold.fold) == 16)
        fold_wide<3>(&k->fold, at, end, threadIdx.x, blockDim.x);
    else if (RT_GPU_RING_NSRC(k->fold.fold) <= 4)
        fold_units<4, 2>(&k->fold, at, end, threadIdx.x, blockDim.x);
    else
        fold_units<RT_GPU_RING_SOURCES, 1>(&k->fold, at, end, threadIdx.x, blockDim.x);
}

/* Warp 0, when all blocks have done their part.  A fence has made a block's data visible to all
 * before the block stores that it has finished, so block 0 needs no further fence. */
__device__ __forceinline__ void finish(const struct rt_gpu_linger &p, const struct task *k)
{
    uint32_t helpers = k->parts - 1, seq = k->seq, part = k->part, lane = threadIdx.x;

    __syncwarp();
    if (lane == 0)
        fence_for(k->near);
    if (part != 0) {
        if (lane == 0)
            store_word(&work_of(p)->finished[part - 1], seq);
        return;
    }
    __syncwarp();
    while (__any_sync(EVERY_LANE, lane < helpers && load_word(&work_of(p)->finished[lane]) != seq))
        ;
    if (lane == 0)
        host_store(p.words, seq);
}

extern "C" __global__ void __launch_bounds__(WEFT_LINGER_THREADS, 2)
    weft_linger(const __grid_constant__ struct rt_gpu_linger p)
{
    __shared__ struct task k;
    __shared__ struct reads r;
    __shared__ uint4 pocket[WEFT_LINGER_NEAR / sizeof(uint4)];
    bool leads = blockIdx.x == 0, warp0 = threadIdx.x < 32;
    uint32_t rank = 0, seen = p.next - 1;
    struct leader l;

    l.start = l.last = now_ns();
    l.next = p.next;
    l.known = l.at = l.turns = 0;
    l.fresh = true;
    l.spent = false;
    if (warp0 && leads)
        start_reads(p, &r);
    if (threadIdx.x == 0) {
        k.leave = false;
        k.part = 0;
    }
    if (warp0 && !leads)
        rank = join(p);
    else if (warp0 && gridDim.x > 1)
        store_task(p, p.next - 1, 1);
    if (threadIdx.x == 0 && leads && is_recalled(p.recall, p.launch))
        l.start -= p.life_ns + 1; /* lane 0's time decides: it leaves at the first poll */
    for (;;) {
        if (warp0 && leads)
            look(p, &l, &k, &r, pocket);
        else if (warp0)
            wait_task(p, &k, rank, &seen);
        __syncthreads();
        if (k.leave)
            break;
        if (k.is_fold)
            fold_part(&k);
        else
            copy_part(&k);
        __syncthreads();
        if (warp0)
            finish(p, &k);
        l.last = now_ns(); /* work may take longer than idle_ns */
    }
    if (warp0 && leads)
        part_with(p, l.next);
}
