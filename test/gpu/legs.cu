/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures the legs of a short message between devices: what the host, a polling kernel and the
 * link need without the library; and what kernels and engines that only copy or only add reach with
 * windows of messages both ways, and with a long accumulate.  Built by hand, not part of make: nvcc
 * -O3 -std=c++17 -arch=sm_90 -I. test/gpu/legs.cu -o legs && ./legs One process has two devices.
 * Medians in microseconds; for round trips also the times that one and nine tenths stay below.
 * Kernels end by themselves after four seconds. */
#include <cuda_runtime.h>
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>
#include "runtime/gpu/ptx.h"

#define RT(x) \
    do { \
        cudaError_t e_ = (x); \
        if (e_ != cudaSuccess) { \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e_)); \
            exit(1); \
        } \
    } while (0)

static const unsigned SLOTS = 64, WORDS = 32;
static const u64 LIMIT_NS = 4000000000;
static const int STEPS = 500, HOPS = 2000;

static struct { /* pinned */
    uint32_t *ring, *words, *wrong;
    u64 *out;
} host;
static u64 *local, *peer; /* memory of both devices */

static double now_us()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static double part(std::vector<double> v, double share)
{
    std::sort(v.begin(), v.end());
    return v.empty() ? 0 : v[(size_t)(share * (double)(v.size() - 1))];
}

static double middle(const std::vector<double> &v) { return part(v, 0.5); }

__device__ __forceinline__ u64 load(const u64 *p) { return atomic_load(p); }

/* ---- from the host to a polling warp and back ---- */

/* What the warp does with a descriptor: nothing; a copy of 8 bytes into own memory; an atomic
 * change in the other's memory, the old value into own memory; a sum of both devices' 8 bytes,
 * stored to both; a copy into the other's memory, with a fence or read back. */
enum work { ECHO, COPY, CHANGE, SUM, PUT, PUT_BACK };

struct post {
    uint32_t *ring, *done, *wrong;
    u64 *mine, *peer;
    uint32_t rounds;
    u64 *polls; /* their number, and nanoseconds of all */
};

template <work W> __device__ __forceinline__ void act(const post &p, uint32_t seq)
{
    u64 v = W == ECHO     ? 0
            : W == CHANGE ? atomic_add(p.peer, 1ull)
                          : load(W >= PUT ? p.mine : p.peer);

    if (W == SUM)
        v += load(p.mine);
    if (W >= COPY && W <= SUM)
        p.mine[1] = v;
    if (W >= SUM)
        p.peer[1] = v;
    if (W == COPY || W == CHANGE)
        fence_device();
    else if (W == SUM || W == PUT)
        fence_system();
    if (W != PUT_BACK || load(p.peer + 1) == v)
        host_store((uint64_t)p.done, seq);
}

struct reads {
    alignas(128) uint32_t line[16][WORDS];
    u64 arrived[16];
};

__device__ __forceinline__ const uint32_t *slot_of(const post &p, uint32_t seq)
{
    return p.ring + seq % SLOTS * WORDS;
}

/* The line in one word a lane: by a load, or by the oldest of K reads that are under way. */
template <int K>
__device__ __forceinline__ uint32_t look(const post &p, struct reads *r, unsigned n, uint32_t seq)
{
    unsigned lane = threadIdx.x, i = n % (K ? K : 1);

    if (K == 0)
        return from<true>::load(slot_of(p, seq) + lane);
    line_wait(&r->arrived[i], n / (K ? K : 1) & 1, r->line[i], slot_of(p, seq));
    return ((volatile uint32_t *)r->line[i])[lane];
}

/* K reads of the ring are under way; 0: an ordinary load. */
template <int K, work W> __global__ void poll_kernel(post p)
{
    __shared__ struct reads r;
    const uint32_t ends = 0x80018001u;
    u64 start = now_ns(), begun = start;
    unsigned n = 0, first = 0, lane = threadIdx.x;

    for (int i = 0; lane == 0 && i < K; i++) {
        line_prepare(&r.arrived[i]);
        line_start(&r.arrived[i], r.line[i], slot_of(p, 1));
    }
    __syncwarp();
    for (uint32_t seq = 1; seq <= p.rounds && (n % 64 != 63 || now_ns() - start < LIMIT_NS);) {
        uint32_t v = look<K>(p, &r, n, seq);
        if ((__ballot_sync(EVERY_LANE, v == seq) & ends) == ends) {
            if (lane == 0)
                act<W>(p, seq);
            if (__any_sync(EVERY_LANE, v != seq) && lane == 0)
                *p.wrong += 1;
            if (seq++ == 1)
                begun = now_ns(), first = n;
        }
        __syncwarp();
        if (K && lane == 0)
            line_start(&r.arrived[n % (K ? K : 1)], r.line[n % (K ? K : 1)], slot_of(p, seq));
        n++;
    }
    u64 end = now_ns();
    for (int i = 0; i < K; i++, n++)
        look<K>(p, &r, n, 0);
    if (lane == 0) {
        p.polls[0] = n - K - first;
        p.polls[1] = end - begun;
    }
}

static void spend(int n)
{
    while (n-- > 0)
        __builtin_ia32_pause();
}

/* In the order in which the library stores them. */
static void store_line(uint32_t seq, bool slow)
{
    static const int last[] = { 31, 16, 15, 0 };
    volatile uint32_t *d = host.ring + seq % SLOTS * WORDS;

    for (int half = 1; half >= 0; half--) {
        for (int w = 16 * half + 1; w < 16 * half + 15; w++) {
            spend(slow ? rand() % 4 : 0);
            d[w] = seq;
        }
        d[last[2 - 2 * half]] = seq;
        spend(slow ? rand() % 4 : 0);
        d[last[3 - 2 * half]] = seq;
    }
}

/* slow: the host stores the words of a descriptor slowly, so that many reads see a part of them. */
template <int K, work W> static void rounds(const char *what, bool slow = false)
{
    const uint32_t n = slow ? 80000 : 4000;
    post p = { host.ring, host.words, host.wrong, local, peer, n, host.out };
    std::vector<double> us;

    memset(host.ring, 0, SLOTS * WORDS * 4);
    *host.words = *host.wrong = 0;
    poll_kernel<K, W><<<1, 32>>>(p);
    RT(cudaGetLastError());
    for (uint32_t i = 1; i <= n; i++) {
        volatile uint32_t *done = p.done;
        spend(rand() % 64); /* no fixed phase */
        double t = now_us();
        store_line(i, slow);
        while (*done != i && now_us() - t < 3e6)
            ;
        us.push_back(now_us() - t);
        if (*done != i) {
            printf("%s, %d reads: no answer\n", what, K);
            break;
        }
    }
    RT(cudaDeviceSynchronize());
    printf("%-34s %2d reads %6.2f (%.2f to %.2f), a read each %.2f, %u wrong\n", what, K ? K : 1,
           middle(us), part(us, 0.1), part(us, 0.9),
           (double)host.out[1] / 1e3 / (double)host.out[0], *host.wrong);
}

template <work W> static void ways(const char *what)
{
    rounds<0, W>(what);
    rounds<2, W>(what);
    rounds<3, W>(what);
    rounds<4, W>(what);
    rounds<6, W>(what);
    rounds<8, W>(what);
    rounds<12, W>(what);
}

/* ---- single steps of a kernel ---- */

enum step {
    LOAD_HOST,
    LOAD_OWN,
    LOAD_PEER,
    ATOM_OWN,
    ATOM_PEER,
    DEVICE_FENCE_OWN,
    FENCE_OWN,
    FENCE_PEER,
    FENCE_HOST,
    BACK_PEER
};

template <step S> __device__ __forceinline__ u64 take(u64 *own, u64 *far, u64 *h, u64 i)
{
    u64 *p = S == LOAD_HOST || S == FENCE_HOST                                       ? h
             : S == LOAD_PEER || S == ATOM_PEER || S == FENCE_PEER || S == BACK_PEER ? far
                                                                                     : own;
    if (S <= LOAD_PEER)
        return load(p + (i & 1));
    if (S <= ATOM_PEER)
        return atomic_add(p + (i & 1), 0ull);
    *(volatile u64 *)(p + 8) = i;
    if (S == BACK_PEER)
        return load(p + 8);
    if (S == DEVICE_FENCE_OWN)
        fence_device();
    else
        fence_system();
    return 0;
}

template <step S> __global__ void step_kernel(u64 *own, u64 *far, u64 *h, u64 *out)
{
    u64 sum = 0, start = now_ns();

    for (int i = 0; i < STEPS; i++)
        sum += take<S>(own, far, h, sum); /* each waits for the one before */
    out[0] = now_ns() - start;
    out[1] = sum;
}

template <step S> static void step_of(const char *what)
{
    RT(cudaMemset(local, 0, 4096));
    memset(host.words, 0, 4096);
    for (int i = 0; i < 2; i++) {
        step_kernel<S><<<1, 1>>>(local, peer, (u64 *)host.words, host.out);
        RT(cudaDeviceSynchronize());
    }
    printf("%-44s %6.3f\n", what, (double)host.out[0] / STEPS / 1e3);
}

/* ---- a hop between two kernels ---- */

template <bool fenced> __global__ void hop_kernel(u64 *in, u64 *out, u64 *took, int first)
{
    u64 start = now_ns(), until = start + LIMIT_NS;

    for (u64 i = 1; i <= HOPS; i++) {
        for (int turn = 0; turn < 2; turn++) {
            while (turn == first && load(in) != i)
                if (now_ns() > until)
                    return;
            if (turn == first)
                continue;
            if (fenced) {
                out[8] = i;
                fence_system();
            }
            *(volatile u64 *)out = i;
        }
        if (i == 1)
            start = now_ns();
    }
    if (first)
        *took = now_ns() - start;
}

template <bool fenced> static void hops(const char *what)
{
    for (int turn = 0; turn < 2; turn++) { /* the first loads the kernels */
        RT(cudaMemset(local, 0, 4096));
        RT(cudaMemset(peer, 0, 4096));
        RT(cudaDeviceSynchronize());
        RT(cudaSetDevice(1));
        hop_kernel<fenced><<<1, 1>>>(peer, local, host.out, 0);
        RT(cudaSetDevice(0));
        hop_kernel<fenced><<<1, 1>>>(local, peer, host.out, 1);
        RT(cudaDeviceSynchronize());
    }
    printf("%-44s %6.3f\n", what, (double)host.out[0] / 2e3 / (HOPS - 1));
}

/* ---- launches and engines ---- */

__global__ void empty_kernel() {}
__global__ void flag_kernel(uint32_t *done, uint32_t v) { host_store((uint64_t)done, v); }

static void launches(cudaStream_t s)
{
    std::vector<double> empty, flag, call;

    for (uint32_t i = 1; i <= 1000; i++) {
        double t = now_us();
        empty_kernel<<<1, 32, 0, s>>>();
        RT(cudaStreamSynchronize(s));
        empty.push_back(now_us() - t);
        t = now_us();
        flag_kernel<<<1, 1, 0, s>>>(host.words, i);
        call.push_back(now_us() - t);
        while (*(volatile uint32_t *)host.words != i)
            ;
        flag.push_back(now_us() - t);
    }
    printf("%-44s %6.2f\n", "empty kernel and synchronisation", middle(empty));
    printf("%-44s %6.2f, the call %.2f\n", "kernel until the host sees its store", middle(flag),
           middle(call));
}

static void engines(cudaStream_t s0)
{
    const size_t len = (size_t)256 << 20;
    cudaStream_t s1;
    char *a, *b;

    RT(cudaMalloc(&a, 2 * len));
    RT(cudaSetDevice(1));
    RT(cudaMalloc(&b, 2 * len));
    RT(cudaStreamCreateWithFlags(&s1, cudaStreamNonBlocking));
    RT(cudaSetDevice(0));
    for (int ways = 1; ways <= 2; ways++) {
        std::vector<double> us;
        for (int i = 0; i < 12; i++) {
            double t = now_us();
            RT(cudaMemcpyAsync(b, a, len, cudaMemcpyDefault, s0));
            if (ways == 2)
                RT(cudaMemcpyAsync(a + len, b + len, len, cudaMemcpyDefault, s1));
            RT(cudaStreamSynchronize(s0));
            RT(cudaStreamSynchronize(s1));
            us.push_back(now_us() - t);
        }
        printf("copy engines, 256 MiB, %d ways %32.0f GB/s\n", ways,
               ways * (double)len / middle(us) / 1e3);
    }
}

/* ---- windows of messages both ways, and a long accumulate ---- */

struct range {
    uint4 *dst;
    const uint4 *src;
    size_t n; /* units */
    uint32_t *counter, *done, value;
};

template <bool adds> __global__ void __launch_bounds__(256, 4) range_kernel(range r)
{
    const unsigned ahead = 4, nt = gridDim.x * blockDim.x;
    uint4 v[ahead];

    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < r.n; i += ahead * nt) {
        for (unsigned j = 0; j < ahead; j++)
            v[j] = i + j * nt < r.n ? r.src[i + j * nt] : uint4();
        for (unsigned j = 0; j < ahead && i + j * nt < r.n; j++) {
            uint4 *d = r.dst + i + j * nt, a = adds ? *d : uint4();
            *d = { a.x + v[j].x, a.y + v[j].y, a.z + v[j].z, a.w + v[j].w };
        }
    }
    if (!r.done)
        return;
    __syncthreads();
    if (threadIdx.x == 0) {
        fence_system();
        if (atomicAdd(r.counter, 1u) % gridDim.x == gridDim.x - 1)
            host_store((uint64_t)r.done, r.value);
    }
}

static const int WINDOW = 64; /* messages, as in osu_bibw */
static struct side {
    char *mem; /* as much to send, then to receive */
    uint32_t *counter, *done;
    cudaStream_t stream[2];
    cudaEvent_t event[2];
} sides[2];

static void wait_done(const uint32_t *done, uint32_t value)
{
    double t = now_us();

    while (*(const volatile uint32_t *)done != value)
        if (now_us() - t > 4e6) {
            printf("a kernel that copies does not end\n");
            exit(1);
        }
}

static void start_range(const side &s, char *dst, const char *src, size_t len, uint32_t value)
{
    size_t blocks = std::min<size_t>(std::max<size_t>(len / 16384, 1), 264);

    range_kernel<false><<<(unsigned)blocks, 256, 0, s.stream[0]>>>(
        { (uint4 *)dst, (const uint4 *)src, len / 16, s.counter, s.done, value });
    RT(cudaGetLastError());
}

/* How a side brings a window across. */
struct way {
    const char *name;
    bool writes, engine, notifies;
    int each; /* messages in a launch, or streams of an engine */
};

static void window_once(const way &w, int me, size_t len, uint32_t value)
{
    side &s = sides[me], &o = sides[1 - me];
    size_t half = WINDOW * len;
    char *dst = w.writes ? o.mem + half : s.mem + half;
    const char *src = w.writes ? s.mem : o.mem;

    if (!w.engine) {
        RT(cudaMemsetAsync(s.counter, 0, 4, s.stream[0]));
        for (int i = 0; i < WINDOW; i += w.each) {
            bool last = i + w.each == WINDOW;
            side quiet = s;
            if (!w.notifies && !last)
                quiet.done = NULL;
            start_range(quiet, dst + i * len, src + i * len, w.each * len, last ? value : 0);
        }
        wait_done(s.done, value);
        return;
    }
    for (int i = 0; i < WINDOW; i++)
        RT(cudaMemcpyAsync(dst + i * len, src + i * len, len, cudaMemcpyDefault,
                           s.stream[i % w.each]));
    for (int i = 0; i < w.each; i++) {
        RT(cudaEventRecord(s.event[i], s.stream[i]));
        while (cudaEventQuery(s.event[i]) == cudaErrorNotReady)
            ;
    }
}

/* One thread a device, as each rank has its own processor. */
static void window_both(const way &w, size_t len)
{
    const int turns = 200;
    std::atomic<int> arrived{ 0 };
    std::vector<double> us;

    auto body = [&](int me) {
        RT(cudaSetDevice(me));
        for (int i = 0; i < turns; i++) {
            double t = now_us();
            window_once(w, me, len, (uint32_t)i + 1);
            arrived++;
            while (arrived < 2 * (i + 1))
                ;
            if (me == 0)
                us.push_back(now_us() - t);
        }
        *sides[me].done = 0;
    };
    std::thread other(body, 1);
    body(0);
    other.join();
    RT(cudaSetDevice(0));
    double ends = middle(us);
    printf("both ways, %4zu KiB, window of %d, %-8s %-6s %2d %-9s %6.0f GB/s, a window %.1f us\n",
           len >> 10, WINDOW, w.name, w.writes ? "put" : "get", w.each,
           w.notifies ? "with ends" : "", 2.0 * WINDOW * (double)len / ends / 1e3, ends);
}

static void windows()
{
    const size_t most = (size_t)1 << 20;
    static const way ways[] = {
        { "kernel", false, false, false, 64 }, { "kernel", true, false, false, 64 },
        { "kernel", false, false, false, 16 }, { "kernel", true, false, false, 16 },
        { "kernel", false, false, false, 4 },  { "kernel", true, false, false, 4 },
        { "kernel", false, false, true, 4 },   { "kernel", true, false, true, 4 },
        { "kernel", true, false, false, 1 },   { "engine", true, true, false, 1 },
        { "engine", true, true, false, 2 },    { "engine", false, true, false, 1 },
    };

    for (int me = 0; me < 2; me++) {
        side &s = sides[me];
        RT(cudaSetDevice(me));
        RT(cudaMalloc(&s.mem, 2 * WINDOW * most));
        RT(cudaMemset(s.mem, me + 1, 2 * WINDOW * most));
        RT(cudaMalloc(&s.counter, 4));
        RT(cudaMallocHost(&s.done, 64));
        for (int i = 0; i < 2; i++) {
            RT(cudaStreamCreateWithFlags(&s.stream[i], cudaStreamNonBlocking));
            RT(cudaEventCreateWithFlags(&s.event[i], cudaEventDisableTiming));
        }
        RT(cudaDeviceSynchronize());
    }
    RT(cudaSetDevice(0));
    for (size_t len : { most >> 4, most })
        for (const way &w : ways)
            window_both(w, len);
}

/* An accumulate of `len` bytes by one kernel: from its launch to what the host sees of its end. */
static void add_once(const char *what, char *dst, const char *src, size_t len)
{
    side &s = sides[0];
    std::vector<double> us;

    for (uint32_t i = 1; i <= 500; i++) {
        RT(cudaMemset(s.counter, 0, 4));
        RT(cudaDeviceSynchronize());
        double t = now_us();
        range_kernel<true><<<(unsigned)(len >> 20 ? 128 : 1), 256, 0, s.stream[0]>>>(
            { (uint4 *)dst, (const uint4 *)src, len / 16, s.counter, s.done, i });
        RT(cudaGetLastError());
        wait_done(s.done, i);
        us.push_back(now_us() - t);
    }
    *s.done = 0;
    printf("a += b, %4zu KiB, %-40s %6.2f\n", len >> 10, what, middle(us));
}

static void accumulates()
{
    char *own = sides[0].mem, *far = sides[1].mem;
    const size_t part = (size_t)8 << 20;

    for (size_t len : { (size_t)1 << 10, (size_t)1 << 20 }) {
        add_once("all in own memory", own, own + part, len);
        add_once("b is the peer's, by the target", own, far, len);
        add_once("a is the peer's, by the origin", far, own, len);
    }
}

static void setup()
{
    int n = 0;

    RT(cudaGetDeviceCount(&n));
    if (n < 2) {
        printf("legs needs two devices\n");
        exit(77);
    }
    RT(cudaSetDevice(1));
    RT(cudaDeviceEnablePeerAccess(0, 0));
    RT(cudaMalloc(&peer, 4096));
    RT(cudaSetDevice(0));
    RT(cudaDeviceEnablePeerAccess(1, 0));
    RT(cudaMalloc(&local, 4096));
    RT(cudaMallocHost(&host.ring, SLOTS * WORDS * 4));
    RT(cudaMallocHost(&host.words, 4096));
    RT(cudaMallocHost(&host.wrong, 64));
    RT(cudaMallocHost(&host.out, 64));
}

int main()
{
    cudaStream_t s;

    setvbuf(stdout, NULL, _IOLBF, 0);
    setup();
    RT(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    launches(s);
    engines(s);
    windows();
    accumulates();
    step_of<LOAD_HOST>("load from pinned memory");
    step_of<LOAD_OWN>("load from own memory");
    step_of<LOAD_PEER>("load from the peer's memory");
    step_of<ATOM_OWN>("atomic on own memory");
    step_of<ATOM_PEER>("atomic on the peer's memory");
    step_of<DEVICE_FENCE_OWN>("store to own memory, fence of the device");
    step_of<FENCE_OWN>("store to own memory, fence of the system");
    step_of<FENCE_PEER>("store to the peer, fence of the system");
    step_of<FENCE_HOST>("store to the host, fence of the system");
    step_of<BACK_PEER>("store to the peer, load of it");
    hops<false>("hop between kernels, a word");
    hops<true>("hop between kernels, data, fence, word");
    rounds<0, ECHO>("slow stores", true);
    rounds<4, ECHO>("slow stores", true);
    rounds<8, ECHO>("slow stores", true);
    ways<ECHO>("host, kernel, host");
    ways<COPY>("with a copy from the peer");
    ways<CHANGE>("with an atomic change of the peer's");
    ways<SUM>("with a sum to both");
    ways<PUT>("with a copy to the peer");
    ways<PUT_BACK>("the same, read back, not fenced");
    return 0;
}
