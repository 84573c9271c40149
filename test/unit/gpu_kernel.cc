/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of pack.cu on the CPU, thread after thread: their lanes do not communicate, so this
 * detects everything but races.  Compiled and run by gpu_kernel_test. */
#include "test/gpu/pack_case.h"
#include <stdio.h>

#define __device__
#define __global__
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
static uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return { x, y, z, w }; }
static uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t n)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> (n & 31));
}
static struct {
    uint32_t x;
} threadIdx, blockIdx, blockDim, gridDim;
static void __syncthreads() {}
static void __threadfence_system() {}
static uint32_t atomicAdd(uint32_t *p, uint32_t more)
{
    uint32_t old = *p;
    *p += more;
    return old;
}
#include "runtime/gpu/pack.cu"

static void launch(const pack_case &c)
{
    gridDim.x = c.grid;
    blockDim.x = 256;
    for (blockIdx.x = 0; blockIdx.x < c.grid; blockIdx.x++) {
        for (uint32_t t = 256; t-- > 0;) { /* thread 0 last: it reports that all have finished */
            threadIdx.x = t;
            if (c.pack)
                weft_pack(c.k);
            else
                weft_unpack(c.k);
        }
    }
}

static bool round_ok(char *user, char *packed)
{
    bytes u(USER), p(PACKED);
    uint32_t flag = 0, counter = 0;
    pack_case c = random_case(user, packed);
    c.k.flag = (uint64_t)&flag;
    c.k.counter = (uint64_t)&counter;
    c.k.value = 7;
    if (c.e.g.size() > RT_GPU_PACK_INLINE || rnd(2))
        c.k.table = (uint64_t)c.e.g.data();
    else
        memcpy(c.k.inline_groups, c.e.g.data(), c.e.g.size() * sizeof c.e.g[0]);
    fill(u);
    fill(p);
    memcpy(user, u.data(), USER);
    memcpy(packed, p.data(), PACKED);
    launch(c);
    reference(c.k, c.e.g, u.data() + c.origin, p.data() + c.begin, c.pack);
    if (!memcmp(u.data(), user, USER) && !memcmp(p.data(), packed, PACKED) && flag == 7 && !counter)
        return true;
    printf("# %s of bytes %lld to %lld, element of %lld bytes in %u groups, unit %u, %u blocks\n",
           c.pack ? "pack" : "unpack", (long long)c.k.pos, (long long)(c.k.pos + c.k.len),
           (long long)c.k.size, c.k.ngroups, c.k.unit, c.grid);
    return false;
}

int main(int argc, char **argv)
{
    const int rounds = argc > 2 ? atoi(argv[2]) : 250;
    char *user = (char *)aligned_alloc(64, USER), *packed = (char *)aligned_alloc(64, PACKED);
    bool ok = user && packed;
    rng = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    printf("# seed %llu\n", (unsigned long long)rng);
    for (int i = 0; i < rounds && ok; i++)
        ok = round_ok(user, packed);
    printf("%sok 1 - kernels on the CPU\n1..1\n", ok ? "" : "not ");
    free(user);
    free(packed);
    return ok ? 0 : 1;
}
