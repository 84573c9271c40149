/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with device buffers between calls of NCCL.  One rank enqueues a reduction, whose kernel
 * then waits on the device for the kernel of the other rank, and receives a message that the other
 * rank sends before its reduction.  A call of MPI that waited for the device would deadlock.  The
 * buffers of the previous message have been freed, so the receive meets stale mappings.
 *
 * Runs on two real devices with NCCL (libnccl.so.2 on LD_LIBRARY_PATH). */
#include <dlfcn.h>
#include <stdlib.h>
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

/* NCCL's binary interface, since version 2.7. */
struct nccl_id {
    char bytes[128];
};
enum { NCCL_INT32 = 2, NCCL_SUM = 0 };
static struct {
    int (*get_unique_id)(struct nccl_id *id);
    int (*comm_init_rank)(void **comm, int nranks, struct nccl_id id, int rank);
    int (*comm_destroy)(void *comm);
    int (*all_reduce)(const void *s, void *r, size_t n, int type, int op, void *comm, cu_stream);
} nccl;

static const size_t lens[] = { 8, 5000, 300000, 3000000 };
enum { NLENS = 4, ROUNDS = 20, NSUM = 1 << 20 };

static int dev;
static void *comm;
static cu_stream stream;
static int *sums, host[NSUM];

static bool open_nccl(void)
{
    const struct {
        const char *name;
        void *slot;
    } symbols[] = { { "ncclGetUniqueId", &nccl.get_unique_id },
                    { "ncclCommInitRank", &nccl.comm_init_rank },
                    { "ncclCommDestroy", &nccl.comm_destroy },
                    { "ncclAllReduce", &nccl.all_reduce } };
    void *lib = dlopen("libnccl.so.2", RTLD_NOW);

    for (unsigned i = 0; lib && i < sizeof symbols / sizeof *symbols; i++) {
        void *p = dlsym(lib, symbols[i].name);

        if (!p)
            return false;
        memcpy(symbols[i].slot, &p, sizeof p);
    }
    return lib != NULL;
}

static void join(void)
{
    struct nccl_id id;

    if (mt_rank == 0)
        CHECK_EQ(nccl.get_unique_id(&id), 0);
    OK(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
    CHECK_EQ(nccl.comm_init_rank(&comm, mt_size, id, mt_rank), 0);
    CHECK_EQ(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING), CU_OK);
    sums = (int *)(void *)gt_alloc(GT_CUDA, dev, sizeof host, 0);
}

static void reduce(void)
{
    CHECK_EQ(nccl.all_reduce(sums, sums, NSUM, NCCL_INT32, NCCL_SUM, comm, stream), 0);
}

static void put_ranks(void)
{
    for (int i = 0; i < NSUM; i++)
        host[i] = mt_rank + i;
    gt_write(sums, host, sizeof host);
}

static void check_sums(void)
{
    int all = mt_size * (mt_size - 1) / 2, i = 0;

    CHECK_EQ(cu.stream_synchronize(stream), CU_OK);
    gt_read(host, sums, sizeof host);
    while (i < NSUM && host[i] == all + i * mt_size)
        i++;
    CHECK_MSG(i == NSUM, "rank %d: NCCL's sum %d is wrong", mt_rank, i);
}

static void message(unsigned char *p, size_t n)
{
    if (mt_first)
        OK(MPI_Recv(p, (int)n, MPI_BYTE, mt_peer, 1, mt_comm, MPI_STATUS_IGNORE));
    else
        OK(MPI_Send(p, (int)n, MPI_BYTE, mt_peer, 1, mt_comm));
}

static void between(size_t n, uint64_t key)
{
    unsigned char *p = gt_alloc(GT_CUDA, dev, n, 0);

    gt_fill(p, n, mt_first ? 99 : key);
    put_ranks();
    mt_sync();
    if (mt_first)
        reduce();
    message(p, n);
    if (!mt_first)
        reduce();
    check_sums();
    GT_CHECK_DATA(p, n, key);
    gt_free(p);
}

static void messages_between_reductions(void)
{
    put_ranks();
    reduce(); /* connects, which the hosts do together */
    check_sums();
    for (uint64_t round = 0; round < ROUNDS; round++)
        for (int i = 0; i < NLENS; i++)
            between(lens[i], round * NLENS + (uint64_t)i);
}

int main(int argc, char **argv)
{
    gt_need(2);
    if (gt_is_fake() || !open_nccl()) {
        printf("1..0 # SKIP %s\n",
               gt_is_fake() ? "NCCL needs real devices" : "there is no libnccl.so.2");
        return 77;
    }
    setenv("NCCL_NVLS_ENABLE", "0", 1); /* multicast can take devices out of service */
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    join();
    MT_RUN(messages_between_reductions);
    gt_free((unsigned char *)sums);
    CHECK_EQ(cu.stream_destroy(stream), CU_OK);
    CHECK_EQ(nccl.comm_destroy(comm), 0);
    return mt_end();
}
