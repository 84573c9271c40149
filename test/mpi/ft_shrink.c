/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: a program that loses its ranks one after the other, and continues with those that
 * are left.  Each step is a collective of another kind; the members agree whether it has succeeded
 * for all, and if not, they revoke and shrink the communicator and repeat the step.
 *
 * Rank 0 lives, or with argument `low` the last rank; each other rank dies at a call of its own:
 * at=N (default 1) plus step=K (default 5) times its place among the victims.  With `kill` the
 * survivor kills the victims instead, at calls of its own, so that they die inside of calls, also
 * of agreements and of shrinking.  `talks`: the survivor prints a line after the first step. */
#include "test/mpi/ft_test.h"

#include <sys/types.h>

#define STEPS 24
#define N 3000

static MPI_Comm comm;
static int ncalls, survivor, first, spacing;
static bool kills;
static pid_t pids[64];
static int in[N * 8], out[N * 8];

static int number(int argc, char **argv, const char *name, int otherwise)
{
    size_t len = strlen(name);
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], name, len) && argv[i][len] == '=')
            return atoi(argv[i] + len + 1);
    return otherwise;
}

/* The victims, in the order of their deaths: rank n - 1 first, or rank 0. */
static int place_of(int rank) { return survivor ? rank : mt_size - 1 - rank; }

static void strike(void)
{
    int k = ncalls++ - first;
    if (!kills) {
        if (mt_rank != survivor && k == spacing * place_of(mt_rank))
            ft_die();
        return;
    }
    if (mt_rank != survivor || k < 0 || k % spacing || k / spacing >= mt_size - 1)
        return;
    int victim = survivor ? k / spacing : mt_size - 1 - k / spacing;
    if (kill(pids[victim], SIGKILL))
        printf("# rank %d has ended before\n", victim);
}
#define CALL(c) (strike(), (c))

static bool failed(int rc)
{
    int class = MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        return false;
    MPI_Error_class(rc, &class);
    CHECK_MSG(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED, "rank %d: class %d",
              mt_rank, class);
    return true;
}

/* A step; returns its error.  Checks the values of one that succeeds. */
static int work(int step, int n, int me)
{
    int rc, count = step % 2 ? N : 1, good = 1;
    MPI_Request r;
    for (int i = 0; i < count * n && i < N * 8; i++)
        in[i] = me + i + step;
    switch (step % 6) {
    case 0:
        rc = CALL(MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm));
        for (int i = 0; !rc && i < count; i++)
            good = good && out[i] == n * (n - 1) / 2 + n * (i + step);
        break;
    case 1:
        rc = CALL(MPI_Bcast(in, count, MPI_INT, step % n, comm));
        good = rc || in[count - 1] == step % n + count - 1 + step;
        break;
    case 2:
        rc = CALL(MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, comm));
        for (int i = 0; !rc && i < n * count; i++)
            good = good && out[i] == i / count + me * count + i % count + step;
        break;
    case 3:
        rc = CALL(MPI_Iallreduce(in, out, count, MPI_INT, MPI_MAX, comm, &r));
        if (!rc)
            rc = CALL(MPI_Wait(&r, MPI_STATUS_IGNORE));
        good = rc || out[0] == n - 1 + step;
        break;
    case 4:
        rc = CALL(MPI_Barrier(comm));
        break;
    default:
        rc = CALL(MPI_Sendrecv(in, count, MPI_INT, (me + 1) % n, 1, out, count, MPI_INT,
                               (me + n - 1) % n, 1, comm, MPI_STATUS_IGNORE));
        good = rc || out[0] == (me + n - 1) % n + step;
    }
    CHECK_MSG(good, "rank %d of %d, step %d: wrong value", me, n, step);
    return rc;
}

static void mend(int *n, int *me)
{
    MPI_Comm fresh = MPI_COMM_NULL;
    MPI_Group all, failed_group;
    int flag = 0, before = *n, ndead;
    OK(CALL(MPIX_Comm_revoke(comm)));
    OK(MPIX_Comm_is_revoked(comm, &flag));
    CHECK(flag);
    if (*n % 2) {
        OK(CALL(MPIX_Comm_shrink(comm, &fresh)));
    } else {
        MPI_Request r = MPI_REQUEST_NULL;
        OK(CALL(MPIX_Comm_ishrink(comm, &fresh, &r)));
        OK(CALL(MPI_Wait(&r, MPI_STATUS_IGNORE)));
    }
    if (fresh == MPI_COMM_NULL)
        exit(1);
    OK(MPIX_Comm_get_failed(comm, &failed_group));
    MPI_Group_size(failed_group, &ndead);
    if (failed_group != MPI_GROUP_EMPTY)
        MPI_Group_free(&failed_group);
    OK(MPI_Comm_free(&comm));
    comm = fresh;
    MPI_Comm_size(comm, n);
    MPI_Comm_rank(comm, me);
    CHECK(*n < before && *n >= before - ndead);
    MPI_Comm_group(comm, &all); /* in the order of before */
    int ranks[64], world[64];
    MPI_Group w;
    MPI_Comm_group(MPI_COMM_WORLD, &w);
    for (int i = 0; i < *n; i++)
        ranks[i] = i;
    MPI_Group_translate_ranks(all, *n, ranks, w, world);
    for (int i = 1; i < *n; i++)
        CHECK(world[i - 1] < world[i]);
    MPI_Group_free(&all);
    MPI_Group_free(&w);
}

int main(int argc, char **argv)
{
    int n, me, flag, rc, nmended = 0;
    ft_init(argc, argv);
    survivor = ft_has(argc, argv, "low") ? mt_size - 1 : 0;
    kills = ft_has(argc, argv, "kill");
    first = number(argc, argv, "at", 1);
    spacing = number(argc, argv, "step", 5);
    pids[mt_rank] = getpid();
    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, pids, sizeof pids[0], MPI_BYTE,
                     MPI_COMM_WORLD));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    n = mt_size;
    me = mt_rank;
    for (int step = 0; step < STEPS || n > 1; step++) {
        bool good = !failed(work(step, n, me));
        flag = good ? ~0 : 0;
        if (step % 2) {
            MPI_Request r = MPI_REQUEST_NULL;
            OK(CALL(MPIX_Comm_iagree(comm, &flag, &r)));
            rc = CALL(MPI_Wait(&r, MPI_STATUS_IGNORE));
        } else {
            rc = CALL(MPIX_Comm_agree(comm, &flag));
        }
        if (step == 0 && mt_rank == survivor && ft_has(argc, argv, "talks"))
            printf("# all ranks have their communicator\n"), fflush(stdout);
        if (!failed(rc) && flag)
            continue;
        mend(&n, &me);
        nmended++;
        step--; /* again */
    }
    CHECK(n == 1 && mt_rank == survivor && nmended > 0);
    MPI_Comm_free(&comm);
    printf("%sok 1 - %d ranks, one after the other\n1..1\n", check_failed_case ? "not " : "",
           mt_size);
    fflush(stdout);
    MPI_Finalize();
    return check_failed_case;
}
