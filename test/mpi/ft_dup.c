/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: the last rank dies at some time while all create communicators from the same one
 * again and again.  A call that fails may leave messages; the next calls do not take them for
 * theirs: once all know of the death, no call succeeds in all. */
#include "test/mpi/ft_test.h"

#include <time.h>

#define TURNS 40

static void die_after(int us)
{
    struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
    struct itimerspec t = { .it_value.tv_nsec = us * 1000 + 1 };
    timer_t timer;
    CHECK(!timer_create(CLOCK_MONOTONIC, &e, &timer) && !timer_settime(timer, 0, &t, NULL));
}

int main(int argc, char **argv)
{
    MPI_Comm d;
    int alive[64], flag, known = 0;
    ft_init(argc, argv);
    for (int i = 0; i < mt_size - 1; i++)
        alive[i] = i;
    if (mt_rank == mt_size - 1)
        die_after((int)(getpid() * 2654435761u % 8000)); /* another time in each run */
    for (int turn = 0; turn < TURNS || !known; turn++) {
        d = MPI_COMM_NULL;
        int rc = turn % 2 ? MPI_Comm_dup(MPI_COMM_WORLD, &d)
                          : MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &d);
        flag = rc == MPI_SUCCESS;
        int was = known;
        known = MPIX_Comm_agree(MPI_COMM_WORLD, &flag) == MPIX_ERR_PROC_FAILED;
        CHECK_MSG(!was || (known && !flag), "turn %d: success %d with a dead process", turn, flag);
        if (d != MPI_COMM_NULL)
            OK(MPI_Comm_free(&d));
    }
    return ft_end("creation after a failed creation", 0, alive, mt_size - 1);
}
