/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: ranks of a spawned job die, then all of one; the job that has spawned them, and is
 * connected to them, continues, spawns others and works with these.  Then a rank of the first job
 * dies, and the spawned one continues.  Ranks 0 of both jobs live. */
#include "test/mpi/dyn_start.h"
#include "test/mpi/ft_test.h"

#define TAG 5
#define NCHILDREN 2

enum { ALL_DIE, ONE_DIES, PARENT_DIES };

static MPI_Comm start(int what)
{
    static const char *const word[] = { "all", "one", "parent" };
    char arg[16];
    char *args[] = { arg, NULL };
    MPI_Comm c;
    snprintf(arg, sizeof arg, "%s", word[what]);
    OK(MPI_Comm_spawn(start_program, args, NCHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c,
                      MPI_ERRCODES_IGNORE));
    OK(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN));
    OK(MPI_Barrier(c));
    return c;
}

/* The n dead members are in the list in the end. */
static void await_failed(MPI_Comm c, int n)
{
    MPI_Group g;
    int flag;
    for (int size = 0; size < n && !check_failed_case;) {
        OK(MPIX_Comm_get_failed(c, &g));
        MPI_Group_size(g, &size);
        MPI_Group_free(&g);
        MPI_Iprobe(MPI_ANY_SOURCE, TAG + 1, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    }
}

/* The living members of both groups have a communicator that works. */
static void check_rest(MPI_Comm inter, int high, int n)
{
    MPI_Comm rest, all;
    int one = 1, sum = 0;
    OK(MPIX_Comm_shrink(inter, &rest));
    OK(MPI_Intercomm_merge(rest, high, &all));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all));
    CHECK_MSG(sum == n, "%d ranks are left, expected %d", sum, n);
    OK(MPI_Comm_free(&all));
    OK(MPI_Comm_free(&rest));
}

static int child(MPI_Comm parent, const char *what)
{
    int nparents, v;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    MPI_Comm_remote_size(parent, &nparents);
    OK(MPI_Barrier(parent));
    if (!strcmp(what, "all") || (!strcmp(what, "one") && mt_rank == NCHILDREN - 1))
        ft_die();
    if (!strcmp(what, "one")) {
        FAILS(MPI_Recv(&v, 1, MPI_INT, NCHILDREN - 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              MPIX_ERR_PROC_FAILED);
        check_rest(parent, 1, nparents + NCHILDREN - 1);
    } else {
        FAILS(MPI_Recv(&v, 1, MPI_INT, nparents - 1, TAG, parent, MPI_STATUS_IGNORE),
              MPIX_ERR_PROC_FAILED);
        check_rest(parent, 1, nparents - 1 + NCHILDREN);
    }
    MPI_Comm_free(&parent);
    MPI_Finalize();
    return check_failed_case;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, c;
    int v, alive[64];
    find_program(argv[0]);
    ft_init(argc, argv);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL)
        return child(parent, argv[argc - 1]);

    c = start(ALL_DIE);
    for (int i = 0; i < NCHILDREN; i++)
        FAILS(MPI_Recv(&v, 1, MPI_INT, i, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    await_failed(c, NCHILDREN);
    OK(MPI_Comm_free(&c));
    OK(MPI_Barrier(MPI_COMM_WORLD));

    c = start(ONE_DIES);
    FAILS(MPI_Recv(&v, 1, MPI_INT, NCHILDREN - 1, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    check_rest(c, 0, mt_size + NCHILDREN - 1);
    OK(MPI_Comm_free(&c));

    c = start(PARENT_DIES);
    if (mt_rank == mt_size - 1)
        ft_die();
    FAILS(MPI_Recv(&v, 1, MPI_INT, mt_size - 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          MPIX_ERR_PROC_FAILED);
    check_rest(c, 0, mt_size - 1 + NCHILDREN);
    OK(MPI_Comm_free(&c));
    for (int i = 0; i < mt_size - 1; i++)
        alive[i] = i;
    return ft_end("spawned jobs and deaths", 0, alive, mt_size - 1);
}
