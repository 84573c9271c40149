/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on device buffers for which a rank comes late, and beside kernels of the application
 * on the same device: only the host waits, so the device stays usable meanwhile.
 *     coll_late [late=MS] */
#include <pthread.h>
#include "runtime/gpu/images.h"
#include "test/bench/limits.h"
#include "test/gpu/collsum.h"

static int late_ms = 700;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- ranks that come late ---- */

struct app { /* the application, on its own stream */
    pthread_t thread;
    _Atomic bool stop;
    int rounds;
    double longest;
};

/* One piece of the application's work, and how long the device took for it. */
static void app_works(struct app *a, unsigned char *p)
{
    double t = now_s();

    CHECK_EQ(cu.memset_d8((cu_ptr)(uintptr_t)p, 7, 5000), CU_OK);
    CHECK_EQ(cu.ctx_synchronize(), CU_OK);
    t = now_s() - t;
    a->longest = t > a->longest ? t : a->longest;
    a->rounds++;
}

static void *app_main(void *arg)
{
    struct app *a = arg;
    cu_ptr p = 0;

    cu.ctx_set_current(gt_ctx(dev));
    CHECK_EQ(cu.mem_alloc(&p, 5000), CU_OK);
    while (!a->stop) {
        app_works(a, (unsigned char *)(uintptr_t)p);
        mt_sleep_ms(5);
    }
    CHECK_EQ(cu.mem_free(p), CU_OK);
    return NULL;
}

static bool was_free(const struct app *a)
{
    printf("# rank %d: the application's work on the device was done %d times in %d ms, the "
           "longest took %.3f s\n",
           mt_rank, a->rounds, late_ms, a->longest);
    return a->rounds > 2 && a->longest < late_ms * 0.5e-3;
}

/* Whether the device was available while a rank was late.  On a busy machine a measurement may
 * fail, so it is repeated with a longer delay, up to a delay that is far longer than needed. */
static void until_free(bool (*try)(void))
{
    int ms = late_ms;

    for (int good = 0, all = 0; !all; late_ms *= 2) {
        good = try();
        OK(MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_LAND, mt_comm));
        if (late_ms >= 8 * ms) {
            CHECK_MSG(all, "rank %d: the device was not free", mt_rank);
            break;
        }
    }
    late_ms = ms;
}

/* Five calls wait for a rank that is late for all of them. */
static bool try_for_many(void)
{
    enum { CALLS = 5, N = 100000 };
    unsigned char *s = gt_alloc(GT_CUDA, dev, N * 4, 0), *mine = gt_alloc(GT_CUDA, dev, 5000, 0);
    unsigned char *r[CALLS], *all = gt_alloc(GT_VMM, dev, (size_t)mt_size * 4000, 0);
    int done, late = mt_rank == mt_size - 1;
    double until = now_s() + late_ms * 1e-3;
    struct app a = { 0 };
    MPI_Request q[CALLS];

    give(s, N, 1);
    for (int i = 0; i < CALLS; i++)
        r[i] = gt_alloc(i % 2 ? GT_VMM : GT_CUDA, dev, N * 4, 0);
    give(r[4], 2, 9);
    give(r[3], 1000, mt_rank == mt_size - 1 ? 5 : 6);
    if (late)
        mt_sleep_ms(late_ms);
    OK(MPI_Iallreduce(s, r[0], 2, MPI_INT, MPI_SUM, mt_comm, &q[0]));
    OK(MPI_Iallreduce(s, r[1], N, MPI_INT, MPI_SUM, mt_comm, &q[1]));
    OK(MPI_Iallgather(s, 1000, MPI_INT, all, 1000, MPI_INT, mt_comm, &q[2]));
    OK(MPI_Ibcast(r[3], 1000, MPI_INT, mt_size - 1, mt_comm, &q[3]));
    OK(MPI_Iallreduce(MPI_IN_PLACE, r[4], 2, MPI_INT, MPI_SUM, mt_comm, &q[4]));
    while (!late && mt_size > 1 && now_s() < until - 0.1) {
        app_works(&a, mine);
        OK(MPI_Testall(CALLS, q, &done, MPI_STATUSES_IGNORE));
        mt_sleep_ms(2);
    }
    OK(MPI_Waitall(CALLS, q, MPI_STATUSES_IGNORE));
    bool good = late || mt_size == 1 || was_free(&a);
    is_sum(r[0], 2, 1);
    is_sum(r[1], N, 1);
    is_all(all, 1000, 1);
    is_sum(r[4], 2, 9);
    gt_read(host, r[3], 4000);
    CHECK_EQ(host[999], given(mt_size - 1, 999, 5));
    for (int i = 0; i < CALLS; i++)
        gt_free(r[i]);
    gt_free(all);
    gt_free(s);
    gt_free(mine);
    return good;
}

static void late_for_many(void) { until_free(try_for_many); }

/* A thread of the application works while its rank waits in a blocking call. */
static bool try_while_blocked(void)
{
    unsigned char *p = gt_alloc(GT_CUDA, dev, 40000, 0), *r = gt_alloc(GT_CUDA, dev, 40000, 0);
    struct app a = { .stop = false };
    bool late = mt_rank == 0;

    sum(p, r, 10000, 3);
    give(p, 10000, 4);
    mt_sync();
    if (late)
        mt_sleep_ms(late_ms);
    else
        pthread_create(&a.thread, NULL, app_main, &a);
    OK(MPI_Allreduce(p, r, 10000, MPI_INT, MPI_SUM, mt_comm));
    bool good = true;
    if (!late) {
        a.stop = true;
        pthread_join(a.thread, NULL);
        good = was_free(&a);
    }
    is_sum(r, 10000, 4);
    gt_free(p);
    gt_free(r);
    return good;
}

static void late_while_blocked(void) { until_free(try_while_blocked); }

/* ---- kernels of the application on the same device ---- */

static struct {
    cu_function echo;
    cu_stream stream;
    volatile uint32_t *words; /* pinned; [0] is the word waited for, [16] the answer */
} spin;

static bool spin_load(void)
{
    cu_module m;
    void *p;

    if (!rt_gpu_images[0].data || cu.module_load_data(&m, rt_gpu_images[0].data) != CU_OK)
        return false;
    CHECK_EQ(cu.module_get_function(&spin.echo, m, "bench_echo"), CU_OK);
    CHECK_EQ(cu.stream_create(&spin.stream, CU_STREAM_NON_BLOCKING), CU_OK);
    CHECK_EQ(cu.mem_host_alloc(&p, 4096, CU_HOST_PORTABLE), CU_OK);
    spin.words = p;
    return true;
}

/* A kernel that stays until *word is set, at most for limit_ms. */
static void spin_start(cu_stream stream, volatile void *word, unsigned grid, unsigned block,
                       unsigned limit_ms)
{
    struct bench_kernel k = { .in = (uintptr_t)word,
                              .out = (uintptr_t)(spin.words + 16),
                              .limit_ns = limit_ms * 1000000ull,
                              .rounds = 1 };
    void *params[] = { &k };

    k.took = k.out;
    spin.words[0] = spin.words[16] = 0;
    CHECK_EQ(cu.launch_kernel(spin.echo, grid, 1, 1, block, 1, 1, 0, stream, params, NULL), CU_OK);
}

static void spin_end(cu_stream stream)
{
    spin.words[0] = 1;
    CHECK_EQ(cu.stream_synchronize(stream), CU_OK);
}

/* Calls complete while the kernel runs: a kernel of one block leaves room for others, and the
 * library does not use the application's streams. */
static void beside_a_kernel(void)
{
    enum { N = 200000 };
    unsigned char *s = gt_alloc(GT_CUDA, dev, N * 4, 0), *r = gt_alloc(GT_CUDA, dev, N * 4, 0);

    if (!spin_load()) {
        mt_skip("no kernels in this build");
        return;
    }
    sum(s, r, 2, 1);
    sum(s, r, N, 1);
    for (int k = 0; k < 2; k++) {
        give(s, N, k);
        spin_start(k ? NULL : spin.stream, spin.words, 1, 1, 30000);
        mt_sync();
        OK(MPI_Allreduce(s, r, 2, MPI_INT, MPI_SUM, mt_comm));
        OK(MPI_Allreduce(s, r, N, MPI_INT, MPI_SUM, mt_comm));
        CHECK_MSG(spin.words[16] == 0, "rank %d: calls waited for a kernel in %s stream", mt_rank,
                  k ? "the default" : "another");
        spin_end(k ? NULL : spin.stream);
        is_sum(r, N, k);
    }
    gt_free(s);
    gt_free(r);
}

/* The application occupies the whole device for a while, on one rank at first, then on all: calls
 * take longer. */
static void behind_a_kernel(void)
{
    enum { N = 50000 };
    unsigned char *s = gt_alloc(GT_CUDA, dev, N * 4, 0), *r = gt_alloc(GT_VMM, dev, N * 4, 0);

    /* Polled by all threads; with host memory that would take seconds. */
    unsigned char *never = gt_alloc(GT_CUDA, dev, 4, 0);
    int nsm = 1;

    if (!spin.echo) {
        mt_skip("no kernels in this build");
        return;
    }
    gt_set(never, 0, 4);
    CHECK_EQ(cu.device_get_attribute(&nsm, CU_DEV_MULTIPROCESSORS, dev), CU_OK);
    for (int k = 0; k < 3; k++) {
        give(s, N, k);
        if (k || mt_rank == 0)
            spin_start(spin.stream, never, (unsigned)nsm * 2, 1024, 150);
        OK(MPI_Allreduce(s, r, k == 1 ? 2 : N, MPI_INT, MPI_SUM, mt_comm));
        CHECK_EQ(cu.stream_synchronize(spin.stream), CU_OK);
        is_sum(r, k == 1 ? 2 : N, k);
    }
    gt_free(never);
    gt_free(s);
    gt_free(r);
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    for (int i = 1; i < argc; i++)
        sscanf(argv[i], "late=%d", &late_ms);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    MT_RUN(late_for_many);
    MT_RUN(late_while_blocked);
    MT_RUN(beside_a_kernel);
    MT_RUN(behind_a_kernel);
    return mt_end();
}
