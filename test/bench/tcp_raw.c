/* SPDX-License-Identifier: BSD-3-Clause */
/* A ping-pong over one TCP connection with epoll and nothing else: what the machine can do, to
 * compare btl/tcp with.
 *     tcp_raw listen PORT
 *     tcp_raw connect ADDRESS PORT spin|block SECONDS SIZE...
 * The connector prints "SIZE microseconds" a line: half a round trip.  `spin` asks epoll without
 * waiting, `block` sleeps in it; both sides do the same. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SIZE_MAX_BYTES (4u << 20)

struct order {     /* what the connector sends to the listener before a size */
    uint32_t size; /* 0: the end */
    uint32_t rounds;
    uint32_t spin;
};

static char buf[SIZE_MAX_BYTES];

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "tcp_raw: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void write_all(int fd, const void *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = send(fd, (const char *)data + at, len - at, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            die("send");
        at += n > 0 ? (size_t)n : 0;
    }
}

static void read_all(int ep, int fd, void *data, size_t len, int wait_ms)
{
    for (size_t at = 0; at < len;) {
        struct epoll_event e;
        if (epoll_wait(ep, &e, 1, wait_ms) < 1)
            continue;
        ssize_t n = recv(fd, (char *)data + at, len - at, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            die("recv");
        at += n > 0 ? (size_t)n : 0;
    }
}

static int epoll_on(int fd)
{
    struct epoll_event e = { .events = EPOLLIN };
    int ep = epoll_create1(0), one = 1;
    if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) < 0)
        die("epoll");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return ep;
}

static int listener(int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int one = 1, l = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(l, (struct sockaddr *)&a, sizeof a) < 0 || listen(l, 1) < 0)
        die("listen");
    int fd = accept4(l, NULL, NULL, SOCK_NONBLOCK);
    if (fd < 0)
        die("accept");
    int ep = epoll_on(fd);
    for (;;) {
        struct order o;
        read_all(ep, fd, &o, sizeof o, -1);
        if (!o.size)
            return 0;
        for (uint32_t i = 0; i < o.rounds; i++) {
            read_all(ep, fd, buf, o.size, o.spin ? 0 : -1);
            write_all(fd, buf, o.size);
        }
    }
}

static double rounds(int ep, int fd, uint32_t size, uint32_t n, bool spin)
{
    struct order o = { size, n, spin };
    write_all(fd, &o, sizeof o);
    double begin = now_us();
    for (uint32_t i = 0; i < n; i++) {
        write_all(fd, buf, size);
        read_all(ep, fd, buf, size, spin ? 0 : -1);
    }
    return (now_us() - begin) / n / 2;
}

static int connector(char **argv)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])) };
    int fd = -1;
    bool spin = !strcmp(argv[2], "spin");
    double seconds = atof(argv[3]);
    if (inet_pton(AF_INET, argv[0], &a.sin_addr) != 1)
        die(argv[0]);
    for (int i = 0; i < 500; i++, usleep(10000)) { /* the listener may not be there yet */
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
            break;
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        die("connect");
    int ep = epoll_on(fd);
    for (char **s = argv + 4; *s; s++) {
        uint32_t size = (uint32_t)strtoul(*s, NULL, 10);
        if (!size || size > sizeof buf)
            die(*s);
        double us = rounds(ep, fd, size, 200, spin); /* also warms up */
        printf("%u %.3f\n", size, rounds(ep, fd, size, (uint32_t)(seconds * 5e5 / us) + 10, spin));
    }
    write_all(fd, &(struct order){ 0, 0, 0 }, sizeof(struct order));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "listen"))
        return listener(atoi(argv[2]));
    if (argc > 6 && !strcmp(argv[1], "connect"))
        return connector(argv + 2);
    fprintf(stderr, "usage: tcp_raw listen PORT | tcp_raw connect ADDRESS PORT spin|block SECONDS "
                    "SIZE...\n");
    return 2;
}
