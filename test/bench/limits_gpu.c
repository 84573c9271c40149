/* SPDX-License-Identifier: BSD-3-Clause */
/* --limits for buffers on devices: what the copy engines do between the places of the two ranks'
 * buffers, size by size, and what a kernel, a flag and a hop between devices cost, without any MPI.
 * Rank 0 measures alone, before the benchmark, in primary contexts of its own process on both
 * devices; rank 1 waits.  What cannot be measured is left out and the reason printed. */
#include "test/bench/bench.h"
#include "test/bench/device.h"
#include "test/bench/limits.h"
#include "runtime/gpu/images.h"
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRIES = 3,     /* measurements, of which the best is taken */
    ROUNDS = 1000, /* of the flag measurements */
    STREAMS = 2,   /* one more stream hides what starting a copy costs */
    LEAST = 4,
    MOST = 2000, /* copies in a try */
    PCI_LEN = 32,
    TAG_WHERE = 78
};
enum kernel { EMPTY, FLAG, ECHO, PONG, KERNELS };
static const char *const kernel_names[] = { "bench_empty", "bench_flag", "bench_echo",
                                            "bench_pong" };
static const double TRY_SECONDS = 0.003;
static const double GIVE_UP_S = 1.0; /* a flag that does not come */
static const uint64_t GIVE_UP_NS = 1000000000;

struct place { /* where one rank's buffers are */
    char kind;
    int ordinal;
    cu_ctx ctx;
    bool retained;
    cu_stream stream[STREAMS];
    cu_ptr buf[2]; /* out of and into */
};

struct work {
    struct bench *b;
    struct gpu_limits *out;
    struct place at[2];
    bool peers;   /* two devices that can reach each other, or one */
    cu_ptr words; /* pinned; the host's view is the same address */
    cu_module module[2];
    cu_function kernel[2][KERNELS];
    cu_ctx now; /* the current context */
};

static bool leave_out(struct work *w, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!w->out->note[0])
        vsnprintf(w->out->note, sizeof w->out->note, format, args);
    va_end(args);
    return false;
}

static bool ok(struct work *w, cu_result r, const char *what)
{
    const char *text = NULL;

    if (!r)
        return true;
    device_cu.get_error_string(r, &text);
    return leave_out(w, "%s: error %d, %s", what, r, text ? text : "unknown");
}

static bool enter(struct work *w, int i)
{
    cu_ctx old;

    if (w->now == w->at[i].ctx)
        return true;
    device_cu.ctx_pop_current(&old);
    w->now = w->at[i].ctx;
    return ok(w, device_cu.ctx_push_current(w->now), "cuCtxPushCurrent");
}

/* ---- the copy engines ---- */

/* n copies from place `from` to the other, on `streams` streams of the device that has memory. */
static bool start_copies(struct work *w, int from, size_t nbytes, int n, int streams)
{
    struct place *src = &w->at[from], *dst = &w->at[!from];
    int by = src->kind == 'H' ? !from : from;

    if (!enter(w, by))
        return false;
    for (int i = 0; i < n; i++) {
        if (!ok(w,
                device_cu.memcpy_async(dst->buf[1], src->buf[0], nbytes,
                                       w->at[by].stream[(i % streams + from) % STREAMS]),
                "cuMemcpyAsync"))
            return false;
    }
    return true;
}

static bool finish_copies(struct work *w)
{
    for (int i = 0; i < 2; i++) {
        for (int s = 0; s < STREAMS && w->at[i].stream[s]; s++) {
            if (!enter(w, i) ||
                !ok(w, device_cu.stream_synchronize(w->at[i].stream[s]), "cuStreamSynchronize"))
                return false;
        }
    }
    return true;
}

/* Seconds of n copies, each way when `both`; negative when something failed. */
static double copies(struct work *w, int from, bool both, size_t nbytes, int n, int streams)
{
    double start = bench_now();

    if (!start_copies(w, from, nbytes, n, streams) ||
        (both && !start_copies(w, !from, nbytes, n, streams)) || !finish_copies(w))
        return -1;
    return bench_now() - start;
}

static int count_for(double once)
{
    double n = once > 0 ? TRY_SECONDS / once : MOST;
    return n < LEAST ? LEAST : n > MOST ? MOST : (int)n;
}

/* Microseconds of one copy and one wait; between host and device the mean of both ways, as in a
 * ping-pong. */
static double engine_us(struct work *w, size_t nbytes)
{
    double sum = 0;

    for (int from = 0; from < 2; from++) {
        double best = 1e30, once = copies(w, from, false, nbytes, 1, 1);
        int by = w->at[from].kind == 'H' ? !from : from;
        cu_stream s = w->at[by].stream[from];
        for (int t = 0; t < TRIES && once >= 0; t++) {
            int n = count_for(once);
            double start = bench_now();
            for (int i = 0; i < n && start >= 0; i++) {
                if (!start_copies(w, from, nbytes, 1, 1) ||
                    !ok(w, device_cu.stream_synchronize(s), "cuStreamSynchronize"))
                    return 0;
            }
            once = (bench_now() - start) / n;
            best = once < best ? once : best;
        }
        if (once < 0)
            return 0;
        sum += best;
    }
    return sum / 2 * 1e6;
}

static double engine_mb_s(struct work *w, size_t nbytes, bool both)
{
    double best = 0, once = copies(w, 0, both, nbytes, 1, 1);
    int n = count_for(once);

    for (int t = 0; t < 2 * TRIES && once >= 0; t++) {
        once = copies(w, 0, both, nbytes, n, 1 + t % STREAMS);
        double rate = once > 0 ? (double)nbytes * n * (both ? 2 : 1) / once : 0;
        best = rate > best ? rate : best;
    }
    return best / 1e6;
}

static void measure_engines(struct work *w)
{
    struct bench *b = w->b;
    struct gpu_limits *l = w->out;

    for (size_t n = b->opt.min; n <= b->opt.max && l->n < BENCH_ROWS; n = bench_next_size(b, n)) {
        l->row[l->n].nbytes = n;
        if (n && bench_limit_is_time(b->spec->limit))
            l->row[l->n].value = engine_us(w, n);
        else if (n)
            l->row[l->n].value = engine_mb_s(w, n, b->spec->limit == LIMIT_BOTH_WAYS);
        l->n++;
    }
}

/* ---- kernels and flags ---- */

static bool launch(struct work *w, int at, int stream, enum kernel which, struct bench_kernel *k)
{
    void *params[] = { k };

    return enter(w, at) && ok(w,
                              device_cu.launch_kernel(w->kernel[at][which], 1, 1, 1, 1, 1, 1, 0,
                                                      w->at[at].stream[stream], params, NULL),
                              kernel_names[which]);
}

static volatile uint32_t *word(struct work *w, int i)
{
    return (volatile uint32_t *)(uintptr_t)w->words + 32 * i;
}

/* Host memory that the kernel writes, seen by spinning. */
static bool see(volatile uint32_t *p, uint32_t value)
{
    double start = bench_now();

    for (int i = 1; *p != value; i++) {
        if (i % 4096)
            continue;
        if (bench_now() - start > GIVE_UP_S)
            return false;
        sched_yield(); /* a test's driver needs a core */
    }
    return true;
}

static double launch_us(struct work *w, bool flag)
{
    double best = 1e30;
    struct bench_kernel k = { .out = w->words };
    int dev = w->at[0].kind == 'H';

    for (int t = 0; t < TRIES + 1; t++) { /* the first warms up */
        int n = t ? 200 : 10;
        double start = bench_now();
        for (int i = 0; i < n; i++) {
            k.rounds++;
            if (!launch(w, dev, 0, flag ? FLAG : EMPTY, &k))
                return 0;
            if (flag && !see(word(w, 0), k.rounds))
                return leave_out(w, "no flag came from a kernel");
            if (!flag && !ok(w, device_cu.stream_synchronize(w->at[dev].stream[0]), "bench_empty"))
                return 0;
        }
        double took = (bench_now() - start) / n;
        if (t && took < best)
            best = took;
    }
    return finish_copies(w) ? best * 1e6 : 0;
}

/* Host flag, resident kernel, host flag: the round trip. */
static double echo_us(struct work *w)
{
    struct bench_kernel k = {
        .in = w->words + 128, .out = w->words + 256, .rounds = ROUNDS, .limit_ns = GIVE_UP_NS
    };
    double start = 0, took;
    uint32_t i;

    *word(w, 1) = *word(w, 2) = 0;
    if (!launch(w, w->at[0].kind == 'H', 0, ECHO, &k))
        return 0;
    for (i = 1; i <= ROUNDS; i++) {
        *word(w, 1) = i;
        if (!see(word(w, 2), i))
            break;
        if (i == 1) /* the kernel is there */
            start = bench_now();
    }
    took = (bench_now() - start) / (ROUNDS - 1);
    if (!finish_copies(w))
        return 0;
    return i > ROUNDS ? took * 1e6 : leave_out(w, "no answer from a resident kernel");
}

/* Two kernels pass a word to and fro, each polling memory of its own device. */
static bool pong(struct work *w, uint32_t rounds)
{
    struct bench_kernel k[2];

    for (int i = 0; i < 2; i++) {
        k[i] = (struct bench_kernel){ .in = w->at[i].buf[i], /* two buffers also on one device */
                                      .out = w->at[!i].buf[!i],
                                      .took = w->words + 512,
                                      .limit_ns = GIVE_UP_NS,
                                      .rounds = rounds,
                                      .first = i == 0 };
        if (!enter(w, i) ||
            !ok(w, device_cu.memset_d8_async(k[i].in, 0, 4, w->at[i].stream[0]), "cuMemsetD8Async"))
            return false;
    }
    return finish_copies(w) && launch(w, 1, 1, PONG, &k[1]) && launch(w, 0, 0, PONG, &k[0]) &&
           finish_copies(w);
}

/* Half the round trip between the kernels. */
static double hop_us(struct work *w)
{
    volatile uint64_t *took = (volatile uint64_t *)(uintptr_t)(w->words + 512);

    if (w->at[0].kind == 'H' || w->at[1].kind == 'H' || !w->peers)
        return 0;
    /* First no rounds: the driver loads a kernel at its first launch, and that may wait for all
     * that run. */
    if (!pong(w, 0))
        return 0;
    *took = 0;
    if (!pong(w, ROUNDS))
        return 0;
    return *took ? (double)*took / (ROUNDS - 1) / 2e3
                 : leave_out(w, "no answer between two kernels");
}

static void measure_kernels(struct work *w)
{
    struct gpu_limits *l = w->out;

    if (!rt_gpu_images[0].name) {
        leave_out(w, "these benchmarks were built without nvcc");
        return;
    }
    for (int i = 0; i < 2; i++) {
        if (!enter(w, i) || !ok(w, device_cu.module_load_data(&w->module[i], rt_gpu_images[0].data),
                                "cuModuleLoadData"))
            return;
        for (int k = 0; k < KERNELS; k++) {
            if (!ok(w,
                    device_cu.module_get_function(&w->kernel[i][k], w->module[i], kernel_names[k]),
                    kernel_names[k]))
                return;
        }
    }
    l->launch_us = launch_us(w, false);
    l->flag_us = l->launch_us > 0 ? launch_us(w, true) : 0;
    l->round_us = l->flag_us > 0 ? echo_us(w) : 0;
    l->hop_us = l->round_us > 0 ? hop_us(w) : 0;
}

/* ---- contexts and memory ---- */

static int find_ordinal(const char *pci)
{
    char here[PCI_LEN];
    cu_device d;
    int n = 0;

    device_cu.device_get_count(&n);
    for (int i = 0; i < n; i++) {
        if (!device_cu.device_get(&d, i) &&
            !device_cu.device_get_pci_bus_id(here, sizeof here, d) && !strcmp(here, pci))
            return i;
    }
    return -1;
}

static bool prepare_place(struct work *w, int i)
{
    struct place *p = &w->at[i];
    size_t len = w->b->opt.max + 64;
    cu_device d;

    p->ctx = device_ctx();
    if (p->ordinal != device_ordinal()) {
        if (!ok(w, device_cu.device_get(&d, p->ordinal), "cuDeviceGet") ||
            !ok(w, device_cu.primary_ctx_retain(&p->ctx, d), "cuDevicePrimaryCtxRetain"))
            return false;
        p->retained = true;
    }
    if (!enter(w, i))
        return false;
    for (int s = 0; s < STREAMS; s++) {
        if (!ok(w, device_cu.stream_create_with_priority(&p->stream[s], CU_STREAM_NON_BLOCKING, 0),
                "cuStreamCreate"))
            return false;
    }
    for (int k = 0; k < 2; k++) {
        void *host = NULL;
        if (p->kind == 'H'
                ? !ok(w, device_cu.mem_host_alloc(&host, len, CU_HOST_PORTABLE), "cuMemHostAlloc")
                : !ok(w, device_cu.mem_alloc(&p->buf[k], len), "cuMemAlloc"))
            return false;
        if (host)
            p->buf[k] = (cu_ptr)(uintptr_t)host;
    }
    return true;
}

static bool connect(struct work *w)
{
    int there = 0, back = 0;

    w->peers = w->at[0].ctx == w->at[1].ctx;
    if (w->peers)
        return true;
    device_cu.device_can_access_peer(&there, w->at[0].ordinal, w->at[1].ordinal);
    device_cu.device_can_access_peer(&back, w->at[1].ordinal, w->at[0].ordinal);
    w->peers = there && back;
    for (int i = 0; i < 2 && w->peers; i++) {
        cu_result r;
        if (!enter(w, i))
            return false;
        r = device_cu.ctx_enable_peer_access(w->at[!i].ctx, 0);
        if (r != CU_ERROR_PEER_ACCESS_ALREADY_ENABLED && !ok(w, r, "cuCtxEnablePeerAccess"))
            return false;
    }
    return true;
}

static void own_context(struct work *w)
{
    cu_ctx old;

    device_cu.ctx_pop_current(&old);
    device_cu.ctx_push_current(device_ctx());
    w->now = device_ctx();
}

static void drop_place(struct work *w, int i)
{
    struct place *p = &w->at[i];
    cu_device d;

    if (!p->ctx || !enter(w, i))
        return;
    if (w->module[i])
        device_cu.module_unload(w->module[i]);
    for (int k = 0; k < 2; k++) {
        if (p->buf[k] && p->kind == 'H')
            device_cu.mem_free_host((void *)(uintptr_t)p->buf[k]);
        else if (p->buf[k])
            device_cu.mem_free(p->buf[k]);
        if (p->stream[k])
            device_cu.stream_destroy(p->stream[k]);
    }
    if (p->retained && !device_cu.device_get(&d, p->ordinal)) {
        own_context(w);
        device_cu.primary_ctx_release(d);
    }
}

static void measure(struct work *w, const char *pci)
{
    void *words = NULL;

    own_context(w); /* this thread's, though another may have opened the device */
    w->at[0].ordinal = device_ordinal();
    w->at[1].ordinal = find_ordinal(pci);
    for (int i = 0; i < 2; i++)
        w->at[i].kind = w->b->opt.kind[i] == 'H' ? 'H' : 'D';
    if (w->at[1].ordinal < 0)
        leave_out(w, "rank 0 does not see the device of rank 1 (%s)", pci);
    else if (prepare_place(w, 0) && prepare_place(w, 1) && connect(w) && enter(w, 0) &&
             ok(w, device_cu.mem_host_alloc(&words, 4096, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP),
                "cuMemHostAlloc")) {
        memset(words, 0, 4096);
        w->words = (cu_ptr)(uintptr_t)words;
        measure_engines(w);
        measure_kernels(w);
    }
    if (words)
        device_cu.mem_free_host(words);
    drop_place(w, 1);
    drop_place(w, 0);
    own_context(w);
}

void gpu_limits_open(struct bench *b)
{
    char pci[PCI_LEN] = "";
    cu_device d;
    struct work w = { .b = b };

    b->gpu_limits = w.out = calloc(1, sizeof *w.out);
    if (!w.out)
        MPI_Abort(MPI_COMM_WORLD, 2);
    device_must(device_cu.device_get(&d, device_ordinal()), "cuDeviceGet");
    device_must(device_cu.device_get_pci_bus_id(pci, sizeof pci, d), "cuDeviceGetPCIBusId");
    if (b->rank == 1)
        MPI_Send(pci, PCI_LEN, MPI_CHAR, 0, TAG_WHERE, MPI_COMM_WORLD);
    if (b->rank == 0) {
        MPI_Recv(pci, PCI_LEN, MPI_CHAR, 1, TAG_WHERE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        measure(&w, pci);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

double gpu_limit(const struct bench *b, size_t nbytes)
{
    for (int i = 0; i < b->gpu_limits->n; i++) {
        if (b->gpu_limits->row[i].nbytes == nbytes)
            return b->gpu_limits->row[i].value;
    }
    return 0;
}
