/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps other users, and ranks that die while they connect, away from the PMIx server.  Since
 * version 4, PMIx listens on TCP only, reads the first message of a connection with blocking reads
 * on its only thread, and trusts the user id in this message.  So any user of the host could stop
 * the server with a silent connection, or impersonate a rank.  The kernel knows the owner of each
 * socket of this host (sock_diag(7)). Connections that another user has opened are closed before
 * PMIx sees them.  Connections of the same user reach PMIx when their first bytes have arrived, so
 * a port scanner blocks nothing.
 *
 * PMIx calls accept(2), listen(2) and send(2) through dynamic symbols.  The executable's own
 * definitions, in this file, take precedence over those of libc.  They are called on a thread of
 * PMIx, never block, and keep no state. */
#include "launcher/job.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How long the kernel keeps a silent connection back; its limit without data is eight hours. */
#define DEFER_S 86400

/* One end of a TCP connection, as the kernel's query names it. */
struct query {
    struct nlmsghdr head;
    struct inet_diag_req_v2 req;
};

static void set_end(const struct sockaddr_storage *from, __be16 *port, __be32 addr[4])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
    *port = from->ss_family == AF_INET ? v4->sin_port : v6->sin6_port;
    if (from->ss_family == AF_INET)
        addr[0] = v4->sin_addr.s_addr;
    else
        memcpy(addr, &v6->sin6_addr, sizeof v6->sin6_addr);
}

/* The owner of the socket of this host with the address `from`: if `to` is not NULL, of the
 * established connection to `to`, otherwise of the listening socket.  -1: there is none, or the
 * kernel does not report it. */
static int64_t find_owner(const struct sockaddr_storage *from, const struct sockaddr_storage *to)
{
    int state = to ? TCP_ESTABLISHED : TCP_LISTEN;
    struct query q = { .head = { .nlmsg_len = sizeof q,
                                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                                 .nlmsg_flags = NLM_F_REQUEST },
                       .req = { .sdiag_family = (uint8_t)from->ss_family,
                                .sdiag_protocol = IPPROTO_TCP,
                                .idiag_states = 1u << state } };
    struct {
        struct nlmsghdr head;
        struct inet_diag_msg msg;
        char more[512];
    } a;
    struct inet_diag_sockid *id = &q.req.id;
    int64_t owner = -1;

    set_end(from, &id->idiag_sport, id->idiag_src);
    if (to)
        set_end(to, &id->idiag_dport, id->idiag_dst);
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (s < 0)
        return -1;
    if (send(s, &q, sizeof q, 0) == (ssize_t)sizeof q &&
        recv(s, &a, sizeof a, MSG_DONTWAIT) >= (ssize_t)(sizeof a.head + sizeof a.msg) &&
        a.head.nlmsg_type == SOCK_DIAG_BY_FAMILY && a.msg.idiag_state == state &&
        a.msg.id.idiag_sport == id->idiag_sport && a.msg.id.idiag_dport == id->idiag_dport)
        owner = a.msg.idiag_uid;
    close(s);
    return owner;
}

/* Whether the connection was opened by another user.  A connection whose other end has been closed
 * has no owner, and is none of this job.  If the kernel does not report even the listening socket,
 * the owner is unknown and the connection is accepted. */
static bool is_foreign(int listener, int fd, const struct sockaddr_storage *peer)
{
    struct sockaddr_storage own = { 0 };
    socklen_t len = sizeof own;

    if ((peer->ss_family != AF_INET && peer->ss_family != AF_INET6) ||
        getsockname(listener, (struct sockaddr *)&own, &len) < 0 || find_owner(&own, NULL) < 0)
        return false;
    len = sizeof own;
    return getsockname(fd, (struct sockaddr *)&own, &len) < 0 ||
           find_owner(peer, &own) != (int64_t)geteuid();
}

/* Replaces listen() for PMIx.  The kernel reports a connection when its first data arrive.  The
 * connections inherit TCP_NODELAY: without it, an answer behind an event is delayed by 40 ms, until
 * the rank's kernel has acknowledged the event. */
int launch_listen(int fd, int backlog) __asm__("listen");
__attribute__((visibility("default"))) int launch_listen(int fd, int backlog)
{
    int defer_s = DEFER_S, yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s, sizeof defer_s);
    return (int)syscall(SYS_listen, fd, backlog);
}

/* Replaces accept() for PMIx.  Every failure is EAGAIN, because PMIx stops listening after any
 * other error. */
int launch_accept(int fd, struct sockaddr *addr, socklen_t *len) __asm__("accept");
__attribute__((visibility("default"))) int launch_accept(int fd, struct sockaddr *addr,
                                                         socklen_t *len)
{
    struct sockaddr_storage peer = { 0 };
    socklen_t n = sizeof peer;
    int s = rt_accept(fd, (struct sockaddr *)&peer, &n, false);

    if (s < 0) {
        if (errno == EMFILE || errno == ENFILE)
            usleep(1000); /* the connection stays readable until a descriptor is free */
        errno = EAGAIN;
        return -1;
    }
    if (is_foreign(fd, s, &peer)) {
        log_info(LAUNCH, "closed a connection of another user to the PMIx server");
        close(s);
        errno = EAGAIN;
        return -1;
    }
    if (addr && len) {
        memcpy(addr, &peer, n < *len ? n : *len);
        *len = n;
    }
    return s;
}

/* Replaces send() for PMIx, which calls it for the answers of a handshake only.  If one fails
 * because the rank has died, PMIx 4 to 6 free the entry of this rank twice and leave it in their
 * list.  So this function reports success; PMIx then reads the end of the connection and handles
 * the death.  Other callers in the launcher use MSG_NOSIGNAL, and see the error. */
ssize_t launch_send(int fd, const void *data, size_t len, int flags) __asm__("send");
__attribute__((visibility("default"))) ssize_t launch_send(int fd, const void *data, size_t len,
                                                           int flags)
{
    ssize_t n = sendto(fd, data, len, flags, NULL, 0);
    return n < 0 && !flags && (errno == EPIPE || errno == ECONNRESET) ? (ssize_t)len : n;
}
