/* SPDX-License-Identifier: BSD-3-Clause */
/* The listener, unauthenticated connections, and connection setup on both sides, until a connection
 * is up.
 *
 * If two processes connect to each other at once, one connection is kept.  A process that has sent
 * its hello refuses the connection of a higher rank (TCP_BUSY); the higher rank then waits for the
 * lower rank's connection.  Processes of two jobs compare the ids of their jobs instead.  A process
 * whose own attempt has not sent its hello gives up the attempt and accepts the peer's connection.
 * A refused process tries again later, in case the other attempt fails.  This file makes no upward
 * calls. */
#include "btl/tcp/accept.h"
#include "btl/tcp/addr.h"
#include "btl/tcp/connect.h"
#include "btl/tcp/handshake.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS 1000000u
/* If the maximum of accepted connections is held and each has a valid hello without a proof, the
 * oldest is closed after this time.  A process that is calling MPI answers much sooner. */
#define HALF_SHORT_NS (250u * MS)
/* Connections accepted in one pass.  Each takes 10 us, so a flood of connections delays messages
 * little. */
#define ACCEPT_MAX 16

/* ---- listening ---- */

static int bind_range(int fd, union tcp_sockaddr *a, socklen_t len)
{
    unsigned lo = 0, hi = 0;
    in_port_t *port = a->sa.sa_family == AF_INET ? &a->in.sin_port : &a->in6.sin6_port;
    if (!*cfg.tcp_ports)
        return bind(fd, &a->sa, len);
    int end = 0, n = sscanf(cfg.tcp_ports, "%u %n-%u %n", &lo, &end, &hi, &end);
    bool right = n >= 1 && !cfg.tcp_ports[end] && lo >= 1 && lo <= 65535;
    if (!right || (n == 2 && (hi < lo || hi > 65535))) {
        log_error(BTL, "WEFT_TCP_PORTS is \"%s\"; it has the form FIRST-LAST, 1 to 65535",
                  cfg.tcp_ports);
        errno = 0; /* logged above */
        return -1;
    }
    if (n == 1)
        hi = lo;
    unsigned count = hi - lo + 1, start = (unsigned)rt_boot.local_rank % count;
    for (unsigned i = 0; i < count; i++) {
        *port = htons((in_port_t)(lo + (start + i) % count));
        if (bind(fd, &a->sa, len) == 0)
            return 0;
        if (errno != EADDRINUSE)
            return -1;
    }
    return -1;
}

static int listen_on(int family)
{
    union tcp_sockaddr a = { 0 };
    socklen_t len = family == AF_INET ? sizeof a.in : sizeof a.in6;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    a.sa.sa_family = (sa_family_t)family; /* address zero: all addresses of the host */
    if (family == AF_INET6)
        tcp_set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (*cfg.tcp_ports)
        tcp_set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind_range(fd, &a, len) < 0 || listen(fd, 4096) < 0) {
        int err = errno;
        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}

int tcp_listen(struct btl_tcp *b)
{
    union tcp_sockaddr a = { 0 };
    socklen_t len = sizeof a;
    b->listener = listen_on(AF_INET6);
    if (b->listener < 0 && errno == EAFNOSUPPORT)
        b->listener = listen_on(AF_INET);
    if (b->listener < 0) {
        if (errno)
            log_error(BTL, "tcp: no port to listen on%s%s: %m%s", *cfg.tcp_ports ? " in " : "",
                      cfg.tcp_ports, *cfg.tcp_ports ? "; each process of a host takes one" : "");
        return -RT_ESYS;
    }
    getsockname(b->listener, &a.sa, &len);
    b->port = ntohs(a.sa.sa_family == AF_INET ? a.in.sin_port : a.in6.sin6_port);
    tcp_listener_watch(b, true);
    return 0;
}

/* ---- unauthenticated connections ---- */

static bool same_host(const union tcp_sockaddr *a, const union tcp_sockaddr *b)
{
    if (a->sa.sa_family != b->sa.sa_family)
        return false;
    return a->sa.sa_family == AF_INET
               ? a->in.sin_addr.s_addr == b->in.sin_addr.s_addr
               : !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof a->in6.sin6_addr);
}

/* One warning for each host, up to a number of hosts, so that a flood does not fill the disk with
 * log lines. */
void tcp_reject(struct tcp_conn *c, const char *what)
{
    struct btl_tcp *b = c->tcp;
    const int max = sizeof b->warned / sizeof b->warned[0];
    union tcp_sockaddr a = { 0 };
    socklen_t len = sizeof a;

    if (getpeername(c->fd, &a.sa, &len) == 0) {
        bool known = b->nwarned >= max;
        for (int i = 0; i < b->nwarned && !known; i++)
            known = same_host(&b->warned[i], &a);
        if (!known) {
            b->warned[b->nwarned++] = a;
            log_warn(BTL,
                     "tcp: a connection from %s %s; it was closed without other effect "
                     "(logged once for each host)",
                     tcp_addr_text(&a), what);
        }
    }
    tcp_conn_close(c);
}

/* Whether this process is the lower of the two: by rank, or by job; both come to the same answer.
 */
static bool is_lower(const struct tcp_peer *p)
{
    struct rt_name own = tcp_own_name(), other = rt_boot_name(p->base.proc);
    return own.job != other.job ? own.job < other.job : own.rank < other.rank;
}

/* The peer is authenticated.  Returns whether this connection is kept. */
static bool main_welcome(struct tcp_peer *p)
{
    if (p->lost || p->up || p->losing_ns)
        return false;
    if (p->main && p->main->state != TCP_CONNECTING && is_lower(p))
        return false; /* this process's own attempt is further */
    return true;
}

static bool lane_welcome(const struct tcp_peer *p)
{
    return p->up && !p->lost && p->nlanes < TCP_LANES_MAX;
}

static void proved(struct tcp_conn *c)
{
    const struct tcp_hello *h = &c->shake->hello;
    struct rt_proc from;
    /* A process of another job may have met this process before this one has its card: it tries
     * again. */
    bool known = rt_boot_proc((struct rt_name){ h->job, h->from, 0 }, &from) == 0;
    struct tcp_peer *p = known ? tcp_peer_get(c->tcp, from) : NULL;
    bool is_main = h->purpose == TCP_FOR_MAIN;
    c->purpose = h->purpose;
    bool welcome = p && (is_main ? main_welcome(p) : lane_welcome(p));
    enum tcp_answer answer = welcome ? TCP_ACCEPTED : p && p->lost ? TCP_GIVEN_UP : TCP_BUSY;
    if (tcp_shake_send_verdict(c, answer) < 0 || !welcome) {
        tcp_conn_close(c);
        return;
    }
    if (is_main && p->main)
        tcp_conn_close(p->main); /* this process's own attempt; its messages are still in the
                                  * queue */
    tcp_conn_up(c, p, false);
}

static void verdict(struct tcp_conn *c)
{
    struct tcp_peer *p = c->peer;
    if (!tcp_shake_verdict_ok(c, p->addr->key)) {
        log_warn(BTL, "tcp: the process that listens at %s is not rank %u", tcp_fd_text(c->fd),
                 p->base.proc.rank);
        tcp_attempt_failed(c, EPROTO);
    } else if (c->shake->verdict.answer == TCP_GIVEN_UP) {
        tcp_given_up(c);
    } else if (c->shake->verdict.answer == TCP_BUSY) {
        tcp_attempt_failed(c, EBUSY); /* the peer's connection is being set up */
    } else {
        tcp_conn_up(c, p, true);
    }
}

/* A complete record has arrived. */
static void record(struct tcp_conn *c)
{
    switch (c->state) {
    case TCP_WAIT_HELLO:
        if (!tcp_shake_hello_ok(c->tcp, &c->shake->hello))
            tcp_reject(c, "is not meant for this process (another job, or another byte order)");
        else if (tcp_shake_send_challenge(c) < 0)
            tcp_conn_close(c);
        else {
            c->state = TCP_WAIT_PROOF;
            c->since_ns = rt_now_ns();
        }
        return;
    case TCP_WAIT_PROOF:
        if (!tcp_shake_proof_ok(c))
            tcp_reject(c, "does not know the key of this job");
        else
            proved(c);
        return;
    case TCP_WAIT_CHALLENGE:
        if (tcp_shake_send_proof(c, c->peer->addr->key) < 0)
            tcp_attempt_failed(c, errno);
        else
            c->state = TCP_WAIT_VERDICT;
        return;
    default:
        verdict(c);
    }
}

static void connected(struct tcp_conn *c)
{
    int err = 0;
    socklen_t len = sizeof err;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
    if (err) {
        tcp_attempt_failed(c, err);
        return;
    }
    c->state = TCP_WAIT_CHALLENGE;
    tcp_conn_watch(c, EPOLLIN);
    if (tcp_shake_send_hello(c, c->peer->base.proc) < 0)
        tcp_attempt_failed(c, errno);
}

static int conn_step(struct tcp_conn *c, uint32_t events)
{
    if (c->state == TCP_CONNECTING) {
        if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
            connected(c);
        return 1;
    }
    enum tcp_shook s = tcp_shake_read(c);
    if (s == TCP_SHAKE_NEXT)
        record(c);
    else if (s != TCP_SHAKE_MORE && !tcp_is_accepted(c))
        tcp_attempt_failed(c, s == TCP_SHAKE_BAD ? EPROTO : errno ? errno : ECONNRESET);
    else if (s == TCP_SHAKE_BAD)
        tcp_reject(c, "does not speak this protocol");
    else if (s == TCP_SHAKE_END && c->has_data && c->state == TCP_WAIT_HELLO)
        tcp_reject(c, "ended within its first record");
    else if (s == TCP_SHAKE_END) /* a port scanner, or a process that tries another address */
        tcp_conn_close(c);
    return 1;
}

static struct tcp_conn *oldest(const struct btl_tcp *b, enum tcp_state state)
{
    struct rt_list *pos;
    rt_list_each (pos, &b->half) {
        struct tcp_conn *c = rt_container(pos, struct tcp_conn, link);
        if (c->state == state)
            return c;
    }
    return NULL;
}

/* Closes an unauthenticated connection to make room for a new one.  A connection without a valid
 * hello is closed at once: only processes of this job can send a valid hello, so no other process
 * can delay a peer, and a peer of this job connects again.  Otherwise the oldest connection is
 * closed once it has lasted HALF_SHORT_NS. */
static bool make_room(struct btl_tcp *b)
{
    struct tcp_conn *c;
    while ((c = oldest(b, TCP_WAIT_HELLO))) {
        conn_step(c, EPOLLIN); /* its hello may have arrived, but not been read */
        if (c->state == TCP_WAIT_HELLO)
            tcp_reject(c, "sent no valid first record, and others wait");
        if (c->state == TCP_CLOSED)
            return true;
    }
    c = oldest(b, TCP_WAIT_PROOF);
    if (!c || rt_now_ns() - c->since_ns < HALF_SHORT_NS)
        return false;
    tcp_reject(c, "did not authenticate itself, and others wait");
    return true;
}

static void accept_all(struct btl_tcp *b)
{
    for (int i = 0; i < ACCEPT_MAX; i++) {
        if (b->nhalf_in >= TCP_HALF_MAX && !make_room(b)) {
            tcp_listener_watch(b, false);
            return;
        }
        int fd = rt_accept(b->listener, NULL, NULL, true);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE) {
                log_error(BTL,
                          "tcp: no descriptor is left for a connection: %m; raise the limit "
                          "(ulimit -n) of %s",
                          rt_boot.host);
                tcp_listener_watch(b, false);
            }
            return;
        }
        struct tcp_conn *c = tcp_conn_new(b, fd, TCP_WAIT_HELLO);
        if (!c)
            close(fd);
        else if (!tcp_is_published(b, fd))
            tcp_reject(c, "came by an address that WEFT_TCP_IF excludes");
        else
            tcp_conn_watch(c, EPOLLIN);
    }
}

int tcp_half_pass(struct btl_tcp *b, int wait_ms)
{
    struct epoll_event e[16];
    int n = epoll_wait(b->half_epoll, e, 16, wait_ms);
    for (int i = 0; i < n; i++) {
        struct tcp_conn *c = e[i].data.ptr;
        if (!c)
            accept_all(b);
        else if (c->state != TCP_CLOSED && c->state != TCP_UP)
            conn_step(c, e[i].events);
    }
    return n > 0 ? n : 0;
}

/* Enough for two round trips to a peer that is calling MPI.  If the peer is not, the wait ends
 * without a connection, and the waits for further peers are shorter. */
#define PATIENCE_NS (2u * MS)

void tcp_connect_first(struct tcp_peer *p)
{
    struct btl_tcp *b = tcp_instance(p);
    uint64_t now = rt_now_ns(), end = now + b->patience_ns;
    tcp_connect(p);
    while (p->main && !p->up && now < end) {
        tcp_half_pass(b, (int)((end - now) / MS));
        now = rt_now_ns();
    }
    b->patience_ns = p->up ? PATIENCE_NS : b->patience_ns / 2;
}
