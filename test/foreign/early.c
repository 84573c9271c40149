/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of a foreign ABI that calls a procedure before MPI_Init ends with the procedure's name.
 * Each call is made in a child, whose stderr is read. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void send(void) { MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD); }
static void size(void)
{
    int n;
    MPI_Comm_size(MPI_COMM_WORLD, &n);
}
static void wait_one(void)
{
    MPI_Request r = MPI_REQUEST_NULL;
    PMPI_Wait(&r, MPI_STATUS_IGNORE);
}

static const struct {
    void (*call)(void);
    const char *says;
} cases[] = {
    { send, "Weft MPI: MPI_Send was called before MPI_Init or MPI_Session_init\n" },
    { size, "Weft MPI: MPI_Comm_size was called before MPI_Init or MPI_Session_init\n" },
    { wait_one, "Weft MPI: MPI_Wait was called before MPI_Init or MPI_Session_init\n" },
};

static int fails_as(void (*call)(void), const char *says)
{
    char text[256] = "";
    size_t len = 0;
    ssize_t n;
    int ends[2], status;
    if (pipe(ends))
        return 0;
    pid_t child = fork();
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        call();
        _exit(EXIT_SUCCESS);
    }
    close(ends[1]);
    while ((n = read(ends[0], text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE && !strcmp(text, says))
        return 1;
    printf("# status %#x, expected: %s# found: %s\n", (unsigned)status, says, text);
    return 0;
}

int main(void)
{
    int bad = 0, n = (int)(sizeof cases / sizeof *cases);
    setbuf(stdout, NULL); /* the children print nothing that is left here */
    for (int i = 0; i < n; i++) {
        int good = fails_as(cases[i].call, cases[i].says);
        printf("%sok %d - call %d before MPI_Init\n", good ? "" : "not ", i + 1, i + 1);
        bad += !good;
    }
    printf("1..%d\n", n);
    return bad != 0;
}
