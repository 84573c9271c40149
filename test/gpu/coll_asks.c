/* SPDX-License-Identifier: BSD-3-Clause */
/* How often the driver is asked what memory a call's buffers are: once for each buffer, where the
 * call enters.  Only the fake driver counts, when FAKE_CUDA_FAIL has a rule for the function. */
#include <dlfcn.h>
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { N = 64, CALLS = 20 };

static fake_cuda_seen_fn *seen;
static int dev;
static int *a, *b;

static void allreduce(void) { OK(MPI_Allreduce(a, b, N, MPI_INT, MPI_SUM, mt_comm)); }
static void in_place(void) { OK(MPI_Allreduce(MPI_IN_PLACE, b, N, MPI_INT, MPI_MAX, mt_comm)); }
static void bcast(void) { OK(MPI_Bcast(a, N, MPI_INT, 0, mt_comm)); }
static void allgather(void) { OK(MPI_Allgather(a, N, MPI_INT, b, N, MPI_INT, mt_comm)); }
static void alltoall(void) { OK(MPI_Alltoall(a, N, MPI_INT, b, N, MPI_INT, mt_comm)); }
static void iallreduce(void)
{
    MPI_Request r;
    OK(MPI_Iallreduce(a, b, N, MPI_INT, MPI_SUM, mt_comm, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
}
static void exchange(void)
{
    MPI_Request r;
    OK(MPI_Irecv(b, N, MPI_INT, mt_peer, 1, mt_comm, &r));
    OK(MPI_Send(a, N, MPI_INT, mt_peer, 1, mt_comm));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

static void once_for_each_buffer(void)
{
    static const struct {
        const char *name;
        void (*call)(void);
        int buffers;
    } calls[] = { { "allreduce", allreduce, 2 },   { "allreduce in place", in_place, 1 },
                  { "bcast", bcast, 1 },           { "allgather", allgather, 2 },
                  { "alltoall", alltoall, 2 },     { "iallreduce", iallreduce, 2 },
                  { "send and receive", exchange, 2 } };
    for (int k = 0; k < (int)(sizeof calls / sizeof *calls); k++) {
        if (calls[k].call == exchange && mt_peer == MPI_PROC_NULL)
            continue;
        for (int i = 0; i < CALLS; i++) /* mappings are made, descriptions kept */
            calls[k].call();
        long before = seen("cuPointerGetAttributes");
        for (int i = 0; i < CALLS; i++)
            calls[k].call();
        long asked = seen("cuPointerGetAttributes") - before;
        CHECK_MSG(asked == CALLS * calls[k].buffers,
                  "rank %d, %s: the driver was asked %ld times in %d calls with %d device buffers",
                  mt_rank, calls[k].name, asked, CALLS, calls[k].buffers);
    }
}

int main(int argc, char **argv)
{
    gt_need(1);
    seen = (fake_cuda_seen_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_seen");
    if (!seen)
        return 77;
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    a = gt_alloc(GT_CUDA, dev, N * sizeof *a * (size_t)mt_size, 0);
    b = gt_alloc(GT_CUDA, dev, N * sizeof *b * (size_t)mt_size, 0);
    MT_RUN(once_for_each_buffer);
    gt_free(a);
    gt_free(b);
    return mt_end();
}
