/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels express in PTX: fences, words that blocks and the host exchange, loads that
 * bypass the first-level cache.  The tests that run the kernels on the CPU have their own version
 * of each. */
#ifndef RT_GPU_PTX_H
#define RT_GPU_PTX_H

#include <stdint.h>

typedef unsigned long long u64;
#define EVERY_LANE 0xffffffffu

__device__ __forceinline__ void fence_system() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

/* For stores into this device's own memory: after it they are in the second-level cache, through
 * which all readers of that memory go: other devices, copy engines and adapters, too.  The other
 * fence takes twice as long (H200: 0.6 us). */
__device__ __forceinline__ void fence_device() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

__device__ __forceinline__ void host_store(uint64_t addr, uint32_t v)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(addr), "r"(v) : "memory");
}

/* For the compiler: no store of data moves before an earlier load of data. */
__device__ __forceinline__ void loads_end() { asm volatile("" ::: "memory"); }

/* Words that blocks of one launch exchange; they bypass the first-level cache. */
__device__ __forceinline__ uint32_t load_word(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void store_word(uint32_t *p, uint32_t v)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

/* Adds 1 to a word of this device that copy engines access, too.  Returns what it was. */
__device__ __forceinline__ u64 count_up(u64 *p)
{
    u64 was;
    asm volatile("atom.relaxed.sys.global.add.u64 %0, [%1], 1;" : "=l"(was) : "l"(p) : "memory");
    return was;
}

/* Operations and a load that are atomic among all devices; they return the old value. */
#define ATOMIC(NAME, OP, T, REG) \
    __device__ __forceinline__ T NAME(T *p, T v) \
    { \
        T was; \
        asm volatile("atom.relaxed.sys.global." OP " %0, [%1], %2;" \
                     : "=" REG(was) \
                     : "l"(p), REG(v) \
                     : "memory"); \
        return was; \
    }
#define ATOMIC_WORD(T, REG, BITS) \
    ATOMIC(atomic_add, "add.u" BITS, T, REG) \
    ATOMIC(atomic_swap, "exch.b" BITS, T, REG) \
    __device__ __forceinline__ T atomic_cas(T *p, T expected, T v) \
    { \
        T was; \
        asm volatile("atom.relaxed.sys.global.cas.b" BITS " %0, [%1], %2, %3;" \
                     : "=" REG(was) \
                     : "l"(p), REG(expected), REG(v) \
                     : "memory"); \
        return was; \
    } \
    __device__ __forceinline__ T atomic_load(const T *p) \
    { \
        T v; \
        asm volatile("ld.relaxed.sys.global.u" BITS " %0, [%1];" \
                     : "=" REG(v) \
                     : "l"(p) \
                     : "memory"); \
        return v; \
    }
ATOMIC_WORD(uint32_t, "r", "32")
ATOMIC_WORD(u64, "l", "64")
ATOMIC(atomic_add, "add.f64", double, "d")
#undef ATOMIC_WORD
#undef ATOMIC

/* Words of 8 bytes that devices exchange: each is one access, also in a pair. */
__device__ __forceinline__ u64 load_word64(const u64 *p)
{
    u64 v;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void store_word64(u64 *p, u64 v)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ void load_words(const u64 *p, u64 &first, u64 &second)
{
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(first), "=l"(second)
                 : "l"(p)
                 : "memory");
}

__device__ __forceinline__ void store_words(u64 *p, u64 first, u64 second)
{
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(first), "l"(second)
                 : "memory");
}

__device__ __forceinline__ u64 now_ns()
{
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

/* Loads of the data.  A kernel that stays resident must not find old data in the first-level cache
 * after another device has written, so its loads are of system scope; a new kernel starts with an
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
        static __device__ __forceinline__ uint16_t load(const uint16_t *p) \
        { \
            uint16_t v; \
            asm volatile(OP ".u16 %0, [%1];" : "=h"(v) : "l"(p)); \
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

/* 16-bit floats, to nearest, ties to even.  The bits are returned in a register of 32 bits: if only
 * the lower 8 bits of a 16-bit register are stored, ptxas 13.0 changes the conversion into one to
 * an 8-bit integer. */
__device__ __forceinline__ float float_of_f16(uint16_t h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}

__device__ __forceinline__ uint16_t f16_of_float(float f)
{
    uint32_t h;
    asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h; }" : "=r"(h) : "f"(f));
    return (uint16_t)h;
}

__device__ __forceinline__ uint16_t bf16_of_float(float f)
{
    uint32_t h;
    asm("{ .reg .b16 h; cvt.rn.bf16.f32 h, %1; cvt.u32.u16 %0, h; }" : "=r"(h) : "f"(f));
    return (uint16_t)h;
}

/* Loads into shared memory that need no registers and bypass the first-level cache; visible to the
 * thread that has waited. */
__device__ __forceinline__ void start_load(uint4 *to, const uint4 *from)
{
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
        "l"(from)
        : "memory");
}

__device__ __forceinline__ void wait_loads() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/* A line of 128 bytes into shared memory by the bulk copy engine, for the lanes of a warp.  Fences
 * do not wait for it, and several are under way at once.  Lane 0 starts it when all lanes have read
 * what `to` held; all lanes wait, with the number of the earlier waits for this `arrived` modulo 2.
 * Each sector of the line is read at once; the sectors in any order.  Before sm_90 the wait is an
 * ordinary load. */
#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void line_prepare(u64 *arrived)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrived))
                 : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void line_start(u64 *arrived, void *to, const void *from)
{
    uint32_t at = shared_address(arrived);

    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(at) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], 128, [%2];" ::"r"(shared_address(to)),
                 "l"(from), "r"(at)
                 : "memory");
}

__device__ __forceinline__ void line_wait(u64 *arrived, uint32_t turn, void *, const void *)
{
    uint32_t is = 0;

    while (!is)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(is)
                     : "r"(shared_address(arrived)), "r"(turn)
                     : "memory");
}
#else
__device__ __forceinline__ void line_prepare(u64 *) {}
__device__ __forceinline__ void line_start(u64 *, void *, const void *) {}
__device__ __forceinline__ void line_wait(u64 *, uint32_t, void *to, const void *now)
{
    __syncwarp();
    ((volatile uint32_t *)to)[threadIdx.x] = from<true>::load((const uint32_t *)now + threadIdx.x);
    __syncwarp();
}
#endif

/* All lanes of a warp at once, so that neighbouring addresses are one memory access. */
__device__ __forceinline__ uint32_t warp_load(const uint32_t *p)
{
    __syncwarp();
    return load_word(p);
}

__device__ __forceinline__ void warp_store(uint32_t *p, uint32_t v, bool on)
{
    __syncwarp();
    if (on)
        store_word(p, v);
}

#endif
