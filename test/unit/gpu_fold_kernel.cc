/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of fold.cu and fold_rare.cu on the CPU, thread after thread: their lanes do not
 * communicate, so this detects everything but races.  Compiled and run by gpu_fold_kernel_test. */
#include "test/gpu/fold_case.h"

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
static struct {
    uint32_t x;
} threadIdx, blockIdx, blockDim, gridDim;
static void __syncthreads() {}
static float __fmul_rn(float x, float y) { return x * y; }
static double __dmul_rn(double x, double y) { return x * y; }
static uint32_t atomicAdd(uint32_t *p, uint32_t more)
{
    uint32_t old = *p;
    *p += more;
    return old;
}
using std::isinf;
using std::isnan;

/* ---- replacement of ptx.h ---- */

#define RT_GPU_PTX_H
static bool misaligned;
static void fence_system() {}
static void fence_device() {}
static void loads_end() {}
static void host_store(uint64_t at, uint32_t v) { *(uint32_t *)at = v; }
static float float_of_f16(uint16_t h) { return up(RT_GPU_F16, h); }
static uint16_t f16_of_float(float f) { return down(RT_GPU_F16, f); }
static uint16_t bf16_of_float(float f) { return down(RT_GPU_BF16, f); }
template <bool stays> struct from {
    template <class T> static T load(const T *p)
    {
        misaligned |= (uintptr_t)p % sizeof(T) != 0;
        T v;
        memcpy(&v, p, sizeof v);
        return v;
    }
};

namespace device
{ /* the kernels have their own names for the same things */
#include "runtime/gpu/fold.cu"
#include "runtime/gpu/fold_rare.cu"
} // namespace device

typedef void kernel(struct rt_gpu_fold_args f);
static kernel *const kernels[FOLD_KERNELS] = {
    device::weft_fold_bits, device::weft_fold_4,     device::weft_fold_8,
    device::weft_fold_f16,  device::weft_fold_bf16,  device::weft_fold_1,
    device::weft_fold_2,    device::weft_fold_wide8, device::weft_fold_wide16,
};

static void launch(const fold_case &c)
{
    gridDim.x = c.grid;
    blockDim.x = WEFT_FOLD_THREADS;
    for (blockIdx.x = 0; blockIdx.x < c.grid; blockIdx.x++)
        for (uint32_t t = WEFT_FOLD_THREADS; t-- > 0;) { /* thread 0 last: it reports the end */
            threadIdx.x = t;
            kernels[c.kind.kernel](c.k);
        }
}

static bool round_ok(std::vector<area> &areas)
{
    uint32_t flag = 0, counter = 0;
    fold_case c = random_case(areas);
    bool ok = true;
    c.k.flag = (uint64_t)&flag;
    c.k.counter = (uint64_t)&counter;
    c.k.value = 7;
    for (area &a : areas)
        memcpy(a.at, a.image.data(), AREA);
    launch(c);
    reference(c);
    for (area &a : areas)
        ok &= !memcmp(a.at, a.image.data(), AREA);
    ok &= flag == 7 && !counter && !misaligned;
    if (!ok)
        describe(c);
    if (misaligned)
        printf("# out of alignment\n");
    return ok;
}

int main(int argc, char **argv)
{
    const int rounds = argc > 2 ? atoi(argv[2]) : 600;
    std::vector<area> areas(2);
    bool ok = true;
    rng = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    printf("# seed %llu\n", (unsigned long long)rng);
    for (area &a : areas) {
        a.at = (char *)aligned_alloc(64, AREA);
        a.image.resize(AREA);
        for (char &b : a.image)
            b = (char)rnd(256);
    }
    for (int i = 0; i < rounds && ok; i++)
        ok = round_ok(areas);
    printf("%sok 1 - kernels that reduce, on the CPU\n1..1\n", ok ? "" : "not ");
    return !ok;
}
