/* SPDX-License-Identifier: BSD-3-Clause */
/* weftd --wait accepts connections of weftd --call, the remote shell of mpirun, and starts an agent
 * on each.  Each side proves with a nonce of the other that it has the key of the job's owner; the
 * key is the content of a file, and is not sent.  What follows is not encrypted, as between agents
 * and ranks.  The caller retries until the host is there: agents and mpirun may start in any order.
 * A process for each connection; no threads. */
#include "launcher/agent/await.h"
#include "launcher/job.h"
#include "runtime/base/hmac.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT "20347"
#define KEY_LEAST 16
/* A caller that has not shown the key within this time is dropped, seconds. */
#define PROOF_S 10
#define PROVING_MAX 64 /* callers that have not, at a time; more wait in the kernel's queue */
#define RETRY_MS 300

struct door {
    const char *port, *key_file;
    uint8_t key[RT_SHA256_LEN];
};

static int agent_refuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int agent_refuse(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("weftd: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return LAUNCH_EXIT_FAIL;
}

static int read_key(struct door *d)
{
    uint8_t buf[4096];
    struct rt_sha256 s;
    ssize_t n;
    int fd = open(d->key_file, O_RDONLY | O_CLOEXEC);

    rt_sha256_init(&s);
    while (fd >= 0 && (n = read(fd, buf, sizeof buf)) > 0)
        rt_sha256_add(&s, buf, (size_t)n);
    if (fd < 0 || n < 0)
        return agent_refuse("--key: could not read '%s': %s", d->key_file, strerror(errno));
    close(fd);
    if (s.nbytes < KEY_LEAST)
        return agent_refuse("--key: '%s' has %llu bytes, a key needs %d: openssl rand -hex 32",
                            d->key_file, (unsigned long long)s.nbytes, KEY_LEAST);
    rt_sha256_end(&s, d->key);
    return 0;
}

/* ---- the proof ---- */

static int send_all(int fd, const void *buf, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = write(fd, (const char *)buf + at, len - at);
        if (n < 0 && errno != EINTR)
            return -1;
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int recv_all(int fd, void *buf, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = read(fd, (char *)buf + at, len - at);
        if (n == 0 || (n < 0 && errno != EINTR))
            return -1;
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void prove(const struct door *d, char side, const uint8_t *waiter, const uint8_t *caller,
                  uint8_t *mac)
{
    uint8_t text[1 + 2 * RT_SHA256_LEN] = { (uint8_t)side };
    memcpy(text + 1, waiter, RT_SHA256_LEN);
    memcpy(text + 1 + RT_SHA256_LEN, caller, RT_SHA256_LEN);
    rt_hmac(d->key, sizeof d->key, text, sizeof text, mac);
}

/* The caller sends its proof first, so the waiting side sends its own only to callers that have the
 * key.  The caller also sends the first nonce, because the kernel reports a connection only when it
 * has data (listen() in host/accept.c). */
static int meet_caller(const struct door *d, int fd)
{
    uint8_t mine[RT_SHA256_LEN], theirs[RT_SHA256_LEN], mac[RT_SHA256_LEN], want[RT_SHA256_LEN];

    if (rt_random(mine, sizeof mine) < 0 || recv_all(fd, theirs, sizeof theirs) ||
        send_all(fd, mine, sizeof mine) || recv_all(fd, mac, sizeof mac))
        return -1;
    prove(d, 'c', mine, theirs, want);
    if (!rt_hmac_equal(want, mac))
        return -1;
    prove(d, 'w', mine, theirs, mac);
    return send_all(fd, mac, sizeof mac);
}

static int meet_waiter(const struct door *d, int fd)
{
    uint8_t mine[RT_SHA256_LEN], theirs[RT_SHA256_LEN], mac[RT_SHA256_LEN], want[RT_SHA256_LEN];

    if (rt_random(mine, sizeof mine) < 0 || send_all(fd, mine, sizeof mine) ||
        recv_all(fd, theirs, sizeof theirs))
        return -1;
    prove(d, 'c', theirs, mine, mac);
    prove(d, 'w', theirs, mine, want);
    if (send_all(fd, mac, sizeof mac) || recv_all(fd, mac, sizeof mac))
        return -1;
    return rt_hmac_equal(want, mac) ? 0 : -1;
}

static void limit_proof(int fd, int seconds)
{
    struct timeval t = { .tv_sec = seconds };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

/* ---- weftd --wait ---- */

static void leave(int sig)
{
    (void)sig;
    _exit(0);
}

/* In a process of its own: an agent whose channel is the connection. */
static _Noreturn void serve(const struct door *d, int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGTERM, SIG_DFL);
    alarm(PROOF_S);
    if (meet_caller(d, fd))
        _exit(LAUNCH_EXIT_FAIL);
    alarm(0);
    if (setsid() < 0 || dup2(fd, 0) < 0 || dup2(fd, 1) < 0)
        _exit(LAUNCH_EXIT_FAIL);
    execl("/proc/self/exe", "weftd", (char *)NULL);
    _exit(agent_refuse("could not start an agent: %s", strerror(errno)));
}

static int listen_with(const struct door *d, int family)
{
    struct addrinfo hints = { .ai_family = family,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE },
                    *a;
    int one = 1, zero = 0;

    if (getaddrinfo(NULL, d->port, &hints, &a))
        return -1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (fd >= 0 && (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    freeaddrinfo(a);
    return fd;
}

#define NOBODY (-2) /* the caller has gone */

static int accept_one(int door)
{
    int one = 1, fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return errno == EINTR || errno == ECONNABORTED || errno == EAGAIN ? NOBODY : -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Returns the end of a pipe whose other end is open until the caller has shown the key. */
static int start(const struct door *d, int fd)
{
    int ends[2];
    pid_t pid = -1;
    if (pipe2(ends, O_CLOEXEC) == 0) {
        pid = fork();
        if (pid == 0)
            serve(d, fd);
        close(ends[1]);
        if (pid < 0)
            close(ends[0]);
    }
    if (pid > 0)
        return ends[0];
    agent_refuse("--wait: could not start a process: %s", strerror(errno));
    return -1;
}

/* May be process 1 of a container: signals have no default action there, and orphans are its. */
static int wait_for_mpirun(const struct door *d)
{
    int door = listen_with(d, AF_INET6);
    if (door < 0 && errno == EAFNOSUPPORT)
        door = listen_with(d, AF_INET);
    if (door < 0)
        return agent_refuse("--wait: could not listen on port %s: %s", d->port, strerror(errno));
    signal(SIGTERM, leave);
    signal(SIGINT, leave);
    signal(SIGCHLD, SIG_IGN);
    /* Behind the door a pipe for each caller that has not shown the key: its other end closes when
     * the process of the caller ends, or becomes an agent. */
    struct pollfd p[1 + PROVING_MAX] = { { .events = POLLIN } };
    for (int n = 1, fd;;) {
        p[0].fd = n <= PROVING_MAX ? door : -1;
        if (poll(p, (nfds_t)n, -1) < 0)
            continue;
        for (int i = n - 1; i > 0; i--)
            if (p[i].revents) {
                close(p[i].fd);
                p[i] = p[--n];
            }
        if (!(p[0].revents & POLLIN) || (fd = accept_one(door)) == NOBODY)
            continue;
        if (fd < 0)
            return agent_refuse("--wait: could not accept a connection: %s", strerror(errno));
        int end = start(d, fd);
        if (end >= 0)
            p[n++] = (struct pollfd){ .fd = end };
        close(fd);
    }
}

/* ---- weftd --call ---- */

static int connect_once(const struct door *d, const char *host, const char **why)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
    int fd = -1, err = getaddrinfo(host, d->port, &hints, &list);

    *why = err ? gai_strerror(err) : NULL;
    for (struct addrinfo *a = err ? NULL : list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
            *why = strerror(errno);
            close(fd);
            fd = -1;
        }
    }
    if (!err)
        freeaddrinfo(list);
    return fd;
}

/* mpirun decides how long: it ends this process, or closes its input, after host_timeout_s. */
static int connect_to(const struct door *d, const char *host)
{
    const char *why = "";
    bool told = false;
    for (;;) {
        struct pollfd in = { .fd = 0 };
        int fd = connect_once(d, host, &why);
        if (fd >= 0)
            return fd;
        if (!told)
            agent_refuse("waiting for weftd --wait on %s, port %s: %s", host, d->port, why);
        told = true;
        if (poll(&in, 1, RETRY_MS) > 0)
            return -1;
    }
}

static void copy(int from, int to)
{
    static char buf[1 << 16];
    for (;;) {
        ssize_t n = read(from, buf, sizeof buf);
        if (n == 0 || (n < 0 && errno != EINTR) || (n > 0 && send_all(to, buf, (size_t)n)))
            return;
    }
}

static int call(const struct door *d, const char *host)
{
    const char *at = strrchr(host, '@'); /* a user is a matter of ssh */
    int one = 1, fd = connect_to(d, at ? at + 1 : host);
    if (fd < 0)
        return LAUNCH_EXIT_FAIL;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    limit_proof(fd, PROOF_S);
    if (meet_waiter(d, fd))
        return agent_refuse("what answers on %s, port %s, does not have the key in %s", host,
                            d->port, d->key_file);
    limit_proof(fd, 0);
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return agent_refuse("could not start a process: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        close(1);
        copy(0, fd);
        shutdown(fd, SHUT_WR);
        _exit(0);
    }
    copy(fd, 1);
    return 0;
}

int agent_await(int argc, char **argv)
{
    struct door d = { .port = PORT };
    bool calls = !strcmp(argv[1], "--call");
    int i = 2;

    signal(SIGPIPE, SIG_IGN);
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (!strcmp(argv[i], "--key"))
            d.key_file = argv[i + 1];
        else if (!strcmp(argv[i], "--port"))
            d.port = argv[i + 1];
        else
            break;
    }
    if (!d.key_file || (calls ? i >= argc : i < argc)) {
        agent_refuse("usage: weftd --wait --key FILE [--port N]; "
                     "mpirun --rsh \"weftd --call --key FILE [--port N]\" -H HOST,...");
        return LAUNCH_EXIT_USAGE;
    }
    int code = read_key(&d);
    if (code)
        return code;
    return calls ? call(&d, argv[i]) : wait_for_mpirun(&d);
}
