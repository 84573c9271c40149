/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of peers, and connections as objects: created, watched by epoll, closed.
 *
 * A closed connection is freed at the end of the pass, because events that epoll has returned may
 * still name it.  The engine serialises calls on the instance. */
#include "btl/tcp/conn.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/mem/segment.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- peers ---- */

static struct tcp_peer **bucket(struct btl_tcp *b, struct rt_proc proc)
{
    return &b->peers[(proc.rank + proc.ns * 31) % TCP_BUCKETS];
}

struct tcp_peer *tcp_peer_find(struct btl_tcp *b, struct rt_proc proc)
{
    struct tcp_peer *p = *bucket(b, proc);
    while (p && (p->base.proc.rank != proc.rank || p->base.proc.ns != proc.ns))
        p = p->next;
    return p;
}

struct tcp_peer *tcp_peer_get(struct btl_tcp *b, struct rt_proc proc)
{
    struct tcp_peer *p = tcp_peer_find(b, proc);
    if (p)
        return p;
    p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->base.btl = &b->base;
    p->base.proc = proc;
    rt_list_init(&p->xfers);
    rt_list_init(&p->work);
    rt_list_init(&p->cork);
    p->next = *bucket(b, proc);
    *bucket(b, proc) = p;
    return p;
}

void tcp_need_work(struct tcp_peer *p)
{
    if (!rt_list_empty(&p->work))
        return;
    rt_list_append(&tcp_instance(p)->work, &p->work);
    rt_bell_ring_self(); /* a sleeping thread must wake to see the new timer */
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

/* Keepalive detects a dead host while no data are in flight; timers.c detects it by missing
 * acknowledgements while data are.  TCP_USER_TIMEOUT is not usable: it would also end the
 * connection to a live process that is not calling MPI and therefore keeps its window closed. */
void tcp_set_options(int fd)
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
    rt_bell_ring_self(); /* a sleeping thread must wake to see the new timer */
    if (state == TCP_CONNECTING)
        tcp_set_options(fd);
    return c;
}

static void lane_forget(struct tcp_peer *p, const struct tcp_conn *c)
{
    for (int i = 0; i < p->nlanes; i++)
        if (p->lanes[i] == c) {
            p->lanes[i] = p->lanes[--p->nlanes];
            p->lanes_wanted = false; /* the next put must ask for lanes again */
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

void tcp_in_drop(struct tcp_conn *c)
{
    struct tcp_in *in = &c->in;
    if (in->part != in->small)
        free(in->part);
    in->part = NULL;
    in->have = in->need = in->room = 0;
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
    if (b->burst == c) { /* close() sends what burst_go_on() has held back */
        b->burst = NULL;
        b->burst_holds = false;
    }
    close(c->fd); /* also removes it from epoll */
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
