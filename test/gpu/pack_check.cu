/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of runtime/gpu on a real device, without the library: weft_pack, weft_unpack,
 * weft_batch and weft_linger with random parameters against loops on the CPU, with poisoned
 * surroundings compared too; then times, each next to a device copy of the same length.
 *
 *     nvcc -arch=sm_90 -std=c++17 -O3 -I. -o pack_check \
 *         test/gpu/pack_check.cu runtime/gpu/pack.cu runtime/gpu/move.cu
 *     ./pack_check [ROUNDS [SEED]]            checks (400 rounds), then times
 *     compute-sanitizer --tool memcheck ./pack_check 20     no times below 100 rounds
 *     compute-sanitizer --tool racecheck ./pack_check 20
 *
 * With a second device that the first can access, a part of the packed forms is on it. */
#include "runtime/gpu/move_kernels.h"
#include "test/gpu/pack_case.h"
#include <stdio.h>
#include <chrono>

extern "C" __global__ void weft_pack(const __grid_constant__ struct rt_gpu_pack p);
extern "C" __global__ void weft_unpack(const __grid_constant__ struct rt_gpu_pack p);
extern "C" __global__ void weft_batch(const __grid_constant__ struct rt_gpu_batch b);
extern "C" __global__ void weft_linger(const __grid_constant__ struct rt_gpu_linger p);

#define DO(call) \
    do { \
        cudaError_t do_err = (call); \
        if (do_err != cudaSuccess) { \
            printf("not ok - line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(do_err)); \
            exit(1); \
        } \
    } while (0)

static const size_t TABLE = 4096;
static int failed;
static char *user, *packed_dev, *packed_peer, *packed_pinned;
static rt_gpu_group *table;
static uint32_t *flag, *counter, value;
static cudaStream_t stream;

static void check(bool ok, const char *what, unsigned round)
{
    if (ok)
        return;
    printf("not ok - %s, round %u\n", what, round);
    failed++;
}

/* ---- pack and unpack ---- */

static void wait_flag(const char *what, unsigned round)
{
    DO(cudaStreamSynchronize(stream));
    uint32_t left;
    DO(cudaMemcpy(&left, counter, 4, cudaMemcpyDefault));
    check(*(volatile uint32_t *)flag == value, what, round);
    check(left == 0, "the counter is zero again", round);
}

static void check_pack(unsigned round)
{
    bytes u(USER), p(PACKED), got_u(USER), got_p(PACKED);
    char *packed = !packed_peer || rnd(2) ? rnd(2) ? packed_dev : packed_pinned : packed_peer;
    pack_case c = random_case(user, packed);
    const size_t nbytes = c.e.g.size() * sizeof c.e.g[0];
    c.k.flag = (uint64_t)flag;
    c.k.counter = (uint64_t)counter;
    c.k.value = ++value;
    if (c.e.g.size() > RT_GPU_PACK_INLINE || rnd(2)) {
        c.k.table = (uint64_t)table;
        DO(cudaMemcpy(table, c.e.g.data(), nbytes, cudaMemcpyDefault));
    } else {
        memcpy(c.k.inline_groups, c.e.g.data(), nbytes);
    }
    fill(u);
    fill(p);
    DO(cudaMemcpy(user, u.data(), USER, cudaMemcpyDefault));
    DO(cudaMemcpy(packed, p.data(), PACKED, cudaMemcpyDefault));
    if (c.pack)
        weft_pack<<<c.grid, 256, 0, stream>>>(c.k);
    else
        weft_unpack<<<c.grid, 256, 0, stream>>>(c.k);
    DO(cudaGetLastError());
    wait_flag("the flag of packing", round);
    reference(c.k, c.e.g, u.data() + c.origin, p.data() + c.begin, c.pack);
    DO(cudaMemcpy(got_u.data(), user, USER, cudaMemcpyDefault));
    DO(cudaMemcpy(got_p.data(), packed, PACKED, cudaMemcpyDefault));
    check(got_u == u, c.pack ? "pack: user memory" : "unpack: user memory", round);
    check(got_p == p, c.pack ? "pack: packed form" : "unpack: packed form", round);
}

/* ---- batch and polling kernel ---- */

/* From anywhere in `user` to places in `packed` that do not overlap. */
static std::vector<rt_gpu_move> random_moves(unsigned n, char *packed, const bytes &u, bytes &p)
{
    std::vector<rt_gpu_move> m;
    size_t at = rnd(64);
    for (unsigned i = 0; i < n; i++) {
        size_t len = rnd(5) ? rnd(3000) : rnd(60000), from = rnd((uint32_t)(USER - len));
        if (at + len > PACKED)
            break;
        m.push_back({ (uint64_t)packed + at, (uint64_t)user + from, len });
        memcpy(p.data() + at, u.data() + from, len);
        at += len + rnd(40);
    }
    return m;
}

static void check_batch(unsigned round)
{
    static const unsigned grids[] = { 1, 3, 64 };
    bytes u(USER), p(PACKED), got(PACKED);
    char *packed = packed_peer && rnd(2) ? packed_peer : packed_dev;
    rt_gpu_batch k = {};
    fill(u);
    fill(p);
    DO(cudaMemcpy(user, u.data(), USER, cudaMemcpyDefault));
    DO(cudaMemcpy(packed, p.data(), PACKED, cudaMemcpyDefault));
    std::vector<rt_gpu_move> m = random_moves(1 + rnd(RT_GPU_BATCH_MAX), packed, u, p);
    k.flag = (uint64_t)flag;
    k.counter = (uint64_t)counter;
    k.value = ++value;
    k.n = (uint32_t)m.size();
    memcpy(k.move, m.data(), m.size() * sizeof m[0]);
    weft_batch<<<grids[rnd(3)], WEFT_BATCH_THREADS, 0, stream>>>(k);
    DO(cudaGetLastError());
    wait_flag("the flag of a batch", round);
    DO(cudaMemcpy(got.data(), packed, PACKED, cudaMemcpyDefault));
    check(got == p, "batch: data", round);
}

static bool wait_word(volatile uint32_t *word, uint32_t want)
{
    auto start = std::chrono::steady_clock::now();
    while (*word != want)
        if (std::chrono::steady_clock::now() - start > std::chrono::seconds(10))
            return false;
    return true;
}

/* One launch with some copies, posted one by one or several at a time; the kernel leaves by
 * itself. */
static void check_linger(unsigned round)
{
    static rt_gpu_desc *ring;
    static rt_gpu_words *words;
    static rt_gpu_work *work;
    static uint32_t next = 1, launch;
    bytes u(USER), p(PACKED), got(PACKED);
    if (!ring) {
        DO(cudaMallocHost(&ring, RT_GPU_RING_SLOTS * sizeof *ring));
        DO(cudaMallocHost(&words, sizeof *words));
        DO(cudaMalloc(&work, sizeof *work));
        DO(cudaMemset(work, 0, sizeof *work));
        memset(ring, 0, RT_GPU_RING_SLOTS * sizeof *ring);
        memset(words, 0, sizeof *words);
    }
    char *packed = packed_peer && rnd(2) ? packed_peer : packed_dev;
    fill(u);
    fill(p);
    DO(cudaMemcpy(user, u.data(), USER, cudaMemcpyDefault));
    DO(cudaMemcpy(packed, p.data(), PACKED, cudaMemcpyDefault));
    DO(cudaDeviceSynchronize());
    std::vector<rt_gpu_move> m = random_moves(1 + rnd(30), packed, u, p);
    rt_gpu_linger k = {};
    k.ring = (uint64_t)ring;
    k.words = (uint64_t)words;
    k.work = (uint64_t)work;
    k.recall = (uint64_t)(counter + 16);
    k.next = next;
    k.launch = ++launch;
    k.idle_ns = 200000000;
    k.life_ns = 8000000000;
    weft_linger<<<1 + rnd(8), WEFT_LINGER_THREADS, 0, stream>>>(k);
    DO(cudaGetLastError());
    for (size_t i = 0; i < m.size(); i++, next++) {
        rt_gpu_desc *d = &ring[next % RT_GPU_RING_SLOTS];
        d->dst = m[i].dst;
        d->src = m[i].src;
        d->len = m[i].len;
        __atomic_store_n(&d->seq_too, next, __ATOMIC_RELEASE);
        __atomic_store_n(&d->seq, next, __ATOMIC_RELEASE);
        if (rnd(2) || i + 1 == m.size())
            check(wait_word(&words->done, next), "linger: done", round);
    }
    check(wait_word(&words->left, launch), "linger: leaves", round);
    DO(cudaStreamSynchronize(stream));
    DO(cudaMemcpy(got.data(), packed, PACKED, cudaMemcpyDefault));
    check(got == p, "linger: data", round);
}

/* ---- times ---- */

static cudaEvent_t begun, ended;

template <typename F> static double time_us(F f)
{
    const int warm = 5, n = 50;
    float ms;
    for (int i = 0; i < warm; i++)
        f();
    DO(cudaEventRecord(begun, stream));
    for (int i = 0; i < n; i++)
        f();
    DO(cudaEventRecord(ended, stream));
    DO(cudaEventSynchronize(ended));
    DO(cudaEventElapsedTime(&ms, begun, ended));
    return ms * 1000 / n;
}

static void report(const char *what, double us, int64_t len, double of)
{
    printf("# %-44s %8.2f us %8.1f GB/s", what, us, (double)len / us / 1000);
    printf(of > 0 ? "  %.2f of the copy\n" : "\n", of / us);
}

/* n pieces of `piece` bytes, `stride` apart, or scattered with about that distance. */
static void time_layout(char *u, char *p, const char *where, int64_t piece, int64_t stride,
                        int64_t len, int64_t skew, bool scattered, double copy_us, int nsm)
{
    rt_gpu_pack k = {};
    groups g;
    char what[80];
    rt_gpu_group *t = NULL;
    int64_t n = len / piece, at = 0;
    for (int64_t i = 0; scattered && i < n; i++) {
        g.push_back({ i * piece, at, piece, piece, 1 });
        at += piece + (1 + i * i % 3) * (stride - piece) / 2 / 16 * 16;
    }
    if (!scattered)
        g.push_back({ 0, 0, piece, stride, n });
    k.unit = skew || piece % 2 ? 1 : (uint32_t)std::min<int64_t>(16, piece & -piece);
    k.packed = (uint64_t)p;
    k.user = (uint64_t)u + skew;
    k.len = k.size = len;
    k.extent = n * stride;
    k.ngroups = (uint32_t)g.size();
    k.flag = (uint64_t)flag;
    k.counter = (uint64_t)counter;
    k.value = 1;
    if (scattered) {
        DO(cudaMalloc(&t, g.size() * sizeof g[0]));
        DO(cudaMemcpy(t, g.data(), g.size() * sizeof g[0], cudaMemcpyDefault));
        k.table = (uint64_t)t;
    } else {
        k.inline_groups[0] = g[0];
    }
    unsigned grid = (unsigned)std::min<int64_t>((len + 4095) / 4096, 4 * nsm);
    for (int pack = 1; pack >= 0; pack--) {
        double us = time_us([&] {
            if (pack)
                weft_pack<<<grid, 256, 0, stream>>>(k);
            else
                weft_unpack<<<grid, 256, 0, stream>>>(k);
        });
        snprintf(what, sizeof what, "%s %s %lld x %lld B%s%s", pack ? "pack" : "unpack", where,
                 (long long)n, (long long)piece, scattered ? ", scattered" : "",
                 skew ? ", odd address" : "");
        report(what, us, len, copy_us);
    }
    if (t)
        DO(cudaFree(t));
}

static void times(int nsm, char *peer)
{
    const int64_t len = 4 << 20, large = 64 << 20;
    char *u, *p;
    DO(cudaMalloc(&u, 3 * large));
    DO(cudaMalloc(&p, large));
    DO(cudaEventCreate(&begun));
    DO(cudaEventCreate(&ended));
    DO(cudaMemset(u, 1, 3 * large));
    double small_us = time_us([&] { DO(cudaMemcpyAsync(p, u, len, cudaMemcpyDefault, stream)); });
    double large_us = time_us([&] { DO(cudaMemcpyAsync(p, u, large, cudaMemcpyDefault, stream)); });
    report("device copy 4 MiB", small_us, len, 0);
    report("device copy 64 MiB", large_us, large, 0);
    static const int64_t pieces[] = { 4, 8, 16, 64, 256, 1024, 8192, 65536 };
    for (int64_t piece : pieces)
        time_layout(u, p, "local", piece, 2 * piece, len, 0, false, small_us, nsm);
    time_layout(u, p, "local", 12, 16, len / 12 * 12, 0, false, small_us, nsm);
    time_layout(u, p, "local", 8192, 16384, len, 3, false, small_us, nsm);
    time_layout(u, p, "local", 64, 192, len, 0, true, small_us, nsm);
    time_layout(u, p, "local", 8192, 16384, large, 0, false, large_us, nsm);
    time_layout(u, p, "local", 64, 128, large, 0, false, large_us, nsm);
    double pinned_us = time_us(
        [&] { DO(cudaMemcpyAsync(packed_pinned, u, PACKED, cudaMemcpyDefault, stream)); });
    report("copy to pinned memory 2 MiB", pinned_us, PACKED, 0);
    for (int blocks : { 8, 4 }) /* on 4 SMs: the whole grid is four times that */
        time_layout(u, packed_pinned, "pinned", 8192, 16384, PACKED, 0, false, pinned_us, blocks);
    if (peer) {
        double us = time_us(
            [&] { DO(cudaMemcpyAsync(peer, u, PACKED, cudaMemcpyDefault, stream)); });
        report("copy to the peer 2 MiB", us, PACKED, 0);
        time_layout(u, peer, "peer", 8192, 16384, PACKED, 0, false, us, nsm);
        time_layout(u, peer, "peer", 64, 128, PACKED, 0, false, us, nsm);
    }
    DO(cudaFree(u));
    DO(cudaFree(p));
}

static char *second_device(void)
{
    int n, can = 0;
    char *p = NULL;
    DO(cudaGetDeviceCount(&n));
    if (n > 1)
        DO(cudaDeviceCanAccessPeer(&can, 0, 1));
    if (!can)
        return NULL;
    DO(cudaSetDevice(1));
    DO(cudaMalloc(&p, PACKED));
    DO(cudaSetDevice(0));
    DO(cudaDeviceEnablePeerAccess(1, 0));
    return p;
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 400;
    cudaDeviceProp prop;
    rng = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    printf("# seed %llu\n", (unsigned long long)rng);
    DO(cudaSetDevice(0));
    DO(cudaGetDeviceProperties(&prop, 0));
    DO(cudaMalloc(&user, USER));
    DO(cudaMalloc(&packed_dev, PACKED));
    DO(cudaMallocHost(&packed_pinned, PACKED));
    DO(cudaMalloc(&table, TABLE * sizeof *table));
    DO(cudaMalloc(&counter, 128));
    DO(cudaMemset(counter, 0, 128));
    DO(cudaMallocHost(&flag, 64));
    DO(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    packed_peer = second_device();
    printf("# %s, %d SMs%s\n", prop.name, prop.multiProcessorCount,
           packed_peer ? ", and a peer" : "");
    for (unsigned i = 0; i < rounds && failed < 20; i++) {
        check_pack(i);
        check_pack(i);
        if (i % 4 == 0)
            check_batch(i);
        if (i % 20 == 0)
            check_linger(i);
    }
    printf("%sok 1 - %u rounds, %d failures\n1..1\n", failed ? "not " : "", rounds, failed);
    if (!failed && rounds >= 100)
        times(prop.multiProcessorCount, packed_peer);
    return failed != 0;
}
