/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that runs out on one rank while a collective on device memory is staged through host
 * memory, because the last rank passes host memory: the call ends on all ranks, a rank that
 * succeeds has the right result, and the communicator stays usable.  The data are longer than what
 * is page-locked as a whole, so their memory is of malloc, too. */
#include <stdio.h>
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"
#include "test/mpi/nomem_alloc.h"

enum { N = 5 << 20 };
static int *in, *out, *here;

static int run(bool blocking)
{
    MPI_Request r;
    if (blocking)
        return MPI_Allreduce(in, out, N, MPI_INT, MPI_SUM, mt_comm);
    int err = MPI_Iallreduce(in, out, N, MPI_INT, MPI_SUM, mt_comm, &r);
    return err ? err : MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static bool is_right(void)
{
    bool right = true;
    if (mt_rank == mt_size - 1)
        memcpy(here, out, N * sizeof(int));
    else
        gt_read(here, out, N * sizeof(int));
    for (int i = 0; i < N; i++)
        right &= here[i] == mt_size * 0x01010101;
    return right;
}

/* Returns whether the victim allocated as often as `nth`. */
static bool attempt(int victim, long nth, bool blocking)
{
    int hit = 0, failed = 0, any = 0, one = 1, sum = 0, err;
    if (mt_rank == victim)
        nomem_arm(nth);
    err = run(blocking);
    if (mt_rank == victim)
        hit = nomem_disarm() >= nth;
    CHECK_MSG(err || is_right(), "rank %d: wrong result, allocation %ld of rank %d failed", mt_rank,
              nth, victim);
    failed = err != 0;
    OK(MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_SUM, mt_comm));
    CHECK_MSG(!any || any == mt_size, "%d of %d ranks have an error", any, mt_size);
    OK(MPI_Bcast(&hit, 1, MPI_INT, victim, mt_comm));
    CHECK_MSG(hit || !any, "an error, and there was memory");
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, mt_comm));
    CHECK_EQ(sum, mt_size);
    return hit;
}

static void walk(void)
{
    for (int victim = 0; victim < mt_size; victim++)
        for (int blocking = 0; blocking < 2; blocking++) {
            long nth = 1;
            while (attempt(victim, nth, blocking))
                nth++;
            if (mt_rank == 0)
                printf("# rank %d: %ld allocations\n", victim, nth - 1);
        }
}

int main(int argc, char **argv)
{
    gt_need(1);
    if (!nomem_works())
        check_skip("the allocator of this build cannot be replaced");
    mt_init(argc, argv);
    bool host = mt_rank == mt_size - 1;
    gt_use(mt_rank % gt_ndevices());
    here = malloc(N * sizeof(int));
    in = host ? malloc(N * sizeof(int)) : (void *)gt_alloc(GT_CUDA, 0, N * sizeof(int), 0);
    out = host ? malloc(N * sizeof(int)) : (void *)gt_alloc(GT_CUDA, 0, N * sizeof(int), 0);
    if (host)
        memset(in, 1, N * sizeof(int));
    else
        gt_set(in, 1, N * sizeof(int));
    MT_RUN(walk);
    return mt_end();
}
