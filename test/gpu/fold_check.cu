/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that reduce on a real device, without the library: random cases against loops on the
 * CPU, with poisoned surroundings compared too; then rates by size and number of blocks.
 *
 *     nvcc -arch=sm_90 -std=c++17 -O3 -I. -o fold_check \
 *         test/gpu/fold_check.cu runtime/gpu/fold.cu runtime/gpu/fold_rare.cu runtime/gpu/move.cu
 *     ./fold_check [ROUNDS [SEED]]            checks (400 rounds), then times
 *     compute-sanitizer --tool memcheck ./fold_check 20     no times below 100 rounds
 *     compute-sanitizer --tool racecheck ./fold_check 20
 *
 * With a second device that the first can access, a part of the data is on it. */
#include "runtime/gpu/move_kernels.h"
#include "test/gpu/fold_case.h"
#include <algorithm>
#include <chrono>

#define KERNEL(name) \
    extern "C" __global__ void name(const __grid_constant__ struct rt_gpu_fold_args f);
KERNEL(weft_fold_bits)
KERNEL(weft_fold_4)
KERNEL(weft_fold_8)
KERNEL(weft_fold_f16)
KERNEL(weft_fold_bf16)
KERNEL(weft_fold_1)
KERNEL(weft_fold_2)
KERNEL(weft_fold_wide8)
KERNEL(weft_fold_wide16)
extern "C" __global__ void weft_linger(const __grid_constant__ struct rt_gpu_linger p);
typedef void kernel(const struct rt_gpu_fold_args f);
static kernel *const kernels[FOLD_KERNELS] = { weft_fold_bits, weft_fold_4,     weft_fold_8,
                                               weft_fold_f16,  weft_fold_bf16,  weft_fold_1,
                                               weft_fold_2,    weft_fold_wide8, weft_fold_wide16 };

#define DO(call) \
    do { \
        cudaError_t do_err = (call); \
        if (do_err != cudaSuccess) { \
            printf("not ok - line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(do_err)); \
            exit(1); \
        } \
    } while (0)

static int failed, ndevices = 1;
struct dev {
    cudaStream_t stream;
    cudaEvent_t begun, ended;
    uint32_t *flag, *counter, value;
    char *buf[3];
};
static dev devs[2];
static const size_t LONGEST = 256u << 20;

static void open_dev(int i)
{
    dev &d = devs[i];
    DO(cudaSetDevice(i));
    DO(cudaStreamCreateWithFlags(&d.stream, cudaStreamNonBlocking));
    DO(cudaEventCreate(&d.begun));
    DO(cudaEventCreate(&d.ended));
    DO(cudaHostAlloc(&d.flag, 4, cudaHostAllocPortable));
    DO(cudaMalloc(&d.counter, 4));
    DO(cudaMemset(d.counter, 0, 4));
    DO(cudaDeviceSynchronize());
}

static bool by_graph;
static void start(int i, kernel *k, rt_gpu_fold_args &a, unsigned grid)
{
    dev &d = devs[i];
    a.flag = (uint64_t)d.flag;
    a.counter = (uint64_t)d.counter;
    a.value = ++d.value;
    void *args[] = { &a };
    if (!by_graph) {
        DO(cudaLaunchKernel((const void *)k, dim3(grid), dim3(WEFT_FOLD_THREADS), args, 0,
                            d.stream));
        return;
    }
    static cudaGraph_t graph; /* like runtime/gpu/launch.c */
    static cudaGraphNode_t node;
    static cudaGraphExec_t exec;
    cudaKernelNodeParams n = {};
    n.func = (void *)k;
    n.gridDim = dim3(grid);
    n.blockDim = dim3(WEFT_FOLD_THREADS);
    n.kernelParams = args;
    if (!exec) {
        DO(cudaGraphCreate(&graph, 0));
        DO(cudaGraphAddKernelNode(&node, graph, NULL, 0, &n));
        DO(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    }
    DO(cudaGraphExecKernelNodeSetParams(exec, node, &n));
    DO(cudaGraphLaunch(exec, d.stream));
}

/* ---- checks ---- */

static void differ(const area &a, const bytes &got)
{
    for (size_t i = 0, n = 0; i < AREA && n < 8; i++)
        if (got[i] != a.image[i]) {
            printf("# %p, byte %zu: is %02x, expected %02x\n", (void *)a.at, i, (uint8_t)got[i],
                   (uint8_t)a.image[i]);
            n++;
        }
}

static void check_round(std::vector<area> &areas, unsigned round)
{
    fold_case c = random_case(areas);
    bytes got(AREA);
    uint32_t left;
    bool ok = true;
    for (area &a : areas)
        DO(cudaMemcpy(a.at, a.image.data(), AREA, cudaMemcpyDefault));
    DO(cudaDeviceSynchronize());
    start(0, kernels[c.kind.kernel], c.k, c.grid);
    DO(cudaStreamSynchronize(devs[0].stream));
    DO(cudaMemcpy(&left, devs[0].counter, 4, cudaMemcpyDefault));
    ok &= *(volatile uint32_t *)devs[0].flag == devs[0].value && left == 0;
    reference(c);
    for (area &a : areas) {
        DO(cudaMemcpy(got.data(), a.at, AREA, cudaMemcpyDefault));
        ok &= got == a.image;
        differ(a, got);
    }
    if (ok)
        return;
    printf("not ok - round %u, %u blocks have not ended\n", round, left);
    describe(c);
    failed++;
}

/* ---- the polling kernel ---- */

struct ring {
    rt_gpu_desc *slots;
    rt_gpu_words *words;
    rt_gpu_work *work;
    uint32_t next, launch;
    bool up;
};
static ring r;

static void ring_start(unsigned blocks)
{
    if (!r.slots) {
        DO(cudaMallocHost(&r.slots, RT_GPU_RING_SLOTS * sizeof *r.slots));
        DO(cudaMallocHost(&r.words, sizeof *r.words));
        DO(cudaMalloc(&r.work, sizeof *r.work + 64)); /* the line of recalls behind it */
        DO(cudaMemset(r.work, 0, sizeof *r.work + 64));
        memset(r.slots, 0, RT_GPU_RING_SLOTS * sizeof *r.slots);
        memset(r.words, 0, sizeof *r.words);
        r.next = 1;
        DO(cudaDeviceSynchronize());
    }
    rt_gpu_linger k = {};
    k.ring = (uint64_t)r.slots;
    k.words = (uint64_t)r.words;
    k.work = (uint64_t)r.work;
    k.recall = (uint64_t)(r.work + 1);
    k.next = r.next;
    k.launch = ++r.launch;
    k.idle_ns = 20000000;
    k.life_ns = 8000000000;
    weft_linger<<<blocks, WEFT_LINGER_THREADS, 0, devs[0].stream>>>(k);
    DO(cudaGetLastError());
}

static bool ring_wait(volatile uint32_t *word, uint32_t want)
{
    auto start = std::chrono::steady_clock::now();
    while (*word != want)
        if (std::chrono::steady_clock::now() - start > std::chrono::seconds(5))
            return false;
    return true;
}

static bool ring_do(uint32_t fold, const uint64_t *place, uint32_t len, bool near = false)
{
    rt_gpu_desc *d = &r.slots[r.next % RT_GPU_RING_SLOTS];
    d->fold = fold;
    d->dst = place[0];
    d->src = place[1];
    memcpy(d->more, place + 2, sizeof d->more);
    d->len = len;
    d->near = near;
    memcpy(d->far, place + RT_GPU_RING_NEAR, sizeof d->far);
    __atomic_store_n(&d->seq_far_too, r.next, __ATOMIC_RELEASE);
    __atomic_store_n(&d->seq_far, r.next, __ATOMIC_RELEASE);
    __atomic_store_n(&d->seq_too, r.next, __ATOMIC_RELEASE);
    __atomic_store_n(&d->seq, r.next, __ATOMIC_RELEASE);
    return ring_wait(&r.words->done, r.next++);
}

static void ring_stop()
{
    if (!ring_wait(&r.words->left, r.launch)) {
        printf("not ok - the polling kernel does not leave\n");
        exit(1);
    }
    DO(cudaStreamSynchronize(devs[0].stream));
}

/* Random cases of the kinds that the ring accepts. */
static void check_ring_round(std::vector<area> &areas, unsigned round)
{
    static const uint32_t ring_kinds[FOLD_KERNELS] = { RT_GPU_RING_BITS, RT_GPU_RING_4,
                                                       RT_GPU_RING_8, RT_GPU_RING_F16,
                                                       RT_GPU_RING_BF16 };
    bytes got(AREA);
    bool ok = true;
    for (area &a : areas)
        DO(cudaMemcpy(a.at, a.image.data(), AREA, cudaMemcpyDefault));
    DO(cudaDeviceSynchronize());
    fold_case c;
    uint64_t place[2 * RT_GPU_FOLD_PLACES] = {}, any;
    do {
        c = random_case(areas);
        uint64_t nbytes = c.k.count * c.kind.nbytes;
        bool wide = c.k.nsrc <= RT_GPU_RING_WIDE || c.k.code == RT_GPU_FOLD_EACH;
        any = nbytes | (wide && nbytes > RT_GPU_RING_SHORT ? 16 : 8);
        for (unsigned i = 0; i < c.k.nsrc; i++)
            any |= place[i] = c.k.src[i];
        for (unsigned i = 0; i < c.k.ndst; i++)
            any |= place[c.k.nsrc + i] = c.k.dst[i];
    } while (!ring_kinds[c.kind.kernel] || c.k.nsrc + c.k.ndst > RT_GPU_RING_PLACES ||
             c.k.nsrc > RT_GPU_RING_SOURCES || c.k.prefixes || (any & -any) < c.kind.nbytes);
    for (area &a : areas) /* cases that were not accepted have left their sources there */
        DO(cudaMemcpy(a.at, a.image.data(), AREA, cudaMemcpyDefault));
    DO(cudaDeviceSynchronize());
    ring_start(1 + rnd(8));
    ok &= ring_do(RT_GPU_RING_FOLD(ring_kinds[c.kind.kernel], c.k.type, c.k.code, c.k.nsrc,
                                   c.k.ndst, any & -any, 0),
                  place, (uint32_t)c.k.count * c.kind.nbytes);
    ring_stop();
    reference(c);
    for (area &a : areas) {
        DO(cudaMemcpy(got.data(), a.at, AREA, cudaMemcpyDefault));
        ok &= got == a.image;
    }
    if (ok)
        return;
    printf("not ok - ring, round %u\n", round);
    describe(c);
    failed++;
}

static void checks(unsigned rounds)
{
    std::vector<area> areas(ndevices + 2);
    DO(cudaSetDevice(0));
    for (size_t i = 0; i < areas.size(); i++) {
        if (i == 0)
            DO(cudaHostAlloc(&areas[i].at, AREA, cudaHostAllocPortable));
        else
            DO(cudaSetDevice(i > 2 ? 1 : 0));
        if (i > 0)
            DO(cudaMalloc(&areas[i].at, AREA));
        areas[i].image.resize(AREA);
        for (char &b : areas[i].image)
            b = (char)rnd(256);
    }
    DO(cudaSetDevice(0));
    for (unsigned i = 0; i < rounds && failed < 10; i++)
        check_round(areas, i);
    printf("%sok - %u random cases\n", failed ? "not " : "", rounds);
    for (unsigned i = 0; i < rounds / 4 && failed < 10; i++)
        check_ring_round(areas, i);
    printf("%sok - %u random cases in the ring\n", failed ? "not " : "", rounds / 4);
}

/* ---- times ---- */

enum scene { LOCAL, SRC_FAR, DST_FAR, BOTH, OWNER, OWNERS, SCENES };
static const char *const scenes[SCENES] = {
    "all memory local",
    "a source remote",
    "the destination remote",
    "a source remote, destinations here and there",
    "in place: a source remote, destinations the sources",
    "the same by both devices at once",
};

static rt_gpu_fold_args args_of(scene s, int i, size_t nbytes, unsigned nsrc = 2)
{
    dev &me = devs[i], &peer = devs[ndevices - 1 - i];
    rt_gpu_fold_args a = {};
    size_t off = i ? LONGEST : 0; /* the owners work on different halves */
    a.type = RT_GPU_F32;
    a.code = RT_GPU_FOLD_SUM;
    a.nsrc = (uint8_t)nsrc;
    a.ndst = s >= BOTH ? 2 : 1;
    a.count = nbytes / 4;
    a.unit = 16;
    a.near = s <= SRC_FAR;
    a.src[0] = (uint64_t)me.buf[0] + off;
    a.src[1] = (uint64_t)(s == SRC_FAR || s >= BOTH ? peer.buf[0] : me.buf[1]) + off;
    for (unsigned j = 2; j < nsrc; j++)
        a.src[j] = a.src[1] + (j - 1) * nbytes;
    a.dst[0] = s >= OWNER ? a.src[0] : (uint64_t)(s == DST_FAR ? peer.buf[2] : me.buf[2]) + off;
    a.dst[1] = s >= OWNER ? a.src[1] : (uint64_t)peer.buf[2] + off;
    return a;
}

static uint32_t piece_of(size_t nbytes, unsigned grid)
{
    uint64_t each = nbytes / 16 / grid / WEFT_FOLD_THREADS;
    return WEFT_FOLD_THREADS *
           (uint32_t)std::max<uint64_t>(1, std::min<uint64_t>(each, WEFT_FOLD_AHEAD));
}

static double time_us(scene s, size_t nbytes, unsigned grid, int reps)
{
    int n = s == OWNERS ? 2 : 1;
    float ms, longest = 0;
    for (int phase = 0; phase < 2; phase++) { /* first to warm up */
        for (int i = 0; i < n; i++) {
            DO(cudaSetDevice(i));
            DO(cudaEventRecord(devs[i].begun, devs[i].stream));
        }
        for (int r = 0; r < (phase ? reps : 3); r++)
            for (int i = 0; i < n; i++) {
                rt_gpu_fold_args a = args_of(s, i, nbytes);
                a.piece = piece_of(nbytes, grid);
                size_t npieces = (a.count / 4 + a.piece - 1) / a.piece;
                if (n > 1)
                    DO(cudaSetDevice(i));
                start(i, weft_fold_4, a,
                      (unsigned)std::max<size_t>(1, std::min<size_t>(npieces, grid)));
            }
        for (int i = 0; i < n; i++) {
            DO(cudaSetDevice(i));
            DO(cudaEventRecord(devs[i].ended, devs[i].stream));
        }
        for (int i = 0; i < n; i++) {
            DO(cudaEventSynchronize(devs[i].ended));
            DO(cudaEventElapsedTime(&ms, devs[i].begun, devs[i].ended));
            longest = i ? std::max(longest, ms) : ms;
        }
    }
    DO(cudaSetDevice(0));
    return longest * 1000 / reps;
}

static void time_scene(scene s)
{
    static const unsigned grids[] = { 16, 32, 64, 96, 132, 264, 396 };
    printf("# %s: GB/s of one source, by blocks\n# %9s", scenes[s], "bytes");
    for (unsigned g : grids)
        printf("%8u", g);
    printf("\n");
    for (size_t nbytes :
         { 64u << 10, 256u << 10, 1u << 20, 4u << 20, 16u << 20, 64u << 20, 256u << 20 }) {
        printf("# %9zu", nbytes);
        for (unsigned g : grids)
            printf("%8.1f", nbytes / time_us(s, nbytes, g, nbytes > 16u << 20 ? 6 : 30) / 1000);
        printf("\n");
    }
}

/* From the driver call until the host sees the flag. */
static void time_latency(scene s, unsigned nsrc = 2)
{
    printf("# %u sources, %s: us until the host knows\n#", nsrc, scenes[s]);
    by_graph = true;
    for (size_t nbytes : { 8u, 1u << 10, 16u << 10, 64u << 10, 256u << 10, 1u << 20 }) {
        std::vector<double> us;
        for (int i = 0; i < 60; i++) {
            rt_gpu_fold_args a = args_of(s, 0, nbytes, nsrc);
            unsigned most = 132;
            a.piece = nbytes <= 16384 ? WEFT_FOLD_THREADS * WEFT_FOLD_AHEAD
                                      : piece_of(nbytes, most);
            size_t npieces = (a.count / 4 + a.piece - 1) / a.piece;
            auto t = std::chrono::steady_clock::now();
            start(0, weft_fold_4, a,
                  (unsigned)std::max<size_t>(1, std::min<size_t>(npieces, most)));
            while (*(volatile uint32_t *)devs[0].flag != devs[0].value)
                ;
            us.push_back(
                std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - t)
                    .count());
        }
        std::sort(us.begin(), us.end());
        printf("  %zu: %.2f", nbytes, us[us.size() / 2]);
    }
    by_graph = false;
    printf("\n");
}

/* Copies, for comparison. */
static void time_ring_copies()
{
    printf("# copies of 8 and 512 bytes in the ring of one block: us\n#");
    ring_start(1);
    for (int s = LOCAL; s <= DST_FAR && (s == LOCAL || ndevices > 1); s++)
        for (uint32_t nbytes : { 8u, 512u }) {
            rt_gpu_fold_args a = args_of((scene)s, 0, nbytes);
            uint64_t place[RT_GPU_RING_PLACES] = { a.dst[0], a.src[1] };
            std::vector<double> us;
            for (int i = 0; i < 1000; i++) {
                auto t = std::chrono::steady_clock::now();
                if (!ring_do(0, place, nbytes))
                    printf(" (never)");
                us.push_back(
                    std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - t)
                        .count());
            }
            std::sort(us.begin(), us.end());
            printf("  %s %u: %.2f", scenes[s], nbytes, us[us.size() / 2]);
        }
    ring_stop();
    printf("\n");
}

static void time_ring(scene s, unsigned blocks, unsigned nsrc = 2)
{
    printf("# %u sources, %s: us in the ring of %u blocks\n#", nsrc, scenes[s], blocks);
    ring_start(blocks);
    for (size_t nbytes = 8; nbytes <= (blocks > 1 ? 2u << 20 : 32u << 10);
         nbytes *= nbytes < 512 ? 8 : 4) {
        rt_gpu_fold_args a = args_of(s, 0, nbytes, nsrc);
        uint64_t place[RT_GPU_RING_PLACES] = {};
        memcpy(place, a.src, nsrc * sizeof *place);
        memcpy(place + nsrc, a.dst, a.ndst * sizeof *place);
        bool wide = nbytes > RT_GPU_RING_SHORT;
        uint32_t fold = RT_GPU_RING_FOLD(RT_GPU_RING_4, RT_GPU_F32, RT_GPU_FOLD_SUM, nsrc, a.ndst,
                                         wide ? 16 : 8, s >= OWNER);
        std::vector<double> us;
        for (int i = 0; i < 400; i++) {
            auto t = std::chrono::steady_clock::now();
            if (!ring_do(fold, place, (uint32_t)nbytes, a.near))
                printf(" (never)");
            us.push_back(
                std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - t)
                    .count());
        }
        std::sort(us.begin(), us.end());
        printf("  %zu: %.2f", nbytes, us[us.size() / 2]);
    }
    ring_stop();
    printf("\n");
}

/* As many copies as an alltoall of four ranks makes, one of them local; here all go to one peer. */
static void time_pairs()
{
    printf("# four copies as one operation, of bytes each: us in the ring of 16 blocks, "
           "by a launch\n#");
    for (uint32_t nbytes : { 8u, 1u << 10, 16u << 10, 128u << 10, 1u << 20 }) {
        rt_gpu_fold_args a = {};
        a.type = RT_GPU_U8;
        a.code = RT_GPU_FOLD_EACH;
        a.nsrc = a.ndst = 4;
        a.count = nbytes;
        a.unit = nbytes < 16 ? 4 : 16;
        unsigned grid = (unsigned)std::min<size_t>(132, nbytes / 16 / WEFT_FOLD_THREADS + 1);
        a.piece = piece_of(nbytes, 132);
        for (int i = 0; i < 4; i++) {
            a.src[i] = (uint64_t)devs[0].buf[0] + i * nbytes;
            a.dst[i] = (uint64_t)devs[i ? ndevices - 1 : 0].buf[1] + i * nbytes;
        }
        uint64_t place[RT_GPU_RING_PLACES] = {};
        memcpy(place, a.src, 4 * sizeof *place);
        memcpy(place + 4, a.dst, 4 * sizeof *place);
        std::vector<double> us[2];
        ring_start(16);
        for (int i = 0; i < 400; i++) {
            auto t = std::chrono::steady_clock::now();
            if (!ring_do(RT_GPU_RING_FOLD(RT_GPU_RING_BITS, RT_GPU_U8, RT_GPU_FOLD_EACH, 4, 4,
                                          nbytes > RT_GPU_RING_SHORT ? 16 : 8, 0),
                         place, nbytes))
                printf(" (never)");
            us[0].push_back(
                std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - t)
                    .count());
        }
        ring_stop();
        by_graph = true;
        for (int i = 0; i < 60; i++) {
            auto t = std::chrono::steady_clock::now();
            start(0, weft_fold_bits, a, grid);
            while (*(volatile uint32_t *)devs[0].flag != devs[0].value)
                ;
            us[1].push_back(
                std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - t)
                    .count());
        }
        by_graph = false;
        for (auto &u : us)
            std::sort(u.begin(), u.end());
        printf("  %u: %.2f %.2f", nbytes, us[0][us[0].size() / 2], us[1][us[1].size() / 2]);
    }
    printf("\n");
}

/* Every kind of element, local, 64 MiB per source. */
static void time_kinds()
{
    const size_t nbytes = 64 << 20;
    printf("# local, 64 MiB, 396 blocks: GB/s of one source, aligned / off by an element's word / "
           "odd, and of 4 sources aligned\n");
    for (unsigned i = 0; i < NKINDS; i++) {
        const fold_kind &k = kinds[i];
        if (k.code != RT_GPU_FOLD_SUM && k.code != RT_GPU_FOLD_PROD &&
            k.code != RT_GPU_FOLD_MAXLOC && k.kernel != BITS)
            continue;
        printf("# %-14s", k.name);
        for (int way = 0; way < 4; way++) {
            rt_gpu_fold_args a = {};
            unsigned shift = way == 1 ? k.word : way == 2;
            float ms;
            a.type = k.type;
            a.code = k.code;
            bool each = k.code == RT_GPU_FOLD_EACH;
            a.nsrc = k.code == RT_GPU_FOLD_COPY ? 1 : way == 3 ? 4 : 2;
            a.ndst = each ? a.nsrc : 1;
            a.count = nbytes / k.nbytes;
            a.piece = WEFT_FOLD_THREADS * WEFT_FOLD_AHEAD;
            a.unit = way == 0 || way == 3 ? 16 : way == 1 ? k.word : 1;
            for (int s = 0; s < 4; s++)
                a.src[s] = (uint64_t)devs[0].buf[s & 1] + (s >> 1) * 2 * nbytes;
            for (int d = 0; d < 4; d++)
                a.dst[d] = (uint64_t)devs[0].buf[2] + d * (nbytes + 16) + shift;
            for (int phase = 0; phase < 2; phase++) {
                DO(cudaEventRecord(devs[0].begun, devs[0].stream));
                for (int r = 0; r < 4; r++)
                    start(0, kernels[k.kernel], a, 396);
                DO(cudaEventRecord(devs[0].ended, devs[0].stream));
                DO(cudaEventSynchronize(devs[0].ended));
                DO(cudaEventElapsedTime(&ms, devs[0].begun, devs[0].ended));
            }
            printf("%9.1f", nbytes / (ms * 1000 / 4) / 1000);
        }
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 400;
    int n, can = 0;
    rng = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    printf("# seed %llu\n", (unsigned long long)rng);
    DO(cudaGetDeviceCount(&n));
    if (n > 1)
        DO(cudaDeviceCanAccessPeer(&can, 0, 1));
    ndevices = can ? 2 : 1;
    for (int i = 0; i < ndevices; i++)
        open_dev(i);
    for (int i = 0; i < ndevices && can; i++) {
        DO(cudaSetDevice(i));
        DO(cudaDeviceEnablePeerAccess(1 - i, 0));
    }
    checks(rounds);
    if (rounds < 100 || failed)
        return failed != 0;
    for (int i = 0; i < ndevices; i++) {
        DO(cudaSetDevice(i));
        for (char *&b : devs[i].buf) {
            DO(cudaMalloc(&b, 2 * LONGEST));
            DO(cudaMemset(b, 0, 2 * LONGEST));
        }
        DO(cudaDeviceSynchronize());
    }
    DO(cudaSetDevice(0));
    time_latency(LOCAL);
    for (int s = SRC_FAR; s < OWNERS && can; s++)
        time_latency((scene)s);
    time_latency(can ? SRC_FAR : LOCAL, 4);
    time_ring_copies();
    time_pairs();
    for (unsigned blocks : { 1u, 16u })
        for (int s = LOCAL; s < OWNERS && (s == LOCAL || can); s++)
            time_ring((scene)s, blocks);
    for (unsigned blocks : { 1u, 16u })
        time_ring(can ? SRC_FAR : LOCAL, blocks, 4);
    for (int s = LOCAL; s < SCENES && (s == LOCAL || can); s++)
        time_scene((scene)s);
    time_kinds();
    return 0;
}
