/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy loops of packing and unpacking: pieces at listed offsets or at equal distances, in
 * groups that repeat.  Each loop exists for the frequent lengths, for which a copy is a few vector
 * moves without a call, and for any length.  All of these exist for the baseline of the
 * architecture and for 32-byte vectors; the first use selects one.  Pure functions: any thread. */
#include "runtime/layout/copy.h"
#include "runtime/base/atomic.h"
#include "runtime/base/copy.h"
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define CALL_FROM 1024 /* length in bytes from which memcpy is faster than inline moves */

/* without 32-byte registers the compiler uses two moves */
typedef char vec32 __attribute__((vector_size(32), aligned(1), may_alias));

INLINE void copy32(char *d, const char *s) { *(vec32 *)d = *(const vec32 *)s; }

/* n is constant after inlining: a multiple of 64, or 32, or at most 24 */
INLINE void copy_fixed(char *d, const char *s, size_t n)
{
    if (n < 32) {
        memcpy(d, s, n);
        return;
    }
    for (size_t i = 0; i < n; i += 32)
        copy32(d + i, s + i);
}

/* Any length: the last move overlaps the one before it, instead of ever smaller moves. */
INLINE void copy_any(char *d, const char *s, size_t n)
{
    if (n <= 64) {
        rt_copy_small(d, s, n);
        return;
    }
    if (n >= CALL_FROM) {
        memcpy(d, s, n);
        return;
    }
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        copy32(d + i, s + i);
        copy32(d + i + 32, s + i + 32);
    }
    if (i + 32 < n)
        copy32(d + i, s + i);
    copy32(d + n - 32, s + n - 32);
}

struct job {
    char *packed, *user;
    int64_t step, n; /* of groups */
    const int64_t *off, *first;
    int64_t stride; /* without `off` */
    int64_t count;  /* pieces in a group */
    int64_t piece;  /* 0: pieces from `first` are used */
    bool to_packed;
};

INLINE void copy_one(char *packed, char *user, size_t len, bool fixed, bool to_packed)
{
    char *d = to_packed ? packed : user;
    const char *s = to_packed ? user : packed;
    if (fixed)
        copy_fixed(d, s, len);
    else
        copy_any(d, s, len);
}

/* len, fixed and to_packed are constants after inlining.  The job is read before the loops, because
 * the compiler must assume that any store may change it. */
INLINE void at_stride(const struct job *j, size_t len, bool fixed, bool to_packed)
{
    char *packed = j->packed, *group = j->user;
    const int64_t n = j->n, step = j->step, count = j->count, stride = j->stride;
    for (int64_t e = 0; e < n; e++, group += step) {
        char *user = group;
        for (int64_t i = 0; i < count; i++, user += stride, packed += len)
            copy_one(packed, user, len, fixed, to_packed);
    }
}

INLINE void at_offsets(const struct job *j, size_t len, bool fixed, bool to_packed)
{
    char *packed = j->packed, *group = j->user;
    const int64_t n = j->n, step = j->step, count = j->count, *off = j->off;
    for (int64_t e = 0; e < n; e++, group += step)
        for (int64_t i = 0; i < count; i++, packed += len)
            copy_one(packed, group + off[i], len, fixed, to_packed);
}

INLINE void of_lengths(const struct job *j, bool to_packed)
{
    char *packed = j->packed, *group = j->user;
    const int64_t n = j->n, step = j->step, count = j->count, *off = j->off, *first = j->first;
    for (int64_t e = 0; e < n; e++, group += step) {
        for (int64_t i = 0; i < count; i++) {
            size_t len = (size_t)(first[i + 1] - first[i]);
            copy_one(packed, group + off[i], len, false, to_packed);
            packed += len;
        }
    }
}

#define WAYS(loop, len, fixed) \
    do { \
        if (j->to_packed) \
            loop(j, len, fixed, true); \
        else \
            loop(j, len, fixed, false); \
    } while (0)
#define LENGTHS(loop) \
    do { \
        switch (j->piece) { \
        case 4: \
            WAYS(loop, 4, true); \
            break; \
        case 8: \
            WAYS(loop, 8, true); \
            break; \
        case 16: \
            WAYS(loop, 16, true); \
            break; \
        case 24: \
            WAYS(loop, 24, true); \
            break; \
        case 32: \
            WAYS(loop, 32, true); \
            break; \
        case 64: \
            WAYS(loop, 64, true); \
            break; \
        case 128: \
            WAYS(loop, 128, true); \
            break; \
        case 256: \
            WAYS(loop, 256, true); \
            break; \
        default: \
            WAYS(loop, (size_t)j->piece, false); \
        } \
    } while (0)

INLINE void run(const struct job *j)
{
    if (!j->off)
        LENGTHS(at_stride);
    else if (j->piece)
        LENGTHS(at_offsets);
    else if (j->to_packed)
        of_lengths(j, true);
    else
        of_lengths(j, false);
}

static void run_plain(const struct job *j) { run(j); }

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void run_wide(const struct job *j) { run(j); }

static bool wide(void)
{
    static int known; /* 0: not looked, 1: no, 2: yes */
    if (!rt_load_relaxed(&known))
        rt_store_relaxed(&known, __builtin_cpu_supports("avx2") ? 2 : 1);
    return rt_load_relaxed(&known) == 2;
}
#else
static void run_wide(const struct job *j) { run(j); }
static bool wide(void) { return false; }
#endif

/* Bytes; more than the caches hold. */
#define FAR_FROM (8 << 20)

#if defined(__x86_64__)
/* Writes whole lines around the caches, so that they are not read first: unpacking 16 MiB in pieces
 * of 64 to 1024 bytes is twice as fast.  Packing does not gain from it, because it is limited by
 * reading the gaps. */
__attribute__((target("avx2"))) static void write_lines(char *d, const char *s, int64_t len)
{
    if ((uintptr_t)d % RT_CACHE_LINE || len % RT_CACHE_LINE) {
        copy_any(d, s, (size_t)len);
        return;
    }
    for (int64_t i = 0; i < len; i += 32)
        _mm256_stream_si256((__m256i *)(void *)(d + i),
                            _mm256_loadu_si256((const __m256i *)(const void *)(s + i)));
}

static void write_lines_end(void) { _mm_sfence(); }
#else
static void write_lines(char *d, const char *s, int64_t len) { memcpy(d, s, (size_t)len); }
static void write_lines_end(void) {}
#endif

static bool is_far(const struct job *j)
{
    return !j->to_packed && j->piece >= RT_CACHE_LINE && j->n * j->count >= FAR_FROM / j->piece;
}

static void unpack_far(const struct job *j)
{
    const char *packed = j->packed;
    char *group = j->user;
    const int64_t len = j->piece;
    for (int64_t e = 0; e < j->n; e++, group += j->step)
        for (int64_t i = 0; i < j->count; i++, packed += len)
            write_lines(group + (j->off ? j->off[i] : i * j->stride), packed, len);
    write_lines_end();
}

static void start(const struct job *j)
{
    if (!wide())
        run_plain(j);
    else if (is_far(j))
        unpack_far(j);
    else
        run_wide(j);
}

void rt_layout_copy_pieces(char *packed, char *user, int64_t step, int64_t n,
                           const struct rt_blocks *g, uint32_t i, uint32_t end, bool to_packed)
{
    const struct job j = { .packed = packed,
                           .user = user,
                           .step = step,
                           .n = n,
                           .off = g->off + i,
                           .first = g->first ? g->first + i : NULL,
                           .count = end - i,
                           .piece = g->piece,
                           .to_packed = to_packed };
    start(&j);
}

void rt_layout_copy_strided(char *packed, char *user, int64_t step, int64_t n,
                            const struct rt_block *b, bool to_packed)
{
    const struct job j = { .packed = packed,
                           .user = user,
                           .step = step,
                           .n = n,
                           .stride = b->stride,
                           .count = b->nrep,
                           .piece = b->len,
                           .to_packed = to_packed };
    start(&j);
}
