/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers and their connections: making them by one address after the other, bringing them up, and
 * what follows when they end.  What happens between is accept.c's.
 *
 * A connection is freed at the end of the pass in which it was closed, because epoll's answers may
 * still name it.  Called with the instance serialised by the engine; upward calls only below
 * progress(). */
#include "btl/tcp/tcp.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/mem/node.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS 1000000u
#define RETRY_NS (50u * MS)

/* ---- peers ---- */

struct tcp_peer *tcp_peer_find(struct btl_tcp *b, uint32_t rank)
{
    struct tcp_peer *p = b->peers[rank % TCP_BUCKETS];
    while (p && p->base.proc.rank != rank)
        p = p->next;
    return p;
}

struct tcp_peer *tcp_peer_get(struct btl_tcp *b, uint32_t rank)
{
    struct tcp_peer *p = tcp_peer_find(b, rank);
    if (p)
        return p;
    p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->base.btl = &b->base;
    p->base.proc.rank = rank;
    rt_list_init(&p->xfers);
    rt_list_init(&p->work);
    rt_list_init(&p->cork);
    p->next = b->peers[rank % TCP_BUCKETS];
    b->peers[rank % TCP_BUCKETS] = p;
    return p;
}

void tcp_need_work(struct tcp_peer *p)
{
    if (!rt_list_empty(&p->work))
        return;
    rt_list_append(&tcp_instance(p)->work, &p->work);
    rt_bell_ring_self(); /* a thread that sleeps does not know the new timer */
}

static void routes_free(struct tcp_peer *p)
{
    free(p->routes);
    p->routes = NULL;
    p->nroutes = p->route = 0;
}

/* ---- connections ---- */

void tcp_conn_watch(struct tcp_conn *c, uint32_t events)
{
    struct epoll_event e = { .events = events, .data.ptr = c };
    int epoll = c->state == TCP_UP ? c->tcp->epoll : c->tcp->half_epoll;
    if (c->events == events)
        return;
    if (epoll_ctl(epoll, c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &e) < 0)
        RT_BUG("epoll_ctl: %m");
    c->events = events;
}

void tcp_set_option(int fd, int level, int name, int value)
{
    if (setsockopt(fd, level, name, &value, sizeof value) < 0)
        log_debug(BTL, "tcp: socket option %d.%d is not set: %m", level, name);
}

/* Keepalive finds a dead host while no data is in flight; timers.c finds it by missing
 * acknowledgements while data is.  TCP_USER_TIMEOUT would also end the connection to a live process
 * that is not calling MPI and so leaves its window closed. */
static void set_options(int fd)
{
    int s = cfg.net_timeout_s;
    tcp_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    tcp_set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    tcp_set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, s > 3 ? s / 2 : 1);
    tcp_set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, s > 7 ? s / 8 : 1);
    tcp_set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

struct tcp_conn *tcp_conn_new(struct btl_tcp *b, int fd, enum tcp_state state)
{
    struct tcp_conn *c = calloc(1, sizeof *c);
    struct tcp_shake *s = calloc(1, sizeof *s);
    if (!c || !s) {
        free(c);
        free(s);
        return NULL;
    }
    c->tcp = b;
    c->fd = fd;
    c->state = state;
    c->shake = s;
    c->since_ns = rt_now_ns();
    rt_list_init(&c->link);
    rt_list_append(&b->half, &c->link);
    b->nhalf_in += state == TCP_WAIT_HELLO;
    rt_bell_ring_self(); /* as above */
    if (state == TCP_CONNECTING)
        set_options(fd);
    return c;
}

static void lane_forget(struct tcp_peer *p, const struct tcp_conn *c)
{
    for (int i = 0; i < p->nlanes; i++)
        if (p->lanes[i] == c) {
            p->lanes[i] = p->lanes[--p->nlanes];
            p->lanes_wanted = false; /* has to be asked for again */
            return;
        }
}

void tcp_listener_watch(struct btl_tcp *b, bool on)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = NULL };
    if (b->listening == on || b->listener < 0)
        return;
    if (epoll_ctl(b->half_epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, b->listener, &e) < 0)
        RT_BUG("epoll_ctl: %m");
    b->listening = on;
}

void tcp_conn_close(struct tcp_conn *c)
{
    struct btl_tcp *b = c->tcp;
    struct tcp_peer *p = c->peer;
    if (c->state == TCP_CLOSED)
        return;
    if (tcp_is_accepted(c) && --b->nhalf_in < TCP_HALF_MAX)
        tcp_listener_watch(b, true);
    if (c->state == TCP_UP && c->purpose == TCP_FOR_MAIN)
        tcp_in_drop(c);
    if (b->burst == c)
        tcp_burst_end(b);
    close(c->fd); /* leaves epoll by itself */
    c->fd = -1;
    c->state = TCP_CLOSED;
    free(c->shake);
    c->shake = NULL;
    rt_list_del(&c->link);
    rt_list_append(&b->dead, &c->link);
    if (p && p->main == c) {
        p->main = NULL;
        p->up = false;
    } else if (p) {
        lane_forget(p, c);
    }
}

/* ---- the end of a peer ---- */

static void close_all(struct tcp_peer *p)
{
    tcp_xfers_fail(p, -RT_EPEER);
    while (p->nlanes)
        tcp_conn_close(p->lanes[p->nlanes - 1]);
    if (p->main)
        tcp_conn_close(p->main);
    free(p->out.buf);
    p->out = (struct tcp_out){ 0 };
    routes_free(p);
    p->retry_ns = p->losing_ns = 0;
}

void tcp_peer_tell(struct tcp_peer *p)
{
    struct btl_tcp *b = tcp_instance(p);
    if (p->told)
        return;
    p->told = true;
    if (p->base.up && !b->closing)
        b->up.down(b->up.arg, &p->base, -RT_EPEER);
}

void tcp_peer_lost(struct tcp_peer *p, const char *why)
{
    if (p->lost)
        return;
    log_at(BTL, tcp_instance(p)->closing ? RT_LOG_INFO : RT_LOG_ERROR, "tcp: rank %u is lost: %s",
           p->base.proc.rank, why);
    p->lost = true;
    close_all(p);
    tcp_peer_tell(p);
}

/* The peer has announced that it sends nothing more, and its connection has ended: no error, unless
 * an operation still waits for it. */
void tcp_peer_left(struct tcp_peer *p)
{
    tcp_lanes_drain(p);
    if (p->lost)
        return;
    bool wanted = !rt_list_empty(&p->xfers) || p->out.tail > p->out.head || p->awaited;
    p->lost = true;
    close_all(p);
    if (wanted) {
        log_info(BTL, "tcp: rank %u ended while messages were incomplete", p->base.proc.rank);
        tcp_peer_tell(p);
    }
}

static void losing(struct tcp_peer *p, int err)
{
    p->last_errno = err;
    if (!p->losing_ns)
        p->losing_ns = rt_now_ns();
    tcp_need_work(p);
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
        losing(p, err); /* a lane without a put in it is opened again when one comes */
    else if (p->lanes_missed)
        tcp_lanes_open(p);
}

/* The other side lost this process some time ago, and would refuse each new attempt, which its
 * refusals would keep going for ever. */
void tcp_given_up(struct tcp_conn *c)
{
    struct tcp_peer *p = c->peer;
    log_error(BTL, "tcp: rank %u lost this process earlier and refuses its connection",
              p->base.proc.rank);
    tcp_conn_close(c);
    losing(p, ECONNRESET);
}

/* ---- connecting ---- */

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
            tcp_need_work(p); /* the kernel may try for minutes: our own limit is looked at */
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
        losing(p, -err);
}

/* Whether one of the first n routes goes to the same interface. */
static bool is_taken(const struct tcp_route *r, int n, uint16_t index)
{
    for (int i = 0; i < n; i++)
        if (r[i].index == index)
            return true;
    return false;
}

/* Which of the peer's interfaces the main connection goes to. */
static uint16_t main_index(const struct tcp_route *r, int n, const union tcp_sockaddr *to)
{
    for (int i = 0; i < n; i++)
        if (!memcmp(&r[i].to, to, sizeof *to))
            return r[i].index;
    return 0;
}

/* Only the side that made the main connection can: the other asks it. */
static void lanes_ask(struct tcp_peer *p)
{
    struct btl_hdr none = { 0 };
    if (!p->lanes_wanted && tcp_frame_send(p, TCP_WANT_LANE, &none, NULL, 0, NULL, 0, true) == 0)
        p->lanes_wanted = true;
}

/* By the way that the main connection has taken, and by each other network that both are on. */
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
        return; /* it has just broken; progress() will find out */
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

/* An attempt has come to nothing: the next way, or the first one again after a while. */
void tcp_attempt_failed(struct tcp_conn *c, int err)
{
    struct tcp_peer *p = c->peer;
    bool is_main = p->main == c;
    uint64_t now = rt_now_ns();
    log_debug(BTL, "tcp: no connection to rank %u: %s", p->base.proc.rank, strerror(err));
    /* While the other side is not calling MPI it does not answer: that time does not count. */
    if (is_main && c->state != TCP_CONNECTING && p->first_try_ns)
        p->first_try_ns = err == EBUSY ? now : p->first_try_ns + (now - c->since_ns);
    tcp_conn_close(c);
    if (!is_main) {
        if (!p->nlanes)
            losing(p, err);
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
        set_options(c->fd); /* not before: a flood of connections is cheaper */
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
    if (!connector)
        p->lanes[p->nlanes++] = c;
    if (!rt_list_empty(&p->xfers))
        tcp_lane_write(c);
}
