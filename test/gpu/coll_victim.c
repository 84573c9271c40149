/* SPDX-License-Identifier: BSD-3-Clause */
/* Started by coll_dead.py: endless collectives on device buffers, until one rank has gone.
 *     coll_victim WHO CALL BYTES [MODE]
 *     coll_victim probe     77 without a device, like every test
 * MODE dies (default): rank WHO kills itself after a short time; waits: WHO kills itself before its
 * first call, while the other ranks are in that call; leaves: WHO exits; freed: WHO passes freed
 * memory; count: WHO passes one element more; broken=RULE: the device of WHO fails as
 * FAKE_CUDA_FAIL=RULE defines. */
#include "test/gpu/gputest.h"
#include "test/gpu/victim.h"
#include "test/mpi/mpitest.h"

static void call(const char *what, unsigned char *s, unsigned char *r, int n, MPI_Request *q)
{
    if (!strcmp(what, "allreduce"))
        MPI_Allreduce(s, r, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(what, "in_place"))
        MPI_Allreduce(MPI_IN_PLACE, r, n, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    else if (!strcmp(what, "iallreduce")) {
        MPI_Iallreduce(s, r, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, q);
        MPI_Wait(q, MPI_STATUS_IGNORE);
    } else if (!strcmp(what, "persistent")) {
        if (*q == MPI_REQUEST_NULL)
            MPI_Allreduce_init(s, r, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, q);
        MPI_Start(q);
        MPI_Wait(q, MPI_STATUS_IGNORE);
    } else if (!strcmp(what, "alltoall"))
        MPI_Alltoall(s, n / mt_size, MPI_FLOAT, r, n / mt_size, MPI_FLOAT, MPI_COMM_WORLD);
    else if (!strcmp(what, "bcast"))
        MPI_Bcast(r, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else
        MPI_Abort(MPI_COMM_WORLD, 55);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 4 ? argv[4] : "dies", *rank = getenv("PMIX_RANK");
    int who = argc > 1 ? atoi(argv[1]) : 0, n = argc > 3 ? atoi(argv[3]) / 4 : 0, i, dev;
    MPI_Request q = MPI_REQUEST_NULL;
    unsigned char *s, *r;

    if (strstr(mode, "broken=") == mode && rank && atoi(rank) == who)
        setenv("FAKE_CUDA_FAIL", mode + 7, 1);
    gt_need(1);
    if (argc < 4)
        return 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &mt_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mt_size);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    s = gt_alloc(GT_CUDA, dev, (size_t)n * 4 + 4, 0);
    r = gt_alloc(mt_rank % 2 ? GT_CUDA : GT_VMM, dev, (size_t)n * 4 + 4, 0);
    gt_set(s, 0, (size_t)n * 4 + 4);
    gt_set(r, 0, (size_t)n * 4 + 4);
    if (mt_rank == who && (!strcmp(mode, "dies") || !strcmp(mode, "waits")))
        die_soon();
    for (i = 0;; i++) {
        if (mt_rank == who && !strcmp(mode, "waits"))
            pause();
        if (mt_rank == who && i == 20) {
            if (!strcmp(mode, "leaves"))
                exit(3);
            if (!strcmp(mode, "freed"))
                gt_free(r);
            n += !strcmp(mode, "count");
        }
        call(argv[2], s, r, n, &q);
    }
}
