/* SPDX-License-Identifier: BSD-3-Clause */
/* A child that a rank makes by fork() has the rank's memory and descriptors, but is no rank: each
 * call of MPI ends it with a message, at once, and the rank continues unaffected.  A
 * child that leaves MPI alone may do what it likes. */
#include "test/mpi/mpitest.h"
#include <fcntl.h>
#include <sys/wait.h>

static int byte;

static void call_send(void) { MPI_Send(&byte, 1, MPI_BYTE, mt_rank, 1, MPI_COMM_WORLD); }
static void call_recv(void)
{
    MPI_Recv(&byte, 1, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void call_barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void call_finalize(void) { MPI_Finalize(); }
static void call_init(void) { MPI_Init(NULL, NULL); }
static void call_abort(void) { MPI_Abort(MPI_COMM_WORLD, 3); }
static void call_rank(void) { MPI_Comm_rank(MPI_COMM_WORLD, &byte); }
static void call_session(void)
{
    MPI_Session s;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s);
}
static void call_query(void) { MPI_Query_thread(&byte); }

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {
    { "MPI_Send", call_send },          { "MPI_Recv", call_recv },
    { "MPI_Barrier", call_barrier },    { "MPI_Finalize", call_finalize },
    { "MPI_Init", call_init },          { "MPI_Abort", call_abort },
    { "MPI_Comm_rank", call_rank },     { "MPI_Session_init", call_session },
    { "MPI_Query_thread", call_query },
};

/* Runs fn() in a child: its status as waitpid(2) gives it, and what it wrote to stderr. */
static int in_child(void (*fn)(void), char *text, size_t len)
{
    int fds[2], status = -1;
    ssize_t n = 0, more;
    CHECK_EQ(pipe(fds), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        dup2(fds[1], STDERR_FILENO);
        fn();
        _exit(0);
    }
    close(fds[1]);
    while ((more = read(fds[0], text + n, len - 1 - (size_t)n)) > 0)
        n += more;
    text[n] = '\0';
    close(fds[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    return status;
}

static void the_rank_goes_on(void)
{
    int sum = 0, one = 1, in = -1;
    OK(MPI_Sendrecv(&mt_rank, 1, MPI_INT, (mt_rank + 1) % mt_size, 2, &in, 1, MPI_INT,
                    (mt_rank + mt_size - 1) % mt_size, 2, mt_comm, MPI_STATUS_IGNORE));
    CHECK_EQ(in, (mt_rank + mt_size - 1) % mt_size);
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, mt_comm));
    CHECK_EQ(sum, mt_size);
}

static void calls_end_the_child(void)
{
    char text[4096];
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        int status = in_child(calls[i].call, text, sizeof text);
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 1, "%s in a child: status 0x%x",
                  calls[i].name, status);
        CHECK_MSG(strstr(text, calls[i].name) && strstr(text, "fork()"), "%s in a child wrote: %s",
                  calls[i].name, text);
        the_rank_goes_on();
    }
}

/* Cleans up like an exit handler that finalizes MPI if necessary; in the child there is nothing to
 * finalize. */
static void clean_up(void)
{
    int up = 0, over = 0;
    if (MPI_Initialized(&up) == MPI_SUCCESS && up && MPI_Finalized(&over) == MPI_SUCCESS && !over)
        MPI_Finalize();
    _exit(MPI_Wtime() > 0 ? 7 : 8);
}

static void run_program(void) { execlp("true", "true", (char *)NULL); }

static void children_that_need_no_mpi(void)
{
    char text[4096];
    int status = in_child(clean_up, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK_STR(text, "");
    CHECK_EQ(in_child(run_program, text, sizeof text), 0);
    the_rank_goes_on();
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(calls_end_the_child);
    MT_RUN(children_that_need_no_mpi);
    return mt_end();
}
