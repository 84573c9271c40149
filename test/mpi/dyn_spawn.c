/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_spawn and MPI_Comm_spawn_multiple (MPI-5.0 section 11.8).  The program is also the
 * children, whose first argument says what they do. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/wait.h>
#include <pmix.h>
#include "test/descriptors.h"
#include "test/mpi/mpitest.h"

static char program[4096];
static int nspawns;
static const char *alone; /* run only the case with children that die in this way */

/* A launcher that cannot spawn, like srun.  Replaces PMIx's function. */
static bool refuse;
pmix_status_t PMIx_Spawn(const pmix_info_t info[], size_t ninfo, const pmix_app_t apps[],
                         size_t napps, pmix_nspace_t nspace)
{
    pmix_status_t (*real)(const pmix_info_t *, size_t, const pmix_app_t *, size_t, char *);
    *(void **)&real = dlsym(RTLD_NEXT, "PMIx_Spawn");
    /* PMIx 5 looks behind an array without elements for an end mark. */
    for (size_t a = 0; a < napps; a++)
        CHECK(apps[a].ninfo || !apps[a].info);
    return refuse || !real ? PMIX_ERR_NOT_SUPPORTED : real(info, ninfo, apps, napps, nspace);
}

static MPI_Info make_info(const char *key, const char *value)
{
    MPI_Info info = MPI_INFO_NULL;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, key, value));
    return info;
}

/* ---- what both sides do ---- */

/* Messages between all pairs of the two groups, and collective calls over both. */
static void talk(MPI_Comm inter, bool parent)
{
    int rank, n, far, sum = -1, got = -1;
    MPI_Comm merged;
    if (inter == MPI_COMM_NULL)
        return;
    OK(MPI_Comm_rank(inter, &rank));
    OK(MPI_Comm_size(inter, &n));
    OK(MPI_Comm_remote_size(inter, &far));
    for (int r = 0; r < far; r++) {
        int mine = 100 * rank + r;
        OK(MPI_Sendrecv(&mine, 1, MPI_INT, r, 3, &got, 1, MPI_INT, r, 3, inter, MPI_STATUS_IGNORE));
        CHECK_EQ(got, 100 * r + rank);
    }
    int one = 1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK_EQ(sum, far);
    OK(MPI_Intercomm_merge(inter, !parent, &merged));
    int all, me, order;
    OK(MPI_Comm_size(merged, &all));
    OK(MPI_Comm_rank(merged, &me));
    CHECK_EQ(all, n + far);
    order = parent ? rank : far + rank;
    CHECK_EQ(me, order);
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, merged));
    CHECK_EQ(sum, all * (all - 1) / 2);
    OK(MPI_Comm_free(&merged));
}

/* Two jobs that only their common parent has met become an intercommunicator: the parents and the
 * first job against the second job. */
static void join_strangers(MPI_Comm group, MPI_Comm peer, bool first)
{
    MPI_Comm inter = MPI_COMM_NULL;
    OK(MPI_Intercomm_create(group, 0, peer, 0, 4, &inter));
    talk(inter, first);
    OK(MPI_Comm_free(&inter));
}

/* ---- children ---- */

static int child(int argc, char **argv)
{
    MPI_Comm parent;
    char text[64] = "";
    int *number, flag, n, rank;
    const char *what = argv[1];

    if (!strcmp(what, "exit-before"))
        exit(3);
    if (!strcmp(what, "quiet-before"))
        exit(0);
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_get_parent(&parent));
    CHECK(parent != MPI_COMM_NULL);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n));
    mt_rank = rank;
    mt_size = n;
    if (!strcmp(what, "talk")) {
        talk(parent, false);
    } else if (!strcmp(what, "leave")) { /* without what the parent waits for */
        OK(MPI_Recv(&n, 1, MPI_INT, 0, 5, parent, MPI_STATUS_IGNORE));
        MPI_Finalize();
        return check_failed_case;
    } else if (!strcmp(what, "stranger-1")) {
        MPI_Comm merged;
        OK(MPI_Intercomm_merge(parent, 1, &merged));
        join_strangers(merged, MPI_COMM_NULL, true);
        OK(MPI_Comm_disconnect(&merged));
    } else if (!strcmp(what, "stranger-2")) {
        join_strangers(MPI_COMM_WORLD, parent, false);
    } else if (!strcmp(what, "report")) { /* argument and number of the command, to parent 0 */
        OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag));
        CHECK(flag);
        snprintf(text, sizeof text, "%d of %d: %s, %d", rank, n, argv[2], *number);
        OK(MPI_Send(text, sizeof text, MPI_CHAR, 0, 5, parent));
    } else if (!strcmp(what, "env")) {
        snprintf(text, sizeof text, "%s", getenv("DYN_SPAWN") ? getenv("DYN_SPAWN") : "unset");
        OK(MPI_Send(text, sizeof text, MPI_CHAR, 0, 5, parent));
    } else if (!strcmp(what, "die-apart")) {
        OK(MPI_Comm_disconnect(&parent));
        _exit(3);
    } else if (!strcmp(what, "die")) {
        OK(MPI_Barrier(parent));
        _exit(5);
    } else if (!strcmp(what, "stay")) {
        OK(MPI_Barrier(parent));
        pause();
    } else if (!strcmp(what, "abort")) {
        OK(MPI_Barrier(parent));
        MPI_Abort(MPI_COMM_WORLD, 6);
    }
    OK(MPI_Comm_disconnect(&parent));
    MPI_Finalize();
    return check_failed_case;
}

/* ---- cases ---- */

static void spawn(const char *what, int n, int root, MPI_Comm comm, MPI_Comm *inter)
{
    char *argv[] = { (char *)what, "x", NULL };
    int codes[8];
    bool at_root;
    int rank, far = 0;
    OK(MPI_Comm_rank(comm, &rank));
    at_root = rank == root; /* arguments of other ranks are not significant */
    OK(MPI_Comm_spawn(at_root ? program : NULL, at_root ? argv : NULL, at_root ? n : -5,
                      MPI_INFO_NULL, root, comm, inter, codes));
    if (*inter == MPI_COMM_NULL)
        return;
    OK(MPI_Comm_remote_size(*inter, &far));
    CHECK_EQ(far, n);
    for (int i = 0; i < n; i++)
        CHECK_EQ(codes[i], MPI_SUCCESS);
}

static void one_child(void)
{
    MPI_Comm inter = MPI_COMM_NULL;
    spawn("talk", 1, 0, mt_comm, &inter);
    talk(inter, true);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    OK(MPI_Comm_disconnect(&inter));
}

static void three_children(void)
{
    MPI_Comm inter = MPI_COMM_NULL;
    spawn("talk", 3, mt_size - 1, mt_comm, &inter);
    talk(inter, true);
    OK(MPI_Comm_disconnect(&inter));
}

static void by_each_rank(void)
{
    MPI_Comm inter = MPI_COMM_NULL, parent;
    OK(MPI_Comm_get_parent(&parent));
    CHECK(parent == MPI_COMM_NULL);
    spawn("talk", 1, 0, MPI_COMM_SELF, &inter);
    talk(inter, true);
    OK(MPI_Comm_disconnect(&inter));
}

static void strangers(void)
{
    MPI_Comm one = MPI_COMM_NULL, two = MPI_COMM_NULL, merged;
    spawn("stranger-1", 2, 0, mt_comm, &one);
    spawn("stranger-2", 2, 0, mt_comm, &two);
    OK(MPI_Intercomm_merge(one, 0, &merged));
    join_strangers(merged, two, true);
    OK(MPI_Comm_disconnect(&merged));
    OK(MPI_Comm_disconnect(&one));
    OK(MPI_Comm_disconnect(&two));
}

/* A receive from a process that is in MPI_Finalize or has ended fails, and one that is cancelled
 * does not. */
static void child_that_leaves(void)
{
    MPI_Comm inter = MPI_COMM_NULL;
    int x = 0, flag = 0;
    MPI_Request r;
    MPI_Status s;
    spawn("leave", 1, 0, mt_comm, &inter);
    if (mt_rank == 0) {
        OK(MPI_Irecv(&x, 1, MPI_INT, 0, 6, inter, &r));
        OK(MPI_Send(&x, 1, MPI_INT, 0, 5, inter));
        FAILS(MPI_Recv(&x, 1, MPI_INT, 0, 7, inter, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
        OK(MPI_Cancel(&r));
        OK(MPI_Wait(&r, &s));
        OK(MPI_Test_cancelled(&s, &flag));
        CHECK(flag);
    }
    OK(MPI_Comm_free(&inter));
}

static void several_commands(void)
{
    char *first[] = { "report", "first", NULL }, *second[] = { "report", "second", NULL };
    char *commands[] = { program, program }, **argvs[] = { first, second };
    int n[] = { 2, 1 }, codes[3], far;
    MPI_Info infos[] = { MPI_INFO_NULL, MPI_INFO_NULL };
    char text[64];
    MPI_Comm inter;
    OK(MPI_Comm_spawn_multiple(2, commands, argvs, n, infos, 0, mt_comm, &inter, codes));
    OK(MPI_Comm_remote_size(inter, &far));
    CHECK_EQ(far, 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(codes[i], MPI_SUCCESS);
    for (int i = 0; i < 3 && mt_rank == 0; i++) {
        const char *expected[] = { "0 of 3: first, 0", "1 of 3: first, 0", "2 of 3: second, 1" };
        OK(MPI_Recv(text, sizeof text, MPI_CHAR, i, 5, inter, MPI_STATUS_IGNORE));
        CHECK_MSG(!strcmp(text, expected[i]), "child %d sent '%s'", i, text);
    }
    OK(MPI_Comm_disconnect(&inter));
}

static void info_keys(void)
{
    char *argv[] = { "env", NULL }, text[64];
    MPI_Comm inter;
    MPI_Info info = make_info("env", "DYN_SPAWN=a b\nOTHER=1");
    OK(MPI_Info_set(info, "unknown-key", "x"));
    OK(MPI_Info_set(info, "mpi_initial_errhandler", "mpi_errors_return"));
    OK(MPI_Comm_spawn(program, argv, 1, info, 0, mt_comm, &inter, MPI_ERRCODES_IGNORE));
    if (mt_rank == 0) {
        OK(MPI_Recv(text, sizeof text, MPI_CHAR, 0, 5, inter, MPI_STATUS_IGNORE));
        CHECK(!strcmp(text, "a b"));
    }
    OK(MPI_Comm_disconnect(&inter));
    OK(MPI_Info_free(&info));
}

static void wrong_requests(void)
{
    MPI_Comm inter = MPI_COMM_NULL;
    int codes[2] = { -1, -1 };
    MPI_Info info = make_info("add-hostfile", "elsewhere"), wrong = make_info("env", "no value");
    FAILS(MPI_Comm_spawn("./no-such-program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, mt_comm, &inter,
                         codes),
          MPI_ERR_SPAWN);
    CHECK_EQ(codes[0], MPI_ERR_SPAWN);
    CHECK_EQ(codes[1], MPI_ERR_SPAWN);
    FAILS(MPI_Comm_spawn(program, MPI_ARGV_NULL, 0, MPI_INFO_NULL, 0, mt_comm, &inter, codes),
          MPI_ERR_ARG);
    FAILS(MPI_Comm_spawn(mt_rank ? program : NULL, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, mt_comm,
                         &inter, codes),
          MPI_ERR_ARG);
    FAILS(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, info, 0, mt_comm, &inter, codes),
          MPI_ERR_SPAWN);
    CHECK(inter == MPI_COMM_NULL);
    FAILS(MPI_Comm_spawn(program, MPI_ARGV_NULL, 2, wrong, 0, mt_comm, &inter, codes),
          MPI_ERR_INFO_VALUE);
    OK(MPI_Info_free(&info));
    OK(MPI_Info_free(&wrong));
}

static void children_that_end_before_init(void)
{
    char *quiet[] = { "quiet-before", NULL };
    MPI_Comm inter = MPI_COMM_NULL;
    int codes[2] = { -1, -1 };
    FAILS(MPI_Comm_spawn(program, quiet, 2, MPI_INFO_NULL, 0, mt_comm, &inter, codes),
          MPI_ERR_SPAWN);
    CHECK_EQ(codes[1], MPI_ERR_SPAWN);
    CHECK(inter == MPI_COMM_NULL);
}

/* mpirun runs with 4 slots. */
static void soft_numbers(void)
{
    char *argv[] = { "talk", NULL };
    MPI_Comm inter = MPI_COMM_NULL;
    int codes[9], far = 4 - mt_size;
    MPI_Info info = make_info("soft", "1:9");
    OK(MPI_Comm_spawn(program, argv, 9, info, 0, mt_comm, &inter, codes));
    talk(inter, true);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(codes[i], i < far ? MPI_SUCCESS : MPI_ERR_SPAWN);
    OK(MPI_Comm_disconnect(&inter));
    FAILS(MPI_Comm_spawn(program, argv, 9, MPI_INFO_NULL, 0, mt_comm, &inter, codes),
          MPI_ERR_SPAWN);
    OK(MPI_Info_free(&info));
}

/* mpirun runs on host n0, whose slots are all in use. */
static void added_host(void)
{
    char *argv[] = { "talk", NULL };
    MPI_Comm inter = MPI_COMM_NULL;
    MPI_Info info = make_info("add-host", "n1:2");
    FAILS(MPI_Comm_spawn(program, argv, 1, MPI_INFO_NULL, 0, mt_comm, &inter, MPI_ERRCODES_IGNORE),
          MPI_ERR_SPAWN);
    FAILS(MPI_Comm_spawn(program, argv, 3, info, 0, mt_comm, &inter, MPI_ERRCODES_IGNORE),
          MPI_ERR_SPAWN);
    OK(MPI_Comm_spawn(program, argv, 2, info, 0, mt_comm, &inter, MPI_ERRCODES_IGNORE));
    talk(inter, true);
    OK(MPI_Comm_disconnect(&inter));
    OK(MPI_Info_free(&info));
}

/* Children that die after they have disconnected, or while they are connected; in the second case
 * mpirun ends this job. */
static void dying_children(void)
{
    MPI_Comm inter = MPI_COMM_NULL;
    spawn(alone, 2, 0, mt_comm, &inter);
    if (strcmp(alone, "die-apart")) {
        OK(MPI_Barrier(inter));
        if (!strcmp(alone, "stay"))
            puts("stays"), fflush(stdout);
        pause();
    }
    OK(MPI_Comm_disconnect(&inter));
    for (int i = 0; i < 3; i++) { /* this job continues */
        MPI_Comm one = MPI_COMM_NULL;
        spawn("talk", 1, 0, mt_comm, &one);
        talk(one, true);
        OK(MPI_Comm_disconnect(&one));
    }
}

/* Bytes of the heap that remain for each process that has connected: cards and tables
 * (mpi/dynamic/README.md), 1300, and what libpmix loses in a PMIx_Spawn(): 5.0.7 2300. */
#define KEPT 4500

/* Open descriptors do not grow with the number of spawns, and memory only by a card for each. */
static void many(void)
{
    char port[MPI_MAX_PORT_NAME];
    size_t bytes = 0;
    int before = 0, n = 0;
    bool named = getenv("PMIX_RANK"); /* an mpirun keeps names */
    if (named && mt_rank == 0)
        OK(MPI_Publish_name("many spawns", MPI_INFO_NULL, "a name that stays"));
    for (int i = 0; i < nspawns; i++) {
        MPI_Comm inter = MPI_COMM_NULL;
        spawn("talk", 1, 0, mt_comm, &inter);
        talk(inter, true);
        OK(MPI_Comm_disconnect(&inter));
        if (i == nspawns / 2) {
            before = descriptors();
            bytes = mallinfo2().uordblks;
        } else if (bytes) {
            n++;
        }
    }
    if (named) {
        OK(MPI_Lookup_name("many spawns", MPI_INFO_NULL, port));
        CHECK(!strcmp(port, "a name that stays"));
    }
    /* the connection to a child that is still ending may be open at either moment */
    CHECK_MSG(descriptors() <= before + 1, "%d descriptors, then %d", before, descriptors());
    size_t now = mallinfo2().uordblks;
    CHECK_MSG(now <= bytes + (size_t)n * KEPT, "%d more spawns: %zu bytes, then %zu", n, bytes,
              now);
}

int main(int argc, char **argv)
{
    /* libtool runs the program in .libs; the children need the script before it, which sets the
     * path of the library */
    const char *libs = strstr(argv[0], "/.libs/");
    snprintf(program, sizeof program, "%.*s%s", libs ? (int)(libs - argv[0]) : 0, argv[0],
             libs ? libs + 6 : argv[0]);
    nspawns = argc > 1 && !strncmp(argv[1], "many=", 5) ? atoi(argv[1] + 5) : 0;
    alone = argc > 1 && !strncmp(argv[1], "child=", 6) ? argv[1] + 6 : NULL;
    refuse = argc > 1 && !strcmp(argv[1], "refuse");
    if (argc > 1 && !nspawns && !alone && !refuse)
        return child(argc, argv);
    mt_init(argc, argv);
    if (nspawns)
        MT_RUN(many);
    else if (refuse)
        MT_RUN(one_child);
    else if (alone && !strcmp(alone, "soft"))
        MT_RUN(soft_numbers);
    else if (alone && !strcmp(alone, "added"))
        MT_RUN(added_host);
    else if (alone)
        MT_RUN(dying_children);
    if (nspawns || alone || refuse)
        return mt_end();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MT_RUN(one_child);
    MT_RUN(three_children);
    MT_RUN(by_each_rank);
    MT_RUN(strangers);
    MT_RUN(child_that_leaves);
    MT_RUN(several_commands);
    MT_RUN(info_keys);
    MT_RUN(wrong_requests);
    MT_RUN(children_that_end_before_init);
    return mt_end();
}
