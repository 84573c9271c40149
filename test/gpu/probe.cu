/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures the figures of runtime/gpu/cost.def: host cost of driver calls, latency of each way of
 * copying until the host sees a flag, rates of groups.  Built by hand, not part of make:
 *     nvcc -O2 -arch=sm_90 -I. test/gpu/probe.cu runtime/gpu/move.cu -lcuda -o probe && ./probe
 * Arguments name the sections to run (host flag linger group engine pinned map clock check); none:
 * all.  With two GPUs device 0 copies to and from device 1.  Lines are "section what parameters
 * value unit", medians unless stated otherwise.  Data that a kernel moved are compared. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif
#include "runtime/gpu/kernel.h"
#include "runtime/gpu/move_kernels.h"

extern "C" __global__ void weft_batch(const __grid_constant__ struct rt_gpu_batch b);
extern "C" __global__ void weft_linger(const __grid_constant__ struct rt_gpu_linger p);
__global__ void small_kernel(uint32_t *flag, uint32_t v)
{
    __threadfence_system();
    *(volatile uint32_t *)flag = v;
}
__global__ void globaltimer_kernel(unsigned long long *out) /* tick, cost of reading in clocks */
{
    unsigned long long a, b, tick = ~0ull;
    for (int i = 0; i < 50; i++) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(a));
        do
            asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(b));
        while (a == b);
        if (b - a < tick)
            tick = b - a;
    }
    long long c0 = clock64();
    for (int i = 0; i < 100; i++)
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(b));
    out[1] = (unsigned long long)(clock64() - c0) / 100 + (b == 1);
    out[0] = tick;
}

#define RT(x) \
    do { \
        cudaError_t e_ = (x); \
        if (e_ != cudaSuccess) { \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e_)); \
            exit(1); \
        } \
    } while (0)
#define CU(x) \
    do { \
        CUresult r_ = (x); \
        if (r_ != CUDA_SUCCESS) { \
            const char *t_ = "?"; \
            cuGetErrorName(r_, &t_); \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #x, t_); \
            exit(1); \
        } \
    } while (0)

static const size_t BIG = 64u << 20;
static int ngpus;
static CUstream str[4], kst;
static CUfunction f_batch, f_linger, f_small;
static char *local[2], *peer, *pinned; /* BIG bytes each; peer NULL with one GPU */
static volatile uint32_t *flags;       /* pinned, a line of 16 words each */
static uint32_t *counter;
static struct rt_gpu_work *work_area;
static struct rt_gpu_desc *ring;
static volatile struct rt_gpu_words *words;
static uint32_t value = 1;

static double now_us()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static double median(std::vector<double> v)
{
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

template <class F> static double med(int n, F f)
{
    std::vector<double> v;
    for (int i = 0; i < n + n / 10 + 1; i++) {
        double t = now_us();
        f();
        t = now_us() - t;
        if (i > n / 10)
            v.push_back(t);
    }
    return median(v);
}

static void wait_word(volatile uint32_t *w, uint32_t v, const char *what)
{
    double t = 0;
    for (unsigned i = 1; *w != v; i++)
        if (i % 100000 == 0) {
            CUresult r = cuStreamQuery(kst);
            if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY)
                CU(r);
            t = t ? t : now_us();
            if (now_us() - t > 3e6) {
                printf("TIMEOUT waiting for %s: %u, expected %u\n", what, *w, v);
                fflush(stdout);
                _Exit(1);
            }
        }
    __sync_synchronize();
}

static int npairs() { return ngpus > 1 ? 3 : 1; }
static const char *pair_name[] = { "local", "peer-get", "peer-put" };
static void pair(int k, char **dst, char **src)
{
    *src = k == 1 ? peer : local[0];
    *dst = k == 2 ? peer : local[1];
}

static std::vector<uint8_t> noise;
static void fill(char *p, size_t n) { RT(cudaMemcpy(p, noise.data(), n, cudaMemcpyDefault)); }
static void poison(char *p, size_t n)
{
    RT(cudaMemset(p, 0x5a, n));
    RT(cudaDeviceSynchronize());
}
static bool same(const char *p, size_t n)
{
    std::vector<uint8_t> got(n);
    RT(cudaMemcpy(got.data(), p, n, cudaMemcpyDefault));
    return memcmp(got.data(), noise.data(), n) == 0;
}

/* ---- the ways of copying ---- */

static unsigned pieces(size_t len)
{
    return (unsigned)((len + WEFT_BATCH_PIECE - 1) / WEFT_BATCH_PIECE);
}

/* Like runtime/gpu/launch.c. */
static void launch(CUfunction f, unsigned grid, unsigned block, void *params)
{
    static CUgraph graph;
    static CUgraphNode node;
    static CUgraphExec exec[2];
    void *list[] = { params };
    CUDA_KERNEL_NODE_PARAMS k = {};
    CUgraphExec *e = &exec[f == f_linger];
    k.func = f;
    k.gridDimX = grid;
    k.blockDimX = block;
    k.gridDimY = k.gridDimZ = k.blockDimY = k.blockDimZ = 1;
    k.kernelParams = list;
    if (!graph) {
        CU(cuGraphCreate(&graph, 0));
        CU(cuGraphAddKernelNode(&node, graph, NULL, 0, &k));
    }
    if (!*e)
        CU(cuGraphInstantiateWithFlags(e, graph, 0));
    CU(cuGraphExecKernelNodeSetParams(*e, node, &k));
    CU(cuGraphLaunch(*e, kst));
}

static bool is_near(const void *dst)
{
    for (char *l : local)
        if ((char *)dst >= l && (char *)dst < l + 2 * BIG)
            return true;
    return false;
}

static void batch_start(struct rt_gpu_batch *b, unsigned grid)
{
    b->near = 1;
    for (unsigned i = 0; i < b->n; i++)
        b->near &= is_near((void *)b->move[i].dst);
    b->flag = (uint64_t)&flags[0];
    b->counter = (uint64_t)counter;
    b->value = ++value;
    launch(f_batch, grid, WEFT_BATCH_THREADS, b);
}
static void batch_one(char *dst, const char *src, size_t len, unsigned cap)
{
    static struct rt_gpu_batch b;
    b.n = 1;
    b.move[0] = { (uint64_t)dst, (uint64_t)src, len };
    batch_start(&b, std::max(1u, std::min(cap, pieces(len))));
    wait_word(&flags[0], value, "batch");
}
static void engine_flag(char *dst, const char *src, size_t len)
{
    CU(cuMemcpyAsync((CUdeviceptr)dst, (CUdeviceptr)src, len, str[0]));
    CU(cuStreamWriteValue32(str[0], (CUdeviceptr)&flags[16], ++value, 0));
    wait_word(&flags[16], value, "engine");
}
static CUevent ev;
static void engine_event(char *dst, const char *src, size_t len)
{
    CU(cuMemcpyAsync((CUdeviceptr)dst, (CUdeviceptr)src, len, str[0]));
    CU(cuEventRecord(ev, str[0]));
    while (cuEventQuery(ev) == CUDA_ERROR_NOT_READY)
        ;
}

static uint32_t seq = 0, launches = 0;
static void linger_start(unsigned blocks, uint64_t idle_ns, uint64_t life_ns, uint32_t next = 0)
{
    struct rt_gpu_linger p = {};
    p.ring = (uint64_t)ring;
    p.words = (uint64_t)words;
    p.work = (uint64_t)work_area;
    p.recall = (uint64_t)(counter + 64);
    p.next = next ? next : seq + 1;
    p.launch = ++launches;
    p.idle_ns = idle_ns;
    p.life_ns = life_ns;
    memcpy(&p.first, (const void *)&ring[p.next % RT_GPU_RING_SLOTS], sizeof p.first);
    launch(f_linger, blocks, WEFT_LINGER_THREADS, &p);
}
static void linger_post(char *dst, const char *src, size_t len)
{
    uint32_t s = ++seq;
    struct rt_gpu_desc *d = &ring[s % RT_GPU_RING_SLOTS];
    d->dst = (uint64_t)dst;
    d->src = (uint64_t)src;
    d->len = len;
    __atomic_store_n(&d->seq_too, s, __ATOMIC_RELEASE);
    __atomic_store_n(&d->seq, s, __ATOMIC_RELEASE);
}
static void linger_one(char *dst, const char *src, size_t len)
{
    linger_post(dst, src, len);
    wait_word(&words->done, seq, "linger");
}
static void linger_end() { wait_word(&words->left, launches, "the polling kernel's end"); }

/* ---- sections ---- */

static void sec_host()
{
    const int n = 32;
    auto cost = [&](const char *what, auto f) {
        std::vector<double> v;
        for (int r = 0; r < 60; r++) {
            RT(cudaDeviceSynchronize());
            double t = now_us();
            for (int i = 0; i < n; i++)
                f(i);
            v.push_back((now_us() - t) / n * 1000);
        }
        RT(cudaDeviceSynchronize());
        printf("host %-44s %8.0f ns\n", what, median(v));
    };
    char *far = peer ? peer : local[0];
    struct rt_gpu_batch b = {};
    b.n = 1;
    b.flag = (uint64_t)&flags[0];
    b.counter = (uint64_t)counter;
    b.move[0] = { (uint64_t)local[1], (uint64_t)local[0], 8 };
    uint32_t *fl = (uint32_t *)&flags[32], v1 = 1;
    void *small[] = { &fl, &v1 }, *large[] = { &b };
    cost("cuMemcpyAsync local 8 B",
         [&](int) { CU(cuMemcpyAsync((CUdeviceptr)local[1], (CUdeviceptr)local[0], 8, str[0])); });
    cost("cuMemcpyAsync peer get 8 B",
         [&](int) { CU(cuMemcpyAsync((CUdeviceptr)local[1], (CUdeviceptr)far, 8, str[0])); });
    cost("cuMemcpyAsync peer get 1 MiB",
         [&](int) { CU(cuMemcpyAsync((CUdeviceptr)local[1], (CUdeviceptr)far, 1 << 20, str[0])); });
    cost("cuMemcpyAsync peer put 1 MiB",
         [&](int) { CU(cuMemcpyAsync((CUdeviceptr)far, (CUdeviceptr)local[1], 1 << 20, str[0])); });
    cost("cuMemcpyAsync to pinned 8 B",
         [&](int) { CU(cuMemcpyAsync((CUdeviceptr)pinned, (CUdeviceptr)local[0], 8, str[0])); });
    cost("cuMemcpyAsync peer get 1 MiB, 4 streams in turn", [&](int i) {
        CU(cuMemcpyAsync((CUdeviceptr)local[1], (CUdeviceptr)far, 1 << 20, str[i % 4]));
    });
    cost("cuMemcpyDtoDAsync local 8 B", [&](int) {
        CU(cuMemcpyDtoDAsync((CUdeviceptr)local[1], (CUdeviceptr)local[0], 8, str[0]));
    });
    cost("cuMemcpyDtoDAsync peer get 1 MiB", [&](int) {
        CU(cuMemcpyDtoDAsync((CUdeviceptr)local[1], (CUdeviceptr)far, 1 << 20, str[0]));
    });
    cost("cuMemcpyDtoDAsync peer put 1 MiB", [&](int) {
        CU(cuMemcpyDtoDAsync((CUdeviceptr)far, (CUdeviceptr)local[1], 1 << 20, str[0]));
    });
    if (ngpus > 1) {
        CUcontext mine, his;
        CU(cuCtxGetCurrent(&mine));
        CU(cuDevicePrimaryCtxRetain(&his, 1));
        cost("cuMemcpyPeerAsync get 1 MiB", [&](int) {
            CU(cuMemcpyPeerAsync((CUdeviceptr)local[1], mine, (CUdeviceptr)far, his, 1 << 20,
                                 str[0]));
        });
        cost("cuMemcpyPeerAsync put 1 MiB", [&](int) {
            CU(cuMemcpyPeerAsync((CUdeviceptr)far, his, (CUdeviceptr)local[1], mine, 1 << 20,
                                 str[0]));
        });
        cost("cuMemcpyPeerAsync get 1 MiB + EventRecord", [&](int) {
            CU(cuMemcpyPeerAsync((CUdeviceptr)local[1], mine, (CUdeviceptr)far, his, 1 << 20,
                                 str[0]));
            CU(cuEventRecord(ev, str[0]));
        });
    }
    cost("cuMemcpyAsync peer get 1 MiB + EventRecord", [&](int) {
        CU(cuMemcpyAsync((CUdeviceptr)local[1], (CUdeviceptr)far, 1 << 20, str[0]));
        CU(cuEventRecord(ev, str[0]));
    });
    cost("cuLaunchKernel 12 bytes of parameters",
         [&](int) { CU(cuLaunchKernel(f_small, 1, 1, 1, 1, 1, 1, 0, kst, small, NULL)); });
    cost("cuLaunchKernel 1560 bytes of parameters", [&](int) {
        CU(cuLaunchKernel(f_batch, 1, 1, 1, WEFT_BATCH_THREADS, 1, 1, 0, kst, large, NULL));
    });
    cost("cuStreamWriteValue32",
         [&](int) { CU(cuStreamWriteValue32(str[0], (CUdeviceptr)&flags[16], 1, 0)); });
    cost("cuMemcpyAsync + cuStreamWriteValue32", [&](int) {
        CU(cuMemcpyAsync((CUdeviceptr)local[1], (CUdeviceptr)far, 1 << 16, str[0]));
        CU(cuStreamWriteValue32(str[0], (CUdeviceptr)&flags[16], 1, 0));
    });
    cost("cuEventRecord", [&](int) { CU(cuEventRecord(ev, str[0])); });
    cost("cuStreamQuery, idle", [&](int) { cuStreamQuery(str[0]); });
    cost("cuEventQuery, done", [&](int) { cuEventQuery(ev); });
    CUcontext c;
    cost("cuCtxGetCurrent", [&](int) { cuCtxGetCurrent(&c); });
    CU(cuCtxGetCurrent(&c));
    cost("cuCtxPushCurrent + PopCurrent", [&](int) {
        CUcontext o;
        cuCtxPushCurrent(c);
        cuCtxPopCurrent(&o);
    });
    unsigned type, managed;
    int ordinal;
    unsigned long long id;
    CUpointer_attribute at[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_BUFFER_ID };
    void *out[] = { &type, &managed, &ordinal, &id };
    char *heap = (char *)malloc(1 << 20);
    cost("cuPointerGetAttributes(2), device",
         [&](int) { cuPointerGetAttributes(2, at, out, (CUdeviceptr)local[0]); });
    cost("cuPointerGetAttributes(4), device",
         [&](int) { cuPointerGetAttributes(4, at, out, (CUdeviceptr)local[0]); });
    cost("cuPointerGetAttributes(4), peer device",
         [&](int) { cuPointerGetAttributes(4, at, out, (CUdeviceptr)far); });
    cost("cuPointerGetAttributes(4), malloc",
         [&](int) { cuPointerGetAttributes(4, at, out, (CUdeviceptr)heap); });
    cost("cuPointerGetAttributes(4), stack",
         [&](int) { cuPointerGetAttributes(4, at, out, (CUdeviceptr)&type); });
    cost("cuPointerGetAttributes(4), pinned",
         [&](int) { cuPointerGetAttributes(4, at, out, (CUdeviceptr)pinned); });
    cost("cuPointerGetAttribute singular, device",
         [&](int) { cuPointerGetAttribute(&type, at[0], (CUdeviceptr)local[0]); });
    free(heap);
    volatile unsigned long long sink = 0;
#if defined(__x86_64__)
    cost("32 x rdtsc", [&](int) {
        for (int k = 0; k < 32; k++)
            sink = sink + __rdtsc();
    });
    double t0 = now_us();
    unsigned long long c0 = __rdtsc();
    while (now_us() - t0 < 20000)
        ;
    printf("host %-44s %8.3f GHz\n", "rdtsc rate", (__rdtsc() - c0) / ((now_us() - t0) * 1e3));
#endif
    cost("32 x clock_gettime", [&](int) {
        for (int k = 0; k < 32; k++) {
            struct timespec t;
            clock_gettime(CLOCK_MONOTONIC, &t);
            sink = sink + t.tv_nsec;
        }
    });
}

static void sec_clock()
{
    unsigned long long *o;
    RT(cudaMallocHost(&o, 64));
    globaltimer_kernel<<<1, 1, 0, kst>>>(o);
    RT(cudaDeviceSynchronize());
    printf("clock globaltimer tick %llu ns, cost of a read %llu clocks\n", o[0], o[1]);
}

static void sec_flag()
{
    printf("flag  %-9s %9s %11s %11s %11s %11s %11s %11s  us to a flag in host memory\n", "pair",
           "bytes", "batch<=16", "batch<=32", "batch<=64", "batch<=132", "eng+write", "eng+event");
    uint32_t *fl = (uint32_t *)&flags[32];
    printf("flag  empty kernel with a flag %.2f us\n", med(200, [&] {
               uint32_t v = ++value;
               void *params[] = { &fl, &v };
               CU(cuLaunchKernel(f_small, 1, 1, 1, 1, 1, 1, 0, kst, params, NULL));
               wait_word(&flags[32], v, "small kernel");
           }));
    for (int k = 0; k < npairs(); k++) {
        char *dst, *src;
        pair(k, &dst, &src);
        for (size_t len = 8; len <= 16u << 20; len *= len < 4096 ? 8 : 4) {
            int n = len > 1u << 20 ? 30 : 150;
            printf("flag  %-9s %9zu", pair_name[k], len);
            for (unsigned cap : { 16u, 32u, 64u, 132u })
                if (len > 4u << 20)
                    printf(" %11s", "-");
                else
                    printf(" %11.2f", med(n, [&] { batch_one(dst, src, len, cap); }));
            printf(" %11.2f", med(n, [&] { engine_flag(dst, src, len); }));
            printf(" %11.2f\n", med(n, [&] { engine_event(dst, src, len); }));
            fflush(stdout);
        }
    }
}

static void sec_linger()
{
    printf("linger %-9s %9s %9s %9s %9s %9s  us from post to done, by blocks\n", "pair", "bytes",
           "1", "4", "8", "16");
    const unsigned blocks[] = { 1, 4, 8, 16 };
    for (int k = 0; k < npairs(); k++) {
        char *dst, *src;
        pair(k, &dst, &src);
        double us[4][16] = {};
        bool good = true;
        for (int bi = 0; bi < 4; bi++) {
            fill(src, 1 << 20);
            poison(dst, 1 << 20);
            linger_start(blocks[bi], 20000000, 1000000000);
            int row = 0;
            for (size_t len = 8; len <= 1u << 20; len *= len == 8 ? 64 : len == 512 ? 2 : 2, row++)
                us[bi][row] = med(150, [&] { linger_one(dst, src, len); });
            linger_end();
            good = good && same(dst, 1 << 20);
        }
        int row = 0;
        for (size_t len = 8; len <= 1u << 20; len *= len == 8 ? 64 : 2, row++) {
            printf("linger %-9s %9zu", pair_name[k], len);
            for (int bi = 0; bi < 4; bi++)
                printf(" %9.2f", us[bi][row]);
            printf("\n");
        }
        printf("linger %-9s data %s\n", pair_name[k], good ? "right" : "WRONG");
        fflush(stdout);
    }
    std::vector<double> start;
    for (int i = 0; i < 50; i++) {
        double t = now_us();
        linger_post(local[1], local[0], 8);
        linger_start(8, 3000, 100000, seq);
        wait_word(&words->done, seq, "linger");
        start.push_back(now_us() - t);
        linger_end();
    }
    printf("linger launch and one copy until done: %.2f us\n", median(start));
    linger_start(8, 20000000, 1000000000);
    linger_one(local[1], local[0], 8);
    double burst = med(50, [&] {
        uint32_t first = seq + 1;
        for (int i = 0; i < 32; i++)
            linger_post(local[1], local[0], 8);
        wait_word(&words->done, first + 31, "burst");
    });
    printf("linger 32 copies of 8 B posted at once: %.2f us\n", burst);
    linger_end();
}

static bool has_batch_api = true;
static void memcpy_batch(CUdeviceptr *d, CUdeviceptr *s, size_t *n, int count)
{
#if CUDA_VERSION >= 13000
    CUmemcpyAttributes a = {};
    a.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    size_t idx = 0;
    CUresult r = cuMemcpyBatchAsync(d, s, n, count, &a, &idx, 1, str[0]);
    if (r != CUDA_SUCCESS) {
        if (has_batch_api)
            printf("group cuMemcpyBatchAsync answered %d\n", (int)r);
        has_batch_api = false;
    }
#else
    (void)d, (void)s, (void)n, (void)count;
    has_batch_api = false;
#endif
}

static void sec_group()
{
    printf("group 64 copies, GB/s until the host sees the flag(s)\n");
    printf("group %-9s %8s %8s %8s %8s %8s %8s | %8s %8s %8s %8s %8s\n", "pair", "each", "grid 16",
           "32", "64", "132", "264", "1 str", "2 str", "4 str", "batchapi", "1 x flag");
    for (int k = 0; k < npairs(); k++) {
        char *dst, *src;
        pair(k, &dst, &src);
        for (size_t len = 4096; len <= 1u << 20; len *= 4) {
            static struct rt_gpu_batch b;
            CUdeviceptr d[64], s[64];
            size_t n[64];
            b.n = 64;
            for (int i = 0; i < 64; i++) {
                b.move[i] = { (uint64_t)(dst + i * len), (uint64_t)(src + i * len), len };
                d[i] = (CUdeviceptr)b.move[i].dst, s[i] = (CUdeviceptr)b.move[i].src, n[i] = len;
            }
            printf("group %-9s %8zu", pair_name[k], len);
            auto rate = [&](double us) { printf(" %8.1f", 64.0 * len / us / 1000); };
            for (unsigned grid : { 16u, 32u, 64u, 132u, 264u })
                rate(med(25, [&] {
                    batch_start(&b, std::min(grid, 64 * pieces(len)));
                    wait_word(&flags[0], value, "batch");
                }));
            printf(" |");
            for (int ns : { 1, 2, 4 })
                rate(med(15, [&] {
                    value++;
                    for (int i = 0; i < 64; i++)
                        CU(cuMemcpyAsync(d[i], s[i], len, str[i % ns]));
                    for (int i = 0; i < ns; i++)
                        CU(cuStreamWriteValue32(str[i], (CUdeviceptr)&flags[16 + 16 * i], value,
                                                0));
                    for (int i = 0; i < ns; i++)
                        wait_word(&flags[16 + 16 * i], value, "engines");
                }));
            rate(med(15, [&] {
                memcpy_batch(d, s, n, 64);
                CU(cuStreamWriteValue32(str[0], (CUdeviceptr)&flags[16], ++value, 0));
                wait_word(&flags[16], value, "batch call");
            }));
            rate(med(15, [&] {
                value++;
                for (int i = 0; i < 64; i++) {
                    CU(cuMemcpyAsync(d[i], s[i], len, str[i % 4]));
                    CU(cuStreamWriteValue32(str[i % 4], (CUdeviceptr)&flags[16 * i], value, 0));
                }
                for (int i = 0; i < 64; i++)
                    wait_word(&flags[16 * i], value, "engines");
            }));
            printf("\n");
            fflush(stdout);
        }
    }
    printf("group two batches in flight on two streams, 64 x 64 KiB each: ");
    char *dst, *src;
    pair(npairs() > 1, &dst, &src);
    double us = med(25, [&] {
        for (int h = 0; h < 2; h++) {
            static struct rt_gpu_batch b;
            b.n = 64;
            for (int i = 0; i < 64; i++)
                b.move[i] = { (uint64_t)(dst + (size_t)(h * 64 + i) * 65536),
                              (uint64_t)(src + (size_t)(h * 64 + i) * 65536), 65536 };
            b.flag = (uint64_t)&flags[16 * h];
            b.counter = (uint64_t)(counter + 16 * h);
            b.value = value + 1;
            void *params[] = { &b };
            CU(cuLaunchKernel(f_batch, 64, 1, 1, WEFT_BATCH_THREADS, 1, 1, 0, str[h], params,
                              NULL));
        }
        value++;
        wait_word(&flags[0], value, "batch 0");
        wait_word(&flags[16], value, "batch 1");
    });
    printf("%.1f GB/s\n", 128.0 * 65536 / us / 1000);
}

static void sec_engine()
{
    for (int k = 0; k < npairs(); k++) {
        char *dst, *src;
        pair(k, &dst, &src);
        for (size_t len : { (size_t)1 << 20, (size_t)4 << 20, (size_t)16 << 20, BIG }) {
            printf("engine %-9s %9zu", pair_name[k], len);
            for (int ns : { 1, 2, 4 }) {
                double us = med(20, [&] {
                    value++;
                    for (int i = 0; i < ns; i++) {
                        size_t off = len / ns * i;
                        CU(cuMemcpyAsync((CUdeviceptr)dst + off, (CUdeviceptr)src + off, len / ns,
                                         str[i]));
                        CU(cuStreamWriteValue32(str[i], (CUdeviceptr)&flags[16 * i], value, 0));
                    }
                    for (int i = 0; i < ns; i++)
                        wait_word(&flags[16 * i], value, "engine");
                });
                printf("  cut over %d: %7.2f us %6.1f GB/s", ns, us, len / us / 1000);
            }
            printf("\n");
        }
    }
    if (ngpus < 2)
        return;
    double us = med(
        20, [&] { /* 8 copies of 64 MiB queued, two streams */
                  value++;
                  for (int i = 0; i < 8; i++)
                      CU(cuMemcpyAsync((CUdeviceptr)local[1], (CUdeviceptr)peer, BIG, str[i % 2]));
                  for (int i = 0; i < 2; i++)
                      CU(cuStreamWriteValue32(str[i], (CUdeviceptr)&flags[16 * i], value, 0));
                  for (int i = 0; i < 2; i++)
                      wait_word(&flags[16 * i], value, "engine");
        });
    printf("engine 8 x 64 MiB get on two streams: %.1f GB/s\n", 8.0 * BIG / us / 1000);
    us = med(20, [&] {
        value++;
        CU(cuMemcpyAsync((CUdeviceptr)local[1], (CUdeviceptr)peer, BIG, str[0]));
        CU(cuMemcpyAsync((CUdeviceptr)(peer + BIG), (CUdeviceptr)local[0], BIG, str[1]));
        for (int i = 0; i < 2; i++)
            CU(cuStreamWriteValue32(str[i], (CUdeviceptr)&flags[16 * i], value, 0));
        for (int i = 0; i < 2; i++)
            wait_word(&flags[16 * i], value, "engine");
    });
    printf("engine 64 MiB get and 64 MiB put at once: %.1f GB/s in all\n", 2.0 * BIG / us / 1000);
}

static void sec_pinned()
{
    printf("pinned %-8s %9s %9s %9s %9s %9s  us\n", "way", "bytes", "linger 1", "linger 8", "batch",
           "engine");
    for (int k = 0; k < 2; k++) {
        char *dst = k ? local[1] : pinned, *src = k ? pinned : local[0];
        const size_t lens[] = { 8, 512, 4096, 8192, 16384, 65536, 262144, 1u << 20 };
        double l1[8], l8[8];
        for (int i = 0; i < 8; i++)
            l1[i] = l8[i] = 0;
        for (unsigned blocks : { 1u, 8u }) {
            linger_start(blocks, 20000000, 1000000000);
            for (int i = 0; i < 8; i++)
                (blocks == 1 ? l1 : l8)[i] = med(100, [&] { linger_one(dst, src, lens[i]); });
            linger_end();
        }
        for (int i = 0; i < 8; i++)
            printf("pinned %-8s %9zu %9.2f %9.2f %9.2f %9.2f\n", k ? "to dev" : "to host", lens[i],
                   l1[i], l8[i], med(100, [&] { batch_one(dst, src, lens[i], 32); }),
                   med(100, [&] { engine_flag(dst, src, lens[i]); }));
    }
}

static void sec_map()
{
    for (size_t len = 2u << 20; len <= 64u << 20; len *= 2) {
        double best = 1e9;
        int same_place = 0;
        for (int i = 0; i < 20; i++) {
            char *h = (char *)mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                   -1, 0),
                 *d;
            for (size_t o = 0; o < len; o += 4096)
                h[o] = 1;
            double t = now_us();
            munmap(h, len);
            RT(cudaMalloc(&d, len));
            best = std::min(best, now_us() - t);
            same_place += d == h;
            RT(cudaFree(d));
        }
        printf(
            "map   munmap + cudaMalloc %3zu MiB: shortest %.1f us, at the same address %d of 20\n",
            len >> 20, best, same_place);
    }
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle;
    const size_t len = 2u << 20;
    CU(cuMemCreate(&handle, len, &prop, 0));
    CUmemAccessDesc acc = {};
    acc.location = prop.location;
    acc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    double best = 1e9;
    int same_place = 0;
    for (int i = 0; i < 50; i++) {
        char *all = (char *)mmap(NULL, 2 * len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                 -1, 0);
        char *h = (char *)(((uintptr_t)all + len - 1) & ~(len - 1));
        h[0] = 1;
        CUdeviceptr d;
        double t = now_us();
        munmap(all, 2 * len);
        CU(cuMemAddressReserve(&d, len, 0, (CUdeviceptr)h, 0));
        CU(cuMemMap(d, len, 0, handle, 0));
        CU(cuMemSetAccess(d, len, &acc, 1));
        best = std::min(best, now_us() - t);
        same_place += (char *)d == h;
        CU(cuMemUnmap(d, len));
        CU(cuMemAddressFree(d, len));
    }
    printf("map   munmap + cuMemAddressReserve + cuMemMap + cuMemSetAccess: shortest %.1f us, "
           "at the same address %d of 50\n",
           best, same_place);
    CU(cuMemRelease(handle));
}

/* Many descriptors at a time, of all lengths, while the kernel leaves and is launched again; the
 * numbers must come in order. */
static void check_ring(int bad)
{
    const size_t room = 8u << 20;
    int relaunched = 0, n = 0;
    std::vector<uint8_t> got(room), want(room);
    std::vector<uint8_t> from(room);
    for (int k = 0; k < npairs(); k++)
        for (int r = 0; r < 12; r++) {
            char *dst, *src;
            pair(k, &dst, &src);
            for (auto &c : from)
                c = (uint8_t)(rand() >> 5);
            RT(cudaMemcpy(src, from.data(), room, cudaMemcpyDefault));
            poison(dst, room);
            memset(want.data(), 0x5a, room);
            size_t at = 0;
            unsigned blocks = r % 3 == 0 ? 1 : r % 3 == 1 ? 8 : 16;
            uint32_t reaped = seq;
            linger_start(blocks, r % 2 ? 3000 : 20000, r % 4 < 2 ? 15000 : 100000, seq + 1);
            for (int left = 200; left > 0 || reaped != seq;) {
                for (; left > 0 && seq - reaped < 20 && rand() % 8; left--, n++) {
                    size_t len = 1 + rand() % (rand() % 3 ? 3000 : 60000);
                    len = std::min(len, room - at);
                    linger_post(dst + at, src + at, len);
                    memcpy(want.data() + at, from.data() + at, len);
                    at += len;
                }
                uint32_t is_left = words->left, done = words->done;
                if ((int32_t)(done - reaped) < 0 || done - reaped > seq - reaped) {
                    printf("check ring: done went from %u to %u, posted %u WRONG\n", reaped, done,
                           seq);
                    bad++;
                }
                reaped = done;
                if (is_left == launches && (reaped != seq || left > 0)) {
                    relaunched++;
                    linger_start(blocks, r % 2 ? 3000 : 20000, r % 4 < 2 ? 15000 : 100000,
                                 reaped + 1);
                }
            }
            linger_end();
            RT(cudaMemcpy(got.data(), dst, room, cudaMemcpyDefault));
            if (got != want) {
                bad++;
                printf("check ring %s %u blocks WRONG\n", pair_name[k], blocks);
            }
        }
    printf("check ring: %d copies, %d launches between, %d wrong in all\n", n, relaunched, bad);
}

/* Every alignment and odd lengths through both kernels, with guards around the data. */
static void sec_check()
{
    const size_t room = 256u << 10;
    int bad = 0, n = 0;
    std::vector<uint8_t> got(room), want(room);
    for (int k = 0; k < npairs(); k++) {
        char *dst, *src;
        pair(k, &dst, &src);
        fill(src, room);
        for (int i = 0; i < 160; i++) {
            size_t so = rand() % 64, off = rand() % 64,
                   len = i % 3 == 0 ? rand() % 100 : rand() % (i % 3 == 1 ? 20000 : 200000);
            poison(dst, room);
            if (i % 2) {
                batch_one(dst + off, src + so, len, 8);
            } else {
                linger_post(dst + off, src + so, len);
                linger_start(i % 4 ? 8 : 1, 3000, 200000, seq);
                wait_word(&words->done, seq, "linger");
                linger_end();
            }
            RT(cudaMemcpy(got.data(), dst, room, cudaMemcpyDefault));
            memset(want.data(), 0x5a, room);
            memcpy(want.data() + off, noise.data() + so, len);
            n++;
            if (got != want) {
                bad++;
                printf("check %s %s: %zu bytes from %zu to %zu WRONG\n", pair_name[k],
                       i % 2 ? "batch" : "linger", len, so, off);
            }
        }
        static struct rt_gpu_batch b; /* 64 moves of random lengths */
        for (int r = 0; r < 40; r++) {
            poison(dst, room);
            memset(want.data(), 0x5a, room);
            b.n = 1 + rand() % 64;
            size_t at = 0;
            for (unsigned i = 0; i < b.n; i++) {
                size_t len = rand() % 10 == 0 ? 0 : rand() % (room / 64), so = rand() % (room / 2);
                if (rand() % 8 == 0 && at + 60000 < room)
                    len = 40000 + rand() % 20000;
                if (at + len > room)
                    len = room - at;
                b.move[i] = { (uint64_t)(dst + at), (uint64_t)(src + so), len };
                memcpy(want.data() + at, noise.data() + so, len);
                at += len;
            }
            batch_start(&b, 1 + rand() % 40);
            wait_word(&flags[0], value, "batch");
            RT(cudaMemcpy(got.data(), dst, room, cudaMemcpyDefault));
            n++;
            if (got != want) {
                bad++;
                printf("check %s batch of %u WRONG\n", pair_name[k], b.n);
            }
        }
    }
    printf("check %d copies, %d wrong\n", n, bad);
    check_ring(bad);
}

static void setup()
{
    RT(cudaGetDeviceCount(&ngpus));
    if (ngpus > 1) {
        int can = 0;
        RT(cudaDeviceCanAccessPeer(&can, 0, 1));
        if (!can) {
            printf("GPU 0 cannot access GPU 1: one GPU only\n");
            ngpus = 1;
        }
    }
    if (ngpus > 1) {
        RT(cudaSetDevice(1));
        RT(cudaMalloc(&peer, 2 * BIG));
        RT(cudaDeviceEnablePeerAccess(0, 0));
    }
    RT(cudaSetDevice(0));
    if (ngpus > 1)
        RT(cudaDeviceEnablePeerAccess(1, 0));
    cudaDeviceProp prop;
    RT(cudaGetDeviceProperties(&prop, 0));
    int driver;
    RT(cudaDriverGetVersion(&driver));
    printf("probe %s, %d GPU(s) used of this host, driver for CUDA %d, built with %d\n", prop.name,
           ngpus > 1 ? 2 : 1, driver, CUDART_VERSION);
    RT(cudaMalloc(&local[0], 2 * BIG));
    RT(cudaMalloc(&local[1], 2 * BIG));
    RT(cudaMallocHost(&pinned, 1 << 20));
    RT(cudaMallocHost((void **)&flags, 64 * 64));
    memset((void *)flags, 0, 64 * 64);
    RT(cudaMallocHost(&ring, sizeof *ring * RT_GPU_RING_SLOTS + sizeof *words));
    memset(ring, 0, sizeof *ring * RT_GPU_RING_SLOTS + sizeof *words);
    words = (volatile struct rt_gpu_words *)(ring + RT_GPU_RING_SLOTS);
    RT(cudaMalloc(&counter, 4096));
    RT(cudaMemset(counter, 0, 4096));
    RT(cudaMalloc(&work_area, sizeof *work_area));
    RT(cudaMemset(work_area, 0, sizeof *work_area));
    int least, greatest;
    RT(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CU(cuStreamCreateWithPriority(&kst, CU_STREAM_NON_BLOCKING, greatest));
    for (auto &s : str)
        CU(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest));
    CU(cuEventCreate(&ev, CU_EVENT_DISABLE_TIMING));
    cudaFunction_t f;
    RT(cudaGetFuncBySymbol(&f, (const void *)weft_batch));
    f_batch = (CUfunction)f;
    RT(cudaGetFuncBySymbol(&f, (const void *)weft_linger));
    f_linger = (CUfunction)f;
    RT(cudaGetFuncBySymbol(&f, (const void *)small_kernel));
    f_small = (CUfunction)f;
    noise.resize(1 << 20);
    for (auto &b : noise)
        b = (uint8_t)(rand() >> 7);
    RT(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
    struct {
        const char *name;
        void (*run)();
    } all[] = {
        { "clock", sec_clock }, { "check", sec_check },   { "host", sec_host },
        { "flag", sec_flag },   { "linger", sec_linger }, { "pinned", sec_pinned },
        { "group", sec_group }, { "engine", sec_engine }, { "map", sec_map },
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    setup();
    for (auto &s : all) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; i++)
            wanted = wanted || !strcmp(argv[i], s.name);
        double t = now_us();
        if (wanted) {
            s.run();
            RT(cudaDeviceSynchronize());
            printf("time  %s %.1f s\n", s.name, (now_us() - t) / 1e6);
        }
    }
    return 0;
}
