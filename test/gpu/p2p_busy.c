/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with device buffers beside kernels of the application: one that fills the device and
 * ends only when the program ends it, after the messages, so that a copy that needs a
 * multiprocessor would wait for ever; one that fills the device for 100 ms; and a persistent kernel
 * with one block on each multiprocessor, with and without messages. */
#include <string.h>
#include "runtime/gpu/images.h"
#include "test/bench/limits.h"
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

static const size_t lens[] = { 8, 100, 5000, 40000, 300000, 3000000, 8 << 20 };
enum { NLENS = 7, MANY = 40, LIMIT_MS = 20000, SHORT_MS = 100 };
enum { FILLED = 2, PERSISTENT = 1 }; /* blocks of 1024 threads on each multiprocessor */

static int dev;
static cu_function echo;
static cu_stream stream, beside;
static volatile uint32_t *words; /* pinned: [0] is 1, [16] the kernel's answer */
static unsigned char *gate;      /* of the device, polled by all threads of the kernel */
static unsigned char *buf[NLENS], *many[MANY];

static bool load(void)
{
    cu_module m;
    void *p;

    if (!rt_gpu_images[0].data || cu.module_load_data(&m, rt_gpu_images[0].data) != CU_OK)
        return false;
    CHECK_EQ(cu.module_get_function(&echo, m, "bench_echo"), CU_OK);
    CHECK_EQ(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING), CU_OK);
    CHECK_EQ(cu.stream_create(&beside, CU_STREAM_NON_BLOCKING), CU_OK);
    CHECK_EQ(cu.mem_host_alloc(&p, 4096, CU_HOST_PORTABLE), CU_OK);
    words = p;
    words[0] = 1;
    gate = gt_alloc(GT_CUDA, dev, 4, 0);
    return true;
}

static void begin(unsigned blocks, unsigned limit_ms)
{
    struct bench_kernel k = { .in = (uintptr_t)gate,
                              .out = (uintptr_t)(words + 16),
                              .took = (uintptr_t)(words + 16),
                              .limit_ns = limit_ms * 1000000ull,
                              .rounds = 1 };
    void *params[] = { &k };
    int nsm = 1;

    words[16] = 0;
    gt_set(gate, 0, 4);
    CHECK_EQ(cu.device_get_attribute(&nsm, CU_DEV_MULTIPROCESSORS, dev), CU_OK);
    CHECK_EQ(
        cu.launch_kernel(echo, blocks * (unsigned)nsm, 1, 1, 1024, 1, 1, 0, stream, params, NULL),
        CU_OK);
    mt_sleep_ms(limit_ms / 4 < 50 ? (int)limit_ms / 4 : 50); /* the kernel has started */
}

static void end(const char *what)
{
    CHECK_MSG(words[16] == 0, "rank %d: %s waited for the application's kernel", mt_rank, what);
    CHECK_EQ(cu.memcpy_async((cu_ptr)(uintptr_t)gate, (cu_ptr)(uintptr_t)words, 4, beside), CU_OK);
    CHECK_EQ(cu.stream_synchronize(stream), CU_OK);
}

static void exchange(void)
{
    for (int i = 0; i < NLENS; i++)
        if (mt_first)
            OK(MPI_Send(buf[i], (int)lens[i], MPI_BYTE, mt_peer, i, mt_comm));
        else if (mt_peer != MPI_PROC_NULL)
            OK(MPI_Recv(buf[i], (int)lens[i], MPI_BYTE, mt_peer, i, mt_comm, MPI_STATUS_IGNORE));
}

static void fill(uint64_t key)
{
    for (int i = 0; i < NLENS; i++) {
        gt_fill(buf[i], lens[i], mt_first ? key : 99);
        mt_sync();
    }
}

static void check(uint64_t key)
{
    for (int i = 0; i < NLENS && mt_peer != MPI_PROC_NULL; i++)
        GT_CHECK_DATA(buf[i], lens[i], key);
}

static void one_by_one(unsigned blocks, uint64_t key)
{
    fill(key);
    begin(blocks, LIMIT_MS);
    mt_sync();
    exchange();
    end("messages");
    check(key);
}

static void at_once(uint64_t key)
{
    MPI_Request r[MANY];

    for (int i = 0; i < MANY; i++)
        gt_fill(many[i], 3000, mt_first ? key + (uint64_t)i : 99);
    begin(FILLED, LIMIT_MS);
    mt_sync();
    for (int i = 0; i < MANY; i++)
        if (mt_first)
            OK(MPI_Isend(many[i], 3000, MPI_BYTE, mt_peer, i, mt_comm, &r[i]));
        else
            OK(MPI_Irecv(many[i], 3000, MPI_BYTE, mt_peer, i, mt_comm, &r[i]));
    OK(MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE));
    end("many messages");
    for (int i = 0; i < MANY && mt_peer != MPI_PROC_NULL; i++)
        GT_CHECK_DATA(many[i], 3000, key + (uint64_t)i);
}

/* The first messages load the kernels of the library, which waits for the device. */
static void beside_a_full_device(void)
{
    unsigned char *p = gt_alloc(GT_CUDA, dev, 5000, 0);

    if (mt_peer != MPI_PROC_NULL)
        OK(MPI_Sendrecv_replace(p, 5000, MPI_BYTE, mt_peer, 9, mt_peer, 9, mt_comm,
                                MPI_STATUS_IGNORE));
    for (uint64_t round = 0; round < 3; round++) {
        one_by_one(FILLED, 10 + round);
        at_once(100 * (1 + round));
    }
    gt_free(p);
}

/* The kernels end between two messages, and copies by kernels begin again.  On a real device the
 * first message, of 8 bytes, must not wait for them. */
static void full_for_100_ms(void)
{
    for (uint64_t key = 1; key <= 3; key++) {
        fill(key);
        mt_sync();
        begin(FILLED, SHORT_MS);
        if (mt_first)
            OK(MPI_Send(buf[0], (int)lens[0], MPI_BYTE, mt_peer, NLENS, mt_comm));
        else if (mt_peer != MPI_PROC_NULL)
            OK(MPI_Recv(buf[0], (int)lens[0], MPI_BYTE, mt_peer, NLENS, mt_comm,
                        MPI_STATUS_IGNORE));
        CHECK_MSG(gt_is_fake() || cu.stream_query(stream) == CU_ERROR_NOT_READY,
                  "rank %d: a message waited for the application's kernel", mt_rank);
        while (cu.stream_query(stream) == CU_ERROR_NOT_READY)
            mt_sleep_ms(1);
        exchange();
        check(key);
    }
}

/* Messages before, beside and after the kernel. */
static void persistent_kernel(void)
{
    fill(1);
    exchange();
    begin(PERSISTENT, LIMIT_MS);
    end("no message");
    check(1);
    for (uint64_t key = 2; key <= 3; key++)
        one_by_one(PERSISTENT, key);
    fill(4);
    exchange();
    check(4);
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    for (int i = 0; i < NLENS; i++)
        buf[i] = gt_alloc(GT_CUDA, dev, lens[i], 0);
    for (int i = 0; i < MANY; i++)
        many[i] = gt_alloc(GT_CUDA, dev, 3000, 0);
    if (load()) {
        MT_RUN(beside_a_full_device);
        MT_RUN(full_for_100_ms);
        MT_RUN(persistent_kernel);
        gt_free(gate);
    } else {
        mt_skip("no kernels in this build");
    }
    for (int i = 0; i < NLENS; i++)
        gt_free(buf[i]);
    for (int i = 0; i < MANY; i++)
        gt_free(many[i]);
    return mt_end();
}
