/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of fold.cu, fold_rare.cu and atomic.cu on the CPU, thread after thread: their lanes
 * do not communicate, so this detects everything but races.  Compiled and run by
 * gpu_fold_kernel_test. */
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
typedef unsigned long long u64;
template <class T> static T atomic_load(const T *p)
{
    misaligned |= (uintptr_t)p % sizeof(T) != 0;
    return *p;
}
template <class T> static T atomic_swap(T *p, T v)
{
    T was = atomic_load(p);
    *p = v;
    return was;
}
template <class T> static T atomic_add(T *p, T v) { return atomic_swap(p, (T)(v + *p)); }
template <class T> static T atomic_cas(T *p, T expected, T v)
{
    T was = atomic_load(p);
    if (was == expected)
        *p = v;
    return was;
}
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
#include "runtime/gpu/atomic.cu"
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

/* ---- atomic changes ---- */

static const size_t CHANGED = 64 << 10; /* bytes in which all elements and operands lie */
struct atomic_case {
    fold_kind kind;
    bool moves, bits;
    struct rt_gpu_atomic_args k;
    std::vector<uint64_t> table;
};

/* The new value of an element; both in the lowest bytes. */
static uint64_t changed(const atomic_case &c, uint64_t was, uint64_t v)
{
    uint64_t acc = v;
    if (c.k.code == RT_GPU_ATOMIC_READ)
        return was;
    if (c.k.code == RT_GPU_ATOMIC_CAS)
        return was == c.k.compare ? v : was;
    if (c.bits)
        return c.k.code == RT_GPU_FOLD_BAND  ? v & was
               : c.k.code == RT_GPU_FOLD_BOR ? v | was
                                             : v ^ was;
    if (c.k.code == RT_GPU_FOLD_COPY)
        return v;
    if (c.kind.kernel == F16 || c.kind.kernel == BF16) {
        uint8_t t = c.kind.type;
        return down(t, number<float>(c.kind.code, up(t, (uint16_t)v), up(t, (uint16_t)was)));
    }
    combine(c.kind, (char *)&acc, (const char *)&was);
    return acc;
}

static atomic_case atomic_case_of(area &to, area &with)
{
    atomic_case c = {};
    do
        c.kind = kinds[rnd(NKINDS)];
    while (c.kind.kernel == BITS || c.kind.kernel >= WIDE8);
    c.k.type = c.kind.type;
    c.k.code = c.kind.code;
    unsigned other = rnd(8);
    bool is_int = c.kind.type < RT_GPU_F16;
    if (other < 3 || (other < 4 && is_int)) {
        static const uint8_t codes[] = { RT_GPU_FOLD_COPY, RT_GPU_ATOMIC_READ, RT_GPU_ATOMIC_CAS };
        c.bits = other == 3;
        c.k.code = c.bits ? (uint8_t)(RT_GPU_FOLD_BAND + rnd(3)) : codes[other];
    }
    c.k.count = 1 + rnd(rnd(3) ? 3000 : 20);
    size_t n = c.kind.nbytes, at = 64 + n * rnd(64);
    c.k.dst = (uint64_t)(to.at + at + (rnd(5) ? 0 : rnd(16)));
    c.k.src = (uint64_t)(with.at + n * rnd(64));
    c.k.old = rnd(2) ? (uint64_t)(with.at + AREA / 2) : 0;
    if (rnd(3) == 0) {
        for (size_t i = 0; i < c.k.count; i++)
            c.table.push_back(c.k.dst + 2 * n * i + (rnd(9) ? 0 : rnd((unsigned)n)));
        c.k.table = (uint64_t)c.table.data();
    }
    return c;
}

static bool atomic_round_ok(std::vector<area> &areas)
{
    area &to = areas[0], &with = areas[1];
    atomic_case c = atomic_case_of(to, with);
    size_t n = c.kind.nbytes;
    for (area &a : areas) {
        for (size_t i = 0; i + n <= CHANGED; i += n)
            make_element(c.kind, &a.image[i]);
        memcpy(a.at, a.image.data(), CHANGED);
    }
    uint32_t flag = 0, counter = 0;
    uint64_t given = 0;
    if (c.k.count == 1 && rnd(2)) {
        memcpy(&given, (char *)c.k.src, n);
        c.k.src = given;
        c.k.given |= RT_GPU_GIVEN_SRC;
    }
    memcpy(&c.k.compare, rnd(2) ? (char *)c.k.dst : with.at, n);
    uint64_t compare = c.k.compare;
    if (rnd(2))
        c.k.given |= RT_GPU_GIVEN_COMPARE;
    for (size_t i = 0; i < c.k.count; i++) {
        uint64_t at = c.table.empty() ? c.k.dst + n * i : c.table[i], was = 0, v = 0, now;
        char *p = to.image.data() + (at - (uint64_t)to.at);
        memcpy(&was, p, n);
        memcpy(&v, c.k.given & RT_GPU_GIVEN_SRC ? (char *)&given : (char *)c.k.src + n * i, n);
        now = changed(c, was, v);
        memcpy(p, &now, n);
        if (c.k.old)
            memcpy(with.image.data() + (c.k.old - (uint64_t)with.at) + n * i, &was, n);
    }
    if (!(c.k.given & RT_GPU_GIVEN_COMPARE))
        c.k.compare = (uint64_t)&compare;
    c.k.flag = (uint64_t)&flag;
    c.k.counter = (uint64_t)&counter;
    c.k.value = 7;
    gridDim.x = 1 + rnd(4);
    blockDim.x = WEFT_FOLD_THREADS;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
        for (uint32_t t = WEFT_FOLD_THREADS; t-- > 0;) {
            threadIdx.x = t;
            device::weft_atomic(c.k);
        }
    bool ok = flag == 7 && !counter && !misaligned;
    for (area &a : areas)
        ok &= !memcmp(a.at, a.image.data(), AREA);
    if (!ok)
        printf("# %s, code %d, %d elements%s%s%s\n", c.kind.name, c.k.code, (int)c.k.count,
               c.table.empty() ? "" : ", table", c.k.old ? ", old values" : "",
               misaligned ? ", out of alignment" : "");
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
    printf("%sok 1 - kernels that reduce, on the CPU\n", ok ? "" : "not ");
    bool atomic = true;
    for (int i = 0; i < rounds && atomic; i++)
        atomic = atomic_round_ok(areas);
    printf("%sok 2 - atomic changes of elements, on the CPU\n1..2\n", atomic ? "" : "not ");
    ok &= atomic;
    return !ok;
}
