/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory over RDMA: test/rig/rdma runs it over soft-RoCE, where test/fake/ib_dmabuf.c
 * registers the fake driver's memory and counts the adapter's operations.
 *     p2p_rdma          the adapter reads and writes device memory: nothing is staged, and what it
 *                       wrote is read back before the receiver continues
 *     p2p_rdma staged   the adapter refuses all registrations: messages arrive through host
 * memory */
#include <dlfcn.h>
#include "test/gpu/exchange.h"

static bool staged;
static int *ndmabuf, *nread_back;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle staged_bytes;

static const enum gt_kind pairs[][2] = { { GT_CUDA, GT_CUDA },   { GT_CUDA, GT_HOST },
                                         { GT_HOST, GT_CUDA },   { GT_VMM, GT_POOL },
                                         { GT_POOL, GT_PINNED }, { GT_PINNED, GT_VMM } };
#define NPAIRS ((int)(sizeof(pairs) / sizeof(pairs[0])))
static const size_t lens[] = { 1, 4097, 70001, (1u << 20) + 3, (3u << 20) + 1 };

static unsigned long long now_staged(void)
{
    unsigned long long v = 0;
    OK(MPI_T_pvar_read(session, staged_bytes, &v));
    return v;
}

static void watch(void)
{
    int provided, index, n;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("p2p_device_staged_bytes", MPI_T_PVAR_CLASS_AGGREGATE, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &staged_bytes, &n));
    OK(MPI_T_pvar_start(session, staged_bytes));
}

/* A host message that is sent eagerly is always staged: only synchronous sends here. */
static void all_kinds(void)
{
    unsigned long long before = now_staged();
    int reads = *nread_back;
    for (int i = 0; i < NPAIRS; i++)
        for (size_t k = 0; k < sizeof lens / sizeof lens[0]; k++) {
            struct exch x = { .from = (int)k % 2,
                              .to = 1 - (int)k % 2,
                              .skind = pairs[i][0],
                              .rkind = pairs[i][1],
                              .sdev = 0,
                              .rdev = 1,
                              .send = X_SSEND,
                              .recv = i % 2 ? X_RECV : X_EARLY,
                              .n = lens[k],
                              .sodd = (unsigned)(i + k),
                              .rodd = (unsigned)(3 * k),
                              .key = k + 1,
                              .tag = 9 };
            if (lens[k] > 10000 || gt_is_device_kind(x.skind))
                x_do(&x);
        }
    if (staged) {
        CHECK_EQ(*ndmabuf, 0);
        CHECK(now_staged() > before);
        return;
    }
    CHECK_EQ(now_staged() - before, 0);
    CHECK(*ndmabuf > 0);
    CHECK_MSG(*nread_back > reads, "rank %d has written to device memory and not read it back",
              mt_rank);
}

/* The driver reuses the same addresses for different memory. */
static void memory_comes_and_goes(void)
{
    const size_t n = 200000;
    for (unsigned i = 0; i < 12; i++) {
        unsigned char *p = gt_alloc(i % 3 ? GT_CUDA : GT_VMM, mt_rank, n, i);
        gt_fill(p, n, i + (unsigned)mt_rank);
        OK(MPI_Sendrecv_replace(p, (int)n, MPI_BYTE, 1 - mt_rank, 1, 1 - mt_rank, 1, mt_comm,
                                MPI_STATUS_IGNORE));
        GT_CHECK_DATA(p, n, i + 1 - (unsigned)mt_rank);
        CHECK(gt_guards_intact(p));
        gt_free(p);
    }
}

/* Many at once, in both directions, with gaps at one end: these go in pieces through host
 * memory. */
static void many_at_once(void)
{
    enum { N = 12 };
    const size_t n = 150000;
    MPI_Request r[2 * N];
    unsigned char *out[N], *in[N];
    MPI_Datatype gaps;
    OK(MPI_Type_vector((int)n / 3, 3, 5, MPI_BYTE, &gaps));
    OK(MPI_Type_commit(&gaps));
    for (unsigned i = 0; i < N; i++) {
        out[i] = gt_alloc(i % 3 ? GT_CUDA : GT_HOST, mt_rank, n, i);
        in[i] = gt_alloc(GT_CUDA, mt_rank, i % 4 ? n : 2 * n, 0);
        gt_fill(out[i], n, i + 1);
        OK(i % 4 ? MPI_Irecv(in[i], (int)n, MPI_BYTE, 1 - mt_rank, (int)i, mt_comm, &r[i])
                 : MPI_Irecv(in[i], 1, gaps, 1 - mt_rank, (int)i, mt_comm, &r[i]));
    }
    for (unsigned i = 0; i < N; i++)
        OK(MPI_Isend(out[i], (int)n, MPI_BYTE, 1 - mt_rank, (int)i, mt_comm, &r[N + i]));
    OK(MPI_Waitall(2 * N, r, MPI_STATUSES_IGNORE));
    for (unsigned i = 0; i < N; i++) {
        if (i % 4)
            GT_CHECK_DATA(in[i], n, i + 1);
        else
            for (size_t k = 0; k < n; k += 3000)
                CHECK_EQ(gt_differs_from(in[i] + k / 3 * 5, 3, i + 1, k), 3);
        gt_free(in[i]);
        gt_free(out[i]);
    }
    OK(MPI_Type_free(&gaps));
}

int main(int argc, char **argv)
{
    gt_need(2);
    staged = argc > 1 && !strcmp(argv[1], "staged");
    ndmabuf = dlsym(RTLD_DEFAULT, "fake_ib_ndmabuf");
    nread_back = dlsym(RTLD_DEFAULT, "fake_ib_nread_back");
    if (!ndmabuf || !nread_back) {
        printf("1..0 # SKIP test/fake/ib_dmabuf.so is not preloaded; make check-rdma does that\n");
        return 77;
    }
    mt_init(argc, argv);
    watch();
    MT_RUN(all_kinds);
    MT_RUN(memory_comes_and_goes);
    MT_RUN(many_at_once);
    OK(MPI_T_pvar_handle_free(session, &staged_bytes));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    return mt_end();
}
