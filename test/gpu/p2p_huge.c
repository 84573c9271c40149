/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages above 4 GiB, for real devices: contiguous from device to device, between device and
 * host, and a vector.  Contents are written and checked in samples: around every boundary of 2 GiB
 * and 4 GiB, at the ends, and at some places between.
 *     p2p_huge [GIB]    length, default 5 */
#include "test/gpu/exchange.h"

#define SAMPLE 70001u
#define GIB ((size_t)1 << 30)

static size_t len, places[32];
static int nplaces, dev;

static void choose_places(void)
{
    size_t at;
    unsigned state = mt_seed;

    nplaces = 0;
    for (at = 2 * GIB; at < len - SAMPLE; at += 2 * GIB)
        places[nplaces++] = at - SAMPLE / 2;
    places[nplaces++] = 0;
    places[nplaces++] = len - SAMPLE;
    while (nplaces < 16)
        places[nplaces++] = (size_t)mt_random(&state) * 977 % (len - SAMPLE);
}

static void write_samples(unsigned char *p, uint64_t key)
{
    int i;

    for (i = 0; i < nplaces; i++)
        gt_fill_from(p + places[i], SAMPLE, key, places[i]);
}

static void check_samples(const unsigned char *p, uint64_t key)
{
    int i;

    for (i = 0; i < nplaces; i++) {
        size_t at = gt_differs_from(p + places[i], SAMPLE, key, places[i]);

        CHECK_MSG(at == SAMPLE, "byte %zu is wrong", places[i] + at);
    }
}

static void one(enum gt_kind from, enum gt_kind to, uint64_t key)
{
    unsigned char *p;
    MPI_Status st;
    MPI_Count n;

    if (mt_peer == MPI_PROC_NULL)
        return;
    p = gt_try_alloc(mt_first ? from : to, dev, len, 1);
    if (!p) {
        CHECK_MSG(false, "no memory of %zu bytes", len);
        return;
    }
    if (mt_first) {
        write_samples(p, key);
        OK(MPI_Send_c(p, (MPI_Count)len, MPI_BYTE, mt_peer, 1, mt_comm));
    } else {
        OK(MPI_Recv_c(p, (MPI_Count)len, MPI_BYTE, mt_peer, 1, mt_comm, &st));
        OK(MPI_Get_count_c(&st, MPI_BYTE, &n));
        CHECK_EQ(n, len);
        check_samples(p, key);
        CHECK(gt_guards_intact(p));
    }
    gt_free(p);
}

static void cuda_cuda(void) { one(GT_CUDA, GT_CUDA, 1); }
static void vmm_pool(void) { one(GT_VMM, GT_POOL, 2); }
static void cuda_host(void) { one(GT_CUDA, GT_HOST, 3); }
static void host_cuda(void) { one(GT_HOST, GT_CUDA, 4); }
static void pool_own(void) { one(GT_POOL_OWN, GT_VMM_OWN, 5); }

/* Rows of 3 MiB with gaps of 1 MiB: more than 4 GiB packed. */
static void vector(void)
{
    const MPI_Count rows = (MPI_Count)(len / (3u << 20));
    MPI_Datatype t;
    unsigned char *p;
    MPI_Count i;

    if (mt_peer == MPI_PROC_NULL)
        return;
    OK(MPI_Type_vector_c(rows, 3 << 20, 4 << 20, MPI_BYTE, &t));
    OK(MPI_Type_commit(&t));
    p = gt_alloc(GT_CUDA, dev, (size_t)rows * (4u << 20), 0);
    for (i = 0; mt_first && i < rows; i += 37)
        gt_fill(p + i * (4 << 20), 3 << 20, (uint64_t)i);
    if (mt_first)
        OK(MPI_Send_c(p, 1, t, mt_peer, 1, mt_comm));
    else
        OK(MPI_Recv_c(p, 1, t, mt_peer, 1, mt_comm, MPI_STATUS_IGNORE));
    for (i = 0; !mt_first && i < rows; i += 37) {
        GT_CHECK_DATA(p + i * (4 << 20), 3 << 20, (uint64_t)i);
        CHECK_EQ(gt_unlike(p + i * (4 << 20) + (3 << 20), 1 << 20, GT_POISON), 1 << 20);
    }
    gt_free(p);
    OK(MPI_Type_free(&t));
}

int main(int argc, char **argv)
{
    gt_need(1);
    len = (argc > 1 ? strtoul(argv[1], NULL, 0) : 5) * GIB + 12345;
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    choose_places();
    MT_RUN(cuda_cuda);
    MT_RUN(vmm_pool);
    MT_RUN(cuda_host);
    MT_RUN(host_cuda);
    MT_RUN(pool_own);
    MT_RUN(vector);
    return mt_end();
}
