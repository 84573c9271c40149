/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_pack and weft_unpack: bytes of a layout to and from their packed form.
 *
 * Each warp takes a chunk of the packed range, finds where the chunk begins in the layout (the only
 * 64-bit division), and goes through it.  All lanes together copy a long piece, in the widest
 * vectors that its two addresses allow.  Of short pieces each lane looks up and moves units of its
 * own, neighbours in packed order, so that accesses to the packed side are coalesced, with the
 * loads of several units in flight.  Any grid works; blocks of a multiple of 32 threads. */
#include "runtime/gpu/kernel.h"

namespace
{

constexpr uint32_t LANES = 32;
constexpr int64_t CHUNK_STEP = 512; /* one 16-byte vector a lane */
constexpr int64_t CHUNK_MAX = 2048; /* four of them, all loaded before the first is stored */

typedef struct rt_gpu_group group;

struct table {
    const group *g;
    uint32_t n;
};

/* The last group that does not begin behind r.  The search starts at group `low`, near which it
 * often lies. */
__device__ uint32_t find(table t, uint32_t low, int64_t r)
{
    uint32_t high = low + 1;
#pragma unroll 1
    for (uint32_t step = 1; high < t.n && t.g[high].first <= r; step *= 2) {
        low = high;
        high = t.n - high > step ? high + step : t.n;
    }
#pragma unroll 1
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (t.g[mid].first <= r)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* Byte `in` of a group's packed form: its offset in its piece, and where the piece begins. */
__device__ int64_t piece_of(int64_t in, int64_t len, int64_t stride, int64_t *begin)
{
    int64_t rep;
    if (in < len)
        rep = 0;
    else if ((in | len) >> 32)
        rep = (int64_t)((uint64_t)in / (uint64_t)len);
    else
        rep = (uint32_t)in / (uint32_t)len;
    *begin = rep * stride;
    return in - rep * len;
}

/* The element and position of `r`, a packed position that may have run past the end of element e,
 * by less than a chunk. */
__device__ void wrap(int64_t *e, int64_t *r, int64_t size)
{
    if (*r < size)
        return;
    *r -= size;
    ++*e;
    if (*r < size)
        return;
    uint32_t more = (uint32_t)*r / (uint32_t)size; /* size < *r < CHUNK_MAX */
    *r -= (int64_t)more * size;
    *e += more;
}

/* n vectors by one warp, with four a lane in flight. */
template <typename V> __device__ void copy_vectors(V *d, const V *s, uint32_t n, uint32_t lane)
{
#pragma unroll 1
    for (uint32_t i = lane; i < n; i += 4 * LANES) {
        V v[4];
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
            if (i + k * LANES < n)
                v[k] = s[i + k * LANES];
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
            if (i + k * LANES < n)
                d[i + k * LANES] = v[k];
    }
}

__device__ void copy_bytes(char *d, const char *s, uint32_t n, uint32_t lane)
{
#pragma unroll 1
    for (uint32_t i = lane; i < n; i += LANES)
        d[i] = s[i];
}

/* Both ends have the same distance from an address at which vectors may begin. */
template <typename V> __device__ void copy_alike(char *d, const char *s, uint32_t n, uint32_t lane)
{
    uint32_t head = (uint32_t) - (uintptr_t)d % sizeof(V);
    uint32_t whole = (n - head) / sizeof(V), tail = (n - head) % sizeof(V);
    if (head)
        copy_bytes(d, s, head, lane);
    copy_vectors((V *)(d + head), (const V *)(s + head), whole, lane);
    if (tail)
        copy_bytes(d + n - tail, s + n - tail, tail, lane);
}

/* The two ends are aligned differently: 16 bytes are combined from five words of four.  Only words
 * that lie completely inside the source are read. */
__device__ void copy_shifted(char *d, const char *s, uint32_t n, uint32_t lane)
{
    uint32_t head = (uint32_t) - (uintptr_t)d % 16;
    head += head < 4 ? 16 : 0;
    uint32_t whole = (n - head - 4) / 16, tail = n - head - 16 * whole;
    copy_bytes(d, s, head, lane);
    uint32_t shift = 8 * ((uint32_t)(uintptr_t)(s + head) % 4);
    const uint32_t *from = (const uint32_t *)((uintptr_t)(s + head) & ~(uintptr_t)3);
    uint4 *to = (uint4 *)(d + head);
#pragma unroll 2
    for (uint32_t i = lane; i < whole; i += LANES) {
        uint32_t w[5];
#pragma unroll
        for (uint32_t k = 0; k < 5; k++)
            w[k] = from[4 * i + k];
        to[i] = make_uint4(__funnelshift_r(w[0], w[1], shift), __funnelshift_r(w[1], w[2], shift),
                           __funnelshift_r(w[2], w[3], shift), __funnelshift_r(w[3], w[4], shift));
    }
    copy_bytes(d + n - tail, s + n - tail, tail, lane);
}

/* n bytes by one warp, 64 at least. */
__device__ void copy_long(char *d, const char *s, uint32_t n, uint32_t lane)
{
    uint32_t differ = (uint32_t)((uintptr_t)d ^ (uintptr_t)s);
    if (!(differ & 15))
        copy_alike<uint4>(d, s, n, lane);
    else if (!(differ & 7))
        copy_alike<uint2>(d, s, n, lane);
    else
        copy_shifted(d, s, n, lane);
}

/* Units that a lane has in flight at a time. */
__device__ constexpr uint32_t depth_of(uint32_t unit) { return unit >= 8 ? 4 : 8; }

struct place {    /* in the layout; the same in all lanes */
    int64_t e, r; /* element and packed position in it */
    uint32_t i;   /* group: its number, */
    group now;    /* and a copy */
};

template <typename V, bool PACK> __device__ void move_unit(char *packed, char *user)
{
    if (PACK)
        *(V *)packed = *(const V *)user;
    else
        *(V *)user = *(const V *)packed;
}

/* The next n packed bytes, at most a window, all in the group of the place, so 32-bit arithmetic is
 * enough. */
template <typename V, bool PACK>
__device__ void move_alike(const place &at, uint32_t skip, char *packed, char *user, uint32_t n,
                           uint32_t lane)
{
    constexpr uint32_t unit = sizeof(V), depth = depth_of(unit);
    const uint32_t len = (uint32_t)at.now.len;
    char *piece[depth];
    V v[depth];
#pragma unroll
    for (uint32_t k = 0; k < depth; k++) {
        uint32_t in = skip + (lane + k * LANES) * unit, rep = in / len;
        piece[k] = user + (int64_t)rep * at.now.stride + (in - rep * len);
    }
#pragma unroll
    for (uint32_t k = 0; k < depth; k++) {
        uint32_t d = (lane + k * LANES) * unit;
        if (d < n)
            v[k] = *(const V *)(PACK ? piece[k] : packed + d);
    }
#pragma unroll
    for (uint32_t k = 0; k < depth; k++) {
        uint32_t d = (lane + k * LANES) * unit;
        if (d < n)
            *(V *)(PACK ? packed + d : piece[k]) = v[k];
    }
}

/* The next n packed bytes, in any groups: each lane looks up its units. */
template <typename V, bool PACK>
__device__ void move_mixed(const struct rt_gpu_pack &p, table t, const place &at, char *packed,
                           uint32_t n, uint32_t lane)
{
#pragma unroll 1
    for (uint32_t d = lane * sizeof(V); d < n; d += LANES * sizeof(V)) {
        int64_t e = at.e, r = at.r + d, begin;
        wrap(&e, &r, p.size);
        const group &g = t.g[find(t, e == at.e ? at.i : 0, r)];
        int64_t in = piece_of(r - g.first, g.len, g.stride, &begin);
        move_unit<V, PACK>(packed + d, (char *)(p.user + e * p.extent + g.off + begin + in));
    }
}

template <typename V, bool PACK>
__device__ void move_window(const struct rt_gpu_pack &p, table t, const place &at, char *packed,
                            uint32_t n, uint32_t lane)
{
    const int64_t skip = at.r - at.now.first, whole = at.now.len * at.now.nrep;
    if (skip + n <= whole && !(whole >> 32))
        move_alike<V, PACK>(at, (uint32_t)skip, packed,
                            (char *)(p.user + at.e * p.extent + at.now.off), n, lane);
    else
        move_mixed<V, PACK>(p, t, at, packed, n, lane);
}

/* Short pieces: the next packed bytes from the place on, at most n; returns how many. */
template <bool PACK>
__device__ uint32_t move_short(const struct rt_gpu_pack &p, table t, const place &at, char *packed,
                               int64_t n, uint32_t lane)
{
    const uint32_t window = p.unit * depth_of(p.unit) * LANES;
    const uint32_t now = n < window ? (uint32_t)n : window;
    switch (p.unit) {
    case 16:
        move_window<uint4, PACK>(p, t, at, packed, now, lane);
        break;
    case 8:
        move_window<uint2, PACK>(p, t, at, packed, now, lane);
        break;
    case 4:
        move_window<uint32_t, PACK>(p, t, at, packed, now, lane);
        break;
    case 2:
        move_window<uint16_t, PACK>(p, t, at, packed, now, lane);
        break;
    default:
        move_window<uint8_t, PACK>(p, t, at, packed, now, lane);
    }
    return now;
}

/* Bytes [at, end) of the packed range, by one warp. */
template <bool PACK>
__device__ void move_chunk(const struct rt_gpu_pack &p, table t, int64_t at, int64_t end,
                           uint32_t lane)
{
    const int64_t long_from = p.unit >= 16 ? 1024 : p.unit == 8 ? 512 : 256;
    place here;
    here.e = p.pos + at < p.size ? 0 : (int64_t)((uint64_t)(p.pos + at) / (uint64_t)p.size);
    here.r = (p.pos + at) - here.e * p.size;
    here.i = 0;
#pragma unroll 1
    while (at < end) {
        here.i = find(t, here.i, here.r);
        here.now = t.g[here.i];
        int64_t begin;
        int64_t in = piece_of(here.r - here.now.first, here.now.len, here.now.stride, &begin);
        int64_t left = end - at, run = here.now.len - in;
        char *packed = (char *)p.packed + at;
        if (run > left)
            run = left;
        if (run >= long_from || (run == left && run >= 64)) {
            char *user = (char *)(p.user + here.e * p.extent + here.now.off + begin + in);
            copy_long(PACK ? packed : user, PACK ? user : packed, (uint32_t)run, lane);
        } else {
            run = move_short<PACK>(p, t, here, packed, left, lane);
        }
        at += run;
        here.r += run;
        int64_t e = here.e;
        wrap(&here.e, &here.r, p.size);
        here.i = here.e == e ? here.i : 0;
    }
}

template <bool PACK> __device__ void move_all(const struct rt_gpu_pack &p)
{
    const uint32_t lane = threadIdx.x % LANES, warps = gridDim.x * (blockDim.x / LANES);
    const table t = { p.table ? (const group *)p.table : p.inline_groups, p.ngroups };
    int64_t chunk = (p.len + warps - 1) / warps;
    chunk = (chunk + CHUNK_STEP - 1) / CHUNK_STEP * CHUNK_STEP;
    if (chunk > CHUNK_MAX)
        chunk = CHUNK_MAX;
    int64_t at = (int64_t)(blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES) * chunk;
#pragma unroll 1
    for (; at < p.len; at += warps * chunk)
        move_chunk<PACK>(p, t, at, at + chunk < p.len ? at + chunk : p.len, lane);
}

/* The last block that arrives here notifies the host.  Each block's stores are ordered before its
 * count by the barrier and one thread's fence for all; the count orders them before the flag. */
__device__ void finish(const struct rt_gpu_pack &p)
{
    __syncthreads();
    if (threadIdx.x)
        return;
    __threadfence_system();
    uint32_t *counter = (uint32_t *)p.counter;
    if (gridDim.x > 1 && atomicAdd(counter, 1) != gridDim.x - 1)
        return;
    if (gridDim.x > 1)
        *counter = 0;
    __threadfence_system();
    *(volatile uint32_t *)p.flag = p.value;
}

} // namespace

extern "C" __global__ void __launch_bounds__(256, 4)
    weft_pack(const __grid_constant__ struct rt_gpu_pack p)
{
    move_all<true>(p);
    finish(p);
}

extern "C" __global__ void __launch_bounds__(256, 4)
    weft_unpack(const __grid_constant__ struct rt_gpu_pack p)
{
    move_all<false>(p);
    finish(p);
}
