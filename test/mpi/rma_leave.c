/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that has left MPI_Win_free may end while another has not looked at the last messages
 * yet: no error for the other.  Rank 1 stops rank 0 when that sleeps in MPI_Win_free, then leaves
 * itself and ends.  A child of rank 1 continues rank 0, later than the interval at which a wait
 * looks for processes that have gone. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL_MS 50 /* LOOK_NS of runtime/mem/deaths.c */

static void fail(const char *what)
{
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The state of a process in /proc: S, sleeps; T, stopped. */
static char state_of(pid_t pid)
{
    char name[64], state = '?';
    snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(name, "r");
    if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        fail(name);
    fclose(f);
    return state;
}

static void until(pid_t pid, char state)
{
    while (state_of(pid) != state)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* Continues `pid` once the parent has ended and a wait of `pid` will look for that. */
static void continue_later(pid_t pid)
{
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        fail("fork");
    if (child)
        return;
    while (getppid() == parent)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    nanosleep(&(struct timespec){ .tv_nsec = 2 * INTERVAL_MS * 1000000 }, NULL);
    kill(pid, SIGCONT);
    _exit(0);
}

int main(int argc, char **argv)
{
    int rank, size, *at, *flag;
    pid_t pid = getpid();
    MPI_Win win, flags;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Bcast(&pid, sizeof pid, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Win_allocate_shared(rank ? 0 : sizeof *flag, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &at, &flags);
    MPI_Win_shared_query(flags, 0, &(MPI_Aint){ 0 }, &(int){ 0 }, &flag);
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &at, &win);
    MPI_Win_fence(0, win);
    if (rank == 0)
        __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    if (rank == 1) {
        until(pid, 'S');
        kill(pid, SIGSTOP);
        until(pid, 'T');
        continue_later(pid);
    }
    MPI_Win_free(&win);
    if (rank == 0)
        printf("ok 1 - window freed\n1..1\n");
    MPI_Finalize();
    return 0;
}
