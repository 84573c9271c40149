/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrong arguments of every implemented procedure give the standard's error class and a text that
 * names the argument, on MPI_COMM_WORLD and on MPI_COMM_SELF.  Linked with the archives, to read
 * the text and to know what is implemented; run at one and two ranks.  The calls are in
 * args_cases.c, made from the API table. */
#include "test/mpi/args_test.h"
#include "mpi/api/api_table.h"
#include "mpi/base/mpi_int.h"
#include "test/check.h"
#include <unistd.h>

MPI_Comm comm;
MPI_Group group;
MPI_Info info;
MPI_Session session;
MPI_Win win;
MPI_File file;
MPI_Errhandler comm_handler, session_handler;
int size, rank;
_Alignas(16) char buffer[4096], room[4096], text[4096];
MPI_Comm stale_comm;
MPI_Group stale_group;
MPI_Datatype stale_type, uncommitted, absent = MPI_DATATYPE_NULL;
MPI_Info stale_info;
const uintptr_t garbage = 0x7ffe12345678;
const int negative[64] = { -1 };
const MPI_Count negative_large[64] = { -1 };

static int calls, procedures;
static MPI_Request request;
static char said[MPI_MAX_ERROR_STRING]; /* what the error handler of the last call was given */

/* The text of an error is valid only while its handler runs, so the handler copies it. */
static void remember(MPI_Comm *c, int *code, ...)
{
    (void)c;
    (void)code;
    snprintf(said, sizeof said, "%s", wm_err_detail());
}

static void remember_session(MPI_Session *s, int *code, ...)
{
    (void)s;
    remember(NULL, code);
}

static void remember_win(MPI_Win *w, int *code, ...)
{
    (void)w;
    remember(NULL, code);
}

static void remember_file(MPI_File *f, int *code, ...)
{
    (void)f;
    remember(NULL, code);
}

/* Stands for any callback: it is never called, the call that gets it fails before. */
void any_function(void) {}

MPI_Request *request_at(MPI_Request value)
{
    request = value;
    return &request;
}

void args_begin(void)
{
    said[0] = '\0';
    memset(room, 0, sizeof room);
    calls++;
}

void args_expect(int errclass, const char *arg, int got, const char *call)
{
    int found = MPI_SUCCESS;
    if (got != MPI_SUCCESS)
        MPI_Error_class(got, &found);
    CHECK_MSG(found == errclass, "%s: error class %d, expected %d (\"%s\")", call, found, errclass,
              said);
    if (found == errclass && arg[0])
        CHECK_MSG(strstr(said, arg), "%s: \"%s\" does not name %s", call, said, arg);
    else
        CHECK_MSG(said[0], "%s: no text", call);
}

static bool implemented(const char *name)
{
    int n;
    const struct wm_api_entry *e = wm_api_entries(&n);
    for (int i = 0; i < n; i++)
        if (!strcmp(e[i].name, name))
            return e[i].implemented;
    return false;
}

/* An optional datatype that this compiler lacks, if there is one, else the null type. */
static void find_absent(void)
{
    static const MPI_Datatype optional[] = { MPI_REAL2, MPI_COMPLEX4, MPI_INTEGER16, MPI_REAL16,
                                             MPI_COMPLEX32 };
    for (unsigned i = 0; i < sizeof optional / sizeof optional[0]; i++) {
        int nbytes = 0;
        MPI_Type_size(optional[i], &nbytes);
        if (nbytes == MPI_UNDEFINED)
            absent = optional[i];
    }
}

static void make_handlers(void)
{
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(remember, &comm_handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, comm_handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, comm_handler);
    MPI_File_create_errhandler(remember_file, &handler);
    MPI_File_set_errhandler(MPI_FILE_NULL, handler);
    MPI_Errhandler_free(&handler);
    snprintf(text, sizeof text, "/tmp/weft-args-%d", (int)getpid());
    MPI_File_open(MPI_COMM_SELF, text, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                  MPI_INFO_NULL, &file);
    MPI_Session_create_errhandler(remember_session, &session_handler);
    MPI_Session_init(MPI_INFO_NULL, session_handler, &session);
    static int memory;
    MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_create_errhandler(remember_win, &handler);
    MPI_Win_set_errhandler(win, handler);
    MPI_Errhandler_free(&handler);
}

static void make_objects(void)
{
    make_handlers();
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Info_create(&info);
    MPI_Type_contiguous(3, MPI_INT, &uncommitted);
    find_absent();

    MPI_Comm c;
    MPI_Comm_dup(MPI_COMM_SELF, &c);
    stale_comm = c;
    MPI_Comm_free(&c);
    MPI_Group g;
    MPI_Comm_group(MPI_COMM_SELF, &g);
    MPI_Group_incl(g, 1, (int[]){ 0 }, &g);
    stale_group = g;
    MPI_Group_free(&g);
    MPI_Datatype t;
    MPI_Type_contiguous(3, MPI_INT, &t);
    stale_type = t;
    MPI_Type_free(&t);
    MPI_Info i;
    MPI_Info_create(&i);
    stale_info = i;
    MPI_Info_free(&i);
}

static void run_all(void)
{
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    for (const struct args_case *c = args_cases; c->name; c++)
        if (implemented(c->name)) {
            procedures++;
            c->run();
        }
}

static void on_world(void)
{
    comm = MPI_COMM_WORLD;
    run_all();
    CHECK(procedures > 0);
    CHECK(calls > procedures);
}

static void on_self(void)
{
    comm = MPI_COMM_SELF;
    run_all();
}

/* After all these errors, correct calls still work. */
static void still_alive(void)
{
    int one = 1, sum = 0, n;
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (implemented("MPI_Allreduce")) {
        CHECK_EQ(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
        CHECK_EQ(sum, n);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    make_objects();
    RUN(on_world);
    RUN(on_self);
    RUN(still_alive);
    printf("# %d procedures, %d calls\n", procedures / 2, calls);
    int status = check_end();
    MPI_Session_finalize(&session);
    MPI_Errhandler_free(&session_handler);
    MPI_Errhandler_free(&comm_handler);
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    MPI_File_close(&file);
    MPI_Win_free(&win);
    MPI_Info_free(&info);
    MPI_Group_free(&group);
    MPI_Type_free(&uncommitted);
    MPI_Finalize();
    return status;
}
