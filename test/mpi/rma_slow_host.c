/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes leave MPI right after MPI_Win_free, while the process that passes its last barrier on
 * to another one is slow: no process has died, and MPI_Win_free succeeds everywhere. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

static void be_slow(int sig)
{
    (void)sig;
    nanosleep(&(struct timespec){ .tv_nsec = 48000000 }, NULL);
}

int main(int argc, char **argv)
{
    static int memory[4];
    MPI_Win win;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_create(memory, sizeof memory, sizeof memory[0], MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int to = 0; to < 5 && rank > 1; to++) { /* connects to all */
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
        MPI_Accumulate(&rank, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win);
        MPI_Win_unlock(to, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        struct itimerval often = { { 0, 50000 }, { 0, 100 } };
        signal(SIGALRM, be_slow);
        setitimer(ITIMER_REAL, &often, NULL);
    }
    MPI_Win_free(&win);
    MPI_Finalize();
    if (rank == 0)
        printf("1..1\nok 1 - no process has died\n");
    return 0;
}
