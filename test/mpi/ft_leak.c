/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: communicators whose last collective has failed, one after the other, on which a
 * member has died or which are revoked: neither memory nor descriptors grow with their number,
 * except for the few bytes that a revocation and the last agreement of a communicator cost. */
#include "test/descriptors.h"
#include "test/mpi/ft_test.h"

#include <malloc.h>

#define N 1000 /* ints of a collective: more than the lines of the shared memory carry */
#define TIMES 300
#define WARM 50
#define LEFT_NBYTES 8192 /* for each communicator */

static MPI_Comm base;
static bool alltoall; /* argument: the call that fails; else an allreduce */

static void check_growth(const char *what, size_t before, size_t now)
{
    CHECK_MSG(now < before + (TIMES - WARM) * LEFT_NBYTES, "%s: %zu bytes for each communicator",
              what, (now - before) / (TIMES - WARM));
}

/* A communicator that `revoker` revokes while the others are in a collective; then a smaller one.
 */
static void round_of(int i, int me, int n)
{
    MPI_Comm c, small;
    static int in[N], out[N];
    int class = MPI_SUCCESS, rc = MPI_SUCCESS;
    OK(MPI_Comm_dup(base, &c));
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    in[N - 1] = me + i;
    OK(MPI_Allreduce(in, out, N, MPI_INT, MPI_SUM, c));
    CHECK_EQ(out[N - 1], n * (n - 1) / 2 + n * i);
    OK(MPI_Barrier(base));
    if (me == i % n)
        OK(MPIX_Comm_revoke(c));
    for (int k = 0; rc == MPI_SUCCESS && k < 2; k++)
        rc = alltoall ? MPI_Alltoall(in, N / n, MPI_INT, out, N / n, MPI_INT, c)
                      : MPI_Allreduce(in, out, N, MPI_INT, MPI_SUM, c);
    MPI_Error_class(rc, &class);
    CHECK_EQ(class, MPIX_ERR_REVOKED);
    OK(MPIX_Comm_shrink(c, &small));
    OK(MPI_Allreduce(in, out, N, MPI_INT, MPI_MAX, small));
    CHECK_EQ(out[N - 1], n - 1 + i);
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_free(&small));
}

int main(int argc, char **argv)
{
    int n, me, alive[64], fds = 0, provided;
    char c;
    size_t private = 0, shared = 0, comms = 0;
    ft_init(argc, argv);
    alltoall = ft_has(argc, argv, "alltoall");
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (mt_rank == mt_size - 1)
        ft_die();
    MPI_Recv(&c, 1, MPI_CHAR, mt_size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &base));
    MPI_Comm_size(base, &n);
    MPI_Comm_rank(base, &me);
    CHECK_EQ(n, mt_size - 1);
    for (int i = 0; i < TIMES; i++) {
        if (i == WARM) {
            private = mallinfo2().uordblks;
            shared = ft_level("shm_segment_used_bytes");
            comms = ft_level("objects_communicators");
            fds = descriptors();
        }
        round_of(i, me, n);
    }
    check_growth("private memory", private, mallinfo2().uordblks);
    check_growth("shared memory", shared, ft_level("shm_segment_used_bytes"));
    CHECK_EQ(ft_level("objects_communicators"), comms);
    /* a connection to a rank may be made or accepted late */
    CHECK_MSG(descriptors() <= fds + n, "%d descriptors, %d before", descriptors(), fds);
    MPI_T_finalize();
    MPI_Comm_free(&base);
    for (int i = 0; i < n; i++)
        alive[i] = i;
    return ft_end("nothing is left of failed communicators", 0, alive, n);
}
