/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: a rank dies at a system call of its start, of its first messages or of its end; the
 * others end with right values.  Arguments: the victim's rank and the number of the call at which
 * it dies; 0: it lives and prints how many calls it has made; -1: it dies before the PMIx server
 * answers it.  Without arguments: only whether this build can count
 * them.
 *
 * This program defines the functions of the C library that Weft and PMIx call for files, memory,
 * sockets and waits, so that the calls of both are counted. */
#include "test/mpi/ft_test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define EXPORTED __attribute__((visibility("default")))

static int ncalls, at, victim = -1;
static bool armed;

static void strike(void)
{
    if (armed && __atomic_add_fetch(&ncalls, 1, __ATOMIC_RELAXED) == at)
        raise(SIGKILL);
}

/* Counts a call; *real is the C library's function. */
static void next(const char *name, void *real)
{
    void *found;
    strike();
    if (*(void **)real)
        return;
    found = dlsym(RTLD_NEXT, name);
    memcpy(real, &found, sizeof found);
}

/* The function `name` with its parameters in brackets, and its arguments in brackets. */
#define COUNTED(type, name, parameters, arguments) \
    EXPORTED type name parameters; \
    EXPORTED type name parameters \
    { \
        static type(*real) parameters; \
        next(#name, &real); \
        return real arguments; \
    }

COUNTED(ssize_t, read, (int fd, void *buf, size_t n), (fd, buf, n))
COUNTED(ssize_t, write, (int fd, const void *buf, size_t n), (fd, buf, n))
COUNTED(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
COUNTED(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n))
COUNTED(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
COUNTED(ssize_t, recv, (int fd, void *buf, size_t n, int flags), (fd, buf, n, flags))
COUNTED(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
COUNTED(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
COUNTED(int, bind, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
COUNTED(int, listen, (int fd, int n), (fd, n))
COUNTED(int, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
COUNTED(int, accept, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))
COUNTED(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int flags), (fd, a, n, flags))
COUNTED(int, close, (int fd), (fd))
COUNTED(int, ftruncate, (int fd, off_t n), (fd, n))
COUNTED(int, unlink, (const char *name), (name))
COUNTED(int, link, (const char *from, const char *to), (from, to))
COUNTED(int, rename, (const char *from, const char *to), (from, to))
COUNTED(void *, mmap, (void *p, size_t n, int prot, int flags, int fd, off_t o),
        (p, n, prot, flags, fd, o))
COUNTED(int, munmap, (void *p, size_t n), (p, n))
COUNTED(int, poll, (struct pollfd * f, nfds_t n, int ms), (f, n, ms))
COUNTED(int, epoll_wait, (int fd, struct epoll_event *e, int n, int ms), (fd, e, n, ms))
COUNTED(int, epoll_ctl, (int fd, int op, int to, struct epoll_event *e), (fd, op, to, e))

/* Sends half of a message.  While the server waits for the rest, this process stops the server (its
 * parent), sends the rest and dies; a child continues the server. */
static void die_unanswered(int fd, const void *buf, size_t n)
{
    pid_t server = getppid();
    if (sendto(fd, buf, n / 2, 0, NULL, 0) == (ssize_t)(n / 2))
        usleep(200000);
    kill(server, SIGSTOP);
    usleep(20000); /* each of its threads has to stop */
    if (sendto(fd, (const char *)buf + n / 2, n - n / 2, 0, NULL, 0) > 0 && fork() == 0) {
        close(fd);
        usleep(200000);
        kill(server, SIGCONT);
        _exit(0);
    }
    raise(SIGKILL);
}

EXPORTED ssize_t send(int fd, const void *buf, size_t n, int flags);
EXPORTED ssize_t send(int fd, const void *buf, size_t n, int flags)
{
    strike();
    if (armed && at < 0 && flags == 0)
        die_unanswered(fd, buf, n);
    return sendto(fd, buf, n, flags, NULL, 0);
}

EXPORTED int open(const char *path, int flags, ...)
{
    va_list a;
    va_start(a, flags);
    int mode = va_arg(a, int);
    va_end(a);
    strike();
    return openat(AT_FDCWD, path, flags, mode);
}

EXPORTED long syscall(long number, ...)
{
    long v[6];
    va_list a;
    static long (*real)(long, ...);
    next("syscall", &real);
    va_start(a, number);
    for (int i = 0; i < 6; i++)
        v[i] = va_arg(a, long);
    va_end(a);
    return real(number, v[0], v[1], v[2], v[3], v[4], v[5]);
}

/* A success, or the error of a call that needs the victim. */
static bool failed(int rc, int peer)
{
    int class = MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        return false;
    MPI_Error_class(rc, &class);
    CHECK_MSG(class == MPIX_ERR_PROC_FAILED && at && (peer < 0 || peer == victim),
              "rank %d: class %d, peer %d", mt_rank, class, peer);
    return true;
}

static void exchange(void)
{
    MPI_Request r[32];
    MPI_Status s[32];
    int in[16], out = mt_rank;
    for (int i = 0; i < mt_size; i++) {
        in[i] = -1;
        if (failed(MPI_Irecv(in + i, 1, MPI_INT, i, 1, MPI_COMM_WORLD, r + i), i))
            r[i] = MPI_REQUEST_NULL;
        if (failed(MPI_Isend(&out, 1, MPI_INT, i, 1, MPI_COMM_WORLD, r + mt_size + i), i))
            r[mt_size + i] = MPI_REQUEST_NULL;
    }
    int rc = MPI_Waitall(2 * mt_size, r, s);
    CHECK(rc == MPI_SUCCESS || rc == MPI_ERR_IN_STATUS);
    for (int i = 0; i < 2 * mt_size && rc; i++)
        failed(s[i].MPI_ERROR, i % mt_size);
    for (int i = 0; i < mt_size; i++)
        CHECK(in[i] == i || (at && i == victim));
}

static int sum_of(MPI_Comm c, int *rc)
{
    int one = 1, sum = -1;
    *rc = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c);
    return failed(*rc, -1) ? -1 : sum;
}

static void go_on(void)
{
    int size, rc, sum = sum_of(MPI_COMM_WORLD, &rc);
    CHECK(rc || sum == mt_size);
    do {
        MPI_Comm c;
        OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &c));
        MPI_Comm_size(c, &size);
        CHECK(size == mt_size || (size == mt_size - 1 && at));
        MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
        sum = sum_of(c, &rc);
        CHECK(rc || sum == size);
        int flag = !rc;
        if (failed(MPIX_Comm_agree(c, &flag), -1) || !flag)
            rc = 1;
        MPI_Comm_free(&c);
    } while (rc);
}

int main(int argc, char **argv)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    check_skip("a sanitizer has its own functions of the C library");
#endif
    if (argc < 2)
        return 0;
    victim = atoi(argv[1]);
    at = argc > 2 ? atoi(argv[2]) : 0;
    armed = atoi(getenv("RANK")) == victim;
    OK(MPI_Init(NULL, NULL));
    MPI_Comm_rank(MPI_COMM_WORLD, &mt_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mt_size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    exchange();
    go_on();
    OK(MPI_Finalize());
    if (armed)
        printf("%d calls\n", ncalls);
    fflush(stdout);
    return check_failed_case;
}
