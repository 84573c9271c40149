/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that io_fault.py starts: one rank dies before or in a collective call on a file, and
 * the others must get MPI errors.  Mpirun ends a job at once when a rank dies, so the rank that is
 * to die is a child of the process that mpirun knows, which stays until the others have ended.  A
 * survivor prints what the call, the closing and the reading of its own data returned.
 * Arguments: call, rank that dies, file name. */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define N (64 << 10)

static int rank, size, victim;
static const char *call, *path;
static char data[N], back[N];
static MPI_File file = MPI_FILE_NULL;

static bool dies_sending; /* its next message to another host */

/* In place of the C library's: all that btl/tcp sends in the first connection passes here. */
__attribute__((visibility("default"))) ssize_t send(int fd, const void *buf, size_t n, int flags)
{
    struct sockaddr a = { 0 };
    socklen_t len = sizeof a;
    if (dies_sending && !getsockname(fd, &a, &len) && a.sa_family != AF_UNIX)
        raise(SIGKILL);
    return syscall(SYS_sendto, fd, buf, n, flags, NULL, 0);
}

static bool is(const char *name) { return !strcmp(call, name); }

static void report(const char *what, int rc)
{
    char text[MPI_MAX_ERROR_STRING] = "success";
    int len, class = 0;
    MPI_Error_class(rc, &class);
    if (rc)
        MPI_Error_string(class, text, &len);
    printf("rank %d: %s gave %s\n", rank, what, text);
    fflush(stdout);
}

static int open_file(MPI_Comm comm)
{
    MPI_Info info = MPI_INFO_NULL;
    int rc;
    if (is("write_all") || is("nonblocking") || is("beside")) { /* through aggregators */
        MPI_Info_create(&info);
        MPI_Info_set(info, "romio_cb_write", "enable");
    }
    rc = MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    return rc;
}

static void die(int sig)
{
    (void)sig;
    raise(SIGKILL);
}

/* Opens and closes the file again and again; the victim dies after some microseconds. */
static int run_many(void)
{
    struct itimerval t = { .it_value.tv_usec = 1000 + getpid() * 7919 % 20000 };
    int rc = MPI_File_close(&file);
    if (rank == victim) {
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &t, NULL);
    }
    while (!rc) {
        rc = open_file(MPI_COMM_WORLD);
        rc = rc ? rc : MPI_File_set_size(file, (MPI_Offset)2 * size * N);
        rc = rc ? rc : MPI_File_close(&file);
    }
    return rc;
}

/* Two operations are in progress: both fail, also if the ranks compute when one of them dies. */
static int run_nonblocking(char *buf)
{
    MPI_Request r[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    int rc = MPI_File_iwrite_all(file, buf, N, MPI_BYTE, &r[0]);
    int second = MPI_File_iwrite_all(file, buf, N, MPI_BYTE, &r[1]);
    if (is("beside"))
        usleep(300000);
    rc = rc ? rc : MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    second = second ? second : MPI_Wait(&r[1], MPI_STATUS_IGNORE);
    return rc == second ? rc : MPI_ERR_OTHER;
}

/* The call in which the others meet the dead rank. */
static int run(char *buf)
{
    MPI_Offset mine = (MPI_Offset)(size + rank) * N;
    MPI_Status *s = MPI_STATUS_IGNORE;
    int rc;
    if (is("many"))
        return run_many();
    dies_sending = is("within") && rank == victim;
    if (is("open") || is("within"))
        return open_file(MPI_COMM_WORLD);
    if (is("close"))
        return MPI_File_close(&file);
    if (is("write_at_all"))
        return MPI_File_write_at_all(file, mine, buf, N, MPI_BYTE, s);
    if (is("write_all"))
        return MPI_File_write_all(file, buf, N, MPI_BYTE, s);
    if (is("nonblocking") || is("beside"))
        return run_nonblocking(buf);
    if (is("write_ordered"))
        return MPI_File_write_ordered(file, buf, N, MPI_BYTE, s);
    if (is("split")) {
        rc = MPI_File_write_ordered_begin(file, buf, N, MPI_BYTE);
        return rc ? rc : MPI_File_write_ordered_end(file, buf, s);
    }
    if (is("read_shared"))
        return MPI_File_read_shared(file, buf, N, MPI_BYTE, s);
    if (is("set_size"))
        return MPI_File_set_size(file, (MPI_Offset)4 * size * N);
    if (is("sync"))
        return MPI_File_sync(file);
    if (is("seek_shared"))
        return MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    return MPI_File_set_view(file, N, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
}

/* What mpirun knows as the rank that dies. */
static void stand_in(void)
{
    const char *r = getenv("PMIX_RANK");
    if (!r || atoi(r) != victim)
        return;
    pid_t child = fork();
    if (child == 0)
        return;
    waitpid(child, NULL, 0);
    pause(); /* mpirun ends the job when the others have ended without MPI_Finalize */
}

/* Each rank's own data, which were reported written, are in the file. */
static void check_written(void)
{
    int wrong = !(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file) ||
                  MPI_File_read_at(file, (MPI_Offset)rank * N, back, N, MPI_BYTE,
                                   MPI_STATUS_IGNORE) ||
                  memcmp(data, back, N))
                    ? MPI_SUCCESS
                    : MPI_ERR_IO;
    report("data", wrong);
}

int main(int argc, char **argv)
{
    int x = 0, first;
    if (argc < 4)
        return 2;
    call = argv[1];
    victim = atoi(argv[2]);
    path = argv[3];
    stand_in();
    MPI_Init(NULL, NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    first = victim == 0;
    memset(data, 'a' + rank, N);
    bool alone = is("open") || is("within");
    if (open_file(alone ? MPI_COMM_SELF : MPI_COMM_WORLD) ||
        MPI_File_write_at(file, (MPI_Offset)rank * N, data, N, MPI_BYTE, MPI_STATUS_IGNORE) ||
        (alone && MPI_File_close(&file)))
        return 2;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == victim && !is("many") && !is("within")) {
        usleep(30000); /* most of the others are waiting by then */
        raise(SIGKILL);
    }
    report("call", run(strncmp(call, "read", 4) ? data : back));
    if (file != MPI_FILE_NULL)
        report("close", MPI_File_close(&file));
    check_written();
    for (int i = first + 1; i < size && rank == first; i++) /* the others' lines come first */
        if (i != victim)
            MPI_Recv(&x, 1, MPI_INT, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != first) /* synchronous: a connection may still have to be set up */
        MPI_Ssend(&rank, 1, MPI_INT, first, 1, MPI_COMM_WORLD);
    while (rank != first)
        pause();
    _exit(3);
}
