/* SPDX-License-Identifier: BSD-3-Clause */
/* The few atomic operations that Weft uses, on plain integers, which may be in memory shared with
 * other processes. */
#ifndef RT_BASE_ATOMIC_H
#define RT_BASE_ATOMIC_H

#define RT_CACHE_LINE 64 /* bytes; x86-64 and most arm64 */

#define rt_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define rt_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define rt_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define rt_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define rt_fetch_add(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define rt_exchange(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define rt_fetch_or(p, v) __atomic_fetch_or((p), (v), __ATOMIC_ACQ_REL)
#define rt_fetch_and(p, v) __atomic_fetch_and((p), (v), __ATOMIC_ACQ_REL)
#define rt_swap(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define rt_cas(p, old_p, v) \
    __atomic_compare_exchange_n((p), (old_p), (v), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
#define rt_fence_acquire() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define rt_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)

/* Whether an atomic operation that changes memory also orders earlier stores, and its own, before
 * later loads, as rt_fence() does. */
#if defined(__x86_64__)
#define RT_ATOMIC_FENCES true
#else
#define RT_ATOMIC_FENCES false
#endif

/* Asks for a line that will be written here.  Without this instruction a compiler asks to read. */
static inline void rt_prefetch_write(void *p)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(char *)p));
#else
    __builtin_prefetch(p, 1);
#endif
}

#define rt_likely(x) __builtin_expect(!!(x), 1)
#define rt_unlikely(x) __builtin_expect(!!(x), 0)

/* A variable of the library that the fastest paths read.  A declaration without it costs each
 * access an instruction and a register for the address: -fvisibility=hidden is about definitions.
 */
#define RT_HIDDEN __attribute__((visibility("hidden")))

/* A pause between two polls.  Measured on two cores of one L3 cache (Zen 5): polling a line without
 * a pause takes the line from the writer during its update and doubles the hand-over time, 60 ns
 * instead of 30 ns. */
static inline void rt_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

#endif
