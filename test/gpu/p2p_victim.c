/* SPDX-License-Identifier: BSD-3-Clause */
/* Started by p2p_dead.py: endless messages between device buffers, until one rank has gone.
 *     p2p_victim WHO BYTES SENDER RECEIVER      kinds of memory by name; WHO kills itself
 *     p2p_victim probe                          77 without a device, like every test
 *     p2p_victim WHO BYTES leave                WHO leaves without MPI_Finalize while mapped */
#include "test/gpu/exchange.h"
#include "test/gpu/victim.h"

static enum gt_kind kind_named(const char *name)
{
    int i;

    for (i = 0; i < GT_ALL_KINDS; i++)
        if (!strcmp(gt_kind_names[i], name))
            return (enum gt_kind)i;
    fprintf(stderr, "p2p_victim: no kind %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    int who, peer;
    size_t n;
    bool leave = argc < 5;
    unsigned char *p;
    long i;

    gt_need(1);
    if (argc < 3)
        return 0;
    who = atoi(argv[1]);
    n = strtoul(argv[2], NULL, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &mt_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mt_size);
    peer = mt_rank ^ 1;
    p = gt_alloc(leave ? GT_CUDA : kind_named(argv[3 + mt_rank % 2]), mt_rank % gt_ndevices(), n,
                 0);
    if (mt_rank == who && !leave)
        die_soon();
    for (i = 0; peer < mt_size && (!leave || i < 20); i++)
        if (mt_rank % 2)
            MPI_Recv(p, (int)n, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(p, (int)n, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
    if (mt_rank == who)
        exit(3);
    MPI_Recv(p, (int)n, MPI_BYTE, who, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 0;
}
