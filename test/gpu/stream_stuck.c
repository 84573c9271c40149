/* SPDX-License-Identifier: BSD-3-Clause */
/* Erroneous programs with streams, for test/mpi/hang.py: a rank does not enqueue its part of a
 * message or a collective, or the last rank enqueues another short collective.  Three ranks.
 *   stream_stuck receive | reduce | differ | synchronize */
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { N = 1 << 20 }; /* the collective is not a short one, for which no host waits */

static cu_stream stream;

static MPI_Comm on_stream(MPIX_Stream *s)
{
    MPI_Info info;
    MPI_Comm comm;
    CHECK_EQ(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING), 0);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "type", "cudaStream_t"));
    OK(MPIX_Info_set_hex(info, "value", &stream, sizeof stream));
    OK(MPIX_Stream_create(info, s));
    OK(MPI_Info_free(&info));
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, *s, &comm));
    return comm;
}

static void enqueue(const char *what, MPI_Comm comm, void *in, void *out)
{
    MPI_Status status;
    if (!strcmp(what, "receive"))
        OK(MPIX_Recv_enqueue(out, N, MPI_BYTE, 0, 7, comm, &status)); /* receive */
    else if (strcmp(what, "differ") != 0)
        OK(MPIX_Allreduce_enqueue(in, out, N, MPI_INT, MPI_SUM, comm)); /* reduce */
    else if (mt_rank == mt_size - 1)
        OK(MPIX_Barrier_enqueue(comm));
    else
        OK(MPIX_Bcast_enqueue(out, 1000, MPI_INT, 0, comm));
    OK(cu.stream_synchronize(stream)); /* synchronize */
}

int main(int argc, char **argv)
{
    MPIX_Stream s;
    gt_need(1);
    mt_init(argc, argv);
    gt_use(0);
    MPI_Comm comm = on_stream(&s);
    if (argc > 1 && (mt_rank || !strcmp(argv[1], "differ")))
        enqueue(argv[1], comm, gt_alloc(GT_CUDA, 0, 4 * N, 0), gt_alloc(GT_CUDA, 0, 4 * N, 0));
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* others */
    return 0;
}
