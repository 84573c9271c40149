/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with device buffers beside kernels of the application.  One kernel fills the device and
 * ends only when the program ends it, after the messages: what needs a multiprocessor
 * would wait for ever. */
#include <string.h>
#include "runtime/gpu/images.h"
#include "test/bench/limits.h"
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

static const size_t lens[] = { 8, 100, 5000, 40000, 300000, 3000000 };
enum { NLENS = 6, MANY = 40, LIMIT_MS = 20000 };

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

/* Blocks of 1024 threads: two fill a multiprocessor. */
static void begin(void)
{
    struct bench_kernel k = { .in = (uintptr_t)gate,
                              .out = (uintptr_t)(words + 16),
                              .took = (uintptr_t)(words + 16),
                              .limit_ns = LIMIT_MS * 1000000ull,
                              .rounds = 1 };
    void *params[] = { &k };
    int nsm = 1;

    words[16] = 0;
    gt_set(gate, 0, 4);
    CHECK_EQ(cu.device_get_attribute(&nsm, CU_DEV_MULTIPROCESSORS, dev), CU_OK);
    CHECK_EQ(cu.launch_kernel(echo, 2 * (unsigned)nsm, 1, 1, 1024, 1, 1, 0, stream, params, NULL),
             CU_OK);
    mt_sleep_ms(50); /* it is there */
}

static void end(const char *what)
{
    CHECK_MSG(words[16] == 0, "rank %d: %s waited for the application's kernel", mt_rank, what);
    CHECK_EQ(cu.memcpy_async((cu_ptr)(uintptr_t)gate, (cu_ptr)(uintptr_t)words, 4, beside), CU_OK);
    CHECK_EQ(cu.stream_synchronize(stream), CU_OK);
}

static void one_by_one(uint64_t key)
{
    for (int i = 0; i < NLENS; i++) {
        gt_fill(buf[i], lens[i], mt_first ? key : 99);
        mt_sync();
    }
    begin();
    mt_sync();
    for (int i = 0; i < NLENS; i++)
        if (mt_first)
            OK(MPI_Send(buf[i], (int)lens[i], MPI_BYTE, mt_peer, i, mt_comm));
        else if (mt_peer != MPI_PROC_NULL)
            OK(MPI_Recv(buf[i], (int)lens[i], MPI_BYTE, mt_peer, i, mt_comm, MPI_STATUS_IGNORE));
    end("messages");
    for (int i = 0; i < NLENS && mt_peer != MPI_PROC_NULL; i++)
        GT_CHECK_DATA(buf[i], lens[i], key);
}

static void at_once(uint64_t key)
{
    MPI_Request r[MANY];

    for (int i = 0; i < MANY; i++)
        gt_fill(many[i], 3000, mt_first ? key + (uint64_t)i : 99);
    begin();
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
        one_by_one(10 + round);
        at_once(100 * (1 + round));
    }
    gt_free(gate);
    gt_free(p);
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
    if (load())
        MT_RUN(beside_a_full_device);
    else
        mt_skip("no kernels in this build");
    for (int i = 0; i < NLENS; i++)
        gt_free(buf[i]);
    for (int i = 0; i < MANY; i++)
        gt_free(many[i]);
    return mt_end();
}
