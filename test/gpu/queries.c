/* SPDX-License-Identifier: BSD-3-Clause */
/* How often the start of an operation asks the driver for the attributes of its buffers' addresses.
 * The fake driver counts.  The operations before the counted ones fill all caches. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { WARM = 4, CALLS = 32, N = 500 };

static const char query[] = "cuPointerGetAttributes";
static fake_cuda_seen_fn *seen;
static void *sbuf, *rbuf;

static MPI_Request send_or_receive(void)
{
    MPI_Request r;
    if (mt_rank % 2)
        MPI_Irecv(rbuf, N, MPI_INT, mt_rank - 1, 5, MPI_COMM_WORLD, &r);
    else
        MPI_Isend(sbuf, N, MPI_INT, mt_rank + 1, 5, MPI_COMM_WORLD, &r);
    return r;
}

static MPI_Request allreduce(void)
{
    MPI_Request r;
    MPI_Iallreduce(sbuf, rbuf, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r);
    return r;
}

static MPI_Request bcast(void)
{
    MPI_Request r;
    MPI_Ibcast(rbuf, N, MPI_INT, 0, MPI_COMM_WORLD, &r);
    return r;
}

static MPI_Request allgather(void)
{
    MPI_Request r;
    MPI_Iallgather(sbuf, N / 8, MPI_INT, rbuf, N / 8, MPI_INT, MPI_COMM_WORLD, &r);
    return r;
}

/* The queries of starting one operation: at most `most`.  Progress asks now and then whether mapped
 * memory still exists, so the operation with the fewest queries counts. */
static void count(const char *name, MPI_Request (*start)(void), long most)
{
    long least = LONG_MAX;
    if (!seen) {
        mt_skip("the real driver does not count calls");
        return;
    }
    for (int i = 0; i < WARM + CALLS; i++) {
        long before = seen(query);
        MPI_Request r = start();
        long n = seen(query) - before;
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (i >= WARM && n < least)
            least = n;
    }
    printf("# rank %d: %s: %ld queries\n", mt_rank, name, least);
    CHECK_MSG(least <= most, "rank %d: %s made %ld queries, %ld allowed", mt_rank, name, least,
              most);
}

static void open_buffers(enum gt_kind kind)
{
    int dev = mt_rank % gt_ndevices();
    sbuf = gt_alloc(kind, dev, N * sizeof(int), 0);
    rbuf = gt_alloc(kind, dev, N * sizeof(int), 0);
    gt_set(sbuf, 1, N * sizeof(int));
}

static void close_buffers(void)
{
    gt_free(sbuf);
    gt_free(rbuf);
}

/* Memory that other processes can map: collectives run on the devices, if there are kernels.
 * Without, they use messages between devices, and the rank that comes last starts them in the call
 * itself: two more looks at the buffers, and one at that of each message. */
static void exported(void)
{
    long more = gt_kernels() ? 0 : 4;
    open_buffers(GT_CUDA);
    count("MPI_Isend or MPI_Irecv", send_or_receive, 1);
    count("MPI_Iallreduce", allreduce, 3 + more);
    count("MPI_Ibcast", bcast, 2 + more);
    count("MPI_Iallgather", allgather, 3 + more);
    close_buffers();
}

/* Memory that they cannot map: messages in pieces, collectives in host memory. */
static void staged(void)
{
    open_buffers(GT_POOL_OWN);
    count("MPI_Isend or MPI_Irecv", send_or_receive, 3);
    count("MPI_Iallreduce", allreduce, 6);
    count("MPI_Ibcast", bcast, 5);
    count("MPI_Iallgather", allgather, 6);
    close_buffers();
}

int main(int argc, char **argv)
{
    fake_cuda_fail_fn *fail;

    gt_need(1);
    mt_init(argc, argv);
    gt_use(mt_rank % gt_ndevices());
    fail = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    seen = (fake_cuda_seen_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_seen");
    if (fail)
        fail("cuPointerGetAttributes:0"); /* counts the calls, no call fails */
    MT_RUN(exported);
    MT_RUN(staged);
    return mt_end();
}
