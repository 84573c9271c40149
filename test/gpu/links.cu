/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures the rates of copy engines and kernels when all GPUs of a machine send to each other at
 * once, in the patterns of device collectives, whose plans (coll/gpu) are chosen by these figures.
 * Built by hand, not part of make:
 *     nvcc -O3 -arch=sm_90 -I. test/gpu/links.cu -o links && ./links
 * One process has all devices.  A line is a pattern, how much a device sends in it, and the rate of
 * the busiest device, GB/s one way, the best and the median of some repetitions. */
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>
#include <atomic>

#define RT(x) \
    do { \
        cudaError_t e_ = (x); \
        if (e_ != cudaSuccess) { \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e_)); \
            exit(1); \
        } \
    } while (0)

static const size_t MIB = 1 << 20, ROOM = 512 * MIB;
static const int STREAMS = 6;
static int n; /* number of devices */
static char *in[8], *out[8];
static cudaStream_t st[8][STREAMS];

static double now_us()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

/* One thread per device, all started at the same time: a single thread would start the last device
 * late. go(device) starts the work of that device; nbytes: the bytes that the busiest link carries
 * one way. */
static void measure(const char *what, double nbytes, const std::function<void(int)> &go)
{
    const int reps = 12;
    std::vector<double> us(reps);
    std::vector<std::thread> threads;
    std::atomic<int> here{ 0 }, gone{ 0 };
    for (int d = 0; d < n; d++)
        threads.emplace_back([&, d] {
            RT(cudaSetDevice(d));
            for (int rep = 0; rep < reps; rep++) {
                RT(cudaDeviceSynchronize());
                for (here++; here < (rep + 1) * n;)
                    ;
                double t = now_us();
                go(d);
                RT(cudaDeviceSynchronize());
                for (gone++; gone < (rep + 1) * n;)
                    ;
                if (d == 0)
                    us[rep] = now_us() - t;
            }
        });
    for (auto &t : threads)
        t.join();
    std::sort(us.begin() + 2, us.end()); /* without the first two */
    printf("%-60s %6.0f MiB %7.1f %7.1f GB/s %8.0f us\n", what, nbytes / MIB, nbytes / us[2] / 1e3,
           nbytes / us[7] / 1e3, us[7]);
    fflush(stdout);
}

static void put(int d, int s, int to, size_t off, size_t len)
{
    RT(cudaMemcpyAsync(in[to] + off, out[d] + off, len, cudaMemcpyDefault, st[d][s]));
}
static void get(int d, int s, int from, size_t off, size_t len)
{
    RT(cudaMemcpyAsync(in[d] + off, out[from] + off, len, cudaMemcpyDefault, st[d][s]));
}

/* ---- kernels ---- */

struct fold {
    const float4 *src[8];
    float4 *dst[8];
    size_t n; /* in units of 16 bytes */
};

/* P sources to Q destinations.  A block processes a run of consecutive units; a thread has AHEAD
 * units of each source in flight.  (Units that are a grid apart are not faster.) */
template <int P, int Q, int AHEAD> __global__ void __launch_bounds__(512) fold_kernel(fold f)
{
    const size_t tile = (size_t)AHEAD * blockDim.x;
    for (size_t b = blockIdx.x * tile; b < f.n; b += gridDim.x * tile) {
        float4 v[AHEAD][P];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
#pragma unroll
            for (int p = 0; p < P; p++)
                if (b + a * blockDim.x + threadIdx.x < f.n)
                    v[a][p] = __ldcs(f.src[p] + b + a * blockDim.x + threadIdx.x);
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
#pragma unroll
            for (int p = 1; p < P; p++)
                v[a][0].x += v[a][p].x, v[a][0].y += v[a][p].y, v[a][0].z += v[a][p].z,
                    v[a][0].w += v[a][p].w;
#pragma unroll
            for (int q = 0; q < Q; q++)
                if (b + a * blockDim.x + threadIdx.x < f.n)
                    f.dst[q][b + a * blockDim.x + threadIdx.x] = v[a][0];
        }
    }
}

template <int P, int Q, int AHEAD>
static void launch(int d, int s, size_t nbytes, int blocks, int threads)
{
    fold f;
    size_t len = nbytes / n, off = d * len;
    f.n = len / 16;
    for (int i = 0; i < P; i++)
        f.src[i] = (const float4 *)(out[(d + i) % n] + off);
    for (int i = 0; i < Q; i++)
        f.dst[i] = (float4 *)(in[(d + i) % n] + off);
    fold_kernel<P, Q, AHEAD><<<blocks, threads, 0, st[d][s]>>>(f);
    RT(cudaGetLastError());
}

template <int P, int Q, int AHEAD> static void shapes(const char *name, double nbytes)
{
    const int shape[][2] = { { 66, 512 }, { 132, 256 }, { 132, 512 }, { 264, 512 } };
    for (auto &s : shape) {
        char what[100];
        snprintf(what, sizeof what, "%s, %d in flight, %d x %d", name, AHEAD, s[0], s[1]);
        double busy = nbytes / n * (n - 1) * ((P > 1) + (Q > 1));
        measure(what, busy, [&](int d) { launch<P, Q, AHEAD>(d, 0, (size_t)nbytes, s[0], s[1]); });
    }
}

/* Blocks for all other devices, cut into pieces, one after another or in several streams. */
static void exchange(const char *name, size_t b, size_t piece, int streams, bool gets)
{
    char what[100];
    snprintf(what, sizeof what, "%s, pieces of %zu MiB, %d streams", name, piece / MIB, streams);
    measure(what, b * (n - 1), [&](int d) {
        int turn = 0;
        for (size_t o = 0; o < b; o += piece)
            for (int i = 1; i < n; i++)
                (gets ? get : put)(d, turn++ % streams, (d + i) % n, d * b + o,
                                   std::min(b - o, piece));
    });
}

/* The same as one driver call. */
static void batch(int d, size_t len, size_t piece)
{
    std::vector<void *> to;
    std::vector<const void *> from;
    std::vector<size_t> size;
    for (size_t o = 0; o < len; o += piece) {
        to.push_back(in[(d + 1) % n] + o);
        from.push_back(out[d] + o);
        size.push_back(std::min(piece, len - o));
    }
    cudaMemcpyAttributes a = {};
    a.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t first = 0;
    RT(cudaMemcpyBatchAsync(to.data(), from.data(), size.data(), to.size(), &a, &first, 1,
                            st[d][0]));
}

/* An allreduce without waiting for others: a kernel folds a chunk of the own block over the links,
 * while engines send the previous chunk to all others. */
template <int P> static void fold_and_put(double nbytes, int chunks, int blocks)
{
    char what[100];
    snprintf(what, sizeof what, "fold over the links and put, %d chunks, %d blocks", chunks,
             blocks);
    static cudaEvent_t ev[8][64];
    for (int d = 0; d < n; d++)
        for (int k = 0; k < chunks; k++) {
            RT(cudaSetDevice(d));
            if (!ev[d][k])
                RT(cudaEventCreateWithFlags(&ev[d][k], cudaEventDisableTiming));
        }
    measure(what, nbytes / n * (n - 1) * 2, [&](int d) {
        size_t block = (size_t)nbytes / n, piece = block / chunks;
        for (int k = 0; k < chunks; k++) {
            size_t off = d * block + k * piece;
            fold f;
            for (int i = 0; i < P; i++)
                f.src[i] = (const float4 *)(out[(d + i) % n] + off);
            f.dst[0] = (float4 *)(in[d] + off);
            f.n = piece / 16;
            fold_kernel<P, 1, 2><<<blocks, 512, 0, st[d][0]>>>(f);
            RT(cudaEventRecord(ev[d][k], st[d][0]));
        }
        for (int k = 0; k < chunks; k++) {
            size_t off = d * block + k * piece;
            RT(cudaStreamWaitEvent(st[d][1], ev[d][k], 0));
            for (int i = 1; i < n; i++)
                RT(cudaMemcpyAsync(in[(d ^ i) % n] + off, in[d] + off, piece, cudaMemcpyDefault,
                                   st[d][1]));
        }
    });
}

static void all_fold_and_put(double nbytes)
{
    for (int blocks : { 32, 66, 132 })
        for (int chunks : { 1, 2, 4, 8 })
            if (n == 4)
                fold_and_put<4>(nbytes, chunks, blocks);
            else if (n == 2)
                fold_and_put<2>(nbytes, chunks, blocks);
}

static void engines(size_t len)
{
    for (size_t piece : { 16 * MIB, 8 * MIB, 4 * MIB }) {
        char what[100];
        snprintf(what, sizeof what, "each puts to the next, a batch of %zu MiB each", piece / MIB);
        measure(what, len, [&](int d) { batch(d, len, piece); });
    }

    measure("each puts to the next", len, [&](int d) { put(d, 0, (d + 1) % n, 0, len); });
    measure("each gets from the next", len, [&](int d) { get(d, 0, (d + 1) % n, 0, len); });
    for (size_t piece : { 16 * MIB, 8 * MIB, 4 * MIB })
        for (int streams : { 1, 2 }) {
            char what[100];
            snprintf(what, sizeof what, "each puts to the next, pieces of %zu MiB, %d streams",
                     piece / MIB, streams);
            measure(what, len, [&](int d) {
                for (size_t o = 0, k = 0; o < len; o += piece, k++)
                    put(d, k % streams, (d + 1) % n, o, std::min(piece, len - o));
            });
        }
    if (n == 2)
        return;
    size_t b = len / (n - 1) / MIB * MIB;
    exchange("all put to all", b, b, 1, false);
    exchange("all put to all", b, b, n - 1, false);
    for (size_t piece : { 32 * MIB, 16 * MIB, 8 * MIB, 4 * MIB, 2 * MIB })
        for (int streams : { 1, 2, 3, 6 })
            if (piece < b)
                exchange("all put to all", b, piece, streams, false);
    exchange("all get from all", b, b, 1, true);
    exchange("all get from all", b, 8 * MIB, 1, true);
    exchange("all get from all", b, 8 * MIB, 3, true);
    measure("0 puts to all others, a stream each", b * (n - 1), [&](int d) {
        for (int i = 1; i < n && d == 0; i++)
            put(d, i, i, 0, b);
    });
    measure("a chain: all but the last put to the next, 8 MiB", b * (n - 1), [&](int d) {
        for (size_t o = 0; o < b * (n - 1) && d < n - 1; o += 8 * MIB)
            put(d, 0, d + 1, o, std::min(8 * MIB, b * (n - 1) - o));
    });
    measure("all put to all, a fold in own memory beside", b * (n - 1), [&](int d) {
        for (int i = 1; i < n; i++)
            put(d, 1, (d + i) % n, d * b, b);
        fold f;
        for (int i = 0; i < 4; i++)
            f.src[i] = (const float4 *)(out[d] + i * b);
        f.dst[0] = (float4 *)(in[d] + (n - 1) * b);
        f.n = b / 16;
        fold_kernel<4, 1, 2><<<132, 512, 0, st[d][0]>>>(f);
    });
    measure("half by all to all puts, half by folds of 4 to the own", b * (n - 1), [&](int d) {
        for (int i = 1; i < n; i++)
            put(d, 1, (d + i) % n, d * b, b / 2);
        launch<4, 1, 2>(d, 0, b / 2 * n, 132, 512);
    });
}

int main()
{
    RT(cudaGetDeviceCount(&n));
    n = std::min(n, 8);
    for (int d = 0; d < n; d++) {
        RT(cudaSetDevice(d));
        for (int i = 0; i < n; i++)
            if (i != d)
                RT(cudaDeviceEnablePeerAccess(i, 0));
        RT(cudaMalloc(&in[d], ROOM));
        RT(cudaMalloc(&out[d], ROOM));
        RT(cudaMemset(out[d], d + 1, ROOM));
        for (int s = 0; s < STREAMS; s++)
            RT(cudaStreamCreateWithFlags(&st[d][s], cudaStreamNonBlocking));
    }
    printf("%d devices; pattern, bytes a device sends, GB/s best and median, time\n", n);
    engines(192 * MIB);
    for (double nbytes : { 16. * MIB, 64. * MIB, 256. * MIB })
        all_fold_and_put(nbytes);
    for (double nbytes : { 16. * MIB, 256. * MIB }) {
        if (n == 4) {
            shapes<4, 4, 1>("fold of 4 to 4", nbytes);
            shapes<4, 4, 2>("fold of 4 to 4", nbytes);
            shapes<4, 1, 2>("fold of 4 to the own", nbytes);
            shapes<1, 4, 4>("own to 4", nbytes);
        } else if (n == 2) {
            shapes<2, 2, 2>("fold of 2 to 2", nbytes);
            shapes<2, 2, 4>("fold of 2 to 2", nbytes);
        }
    }
    return 0;
}
