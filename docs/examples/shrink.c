/* SPDX-License-Identifier: BSD-3-Clause */
/* A solver that loses ranks and continues: docs/FAULTS.md.
 *
 *     mpicc shrink.c -o shrink && mpirun --ft -n 4 ./shrink
 *
 * The heat equation on a rod: N points, divided among the ranks; each step needs the two
 * neighbours. Every 10 steps a rank stores its part in the memory of the next rank (buddy).  When a
 * rank dies, the others shrink the communicator, put the last stored state together again, divide
 * it anew and continue.  For demonstration, rank 1 kills itself in step 25. */
#include <mpi.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { N = 240, STEPS = 100, STORE = 10 };

static MPI_Comm comm;
static int rank, size;

/* A part of the rod: points [first, first + n) in a step. */
struct part {
    int step, first, n;
    double u[N];
};
static struct part mine, buddy; /* stored: of this rank, of the rank before it */

static int begin_of(int r) { return (int)((long)N * r / size); }

/* One step: halo, then the update.  The return codes of MPI decide. */
static int advance(double *u, int n)
{
    double next[N], left = 0, right = 0; /* both ends of the rod are cold */
    int up = rank + 1 < size ? rank + 1 : MPI_PROC_NULL, down = rank ? rank - 1 : MPI_PROC_NULL;
    int rc = MPI_Sendrecv(&u[n - 1], 1, MPI_DOUBLE, up, 0, &left, 1, MPI_DOUBLE, down, 0, comm,
                          MPI_STATUS_IGNORE);
    if (!rc)
        rc = MPI_Sendrecv(&u[0], 1, MPI_DOUBLE, down, 1, &right, 1, MPI_DOUBLE, up, 1, comm,
                          MPI_STATUS_IGNORE);
    for (int i = 0; !rc && i < n; i++)
        next[i] = u[i] + 0.25 * ((i ? u[i - 1] : left) - 2 * u[i] + (i + 1 < n ? u[i + 1] : right));
    if (!rc)
        memcpy(u, next, (size_t)n * sizeof *u);
    return rc;
}

/* Both copies of the new state are there before the old one is given up: the members agree. */
static int store(const double *u, int first, int n, int step)
{
    struct part fresh = { step, first, n, { 0 } }, other = { 0 };
    memcpy(fresh.u, u, (size_t)n * sizeof *u);
    int flag, rc = MPI_Sendrecv(&fresh, sizeof fresh, MPI_BYTE, (rank + 1) % size, 2, &other,
                                sizeof other, MPI_BYTE, (rank + size - 1) % size, 2, comm,
                                MPI_STATUS_IGNORE);
    flag = rc == MPI_SUCCESS;
    rc = MPIX_Comm_agree(comm, &flag);
    if (rc || !flag)
        return rc ? rc : MPIX_ERR_PROC_FAILED;
    mine = fresh;
    buddy = other;
    return MPI_SUCCESS;
}

/* A new communicator of the living, and the stored state of all, from both copies. */
static int recover(double *all)
{
    double sum[N];
    int have[N] = { 0 }, best[N];
    MPI_Comm smaller;
    MPIX_Comm_revoke(comm); /* ends the calls of the others */
    if (MPIX_Comm_shrink(comm, &smaller))
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_free(&comm);
    comm = smaller;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (rank == 0)
        printf("%d ranks continue from step %d\n", size, mine.step);
    /* of two copies of a point the one of the lower rank counts */
    memset(sum, 0, sizeof sum);
    for (int i = 0; i < N; i++)
        have[i] = (i >= mine.first && i < mine.first + mine.n) ||
                          (i >= buddy.first && i < buddy.first + buddy.n)
                      ? rank
                      : size;
    int rc = MPI_Allreduce(have, best, N, MPI_INT, MPI_MIN, comm);
    for (int i = 0; !rc && i < N; i++)
        if (best[i] == rank)
            sum[i] = i >= mine.first && i < mine.first + mine.n ? mine.u[i - mine.first]
                                                                : buddy.u[i - buddy.first];
        else if (best[i] == size)
            MPI_Abort(MPI_COMM_WORLD, 1); /* a rank and its buddy have died */
    return rc ? rc : MPI_Allreduce(sum, all, N, MPI_DOUBLE, MPI_SUM, comm);
}

int main(int argc, char **argv)
{
    static double all[N], u[N];
    int step = 0, world, rc = MPI_SUCCESS;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < N; i++)
        all[i] = i >= N / 3 && i < N / 2; /* warm in the middle */

    for (;;) {
        int first = begin_of(rank), n = begin_of(rank + 1) - first;
        memcpy(u, all + first, (size_t)n * sizeof *u);
        rc = store(u, first, n, step);
        while (!rc && step < STEPS) {
            if (world == 1 && step == 25)
                raise(SIGKILL);
            rc = advance(u, n);
            if (!rc && ++step % STORE == 0)
                rc = store(u, first, n, step);
        }
        if (!rc)
            break;
        while ((rc = recover(all))) /* another rank has died meanwhile */
            continue;
        step = mine.step;
    }

    double part = 0, heat = 0; /* heat that is still in the rod */
    for (int i = 0; i < begin_of(rank + 1) - begin_of(rank); i++)
        part += u[i];
    MPI_Reduce(&part, &heat, 1, MPI_DOUBLE, MPI_SUM, 0, comm);
    if (rank == 0)
        printf("heat %.6f after %d steps, with %d ranks\n", heat, STEPS, size);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return rank == 0 && fabs(heat - N / 6) > 1e-6;
}
