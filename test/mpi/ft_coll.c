/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: every kind of collective, blocking, nonblocking and persistent, short and long,
 * after the last rank has died, each on a communicator of its own.  All return: those that need the
 * dead rank with an error; ranks that get one revoke the communicator.  With argument `inside` the
 * rank dies while the others are in the call. */
#include "test/mpi/ft_test.h"

#define LONG 20000

enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
enum kind {
    BARRIER,
    BCAST,
    REDUCE,
    ALLREDUCE,
    GATHER,
    SCATTER,
    ALLGATHER,
    ALLTOALL,
    REDUCE_SCATTER,
    SCAN,
    KINDS
};

static int victim, n;
static int in[LONG * 16], out[LONG * 16];

#define SELECT(name, ...) \
    (form == BLOCKING      ? MPI_##name(__VA_ARGS__, c) \
     : form == NONBLOCKING ? MPI_I##name(__VA_ARGS__, c, r) \
                           : MPI_##name##_init(__VA_ARGS__, c, MPI_INFO_NULL, r))
#define MPI_IBcast MPI_Ibcast
#define MPI_IReduce MPI_Ireduce
#define MPI_IAllreduce MPI_Iallreduce
#define MPI_IGather MPI_Igather
#define MPI_IScatter MPI_Iscatter
#define MPI_IAllgather MPI_Iallgather
#define MPI_IAlltoall MPI_Ialltoall
#define MPI_IReduce_scatter_block MPI_Ireduce_scatter_block
#define MPI_IScan MPI_Iscan

static int begin(enum kind kind, enum form form, int count, MPI_Comm c, MPI_Request *r)
{
    switch (kind) {
    case BARRIER:
        return form == BLOCKING      ? MPI_Barrier(c)
               : form == NONBLOCKING ? MPI_Ibarrier(c, r)
                                     : MPI_Barrier_init(c, MPI_INFO_NULL, r);
    case BCAST: /* the root is the dead rank */
        return SELECT(Bcast, in, count, MPI_INT, victim);
    case REDUCE:
        return SELECT(Reduce, in, out, count, MPI_INT, MPI_SUM, 0);
    case ALLREDUCE:
        return SELECT(Allreduce, in, out, count, MPI_INT, MPI_SUM);
    case GATHER:
        return SELECT(Gather, in, count, MPI_INT, out, count, MPI_INT, 0);
    case SCATTER:
        return SELECT(Scatter, in, count, MPI_INT, out, count, MPI_INT, victim);
    case ALLGATHER:
        return SELECT(Allgather, in, count, MPI_INT, out, count, MPI_INT);
    case ALLTOALL:
        return SELECT(Alltoall, in, count, MPI_INT, out, count, MPI_INT);
    case REDUCE_SCATTER:
        return SELECT(Reduce_scatter_block, in, out, count, MPI_INT, MPI_SUM);
    default:
        return SELECT(Scan, in, out, count, MPI_INT, MPI_SUM);
    }
}

static int complete(enum kind kind, enum form form, int count, MPI_Comm c)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int rc = begin(kind, form, count, c, &r);
    if (form == PERSISTENT && !rc) {
        rc = MPI_Start(&r);
        int waited = rc ? rc : MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Request_free(&r);
        return waited;
    }
    return form == BLOCKING || rc ? rc : MPI_Wait(&r, MPI_STATUS_IGNORE);
}

/* Whether every rank needs the last one. */
static bool needs_all(enum kind k) { return k != REDUCE && k != GATHER && k != SCAN; }

int main(int argc, char **argv)
{
    static MPI_Comm c[KINDS][FORMS][2];
    int alive[64];
    ft_init(argc, argv);
    bool inside = ft_has(argc, argv, "inside");
    n = mt_size;
    victim = n - 1;
    for (int k = 0; k < KINDS; k++)
        for (int f = 0; f < FORMS; f++)
            for (int l = 0; l < 2; l++) {
                OK(MPI_Comm_dup(MPI_COMM_WORLD, &c[k][f][l]));
                MPI_Comm_set_errhandler(c[k][f][l], MPI_ERRORS_RETURN);
                if (inside && l) /* sets up shared memory */
                    OK(complete(k, BLOCKING, LONG, c[k][f][l]));
            }
    ft_lose_last(inside ? 20000 : 0); /* the others are then most likely waiting */
    for (int k = 0; k < KINDS; k++)
        for (int f = 0; f < FORMS; f++)
            for (int l = 0; l < 2; l++) {
                int class = MPI_SUCCESS, rc = complete(k, f, l ? LONG : 1, c[k][f][l]);
                MPI_Error_class(rc, &class);
                CHECK_MSG(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED ||
                              (!class && !needs_all(k)),
                          "rank %d, kind %d, form %d, %s: class %d", mt_rank, k, f,
                          l ? "long" : "short", class);
                if (class)
                    OK(MPIX_Comm_revoke(c[k][f][l]));
                OK(MPI_Comm_free(&c[k][f][l]));
            }
    for (int i = 0; i < victim && i < 64; i++)
        alive[i] = i;
    return ft_end("collectives and a dead process", 0, alive, victim);
}
