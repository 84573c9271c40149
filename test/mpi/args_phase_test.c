/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls before MPI_Init and after MPI_Finalize: those that the standard allows work, any other
 * ends the process with a message that names the call; and the procedures that the generator
 * writes completely.  Each forbidden call runs in a child of its own, because its error handler is
 * fatal. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "test/check.h"

static int out, flag;
static char text[MPI_MAX_LIBRARY_VERSION_STRING];

static void call_rank(void) { MPI_Comm_rank(MPI_COMM_WORLD, &out); }
static void call_send(void) { MPI_Send(&out, 1, MPI_INT, 0, 0, MPI_COMM_SELF); }
static void call_wait(void)
{
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}
static void call_commit(void)
{
    MPI_Datatype t = MPI_INT;
    MPI_Type_commit(&t);
}
static void call_barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void call_finalize(void) { MPI_Finalize(); }
static void call_query(void) { MPI_Query_thread(&out); }
static void call_alloc(void)
{
    void *p;
    MPI_Alloc_mem(8, MPI_INFO_NULL, &p);
}
static void call_session(void)
{
    MPI_Session s = MPI_SESSION_NULL;
    MPI_Session_finalize(&s);
}
static void call_errhandler(void)
{
    MPI_Errhandler eh;
    MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)(void (*)(void))call_query, &eh);
}

static const struct {
    const char *name;
    void (*call)(void);
} forbidden[] = {
    { "MPI_Comm_rank", call_rank },
    { "MPI_Send", call_send },
    { "MPI_Wait", call_wait },
    { "MPI_Type_commit", call_commit },
    { "MPI_Barrier", call_barrier },
    { "MPI_Finalize", call_finalize },
    { "MPI_Alloc_mem", call_alloc },
    { "MPI_Session_finalize", call_session },
    { "MPI_Comm_create_errhandler", call_errhandler },
};

/* What a process with sessions alone must not do, and how that is reported. */
static const struct {
    const char *name, *why;
    void (*call)(void);
} without_world[] = {
    { "MPI_Comm_rank", "exists from MPI_Init to MPI_Finalize only", call_rank },
    { "MPI_Send", "exists from MPI_Init to MPI_Finalize only", call_send },
    { "MPI_Query_thread", "about the world model", call_query },
    { "MPI_Finalize", "MPI_ERR_OTHER", call_finalize },
    { "MPI_Alloc_mem", NULL, call_alloc }, /* allowed */
};

/* Makes the i-th of these calls in this process, which exec_call() has started, because a child of
 * fork() may not use MPI.  `when`: "before" MPI_Init, or "after" MPI_Finalize. */
static int call_with_session(const char *when, const char *i)
{
    MPI_Session s = MPI_SESSION_NULL;
    if (!strcmp(when, "after")) {
        MPI_Init(NULL, NULL);
        MPI_Finalize();
    }
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s);
    without_world[atoi(i)].call();
    return 0;
}

static const char *phase = "before";
static unsigned chosen;
static void exec_call(void)
{
    char i[16];
    snprintf(i, sizeof i, "%u", chosen);
    execl("/proc/self/exe", "args_phase_test", phase, i, (char *)NULL);
    _exit(127);
}

/* Runs `call` in a child.  Returns its wait status; `said` gets its stderr. */
static int in_child(void (*call)(void), char *said, size_t nbytes)
{
    int fd[2], status = -1;
    if (pipe(fd) != 0)
        return -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(fd[1], STDERR_FILENO);
        call();
        _exit(0);
    }
    close(fd[1]);
    size_t len = 0;
    for (ssize_t n; len < nbytes - 1 && (n = read(fd[0], said + len, nbytes - 1 - len)) > 0;)
        len += (size_t)n;
    said[len] = '\0';
    close(fd[0]);
    waitpid(child, &status, 0);
    return status;
}

static void all_forbidden(const char *when)
{
    for (unsigned i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++) {
        char said[4096];
        int status = in_child(forbidden[i].call, said, sizeof said);
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) != 0, "%s %s: wait status %#x",
                  forbidden[i].name, when, (unsigned)status);
        CHECK_MSG(strstr(said, forbidden[i].name) && strstr(said, when), "%s %s: said \"%s\"",
                  forbidden[i].name, when, said);
    }
}

/* A session makes the library usable, not the world model. */
static void session_only(void)
{
    MPI_Session s = MPI_SESSION_NULL;
    MPI_Errhandler eh;
    CHECK_EQ(MPI_Session_create_errhandler(
                 (MPI_Session_errhandler_function *)(void (*)(void))call_query, &eh),
             MPI_SUCCESS);
    CHECK_EQ(MPI_Errhandler_free(&eh), MPI_SUCCESS);
    CHECK_EQ(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s), MPI_SUCCESS);
    for (unsigned i = 0; i < sizeof without_world / sizeof without_world[0]; i++) {
        char said[4096];
        chosen = i;
        int status = in_child(exec_call, said, sizeof said);
        if (!without_world[i].why) {
            CHECK_EQ(status, 0);
            continue;
        }
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) != 0, "%s: wait status %#x",
                  without_world[i].name, (unsigned)status);
        CHECK_MSG(strstr(said, without_world[i].name) && strstr(said, without_world[i].why),
                  "%s: said \"%s\"", without_world[i].name, said);
    }
    int flag_a = -1, flag_b = -1;
    CHECK_EQ(MPI_Initialized(&flag_a), MPI_SUCCESS);
    CHECK_EQ(MPI_Session_finalize(&s), MPI_SUCCESS);
    CHECK_EQ(MPI_Initialized(&flag_b), MPI_SUCCESS);
    CHECK_EQ(flag_a, flag_b);
}

static void all_allowed(void)
{
    int version, subversion;
    CHECK_EQ(MPI_Get_version(&version, &subversion), MPI_SUCCESS);
    CHECK_EQ(version, MPI_VERSION);
    CHECK_EQ(MPI_Abi_get_version(&version, &subversion), MPI_SUCCESS);
    CHECK_EQ(version, 1);
    CHECK_EQ(MPI_Get_library_version(text, &out), MPI_SUCCESS);
    CHECK_EQ(out, strlen(text));
    CHECK_EQ(MPI_Error_class(MPI_ERR_RANK, &out), MPI_SUCCESS);
    CHECK_EQ(out, MPI_ERR_RANK);
    CHECK_EQ(MPI_Error_string(MPI_ERR_RANK, text, &out), MPI_SUCCESS);

    MPI_Info info;
    CHECK_EQ(MPI_Info_create(&info), MPI_SUCCESS);
    CHECK_EQ(MPI_Info_set(info, "key", "value"), MPI_SUCCESS);
    CHECK(MPI_Info_fromint(MPI_Info_toint(info)) == info);
    CHECK(MPI_Info_toint(info) > 4095);
    CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
    CHECK(info == MPI_INFO_NULL);
    CHECK(MPI_Wtime() >= 0);
    CHECK(MPI_Wtick() > 0);
}

static void before_init(void)
{
    all_allowed();
    CHECK_EQ(MPI_Initialized(&flag), MPI_SUCCESS);
    CHECK_EQ(flag, 0);
    all_forbidden("before MPI_Init");
}

static void after_finalize(void)
{
    all_allowed();
    CHECK_EQ(MPI_Finalized(&flag), MPI_SUCCESS);
    CHECK_EQ(flag, 1);
    all_forbidden("after MPI_Finalize");
}

/* Predefined handles are their ABI values in both directions, whatever the state of the library. */
static void handles_as_integers(void)
{
    CHECK_EQ(MPI_Comm_toint(MPI_COMM_WORLD), 0x101);
    CHECK(MPI_Comm_fromint(0x101) == MPI_COMM_WORLD);
    CHECK(MPI_Group_fromint(MPI_Group_toint(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
    CHECK(MPI_Op_fromint(MPI_Op_toint(MPI_MAXLOC)) == MPI_MAXLOC);
    CHECK(MPI_Errhandler_fromint(0x143) == MPI_ERRORS_RETURN);
    CHECK(MPI_Request_fromint(MPI_Request_toint(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
    CHECK(MPI_Message_fromint(MPI_Message_toint(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);
    CHECK(MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL);
    CHECK(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL);
    CHECK(MPI_Session_fromint(MPI_Session_toint(MPI_SESSION_NULL)) == MPI_SESSION_NULL);
}

static void addresses(void)
{
    char a[16] = "";
    MPI_Aint low, high;
    MPI_Get_address(&a[2], &low);
    MPI_Get_address(&a[9], &high);
    CHECK_EQ(MPI_Aint_diff(high, low), 7);
    CHECK_EQ(MPI_Aint_diff(low, high), -7);
    CHECK_EQ(MPI_Aint_add(low, 7), high);
    CHECK_EQ(MPI_Aint_add(high, -7), low);
}

/* Handles of objects are the same after conversion to an int and back. */
static void live_handles(void)
{
    MPI_Comm c;
    MPI_Datatype t;
    CHECK_EQ(MPI_Comm_dup(MPI_COMM_SELF, &c), MPI_SUCCESS);
    CHECK_EQ(MPI_Type_contiguous(2, MPI_INT, &t), MPI_SUCCESS);
    CHECK(MPI_Comm_toint(c) > 4095);
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(c)) == c);
    CHECK(MPI_Type_fromint(MPI_Type_toint(t)) == t);
    CHECK(MPI_Type_toint(t) != MPI_Comm_toint(c));
    MPI_Type_free(&t);
    MPI_Comm_free(&c);
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return call_with_session(argv[1], argv[2]);
    RUN(before_init);
    RUN(session_only);
    RUN(before_init);
    RUN(handles_as_integers);
    MPI_Init(&argc, &argv);
    RUN(addresses);
    RUN(live_handles);
    MPI_Finalize();
    RUN(after_finalize);
    phase = "after";
    RUN(session_only);
    RUN(after_finalize);
    RUN(handles_as_integers);
    return check_end();
}
