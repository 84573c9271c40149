/* SPDX-License-Identifier: BSD-3-Clause */
/* A process of another job does its part of a collective, leaves MPI and ends, while the others are
 * still in the collective: rank 0 waits for the last rank of its own job, which begins the call
 * only after that end.  That is no death: the call succeeds.  If the process ends without taking
 * part, the call fails on all ranks that wait.  The program is also the child. */
#include <errno.h>
#include <string.h>
#include "test/mpi/dyn_path.h"

/* The child needs no other rank than rank 0 in these calls.  END_MS bounds the wait for its end,
 * WAIT_MS is what rank 0 gets to notice that end while it waits. */
enum { GATHER, REDUCE, ABSENT, LENGTHS = 3, LONGEST = 100000, END_MS = 10000, WAIT_MS = 200 };
static const int lengths[LENGTHS] = { 1, 500, LONGEST }; /* ints: a line, a cell, blocks */

static MPI_Comm inter, merged;
static int me, all, *in, *out;

static void meet(bool child)
{
    OK(MPI_Intercomm_merge(inter, child, &merged));
    OK(MPI_Comm_set_errhandler(merged, MPI_ERRORS_RETURN));
    OK(MPI_Comm_rank(merged, &me));
    OK(MPI_Comm_size(merged, &all));
    in = malloc(LONGEST * sizeof *in);
    out = malloc((size_t)all * LONGEST * sizeof *out);
}

static void part(void)
{
    free(in);
    free(out);
    OK(MPI_Comm_free(&merged));
    OK(MPI_Comm_disconnect(&inter));
}

static void in_vain(void)
{
    int x = 1, sum;
    CHECK(MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, merged) != MPI_SUCCESS);
}

static void call(int kind, int n)
{
    int wrong = 0;
    for (int i = 0; i < n; i++)
        in[i] = me * n + i;
    if (kind == GATHER)
        OK(MPI_Gather(in, n, MPI_INT, out, n, MPI_INT, 0, merged));
    else
        OK(MPI_Reduce(in, out, n, MPI_INT, MPI_SUM, 0, merged));
    for (int i = 0; i < all * n && me == 0 && kind == GATHER; i++)
        wrong += out[i] != i;
    for (int i = 0; i < n && me == 0 && kind == REDUCE; i++)
        wrong += out[i] != n * (all * (all - 1) / 2) + all * i;
    CHECK_EQ(wrong, 0);
}

/* On the last rank of the first job. */
static void until_child_has_ended(void)
{
    int pid = 0, ms = 0;
    OK(MPI_Recv(&pid, 1, MPI_INT, all - 1, 1, merged, MPI_STATUS_IGNORE));
    while (kill(pid, 0) == 0 && ms++ < END_MS)
        mt_sleep_ms(1);
    CHECK_MSG(kill(pid, 0) < 0 && errno == ESRCH, "the child waits in its collective");
    mt_sleep_ms(WAIT_MS);
}

static void left(int kind, int n)
{
    char path[4096], kinds[12], length[12], *argv[] = { kinds, length, NULL };
    mt_program(path, sizeof path);
    snprintf(kinds, sizeof kinds, "%d", kind);
    snprintf(length, sizeof length, "%d", n);
    OK(MPI_Comm_spawn(path, argv, 1, MPI_INFO_NULL, 0, mt_comm, &inter, MPI_ERRCODES_IGNORE));
    meet(false);
    if (me == all - 2)
        until_child_has_ended();
    if (kind == ABSENT)
        in_vain();
    else
        call(kind, n);
    part();
}

static void gathers(void)
{
    for (int i = 0; i < LENGTHS; i++)
        left(GATHER, lengths[i]);
}

static void reductions(void)
{
    for (int i = 0; i < LENGTHS - !shm_is_on(); i++) /* by messages, all share a long reduction */
        left(REDUCE, lengths[i]);
}

static void absences(void) { left(ABSENT, 1); }

static int child(char **argv)
{
    int pid = getpid();
    MPI_Init(NULL, NULL);
    OK(MPI_Comm_get_parent(&inter));
    meet(true);
    OK(MPI_Send(&pid, 1, MPI_INT, all - 2, 1, merged));
    if (atoi(argv[1]) != ABSENT)
        call(atoi(argv[1]), atoi(argv[2]));
    part();
    MPI_Finalize();
    return check_failed_case;
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return child(argv);
    mt_init(argc, argv);
    MT_RUN(gathers);
    MT_RUN(reductions);
    MT_RUN(absences);
    return mt_end();
}
