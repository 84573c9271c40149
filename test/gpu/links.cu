/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures what copy engines and kernels reach when all GPUs of a machine send to each other at once:
 * the patterns of device collectives, whose plans (coll/gpu) are chosen by these figures.  Built by
 * hand, not part of make:
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
#include <vector>

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
static int n; /* devices */
static char *in[8], *out[8];
static cudaStream_t st[8][STREAMS];

static double now_us()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static void sync_all()
{
    for (int d = 0; d < n; d++) {
        RT(cudaSetDevice(d));
        RT(cudaDeviceSynchronize());
    }
}

/* go(device) starts what one device does; nbytes: what the busiest link carries one way. */
static void measure(const char *what, double nbytes, const std::function<void(int)> &go)
{
    std::vector<double> us;
    for (int rep = 0; rep < 9; rep++) {
        sync_all();
        double t = now_us();
        for (int d = 0; d < n; d++) {
            RT(cudaSetDevice(d));
            go(d);
        }
        sync_all();
        us.push_back(now_us() - t);
    }
    std::sort(us.begin() + 1, us.end()); /* without the first */
    printf("%-64s %6.0f MiB %7.1f %7.1f GB/s %8.0f us\n", what, nbytes / MIB, nbytes / us[1] / 1e3,
           nbytes / us[5] / 1e3, us[5]);
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
    size_t n; /* of 16 bytes */
};

/* P sources to Q destinations, AHEAD units of each source in flight. */
template <int P, int Q, int AHEAD> __global__ void fold_kernel(fold f)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < f.n; i += AHEAD * step) {
        float4 v[AHEAD][P];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
#pragma unroll
            for (int p = 0; p < P; p++)
                if (i + a * step < f.n)
                    v[a][p] = __ldcs(f.src[p] + i + a * step);
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
#pragma unroll
            for (int p = 1; p < P; p++)
                v[a][0].x += v[a][p].x, v[a][0].y += v[a][p].y, v[a][0].z += v[a][p].z,
                    v[a][0].w += v[a][p].w;
#pragma unroll
            for (int q = 0; q < Q; q++)
                if (i + a * step < f.n)
                    f.dst[q][i + a * step] = v[a][0];
        }
    }
}

/* Tiles: a block does a run of consecutive units. */
template <int P, int Q, int AHEAD> __global__ void fold_tiles(fold f)
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

template <int P, int Q, int AHEAD, bool TILES>
static void launch(int d, int s, size_t nbytes, int blocks, int threads)
{
    fold f;
    size_t len = nbytes / n, off = d * len;
    f.n = len / 16;
    for (int i = 0; i < P; i++)
        f.src[i] = (const float4 *)(out[(d + i) % n] + off);
    for (int i = 0; i < Q; i++)
        f.dst[i] = (float4 *)(in[(d + i) % n] + off);
    if (TILES)
        fold_tiles<P, Q, AHEAD><<<blocks, threads, 0, st[d][s]>>>(f);
    else
        fold_kernel<P, Q, AHEAD><<<blocks, threads, 0, st[d][s]>>>(f);
    RT(cudaGetLastError());
}

template <int P, int Q, int AHEAD, bool TILES> static void shapes(const char *name, double nbytes)
{
    const int shape[][2] = { { 66, 512 }, { 132, 256 }, { 132, 512 }, { 264, 256 }, { 264, 512 },
                             { 132, 1024 } };
    for (auto &s : shape) {
        char what[100];
        snprintf(what, sizeof what, "%s, %d in flight%s, %d x %d", name, AHEAD,
                 TILES ? ", tiles" : "", s[0], s[1]);
        double busy = nbytes / n * (n - 1) * ((P > 1) + (Q > 1));
        measure(what, busy,
                [&](int d) { launch<P, Q, AHEAD, TILES>(d, 0, (size_t)nbytes, s[0], s[1]); });
    }
}

static void engines(size_t len)
{
    measure("each puts to the next", len, [&](int d) { put(d, 0, (d + 1) % n, 0, len); });
    measure("each gets from the next", len, [&](int d) { get(d, 0, (d + 1) % n, 0, len); });
    measure("each puts to the next, 8 MiB pieces", len, [&](int d) {
        for (size_t o = 0; o < len; o += 8 * MIB)
            put(d, 0, (d + 1) % n, o, 8 * MIB);
    });
    measure("each puts to the next, 8 MiB pieces in two streams", len, [&](int d) {
        for (size_t o = 0; o < len; o += 8 * MIB)
            put(d, o / 8 / MIB % 2, (d + 1) % n, o, 8 * MIB);
    });
    if (n == 2)
        return;
    size_t b = len / (n - 1) / MIB * MIB;
    measure("all puts to all, a stream each", b * (n - 1), [&](int d) {
        for (int i = 1; i < n; i++)
            put(d, i, (d + i) % n, d * b, b);
    });
    measure("all puts to all, one after another", b * (n - 1), [&](int d) {
        for (int i = 1; i < n; i++)
            put(d, 0, (d + i) % n, d * b, b);
    });
    measure("all puts to all, 4 MiB pieces in turn, a stream", b * (n - 1), [&](int d) {
        for (size_t o = 0; o < b; o += 4 * MIB)
            for (int i = 1; i < n; i++)
                put(d, 0, (d + i) % n, d * b + o, std::min(b - o, 4 * MIB));
    });
    measure("all puts to all, 4 MiB pieces in turn, a stream each", b * (n - 1), [&](int d) {
        for (size_t o = 0; o < b; o += 4 * MIB)
            for (int i = 1; i < n; i++)
                put(d, i, (d + i) % n, d * b + o, std::min(b - o, 4 * MIB));
    });
    measure("all gets from all, a stream each", b * (n - 1), [&](int d) {
        for (int i = 1; i < n; i++)
            get(d, i, (d + i) % n, d * b, b);
    });
    measure("all gets from all, one after another", b * (n - 1), [&](int d) {
        for (int i = 1; i < n; i++)
            get(d, 0, (d + i) % n, d * b, b);
    });
    measure("device 0 puts to all others, a stream each", b * (n - 1), [&](int d) {
        for (int i = 1; i < n && d == 0; i++)
            put(d, i, i, 0, b);
    });
    measure("device 0 puts to all others, one after another", b * (n - 1), [&](int d) {
        for (int i = 1; i < n && d == 0; i++)
            put(d, 0, i, 0, b);
    });
    measure("0 puts parts to all, they put them to the others", b * (n - 1), [&](int d) {
        for (int i = 1; i < n; i++)
            if ((d + i) % n)
                put(d, i, (d + i) % n, d * b, b);
    });
    measure("the same, they get them", b * (n - 1), [&](int d) {
        for (int i = 1; i < n; i++)
            if (d == 0)
                put(d, i, i, 0, b);
            else if ((d + i) % n)
                get(d, i, (d + i) % n, d * b, b);
    });
    measure("a chain: all but the last put to the next", b * (n - 1), [&](int d) {
        if (d < n - 1)
            put(d, 0, d + 1, 0, b * (n - 1));
    });
    measure("all put 2/3 to the others, fold 4 in their own memory beside", b * (n - 1), [&](int d) {
        for (int i = 1; i < n; i++)
            put(d, i, (d + i) % n, d * b, b);
        fold f;
        for (int i = 0; i < 4; i++)
            f.src[i] = (const float4 *)(out[d] + i * b);
        f.dst[0] = (float4 *)(in[d] + (n - 1) * b);
        f.n = b / 16;
        fold_kernel<4, 1, 2><<<132, 512, 0, st[d][0]>>>(f);
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
    engines(48 * MIB);
    engines(384 * MIB);
    for (double nbytes : { 16. * MIB, 64. * MIB, 256. * MIB }) {
        if (n == 4) {
            shapes<4, 4, 1, false>("fold of 4 to 4", nbytes);
            shapes<4, 4, 2, false>("fold of 4 to 4", nbytes);
            shapes<4, 4, 2, true>("fold of 4 to 4", nbytes);
            shapes<4, 4, 4, true>("fold of 4 to 4", nbytes);
            shapes<4, 1, 2, true>("fold of 4 to the own", nbytes);
            shapes<4, 1, 4, true>("fold of 4 to the own", nbytes);
            shapes<1, 4, 4, true>("own to 4", nbytes);
        } else if (n == 2) {
            shapes<2, 2, 2, true>("fold of 2 to 2", nbytes);
            shapes<2, 2, 4, true>("fold of 2 to 2", nbytes);
        }
    }
    return 0;
}
