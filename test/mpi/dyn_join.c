/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_join (MPI-5.0 section 11.10.5).  Without an argument ranks 0 and 1 of a job join over
 * TCP; with "forked" each rank has forked a process before MPI_Init, which is a job of its own, and
 * joins with it over a socket pair; with "forked apart" that process has no transport that reaches
 * other jobs. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "test/mpi/mpitest.h"

#define PAIRS 8
#define ROUNDS 30

static int pairs[PAIRS], next_pair; /* of a forked process and its parent */
static bool forked, apart, low;     /* low: the first of the two that join */
static bool joins;                  /* this process is one of the two */
static int listener;

/* ---- the two processes and their socket ---- */

static void listen_here(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&a, sizeof a) == 0 && listen(listener, 8) == 0);
}

static int connect_pair(void)
{
    struct sockaddr_in a;
    socklen_t len = sizeof a;
    int fd;
    if (low) {
        CHECK(getsockname(listener, (struct sockaddr *)&a, &len) == 0);
        OK(MPI_Send(&a, sizeof a, MPI_BYTE, 1, 0, mt_comm));
        fd = accept(listener, NULL, NULL);
    } else {
        OK(MPI_Recv(&a, sizeof a, MPI_BYTE, 0, 0, mt_comm, MPI_STATUS_IGNORE));
        fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
    }
    CHECK(fd >= 0);
    return fd;
}

/* A connected socket between the two, closed by the caller. */
static int new_socket(void) { return forked ? pairs[next_pair++] : connect_pair(); }

static int ndescriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* ---- checks ---- */

/* The socket carries the program's own data, and nothing is before these. */
static void check_own_data(int fd)
{
    char mine = low ? 'a' : 'b', other = 0;
    CHECK(send(fd, &mine, 1, 0) == 1);
    CHECK(recv(fd, &other, 1, MSG_WAITALL) == 1 && other == (low ? 'b' : 'a'));
}

static void check_inter(MPI_Comm inter)
{
    int flag = 0, n = 0, rank = -1, value = low ? 1 : 2, sum = 0;
    size_t len = 300000;
    unsigned char *out = mt_alloc(len), *in = mt_alloc(len);
    MPI_Status st;
    OK(MPI_Comm_test_inter(inter, &flag));
    CHECK(flag);
    OK(MPI_Comm_size(inter, &n));
    CHECK_EQ(n, 1);
    OK(MPI_Comm_remote_size(inter, &n));
    CHECK_EQ(n, 1);
    OK(MPI_Comm_rank(inter, &rank));
    CHECK_EQ(rank, 0);
    mt_fill(out, len, low);
    OK(MPI_Sendrecv(out, (int)len, MPI_BYTE, 0, 3, in, (int)len, MPI_BYTE, 0, 3, inter, &st));
    mt_check_status(&st, 0, 3, (int)len);
    CHECK_DATA(in, len, !low);
    CHECK(mt_guard_intact(in, len));
    OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK_EQ(sum, low ? 2 : 1); /* of the remote group */
    free(out);
    free(in);
}

static void check_merged(MPI_Comm inter)
{
    MPI_Comm both;
    int n = 0, rank = -1, value = low ? 1 : 2, sum = 0;
    OK(MPI_Intercomm_merge(inter, !low, &both));
    OK(MPI_Comm_size(both, &n));
    CHECK_EQ(n, 2);
    OK(MPI_Comm_rank(both, &rank));
    CHECK_EQ(rank, low ? 0 : 1);
    OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, both));
    CHECK_EQ(sum, 3);
    OK(MPI_Comm_disconnect(&both));
}

/* ---- cases ---- */

static void once(void)
{
    MPI_Comm inter = MPI_COMM_NULL;
    if (!joins)
        return;
    int fd = new_socket();
    OK(MPI_Comm_join(fd, &inter));
    check_own_data(fd);
    check_inter(inter);
    check_merged(inter);
    OK(MPI_Comm_disconnect(&inter));
    CHECK(inter == MPI_COMM_NULL);
    check_own_data(fd);
    close(fd);
}

/* One of the two enters MPI_Comm_join late, when the other is already waiting in it. */
static void late(void)
{
    MPI_Comm inter = MPI_COMM_NULL;
    if (!joins)
        return;
    int fd = new_socket();
    if (low) {
        char c;
        CHECK(recv(fd, &c, 1, MSG_WAITALL) == 1);
        mt_sleep_ms(150); /* so that the other process is in MPI_Comm_join, waiting */
    } else {
        CHECK(send(fd, "l", 1, 0) == 1);
    }
    OK(MPI_Comm_join(fd, &inter));
    check_inter(inter);
    OK(MPI_Comm_disconnect(&inter));
    close(fd);
}

/* Joins over one socket again and again: a call leaves no descriptor open.  A doorbell or a lane
 * may open a descriptor of its own meanwhile. */
static void many(void)
{
    MPI_Comm inter[3];
    int before = 0;
    if (!joins)
        return;
    int fd = new_socket();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 3; i++)
            OK(MPI_Comm_join(fd, &inter[i]));
        for (int i = 2; i >= 0; i--) {
            int value = 10 * round + i, other = -1;
            OK(MPI_Sendrecv(&value, 1, MPI_INT, 0, 0, &other, 1, MPI_INT, 0, 0, inter[i],
                            MPI_STATUS_IGNORE));
            CHECK_EQ(other, value);
            OK(MPI_Comm_disconnect(&inter[i]));
        }
        if (round == 2)
            before = ndescriptors();
    }
    CHECK_MSG(ndescriptors() < before + ROUNDS / 3, "%d descriptors, before %d", ndescriptors(),
              before);
    check_own_data(fd);
    close(fd);
}

/* The two cannot be connected: this is no error, and the socket stays usable. */
static void no_way(void)
{
    MPI_Comm inter = MPI_COMM_WORLD;
    int fd = new_socket();
    for (int round = 0; round < 3; round++) {
        OK(MPI_Comm_join(fd, &inter));
        CHECK(inter == MPI_COMM_NULL);
        check_own_data(fd);
    }
    close(fd);
}

static void not_a_connected_stream(void)
{
    MPI_Comm inter = MPI_COMM_NULL;
    int dgram[2], pipes[2], fresh = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, dgram) == 0 && pipe(pipes) == 0);
    FAILS(MPI_Comm_join(-1, &inter), MPI_ERR_ARG);
    FAILS(MPI_Comm_join(1000000, &inter), MPI_ERR_ARG);
    FAILS(MPI_Comm_join(pipes[0], &inter), MPI_ERR_ARG);
    FAILS(MPI_Comm_join(dgram[0], &inter), MPI_ERR_ARG);
    FAILS(MPI_Comm_join(fresh, &inter), MPI_ERR_ARG);
    CHECK(inter == MPI_COMM_NULL);
    for (int i = 0; i < 2; i++) {
        close(dgram[i]);
        close(pipes[i]);
    }
    close(fresh);
}

/* The other end of the socket is not in MPI_Comm_join. */
static void nothing_that_joins(void)
{
    MPI_Comm inter = MPI_COMM_NULL;
    int s[2];
    char text[600];
    memset(text, 'z', sizeof text);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    close(s[1]); /* closed */
    FAILS(MPI_Comm_join(s[0], &inter), MPI_ERR_OTHER);
    close(s[0]);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    CHECK(write(s[1], text, 5) == 5 && shutdown(s[1], SHUT_WR) == 0); /* closed early */
    FAILS(MPI_Comm_join(s[0], &inter), MPI_ERR_OTHER);
    close(s[0]);
    close(s[1]);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
    CHECK(write(s[1], text, sizeof text) == sizeof text); /* other data */
    FAILS(MPI_Comm_join(s[0], &inter), MPI_ERR_OTHER);
    close(s[0]);
    close(s[1]);
    CHECK(inter == MPI_COMM_NULL);
}

/* ---- start ---- */

static void become_other_job(void)
{
    static const char *const left[] = { "PMIX_NAMESPACE", "PMIX_RANK" };
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        unsetenv(left[i]);
    if (apart)
        setenv("WEFT_BTL", "self", 1);
    dup2(2, 1); /* standard output has the parent's results */
    low = false;
}

static pid_t fork_partner(void)
{
    int s[PAIRS][2];
    for (int i = 0; i < PAIRS; i++)
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, s[i]))
            exit(1);
    pid_t pid = fork();
    if (pid < 0)
        exit(1);
    for (int i = 0; i < PAIRS; i++) {
        pairs[i] = s[i][pid == 0];
        close(s[i][pid != 0]);
    }
    low = joins = true;
    if (pid == 0)
        become_other_job();
    return pid;
}

int main(int argc, char **argv)
{
    pid_t partner = 0;
    int status = 0, rc;
    forked = argc > 1 && !strcmp(argv[1], "forked");
    apart = argc > 2 && !strcmp(argv[2], "apart");
    if (forked)
        partner = fork_partner();
    mt_init(argc, argv);
    if (!forked) {
        low = mt_rank == 0;
        joins = mt_size > 1 && mt_rank < 2;
        listen_here();
    }
    if (apart) {
        MT_RUN(no_way);
    } else {
        MT_RUN(once);
        MT_RUN(late);
        MT_RUN(many);
    }
    MT_RUN(not_a_connected_stream);
    MT_RUN(nothing_that_joins);
    for (int i = next_pair; forked && i < PAIRS; i++)
        close(pairs[i]);
    rc = mt_end();
    if (partner) {
        waitpid(partner, &status, 0);
        if (status) {
            printf("# the forked process ended with status %#x\n", (unsigned)status);
            rc = 1;
        }
    }
    return rc;
}
