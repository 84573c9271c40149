/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages beside a kernel of the application that runs longer than all of them: no MPI call waits
 * for the kernel.  The fake driver counts the calls that did, so no time measurement is needed; if
 * a call does wait, the kernel ends by itself and the program fails instead of hanging. */
#include <dlfcn.h>
#include "test/gpu/exchange.h"

#define KERNEL_MS 3000

static const enum gt_kind kinds[] = { GT_CUDA, GT_VMM, GT_POOL, GT_POOL_OWN };
static const size_t lens[] = { 4000, 300000, 3000000 };

static fake_cuda_hold_fn *hold;
static fake_cuda_release_fn *release;
static fake_cuda_nstalls_fn *nstalls;
static fake_cuda_fail_fn *fail;
static fake_cuda_seen_fn *seen;
static int dev, stalls;
static cu_stream stream;

static void *fake_function(const char *name) { return dlsym(RTLD_DEFAULT, name); }

static void kernel_begin(void)
{
    stalls = nstalls();
    CHECK_EQ(hold(stream, KERNEL_MS), CU_OK);
}

static void kernel_end(const char *what, size_t n)
{
    CHECK_MSG(nstalls() == stalls, "rank %d, %s, %zu bytes: %d calls waited for the kernel",
              mt_rank, what, n, nstalls() - stalls);
    release();
    CHECK_EQ(cu.stream_synchronize(stream), CU_OK);
}

static void exchange(unsigned char *out, unsigned char *in, size_t n, uint64_t key, MPI_Comm comm)
{
    gt_fill(out, n, key + (uint64_t)mt_rank);
    OK(MPI_Sendrecv(out, (int)n, MPI_BYTE, mt_peer, 1, in, (int)n, MPI_BYTE, mt_peer, 1, comm,
                    MPI_STATUS_IGNORE));
    GT_CHECK_DATA(in, n, key + (uint64_t)mt_peer);
}

/* Waits until the peer has come here, too. */
static void meet(void)
{
    OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, mt_peer, 2, NULL, 0, MPI_BYTE, mt_peer, 2, mt_comm,
                    MPI_STATUS_IGNORE));
}

/* The first device message of the process: kernels are loaded before it. */
static void first_message(void)
{
    unsigned char *a, *b;

    if (mt_peer == MPI_PROC_NULL)
        return;
    a = gt_alloc(GT_CUDA, dev, lens[1], 0);
    b = gt_alloc(GT_CUDA, dev, lens[1], 0);
    kernel_begin();
    exchange(a, b, lens[1], 1, mt_comm);
    kernel_end("first message", lens[1]);
    gt_free(a);
    gt_free(b);
}

/* The peer has freed the buffer of the previous message. */
static void one_freed(enum gt_kind kind, size_t n)
{
    unsigned char *p[4];

    for (int i = 0; i < 4; i++)
        p[i] = gt_alloc(kind, dev, n, 0);
    exchange(p[0], p[1], n, n, mt_comm);
    gt_free(p[0]);
    gt_free(p[1]);
    kernel_begin();
    meet();
    exchange(p[2], p[3], n, n + 7, mt_comm);
    kernel_end(gt_kind_names[kind], n);
    gt_free(p[2]);
    gt_free(p[3]);
}

static void freed_by_the_peer(void)
{
    for (int k = 0; k < 4 && mt_peer != MPI_PROC_NULL; k++)
        for (int i = 0; i < 3; i++)
            one_freed(kinds[k], lens[i]);
}

/* Memory of a block that is freed and allocated again at the same place, longer and shorter.  The
 * driver does not map it again before the former mapping is closed, which would wait. */
static void freed_in_a_block(void)
{
    static const size_t len[] = { 4000, 9000, 3000, 9000, 100 };
    unsigned char *stays = gt_alloc(GT_CUDA, dev, 64, 0), *first = NULL;
    int same = 0;

    for (unsigned i = 0; i < sizeof len / sizeof *len && mt_peer != MPI_PROC_NULL; i++) {
        unsigned char *out = gt_alloc(GT_CUDA, dev, len[i], 0); /* which the peer maps */
        unsigned char *in = gt_alloc(GT_CUDA, dev, len[i], 0);

        first = i ? first : out;
        same += out == first;
        meet();
        kernel_begin();
        exchange(out, in, len[i], 40 + i, mt_comm);
        kernel_end("memory of a block", len[i]);
        gt_free(out);
        gt_free(in);
        meet();
    }
    CHECK_MSG(mt_peer == MPI_PROC_NULL || same == 5, "%d of 5 allocations at the same place", same);
    gt_free(stays);
}

/* More pinned memory than is kept for later messages. */
static void staging(void)
{
    enum { N = 24 };
    const size_t n = 4u << 20;
    unsigned char *out[N], *in[N];
    MPI_Request r[2 * N];

    for (int i = 0; i < N; i++) {
        out[i] = gt_alloc(GT_POOL_OWN, dev, n, 0);
        in[i] = gt_alloc(GT_POOL_OWN, dev, n, 0);
    }
    kernel_begin();
    for (int i = 0; i < N; i++) {
        OK(MPI_Irecv(in[i], (int)n, MPI_BYTE, mt_peer, i, mt_comm, &r[i]));
        OK(MPI_Isend(out[i], (int)n, MPI_BYTE, mt_peer, i, mt_comm, &r[N + i]));
    }
    OK(MPI_Waitall(2 * N, r, MPI_STATUSES_IGNORE));
    kernel_end("staged messages", n);
    for (int i = 0; i < N; i++) {
        gt_free(out[i]);
        gt_free(in[i]);
    }
}

/* Every type of element that kernels reduce. */
static void reductions(void)
{
    static const struct {
        MPI_Datatype type;
        MPI_Op op;
    } cases[] = { { MPI_FLOAT, MPI_SUM },   { MPI_INT8_T, MPI_MAX },
                  { MPI_INT16_T, MPI_SUM }, { MPI_C_DOUBLE_COMPLEX, MPI_PROD },
                  { MPI_2INT, MPI_MAXLOC }, { MPI_INT, MPI_BAND } };
    const int n = 2000;
    unsigned char *a = gt_alloc(GT_CUDA, dev, 16 * (size_t)n, 0);
    unsigned char *b = gt_alloc(GT_CUDA, dev, 16 * (size_t)n, 0);

    gt_set(a, 0, 16 * (size_t)n);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        kernel_begin();
        OK(MPI_Allreduce(a, b, n, cases[i].type, cases[i].op, mt_comm));
        kernel_end("reduction", i);
    }
    gt_free(a);
    gt_free(b);
}

/* A context that did not exist in MPI_Init is prepared when a communicator is created. */
static void another_context(void)
{
    int other = (dev + 1) % gt_ndevices();
    cu_stream first = stream;
    unsigned char *a, *b;
    MPI_Comm comm;

    if (other == dev)
        return;
    gt_use(other);
    OK(MPI_Comm_dup(mt_comm, &comm));
    CHECK_EQ(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING), CU_OK);
    a = gt_alloc(GT_CUDA, other, lens[1], 0);
    b = gt_alloc(GT_CUDA, other, lens[1], 0);
    kernel_begin();
    if (mt_peer != MPI_PROC_NULL)
        exchange(a, b, lens[1], 3, comm);
    kernel_end("another context", lens[1]);
    OK(MPI_Comm_free(&comm));
    gt_free(a);
    gt_free(b);
    CHECK_EQ(cu.stream_destroy(stream), CU_OK);
    stream = first;
    gt_use(dev);
}

/* Mappings of freed memory are kept, and closed if the driver has no memory for a new mapping. */
static void no_memory(void)
{
    unsigned char *p[4];
    long was;

    if (mt_peer == MPI_PROC_NULL)
        return;
    for (int i = 0; i < 4; i++)
        p[i] = gt_alloc(GT_CUDA, dev, lens[2], 0);
    fail("cuIpcCloseMemHandle:0"); /* counts them */
    exchange(p[0], p[1], lens[2], 1, mt_comm);
    gt_free(p[0]);
    gt_free(p[1]);
    meet();
    was = seen("cuIpcCloseMemHandle");
    CHECK_EQ(was, 0);
    fail("cuIpcOpenMemHandle:1:2");
    exchange(p[2], p[3], lens[2], 2, mt_comm);
    CHECK_MSG(seen("cuIpcOpenMemHandle") == 0 || seen("cuIpcCloseMemHandle") > was,
              "rank %d: no mapping was closed", mt_rank);
    gt_free(p[2]);
    gt_free(p[3]);
}

int main(int argc, char **argv)
{
    gt_need(1);
    gt_use(0); /* before MPI_Init, which prepares the context */
    hold = (fake_cuda_hold_fn *)(uintptr_t)fake_function("fake_cuda_hold");
    release = (fake_cuda_release_fn *)(uintptr_t)fake_function("fake_cuda_release");
    nstalls = (fake_cuda_nstalls_fn *)(uintptr_t)fake_function("fake_cuda_nstalls");
    fail = (fake_cuda_fail_fn *)(uintptr_t)fake_function("fake_cuda_fail");
    seen = (fake_cuda_seen_fn *)(uintptr_t)fake_function("fake_cuda_seen");
    if (!hold) {
        printf("1..0 # SKIP only the fake driver counts what has waited\n");
        return 77;
    }
    mt_init(argc, argv);
    CHECK_EQ(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING), CU_OK);
    MT_RUN(first_message);
    MT_RUN(freed_by_the_peer);
    MT_RUN(freed_in_a_block);
    MT_RUN(staging);
    MT_RUN(reductions);
    MT_RUN(another_context);
    MT_RUN(no_memory);
    CHECK_EQ(cu.stream_destroy(stream), CU_OK);
    return mt_end();
}
