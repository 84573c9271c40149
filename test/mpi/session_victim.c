/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that session_fault.py starts: a job of sessions that goes wrong in one way, named by
 * the first argument.  It prints nothing itself. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static MPI_Session session;
static MPI_Comm comm;
static int rank, size;

static void begin(void)
{
    MPI_Group g;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &g);
    MPI_Comm_create_from_group(g, "victim", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&g);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
}

static void end(void)
{
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
}

/* A large message on its way without a receive: finalizing waits for rank 1. */
static void leave_message(void)
{
    static char big[4 << 20];
    MPI_Request q;
    if (rank == 0) {
        MPI_Isend(big, sizeof big, MPI_CHAR, 1, 1, comm, &q);
        MPI_Request_free(&q);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int x = 0;
    begin();
    if (!strcmp(mode, "leave") && rank == 1)
        exit(0);
    if (!strcmp(mode, "again")) {
        end();
        begin();
        if (rank == 1)
            exit(0);
    }
    if (!strcmp(mode, "die")) {
        leave_message();
        if (rank == 1) {
            usleep(100000);
            kill(getpid(), SIGKILL);
        }
    }
    if (!strcmp(mode, "abort") && rank == 1)
        MPI_Abort(comm, 9);
    if (!strcmp(mode, "world"))
        MPI_Comm_rank(MPI_COMM_WORLD, &x);
    if (!strcmp(mode, "fatal") && rank == 1)
        MPI_Session_get_num_psets(session, MPI_INFO_NULL, NULL);
    if (!strcmp(mode, "local") && rank == 1) {
        MPI_Session_set_errhandler(session, MPI_ERRORS_ABORT);
        MPI_Session_get_num_psets(session, MPI_INFO_NULL, NULL);
    }
    if (!strcmp(mode, "leak"))
        return MPI_Session_finalize(&session);
    if (!strcmp(mode, "leave") || !strcmp(mode, "again") || !strcmp(mode, "abort"))
        MPI_Recv(&x, 1, MPI_INT, 1, 5, comm, MPI_STATUS_IGNORE);
    end();
    return 0;
}
