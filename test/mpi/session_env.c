/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of a process that has sessions only (MPI-5.0 chapters 9, 10 and 11): error
 * handlers, what a session reports about itself, calls that the world model alone has.  Run with
 * WEFT_INITIAL_ERRHANDLER=mpi_errors_return, so that errors which belong to no object return. */
#include "test/mpi/session.h"

static MPI_Session session;
static MPI_Comm comm;
static int called, last_code;
static MPI_Session last_session;
static MPI_Comm last_comm;

static void on_session(MPI_Session *s, int *code, ...)
{
    called++;
    last_session = *s;
    last_code = *code;
}

static void on_comm(MPI_Comm *c, int *code, ...)
{
    called++;
    last_comm = *c;
    last_code = *code;
}

static void value_of(MPI_Info info, const char *key, char *text, int len)
{
    int flag = 0;
    text[0] = '\0';
    OK(MPI_Info_get_string(info, key, &len, text, &flag));
    CHECK_MSG(flag, "no key %s", key);
}

/* Before anything is open; MPI_Session_create_errhandler is allowed then. */
static void nothing_open(void)
{
    MPI_Errhandler eh;
    MPI_Info info, bad;
    MPI_Session s = MPI_SESSION_NULL;
    int x;
    char text[256];
    FAILS(MPI_Type_commit(&(MPI_Datatype){ MPI_INT }), MPI_ERR_OTHER);
    FAILS(MPI_Comm_rank(MPI_COMM_WORLD, &x), MPI_ERR_OTHER);
    OK(MPI_Session_create_errhandler(on_session, &eh));
    OK(MPI_Info_create(&bad));
    OK(MPI_Info_set(bad, "thread_level", "MPI_THREAD_SOME"));
    called = 0;
    FAILS(MPI_Session_init(bad, eh, &s), MPI_ERR_INFO_VALUE);
    CHECK_EQ(called, 1); /* the handler that the call names */
    CHECK(last_session == MPI_SESSION_NULL);
    CHECK_EQ(last_code, MPI_ERR_INFO_VALUE);
    OK(MPI_Info_free(&bad));
    OK(MPI_Errhandler_free(&eh));
    FAILS(MPI_Comm_create_errhandler(on_comm, &eh), MPI_ERR_OTHER);
    FAILS(MPI_Session_finalize(&s), MPI_ERR_OTHER);
    value_of(MPI_INFO_ENV, "command", text, sizeof text);
    CHECK(strstr(text, "session_env"));
    value_of(MPI_INFO_ENV, "mpi_initial_errhandler", text, sizeof text);
    CHECK_STR(text, "mpi_errors_return");
    value_of(MPI_INFO_ENV, "wdir", text, sizeof text);
    OK(MPI_Info_create_env(2, (char *[]){ "a", "b" }, &info));
    value_of(info, "argv", text, sizeof text);
    CHECK_STR(text, "b");
    OK(MPI_Info_free(&info));
}

static void facts(void)
{
    MPI_Info ask, info;
    MPI_Session s = MPI_SESSION_NULL;
    char text[256];
    OK(MPI_Info_create(&ask));
    OK(MPI_Info_set(ask, "thread_level", "MPI_THREAD_FUNNELED"));
    OK(MPI_Info_set(ask, "mpi_memory_alloc_kinds", "level_zero, mpi:alloc_mem,system,rocm:device"));
    OK(MPI_Session_init(ask, MPI_ERRORS_RETURN, &s));
    OK(MPI_Session_get_info(s, &info));
    value_of(info, "thread_level", text, sizeof text);
    CHECK_STR(text, "MPI_THREAD_FUNNELED");
    value_of(info, "mpi_memory_alloc_kinds", text, sizeof text);
    CHECK_STR(text, "mpi:alloc_mem,system,mpi"); /* of those asked for, and always the two */
    OK(MPI_Info_free(&info));
    OK(MPI_Info_free(&ask));
    MPI_Comm c = st_comm(s, "mpi://SELF", "facts");
    OK(MPI_Comm_get_info(c, &info));
    value_of(info, "mpi_memory_alloc_kinds", text, sizeof text);
    CHECK_STR(text, "mpi:alloc_mem,system,mpi");
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&c));
    OK(MPI_Session_finalize(&s));
    OK(MPI_Session_get_info(session, &info));
    value_of(info, "thread_level", text, sizeof text);
    CHECK_STR(text, "MPI_THREAD_MULTIPLE"); /* the default */
    OK(MPI_Info_free(&info));
}

static void handlers_of_sessions(void)
{
    MPI_Errhandler eh, other, got;
    MPI_Session s;
    int n;
    OK(MPI_Session_create_errhandler(on_session, &eh));
    OK(MPI_Comm_create_errhandler(on_comm, &other));
    OK(MPI_Session_init(MPI_INFO_NULL, eh, &s));
    OK(MPI_Session_get_errhandler(s, &got));
    CHECK(got == eh);
    OK(MPI_Errhandler_free(&got));
    called = 0;
    FAILS(MPI_Session_get_num_psets(s, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    CHECK_EQ(called, 1);
    CHECK(last_session == s);
    OK(MPI_Session_call_errhandler(s, MPI_ERR_RANK));
    CHECK_EQ(called, 2);
    CHECK_EQ(last_code, MPI_ERR_RANK);
    FAILS(MPI_Session_set_errhandler(s, other), MPI_ERR_ARG);
    CHECK_EQ(called, 3);
    OK(MPI_Session_set_errhandler(s, MPI_ERRORS_RETURN));
    FAILS(MPI_Session_get_num_psets(s, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    CHECK_EQ(called, 3);
    FAILS(MPI_Session_init(MPI_INFO_NULL, other, &s), MPI_ERR_ARG);
    OK(MPI_Session_set_errhandler(s, eh));
    OK(MPI_Errhandler_free(&eh)); /* the session keeps it */
    OK(MPI_Session_call_errhandler(s, MPI_ERR_TAG));
    CHECK_EQ(last_code, MPI_ERR_TAG);
    MPI_Session stale = s;
    OK(MPI_Session_finalize(&s));
    FAILS(MPI_Session_get_num_psets(stale, MPI_INFO_NULL, &n), MPI_ERR_SESSION);
    FAILS(MPI_Session_finalize(&stale), MPI_ERR_SESSION);
    OK(MPI_Errhandler_free(&other));
}

static void handlers_of_communicators(void)
{
    MPI_Errhandler eh, session_eh;
    MPI_Group g;
    MPI_Comm c = MPI_COMM_NULL;
    int x;
    OK(MPI_Comm_create_errhandler(on_comm, &eh));
    OK(MPI_Session_create_errhandler(on_session, &session_eh));
    OK(MPI_Group_from_session_pset(session, "mpi://SELF", &g));
    called = 0;
    FAILS(MPI_Comm_create_from_group(g, NULL, MPI_INFO_NULL, eh, &c), MPI_ERR_ARG);
    CHECK_EQ(called, 1);
    CHECK(last_comm == MPI_COMM_NULL);
    FAILS(MPI_Comm_create_from_group(g, "h", MPI_INFO_NULL, session_eh, &c), MPI_ERR_ARG);
    OK(MPI_Comm_create_from_group(g, "h", MPI_INFO_NULL, eh, &c));
    called = 0;
    FAILS(MPI_Send(&x, 1, MPI_INT, 99, 0, c), MPI_ERR_RANK);
    CHECK_EQ(called, 1);
    CHECK(last_comm == c);
    /* An error of a request belongs to its communicator, which is of no world. */
    MPI_Request q;
    int two[2] = { 1, 2 };
    OK(MPI_Irecv(&x, 1, MPI_INT, 0, 4, c, &q));
    OK(MPI_Send(two, 2, MPI_INT, 0, 4, c));
    called = 0;
    FAILS(MPI_Wait(&q, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK_EQ(called, 1);
    CHECK(last_comm == c);
    OK(MPI_Comm_free(&c));
    OK(MPI_Group_free(&g));
    OK(MPI_Errhandler_free(&eh));
    OK(MPI_Errhandler_free(&session_eh));
}

/* Errors without an object go to the initial handler, which returns here. */
static void no_object(void)
{
    MPI_Datatype t = MPI_DATATYPE_NULL;
    MPI_Request q = (MPI_Request)0x12345678;
    int x, flag;
    MPI_Comm c;
    called = 0;
    FAILS(MPI_Type_commit(&t), MPI_ERR_TYPE);
    FAILS(MPI_Wait(&q, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    FAILS(MPI_Comm_rank(MPI_COMM_WORLD, &x), MPI_ERR_COMM);
    FAILS(MPI_Send(&x, 1, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_COMM);
    FAILS(MPI_Query_thread(&x), MPI_ERR_OTHER);
    FAILS(MPI_Is_thread_main(&flag), MPI_ERR_OTHER);
    FAILS(MPI_Comm_get_parent(&c), MPI_ERR_OTHER);
    FAILS(MPI_Finalize(), MPI_ERR_OTHER);
    CHECK_EQ(called, 0);
}

/* Requests, types, operations and memory need no world. */
static void without_world(void)
{
    MPI_Datatype t;
    MPI_Request q[2];
    int n, r, out[2] = { 3, 4 }, in[2] = { 0, 0 }, *mem = NULL;
    OK(MPI_Comm_size(comm, &n));
    OK(MPI_Comm_rank(comm, &r));
    OK(MPI_Type_contiguous(2, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Recv_init(in, 1, t, (r + n - 1) % n, 2, comm, &q[0]));
    OK(MPI_Send_init(out, 1, t, (r + 1) % n, 2, comm, &q[1]));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Startall(2, q));
        OK(MPI_Waitall(2, q, MPI_STATUSES_IGNORE));
    }
    CHECK(in[0] == 3 && in[1] == 4);
    OK(MPI_Request_free(&q[0]));
    OK(MPI_Request_free(&q[1]));
    OK(MPI_Type_free(&t));
    OK(MPI_Alloc_mem(100 * sizeof(int), MPI_INFO_NULL, &mem));
    for (int i = 0; i < 100; i++)
        mem[i] = i;
    OK(MPI_Ibcast(mem, 100, MPI_INT, 0, comm, &q[0]));
    OK(MPI_Wait(&q[0], MPI_STATUS_IGNORE));
    CHECK_EQ(mem[99], 99);
    OK(MPI_Free_mem(mem));
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    OK(MPI_Bsend(out, 2, MPI_INT, (r + 1) % n, 8, comm));
    OK(MPI_Recv(in, 2, MPI_INT, MPI_ANY_SOURCE, 8, comm, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&mem, &n));
}

int main(void)
{
    st_begin();
    ST_RUN(nothing_open);
    session = st_open();
    comm = st_comm(session, "mpi://WORLD", "env");
    ST_RUN(facts);
    ST_RUN(handlers_of_sessions);
    ST_RUN(handlers_of_communicators);
    ST_RUN(no_object);
    ST_RUN(without_world);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    ST_RUN(nothing_open);
    return st_end();
}
