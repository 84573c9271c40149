/* SPDX-License-Identifier: BSD-3-Clause */
/* Connecting to a peer, one route after the other; opening lanes; connections that come up or
 * break.
 *
 * The engine serialises calls on the instance.  Only functions below progress() make upward
 * calls. */
#include "btl/tcp/connect.h"
#include "btl/tcp/addr.h"
#include "btl/tcp/disconnect.h"
#include "btl/tcp/out.h"
#include "btl/tcp/rma.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS 1000000u
#define RETRY_NS (50u * MS) /* before the next attempt; longer than a round trip */
#define LANE_TRIES 10

static void routes_free(struct tcp_peer *p)
{
    free(p->routes);
    p->routes = NULL;
    p->nroutes = p->route = 0;
}

static int attempt_start(struct tcp_peer *p, const struct tcp_route *r, enum tcp_purpose purpose,
                         bool bound, struct tcp_conn **out)
{
    struct btl_tcp *b = tcp_instance(p);
    socklen_t len = r->to.sa.sa_family == AF_INET ? sizeof r->to.in : sizeof r->to.in6;
    int fd = socket(r->to.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    struct tcp_conn *c = tcp_conn_new(b, fd, TCP_CONNECTING);
    if (!c) {
        close(fd);
        return -ENOMEM;
    }
    c->peer = p;
    c->purpose = purpose;
    *out = c;
    if (bound && bind(fd, &r->from.sa, len) < 0)
        log_debug(BTL, "tcp: cannot bind to %s: %m", tcp_addr_text(&r->from));
    log_debug(BTL, "tcp: connecting to rank %u at %s", p->base.proc.rank, tcp_addr_text(&r->to));
    if (connect(fd, &r->to.sa, len) < 0 && errno != EINPROGRESS)
        return -errno;
    tcp_conn_watch(c, EPOLLOUT | EPOLLIN);
    return 0;
}

void tcp_connect(struct tcp_peer *p)
{
    struct btl_tcp *b = tcp_instance(p);
    uint64_t now = rt_now_ns();
    b->stirred = true;
    if (!p->first_try_ns)
        p->first_try_ns = now;
    p->retry_ns = 0;
    p->try_ns = now;
    if (!p->routes) {
        p->routes = calloc(TCP_ADDRS_MAX + 1, sizeof *p->routes);
        p->nroutes = p->routes && p->addr ? tcp_routes(b, p->addr, p->routes) : 0;
        p->route = 0;
    }
    for (; p->route < p->nroutes; p->route++) {
        struct tcp_conn *c = NULL;
        int err = attempt_start(p, &p->routes[p->route], TCP_FOR_MAIN, false, &c);
        if (err == 0) {
            p->main = c;
            tcp_need_work(p); /* the kernel may try for minutes; this transport's limit is
                               * shorter */
            return;
        }
        p->last_errno = -err;
        if (c)
            tcp_conn_close(c);
    }
    p->route = 0;
    p->retry_ns = now + RETRY_NS;
    tcp_need_work(p);
}

static void lane_start(struct tcp_peer *p, const struct tcp_route *r, bool bound)
{
    struct tcp_conn *c = NULL;
    int err = attempt_start(p, r, TCP_FOR_LANE, bound, &c);
    if (c)
        p->lanes[p->nlanes++] = c;
    if (err && c)
        tcp_attempt_failed(c, -err);
    else if (err)
        tcp_peer_losing(p, -err);
}

/* Whether one of the first n routes leads to the same interface. */
static bool is_taken(const struct tcp_route *r, int n, uint16_t index)
{
    for (int i = 0; i < n; i++)
        if (r[i].index == index)
            return true;
    return false;
}

/* The peer's interface to which the main connection leads. */
static uint16_t main_index(const struct tcp_route *r, int n, const union tcp_sockaddr *to)
{
    for (int i = 0; i < n; i++)
        if (!memcmp(&r[i].to, to, sizeof *to))
            return r[i].index;
    return 0;
}

/* Asks the peer to open lanes, because only the side that made the main connection can. */
static void lanes_ask(struct tcp_peer *p)
{
    struct btl_hdr none = { 0 };
    if (!p->lanes_wanted && tcp_frame_send(p, TCP_WANT_LANE, &none, NULL, 0, NULL, 0, true) == 0)
        p->lanes_wanted = true;
}

/* Opens one lane on the route of the main connection, and one on each other network to which both
 * hosts are attached. */
void tcp_lanes_open(struct tcp_peer *p)
{
    struct btl_tcp *b = tcp_instance(p);
    if (p->nlanes || !p->up)
        return;
    p->lanes_missed = false;
    if (!p->connector) {
        lanes_ask(p);
        return;
    }
    struct tcp_route r[TCP_ADDRS_MAX + 1], used[TCP_LANES_MAX] = { { .score = 0 } };
    socklen_t len = sizeof used[0].to;
    int n = tcp_routes(b, p->addr, r), nused = 1;
    if (getpeername(p->main->fd, &used[0].to.sa, &len) < 0)
        return; /* the connection has just broken; progress() will notice */
    used[0].index = main_index(r, n, &used[0].to);
    lane_start(p, &used[0], false);
    bool local = b->place && b->place == p->addr->place;
    for (int i = 0; i < n && !local && nused < TCP_LANES_MAX; i++) {
        if (!r[i].same_net || is_taken(used, nused, r[i].index))
            continue;
        used[nused++] = r[i];
        lane_start(p, &r[i], true);
    }
}

/* Of two processes that are long outside MPI during a handshake, one may close the lane.  The main
 * connection is there, so the lane is opened again. */
static void lane_failed(struct tcp_peer *p, int err, bool shook)
{
    if (p->nlanes || p->lost)
        return;
    if (shook && p->up && p->lane_failures++ < LANE_TRIES)
        tcp_lanes_open(p);
    else
        tcp_peer_losing(p, err);
}

void tcp_attempt_failed(struct tcp_conn *c, int err)
{
    struct tcp_peer *p = c->peer;
    bool is_main = p->main == c;
    uint64_t now = rt_now_ns();
    log_debug(BTL, "tcp: no connection to rank %u: %s", p->base.proc.rank, strerror(err));
    /* A peer that is not calling MPI does not answer: that time does not count. */
    if (is_main && c->state != TCP_CONNECTING && p->first_try_ns)
        p->first_try_ns = err == EBUSY ? now : p->first_try_ns + (now - c->since_ns);
    bool shook = c->state != TCP_CONNECTING;
    tcp_conn_close(c);
    if (!is_main) {
        lane_failed(p, err, shook);
        return;
    }
    p->last_errno = err;
    p->route++;
    if (p->route < p->nroutes) {
        tcp_connect(p);
        return;
    }
    p->route = 0;
    p->retry_ns = now + RETRY_NS;
    tcp_need_work(p);
}

/* ---- up ---- */

void tcp_conn_up(struct tcp_conn *c, struct tcp_peer *p, bool connector)
{
    c->peer = p;
    if (tcp_is_accepted(c)) {
        tcp_set_options(c->fd); /* only now, so that a flood of unauthenticated connections costs
                                 * less */
        if (--c->tcp->nhalf_in < TCP_HALF_MAX)
            tcp_listener_watch(c->tcp, true);
    }
    if (epoll_ctl(c->tcp->half_epoll, EPOLL_CTL_DEL, c->fd, &(struct epoll_event){ 0 }) < 0)
        RT_BUG("epoll_ctl: %m");
    c->events = 0;
    c->state = TCP_UP;
    free(c->shake);
    c->shake = NULL;
    memset(&c->piece_in, 0, sizeof c->piece_in);
    memset(&c->in, 0, sizeof c->in);
    rt_list_del(&c->link);
    rt_list_append(&c->tcp->conns, &c->link);
    tcp_conn_watch(c, EPOLLIN);
    if (c->purpose == TCP_FOR_MAIN) {
        p->main = c;
        p->up = true;
        p->connector = connector;
        p->first_try_ns = p->retry_ns = 0;
        routes_free(p);
        log_debug(BTL, "tcp: connected with rank %u at %s", p->base.proc.rank, tcp_fd_text(c->fd));
        if (p->out.tail > p->out.head) {
            tcp_conn_watch(c, EPOLLIN | EPOLLOUT);
            tcp_out_flush(p);
        }
        return;
    }
    p->lanes_missed = false;
    p->lane_failures = 0;
    if (!connector)
        p->lanes[p->nlanes++] = c;
    if (!rt_list_empty(&p->xfers))
        tcp_lane_write(c);
}

void tcp_conn_broken(struct tcp_conn *c, int err)
{
    struct tcp_peer *p = c->peer;
    bool is_main = p->main == c;
    tcp_conn_close(c);
    if (p->lost)
        return;
    if (is_main && p->bye_in)
        tcp_peer_left(p);
    else if (is_main || !rt_list_empty(&p->xfers) || p->awaited)
        tcp_peer_losing(p, err); /* a lane that carries no put is reopened when the next put needs
                                  * one */
    else if (p->lanes_missed)
        tcp_lanes_open(p);
}

/* The peer would refuse each new attempt, and each refusal would start another attempt. */
void tcp_given_up(struct tcp_conn *c)
{
    struct tcp_peer *p = c->peer;
    log_error(BTL, "tcp: rank %u lost this process earlier and refuses its connection",
              p->base.proc.rank);
    tcp_conn_close(c);
    tcp_peer_losing(p, ECONNRESET);
}
