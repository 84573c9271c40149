/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that start by a store of the program (MPIX_Init_from_store): this process forks the ranks of
 * each job itself, without mpirun.  The store is a folder: a value is a file that appears by
 * rename(2).  Each job has a folder for shared memory of its own, which must be empty at its end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "test/check.h"

#define MAX 17
#define BIG (1 << 18)

static char root[200], folder[300], shm[300];
static const char *self; /* path of this program */
static int njobs;
static bool broken;   /* the store of this process fails */
static bool keep;     /* the next job uses the store of the last one */
static bool intruded; /* another start begins in the store before this process puts its table */

/* ---- the store ---- */

static void path_of(const char *key, const char *suffix, char *path, size_t len)
{
    int at = snprintf(path, len, "%s/", folder);
    snprintf(path + at, len - (size_t)at, "%s%s", key, suffix);
    for (char *c = path + at; *c; c++)
        if (*c == '/')
            *c = '_';
}

static int put(void *store, const char *key, const void *value, MPI_Count len)
{
    char path[600], tmp[600], own[32];
    (void)store;
    if (broken)
        return 42;
    snprintf(own, sizeof own, ".%d", (int)getpid());
    path_of(key, "", path, sizeof path);
    path_of(key, own, tmp, sizeof tmp);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, value, (size_t)len) != len || close(fd) || rename(tmp, path))
        return 1;
    return 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int get(void *store, const char *key, void *value, MPI_Count max, MPI_Count *len,
               int timeout_ms)
{
    char path[600];
    struct stat st;
    double until = now() + timeout_ms * 1e-3;
    int fd;

    (void)store;
    path_of(key, "", path, sizeof path);
    while ((fd = open(path, O_RDONLY)) < 0) {
        if (now() > until)
            return MPI_ERR_PENDING;
        usleep(500);
    }
    bool good = fstat(fd, &st) == 0 && read(fd, value, (size_t)max) >= 0;
    close(fd);
    *len = st.st_size;
    if (intruded && strstr(key, "/start/"))
        put(NULL, "weft/newest", "another!", 8);
    return good ? 0 : 1;
}

/* ---- jobs ---- */

static int entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

struct job {
    pid_t pid[MAX];
    int status[MAX], n;
    char err[8192]; /* what the ranks wrote to stderr */
};

/* Starts the ranks whose bit is in `which`, waits for all, and reads their stderr. */
static void run(struct job *j, int n, unsigned which, int (*body)(int rank, int size))
{
    int p[2];
    memset(j, 0, sizeof *j);
    j->n = n;
    if (!keep)
        snprintf(folder, sizeof folder, "%s/store%d", root, njobs);
    CHECK(keep || mkdir(folder, 0700) == 0);
    snprintf(shm, sizeof shm, "%s/shm%d", root, njobs++);
    CHECK(mkdir(shm, 0700) == 0 && pipe(p) == 0);
    setenv("WEFT_SHM_DIR", shm, 1);
    fflush(stdout);
    for (int r = 0; r < n; r++) {
        if (!(which >> r & 1))
            continue;
        j->pid[r] = fork();
        if (j->pid[r] == 0) {
            dup2(p[1], 2);
            close(p[0]);
            close(p[1]);
            alarm(30);
            int code = body(r, n);
            fflush(stdout);
            exit(code);
        }
    }
    close(p[1]);
    size_t len = 0;
    for (;;) {
        char more[512];
        ssize_t got = read(p[0], more, sizeof more);
        if (got <= 0)
            break;
        size_t room = sizeof j->err - 1 - len;
        size_t take = (size_t)got < room ? (size_t)got : room;
        memcpy(j->err + len, more, take);
        len += take;
    }
    close(p[0]);
    for (int r = 0; r < n; r++)
        if (j->pid[r])
            waitpid(j->pid[r], &j->status[r], 0);
}

static bool all_good(const struct job *j)
{
    bool good = true;
    for (int r = 0; r < j->n; r++)
        good = good && WIFEXITED(j->status[r]) && WEXITSTATUS(j->status[r]) == 0;
    if (!good || j->err[0]) {
        for (int r = 0; r < j->n; r++)
            printf("# rank %d: status %x\n", r, (unsigned)j->status[r]);
        printf("# stderr: %s\n", j->err);
    }
    return good && !j->err[0];
}

/* ---- what the ranks do; the exit status of a rank is the number of the failed step ---- */

#define STEP(n, cond) \
    do { \
        if (!(cond)) { \
            printf("# rank %d of %d, line %d: %s\n", rank, size, __LINE__, #cond); \
            return n; \
        } \
    } while (0)
#define GOOD(n, call) STEP(n, (call) == MPI_SUCCESS)

static int talk(MPI_Comm comm, int rank, int size)
{
    static int out[BIG], in[BIG];
    int r, n, sum = -1, one = rank + 1, to = (rank + 1) % size, from = (rank + size - 1) % size;

    GOOD(10, MPI_Comm_rank(comm, &r));
    GOOD(10, MPI_Comm_size(comm, &n));
    STEP(11, r == rank && n == size);
    GOOD(12, MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    STEP(13, sum == size * (size + 1) / 2);
    for (int i = 0; i < BIG; i++)
        out[i] = rank * 7 + i;
    GOOD(14, MPI_Sendrecv(out, BIG, MPI_INT, to, 3, in, BIG, MPI_INT, from, 3, comm,
                          MPI_STATUS_IGNORE));
    STEP(15, in[0] == from * 7 && in[BIG - 1] == from * 7 + BIG - 1);
    GOOD(16, MPI_Allreduce(out, in, BIG, MPI_INT, MPI_MAX, comm));
    STEP(17, in[5] == (size - 1) * 7 + 5);
    return MPI_Barrier(comm) == MPI_SUCCESS ? 0 : 18;
}

static int world(int rank, int size)
{
    int is = 0;
    void *universe;
    GOOD(1, MPIX_Init_from_store(rank, size, 60, put, get, NULL));
    GOOD(2, MPI_Init(NULL, NULL));
    int err = talk(MPI_COMM_WORLD, rank, size);
    if (err)
        return err;
    GOOD(3, MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &is));
    STEP(4, is && *(int *)universe == size);
    /* the same again is no error; another size is */
    GOOD(5, MPIX_Init_from_store(rank, size, 60, put, get, NULL));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    STEP(6, MPIX_Init_from_store(rank, size + 1, 60, put, get, NULL) != MPI_SUCCESS);
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 7;
}

static int open_session(MPI_Session *s, MPI_Comm *comm)
{
    MPI_Group g;
    int err = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, s);
    if (err)
        return err;
    err = MPI_Group_from_session_pset(*s, "mpi://WORLD", &g);
    if (!err)
        err = MPI_Comm_create_from_group(g, "test", MPI_INFO_NULL, MPI_ERRORS_RETURN, comm);
    MPI_Group_free(&g);
    return err;
}

/* Twice: the library rests between the two. */
static int sessions(int rank, int size)
{
    MPI_Session s;
    MPI_Comm comm;
    GOOD(1, MPIX_Init_from_store(rank, size, 60, put, get, NULL));
    for (int i = 0; i < 2; i++) {
        GOOD(2, open_session(&s, &comm));
        int err = talk(comm, rank, size);
        if (err)
            return err;
        GOOD(3, MPI_Comm_free(&comm));
        GOOD(4, MPI_Session_finalize(&s));
    }
    return 0;
}

/* Ranks with different folders of shared memory are on different hosts for each other. */
static int apart(int rank, int size)
{
    MPI_Comm node;
    char own[400];
    int n;
    snprintf(own, sizeof own, "%s/%d", shm, rank % 2);
    mkdir(own, 0700);
    setenv("WEFT_SHM_DIR", own, 1);
    GOOD(1, MPIX_Init_from_store(rank, size, 60, put, get, NULL));
    GOOD(2, MPI_Init(NULL, NULL));
    int err = talk(MPI_COMM_WORLD, rank, size);
    if (err)
        return err;
    GOOD(3, MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    GOOD(3, MPI_Comm_size(node, &n));
    STEP(4, n == (size + 1 - rank % 2) / 2);
    GOOD(5, MPI_Comm_free(&node));
    GOOD(6, MPI_Finalize());
    return entries(own);
}

static int incomplete(int rank, int size)
{
    MPI_Session s;
    GOOD(1, MPIX_Init_from_store(rank, size, 1, put, get, NULL));
    double begin = now();
    STEP(2, MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s) != MPI_SUCCESS);
    STEP(3, now() - begin < 60);
    return 0;
}

/* The other ranks begin their start alone. */
static int with_a_late_rank_0(int rank, int size)
{
    if (rank == 0)
        usleep(150000);
    return world(rank, size);
}

/* A start that never completes: the processes die while they wait for the others. */
static int abandoned(int rank, int size)
{
    ualarm(200000, 0);
    return world(rank, size);
}

/* The last process is rank 1 once more, and comes when rank 1 is there. */
static int with_a_second_rank_1(int rank, int size)
{
    MPI_Session s;
    char path[600];
    MPI_Count len;
    unsigned long long id;
    if (rank < size - 1)
        return world(rank, size - 1);
    STEP(1, get(NULL, "weft/newest", &id, sizeof id, &len, 30000) == 0);
    snprintf(path, sizeof path, "weft/%016llx/table/0", id);
    STEP(2, get(NULL, path, &id, sizeof id, &len, 30000) == 0);
    GOOD(3, MPIX_Init_from_store(1, size - 1, 1, put, get, NULL));
    STEP(4, MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s) != MPI_SUCCESS);
    return 0;
}

static int with_another_rank_0(int rank, int size)
{
    intruded = rank == 0;
    return incomplete(rank, size);
}

static int of_two_sizes(int rank, int size)
{
    MPI_Session s;
    GOOD(1, MPIX_Init_from_store(rank, size + rank / 2, 60, put, get, NULL));
    STEP(2, MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s) != MPI_SUCCESS);
    return 0;
}

static int with_broken_store(int rank, int size)
{
    MPI_Session s;
    broken = rank == 1;
    GOOD(1, MPIX_Init_from_store(rank, size, 1, put, get, NULL));
    STEP(2, MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s) != MPI_SUCCESS);
    return 0;
}

static int with_a_death(int rank, int size)
{
    int class, err;
    GOOD(1, MPIX_Init_from_store(rank, size, 60, put, get, NULL));
    GOOD(2, MPI_Init(NULL, NULL));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    GOOD(3, MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 1)
        kill(getpid(), SIGKILL);
    err = MPI_Recv(&class, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Error_class(err, &class);
    STEP(4, class == MPI_ERR_PROC_ABORTED);
    _exit(0);
}

static int with_an_abort(int rank, int size)
{
    int n;
    GOOD(1, MPIX_Init_from_store(rank, size, 60, put, get, NULL));
    GOOD(2, MPI_Init(NULL, NULL));
    if (rank == 0)
        MPI_Abort(MPI_COMM_WORLD, 7);
    MPI_Recv(&n, 1, MPI_INT, 0, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE); /* its error ends this rank */
    return 3;
}

static int killed(int rank, int size)
{
    GOOD(1, MPIX_Init_from_store(rank, size, 60, put, get, NULL));
    GOOD(2, MPI_Init(NULL, NULL));
    kill(getpid(), SIGKILL);
    return 3;
}

/* What only a launcher does. */
static int without_launcher(int rank, int size)
{
    char port[MPI_MAX_PORT_NAME];
    int class, err;
    GOOD(1, MPIX_Init_from_store(rank, size, 60, put, get, NULL));
    GOOD(2, MPI_Init(NULL, NULL));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    err = MPI_Publish_name("service", MPI_INFO_NULL, "port");
    MPI_Error_class(err, &class);
    STEP(3, class == MPI_ERR_SERVICE);
    err = MPI_Lookup_name("service", MPI_INFO_NULL, port);
    MPI_Error_class(err, &class);
    STEP(4, class == MPI_ERR_NAME);
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 5;
}

/* A spawn starts an mpirun. */
static int spawning(int rank, int size)
{
    MPI_Comm children;
    int n = 0, sum = 0;
    GOOD(1, MPIX_Init_from_store(rank, size, 60, put, get, NULL));
    GOOD(2, MPI_Init(NULL, NULL));
    GOOD(3, MPI_Comm_spawn(self, (char *[]){ "child", NULL }, 2, MPI_INFO_NULL, 1, MPI_COMM_WORLD,
                           &children, MPI_ERRCODES_IGNORE));
    GOOD(4, MPI_Comm_remote_size(children, &n));
    STEP(5, n == 2);
    GOOD(6, MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, children));
    STEP(7, sum == 41);
    GOOD(8, MPI_Comm_disconnect(&children));
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 9;
}

static int child(void)
{
    MPI_Comm parents;
    int rank, size, sum, mine;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    GOOD(1, MPI_Comm_get_parent(&parents));
    STEP(2, parents != MPI_COMM_NULL);
    mine = 20 + rank;
    GOOD(3, MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, parents));
    STEP(4, sum == 3);
    GOOD(5, MPI_Comm_disconnect(&parents));
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 6;
}

static int wrong_arguments(int rank, int size)
{
    int class;
    GOOD(1, MPI_Init(NULL, NULL)); /* alone, rank 0 of 1 */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    const struct {
        int rank, size, timeout_s;
        MPIX_Store_put_function *put;
        MPIX_Store_get_function *get;
        int class;
    } rows[] = {
        { 0, 0, 1, put, get, MPI_ERR_ARG },   { 1, 1, 1, put, get, MPI_ERR_RANK },
        { -1, 1, 1, put, get, MPI_ERR_RANK }, { 0, 1, -1, put, get, MPI_ERR_ARG },
        { 0, 1, 1, NULL, get, MPI_ERR_ARG },  { 0, 1, 1, put, NULL, MPI_ERR_ARG },
        { 0, 1, 1, put, get, MPI_ERR_OTHER }, /* too late */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int err = MPIX_Init_from_store(rows[i].rank, rows[i].size, rows[i].timeout_s, rows[i].put,
                                       rows[i].get, NULL);
        MPI_Error_class(err, &class);
        STEP(10 + (int)i, class == rows[i].class);
    }
    return MPI_Finalize() == MPI_SUCCESS ? 0 : 2;
}

/* ---- cases ---- */

static struct job job;

static void test_world(void)
{
    static const int sizes[] = { 1, 2, 3, 5, 17 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        run(&job, sizes[i], ~0u, world);
        CHECK(all_good(&job));
        CHECK_EQ(entries(shm), 0);
    }
}

static void test_sessions(void)
{
    for (int n = 1; n < 6; n += 2) {
        run(&job, n, ~0u, sessions);
        CHECK(all_good(&job));
        CHECK_EQ(entries(shm), 0);
    }
}

static void test_hosts(void)
{
    run(&job, 2, ~0u, apart);
    CHECK(all_good(&job));
    run(&job, 5, ~0u, apart);
    CHECK(all_good(&job));
}

static bool exited(int code)
{
    bool good = true;
    for (int r = 0; r < job.n; r++)
        good = good &&
               (!job.pid[r] || (WIFEXITED(job.status[r]) && WEXITSTATUS(job.status[r]) == code));
    return good;
}

static void expect_text(const char *text)
{
    CHECK_MSG(strstr(job.err, text) != NULL, "expected \"%s\" in: %s", text, job.err);
}

static void test_missing(void)
{
    run(&job, 3, 5, incomplete); /* without rank 1 */
    CHECK(exited(0));
    expect_text("rank 1 of 3 has not called MPI_Init or opened a session within 1 s");
    expect_text("rank 2 of 3 cannot start");
    run(&job, 17, 3, incomplete);
    CHECK(exited(0));
    expect_text("ranks 2, 3, 4, 5, 6, 7, 8, 9 and others of 17 have not called");
    CHECK_EQ(entries(shm), 0);
}

static void test_missing_rank_0(void)
{
    run(&job, 3, 6, incomplete);
    CHECK(exited(0));
    expect_text("rank 1: rank 0 of 3 has not answered");
    expect_text("rank 2: rank 0 of 3 has not answered");
}

/* Starts, one after another, in a store that is never emptied. */
static void test_old_starts(void)
{
    static const struct {
        int n;
        unsigned which;
        int (*body)(int rank, int size);
    } rows[] = {
        { 3, ~0u, world },    { 3, ~0u, with_a_late_rank_0 }, /* after a complete start */
        { 3, 5, abandoned },  { 3, ~0u, with_a_late_rank_0 }, /* rank 1 was missing */
        { 5, 1, incomplete }, { 5, ~0u, with_a_late_rank_0 }, /* of other sizes */
        { 2, 2, abandoned },  { 2, ~0u, world },              /* rank 0 was missing */
        { 1, ~0u, world },    { 3, ~0u, sessions },
        { 3, ~0u, killed },   { 3, ~0u, with_a_late_rank_0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        run(&job, rows[i].n, rows[i].which, rows[i].body);
        keep = true;
        if (rows[i].body == incomplete)
            CHECK(exited(0));
        else if (rows[i].body != killed && rows[i].body != abandoned)
            CHECK_MSG(all_good(&job), "start %zu in one store", i);
        CHECK_EQ(entries(shm), 0);
    }
    keep = false;
}

/* Two starts at the same time are distinguished, or end with an error. */
static void test_mixed_starts(void)
{
    run(&job, 4, ~0u, with_a_second_rank_1);
    CHECK(exited(0));
    expect_text("found no start with this process as rank 1 of 3 within 1 s");
    run(&job, 2, ~0u, with_another_rank_0);
    CHECK(exited(0));
    expect_text("another process has started as rank 0 with the same store");
}

static void test_do_not_fit(void)
{
    run(&job, 3, ~0u, of_two_sizes);
    CHECK(exited(0));
    expect_text("rank 1 of 3 cannot start: rank 2 has Weft");
    run(&job, 2, ~0u, with_broken_store);
    CHECK(exited(0));
    expect_text("rank 1: the program's store refused");
}

/* A rank that has died is a zombie until run() has read the stderr of all. */
static void test_death(void)
{
    run(&job, 3, ~0u, with_a_death);
    CHECK(WIFSIGNALED(job.status[1]) && WTERMSIG(job.status[1]) == SIGKILL);
    CHECK_EQ(job.status[0], 0);
    CHECK_EQ(job.status[2], 0);
    CHECK_EQ(entries(shm), 0);
}

static void test_abort(void)
{
    run(&job, 3, ~0u, with_an_abort);
    CHECK(WIFEXITED(job.status[0]) && WEXITSTATUS(job.status[0]) == 7);
    for (int r = 1; r < 3; r++)
        CHECK_MSG(WIFEXITED(job.status[r]) && WEXITSTATUS(job.status[r]) &&
                      WEXITSTATUS(job.status[r]) != 3,
                  "rank %d ended with status %x", r, (unsigned)job.status[r]);
    expect_text("MPI_Abort called by rank 0");
    CHECK_EQ(entries(shm), 0);
}

static void test_all_killed(void)
{
    run(&job, 3, ~0u, killed);
    CHECK_EQ(entries(shm), 0);
}

static void test_no_launcher(void)
{
    run(&job, 2, ~0u, without_launcher);
    CHECK(exited(0));
}

static void test_spawn(void)
{
    run(&job, 3, ~0u, spawning);
    CHECK(all_good(&job));
}

static void test_arguments(void)
{
    run(&job, 1, ~0u, wrong_arguments);
    CHECK(exited(0));
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    if (argc > 1)
        return child();
    self = argv[0];
    for (char **e = (char *[]){ "PMIX_NAMESPACE", "PMIX_RANK", NULL }; *e; e++)
        unsetenv(*e);
    snprintf(root, sizeof root, "%.150s/weft-store-XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(root) != NULL);
    RUN(test_world);
    RUN(test_sessions);
    RUN(test_hosts);
    RUN(test_missing);
    RUN(test_missing_rank_0);
    RUN(test_old_starts);
    RUN(test_mixed_starts);
    RUN(test_do_not_fit);
    RUN(test_death);
    RUN(test_abort);
    RUN(test_all_killed);
    RUN(test_no_launcher);
    RUN(test_spawn);
    RUN(test_arguments);
    fflush(stdout);
    if (fork() == 0)
        execlp("rm", "rm", "-rf", root, (char *)NULL);
    wait(NULL);
    return check_end();
}
