/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that fault_stdio.py starts: prints a line that stays in the buffer of stdout, and
 * ends as the first argument says, while stdout is in the state that the second one names. */
#include <mpi.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sem_t locked;

static void at_exit(void)
{
    static const char text[] = "a handler of atexit() ran\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(9);
}

static void *hold(void *arg)
{
    flockfile(stdout);
    sem_post(&locked);
    for (;;)
        pause();
    return arg;
}

/* Another thread holds the lock of the stream. */
static void lock_stdout(void)
{
    pthread_t t;
    sem_init(&locked, 0, 0);
    pthread_create(&t, NULL, hold, NULL);
    sem_wait(&locked);
}

/* A pipe that has no room, or no reader. */
static void into_pipe(int full)
{
    char fill[4096] = "";
    int end[2];
    if (pipe(end) < 0)
        exit(9);
    fcntl(end[1], F_SETFL, O_NONBLOCK);
    while (full && write(end[1], fill, sizeof fill) > 0)
        ;
    fcntl(end[1], F_SETFL, 0);
    dup2(end[1], STDOUT_FILENO);
    if (!full)
        close(end[0]);
}

int main(int argc, char **argv)
{
    const char *end = argc > 1 ? argv[1] : "", *state = argc > 2 ? argv[2] : "";
    MPI_Session s;
    int provided;

    setvbuf(stdout, NULL, _IOFBF, 65536);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ABORT, &s);
    atexit(at_exit);
    if (!strcmp(state, "full") || !strcmp(state, "closed"))
        into_pipe(!strcmp(state, "full"));
    printf("the last words\n");
    if (!strcmp(state, "locked"))
        lock_stdout();
    if (!strcmp(end, "abort"))
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (!strcmp(end, "fatal"))
        MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    if (!strcmp(end, "session"))
        MPI_Session_get_num_psets(s, MPI_INFO_NULL, NULL);
    return 1;
}
