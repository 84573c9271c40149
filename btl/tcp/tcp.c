/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport: opening and closing, addresses, peers, progress, leaving.  A process closes only
 * after all its data have reached the peers' kernels.  The engine serialises calls on the
 * instance. */
#include "btl/tcp/tcp.h"
#include "btl/tcp/accept.h"
#include "btl/tcp/addr.h"
#include "btl/tcp/connect.h"
#include "btl/tcp/disconnect.h"
#include "btl/tcp/handshake.h"
#include "btl/tcp/in.h"
#include "btl/tcp/out.h"
#include "btl/tcp/rma.h"
#include "btl/tcp/send.h"
#include "btl/tcp/timers.h"
#include "runtime/base/atomic.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 32 /* events taken from epoll in one pass */

static struct btl_tcp *tcp_of(struct btl *b) { return (struct btl_tcp *)b; }

static void reap(struct btl_tcp *b)
{
    while (!rt_list_empty(&b->dead)) {
        struct tcp_conn *c = rt_container(b->dead.next, struct tcp_conn, link);
        rt_list_del(&c->link);
        free(c);
    }
}

static int lane_event(struct tcp_conn *c)
{
    int n = tcp_lane_read(c);
    if (rt_likely(n >= 0))
        return n;
    if (n == -RT_EPEER)
        tcp_conn_broken(c, errno);
    else
        tcp_peer_lost(c->peer, tcp_lane_fault(n));
    return 1;
}

static int conn_event(struct tcp_conn *c, uint32_t events)
{
    int n = 0;
    if (c->state == TCP_CLOSED)
        return 0;
    bool in = events & (EPOLLIN | EPOLLERR | EPOLLHUP);
    if (rt_likely(c->purpose == TCP_FOR_MAIN)) {
        if (events & EPOLLOUT)
            n += tcp_out_flush(c->peer);
        return in ? n + tcp_main_read(c) : n;
    }
    if (events & EPOLLOUT)
        n += tcp_lane_write(c);
    return in ? n + lane_event(c) : n;
}

/* One pass over epoll.  It does not call done() of finished puts; the callers do. */
static int pass(struct btl_tcp *b)
{
    struct epoll_event e[EVENTS];
    int n = 0, nevents = epoll_wait(b->epoll, e, EVENTS, 0);

    b->corking++;
    for (int i = 0; i < nevents; i++) {
        if (e[i].data.ptr)
            n += conn_event(e[i].data.ptr, e[i].events);
        else
            n += tcp_half_pass(b, 0);
    }
    tcp_uncork(b);
    if (rt_unlikely(!rt_list_empty(&b->work) || !rt_list_empty(&b->half) ||
                    rt_now_ns() >= b->next_check_ns))
        tcp_timers(b);
    if (rt_unlikely(!rt_list_empty(&b->dead)))
        reap(b);
    return n;
}

/* After a long time without events, progress() polls epoll less often: at most every 32nd part of
 * that time.  The added latency is small compared with the wait, and processes that communicate by
 * shared memory are not slowed down by system calls. */
#define GAP_SHARE 32
#define GAP_MAX_NS 50000u

static int tcp_progress(struct btl *btl)
{
    struct btl_tcp *b = tcp_of(btl);
    uint64_t now = rt_now_ns();
    tcp_burst_end(b);
    if (rt_likely(now < b->next_look_ns && !b->stirred && rt_list_empty(&b->finished)))
        return 0;
    b->corking++; /* until the end of the pass */
    int n = tcp_finished(b);
    n += pass(b);
    tcp_uncork(b);
    uint64_t gap = (now - b->last_event_ns) / GAP_SHARE;
    if (n || b->stirred)
        b->last_event_ns = now;
    b->stirred = false;
    b->next_look_ns = n ? 0 : now + (gap < GAP_MAX_NS ? gap : GAP_MAX_NS);
    return n;
}

/* Reads the peer's socket without epoll, which saves one system call, 0.7 us of 6.7 us for half a
 * round trip.  But each read of an empty socket locks the socket and delays data that arrive in
 * several packets (8 KiB took 9.1 us instead of 7.9).  So after a long read, and while memory is
 * registered, whose data arrive on lanes, the function uses epoll, which takes no lock. */
static int tcp_poll(struct btl_peer *peer)
{
    struct tcp_peer *p = (struct tcp_peer *)peer;
    struct btl_tcp *b = tcp_of(peer->btl);
    tcp_burst_end(b);
    if (rt_unlikely(!p->up || p->out.tail > p->out.head || !rt_list_empty(&p->xfers) ||
                    !rt_list_empty(&b->finished)))
        return tcp_progress(peer->btl);
    int n;
    if (p->main->long_read || b->regions.live) {
        n = pass(b);
    } else {
        b->corking++;
        n = tcp_main_read(p->main);
        tcp_uncork(b);
    }
    b->stirred |= n > 0;
    if (rt_unlikely(!rt_list_empty(&b->dead)))
        reap(b);
    return n;
}

static void tcp_hold(struct btl *btl) { tcp_of(btl)->corking++; }
static void tcp_release(struct btl *btl) { tcp_uncork(tcp_of(btl)); }

static int tcp_sleep_fd(struct btl *btl, int *limit_us)
{
    struct btl_tcp *b = tcp_of(btl);
    int us = tcp_timers_us(b);
    *limit_us = *limit_us < us ? *limit_us : us;
    b->next_look_ns = 0; /* the engine's last progress() before the sleep must poll epoll */
    return rt_list_empty(&b->finished) ? b->epoll : -RT_EAGAIN;
}

/* ---- peers ---- */

static int tcp_address(struct btl *btl, void *buf, size_t len)
{
    const struct btl_tcp *b = tcp_of(btl);
    struct tcp_address a = { .version = TCP_ADDRESS_VERSION,
                             .naddrs = (uint8_t)b->nifs,
                             .port = b->port,
                             .place = b->place };
    size_t need = tcp_address_len(b->nifs);
    if (len < need)
        return (int)need; /* the caller asks for the length */
    memcpy(a.key, b->key, sizeof a.key);
    memcpy(a.ifs, b->ifs, (size_t)b->nifs * sizeof a.ifs[0]);
    memcpy(buf, &a, need);
    return (int)need;
}

static int tcp_add_peer(struct btl *btl, const struct rt_proc *proc, const void *addr, size_t len,
                        struct btl_peer **out)
{
    struct btl_tcp *b = tcp_of(btl);
    if (proc->ns == 0 &&
        (proc->rank >= (uint32_t)rt_boot.size || proc->rank == (uint32_t)rt_boot.rank))
        return -RT_EUNREACH;
    struct tcp_peer *p = tcp_peer_find(b, *proc);
    struct tcp_address *a = NULL;
    if (!p || (!p->addr && !p->up)) {
        struct tcp_route r[TCP_ADDRS_MAX + 1];
        if (!addr)
            return -RT_EUNREACH;
        int err = tcp_address_read(addr, len, &a);
        if (err == -RT_EINVAL)
            log_error(BTL,
                      "tcp: rank %u has published an invalid address of %zu bytes: "
                      "another version of Weft?",
                      proc->rank, len);
        if (err < 0)
            return err;
        if (!p && !tcp_routes(b, a, r)) {
            free(a);
            return -RT_EUNREACH;
        }
    }
    p = tcp_peer_get(b, *proc);
    if (!p) {
        free(a);
        return -RT_ENOMEM;
    }
    if (a) {
        free(p->addr);
        p->addr = a;
    }
    if (p->lost)
        return -RT_EPEER;
    *out = &p->base;
    return 0;
}

static bool tcp_connected(const struct btl_peer *peer)
{
    const struct tcp_peer *p = (const struct tcp_peer *)peer;
    return p->up || p->main || p->retry_ns;
}

/* The connection is kept: data sent must arrive, and the peer may be added again. */
static void tcp_del_peer(struct btl_peer *peer)
{
    tcp_xfers_drop((struct tcp_peer *)peer);
    peer->up = NULL;
}

/* ---- the end ---- */

static bool all_taken(const struct tcp_conn *c)
{
    int left = 0;
    return ioctl(c->fd, SIOCOUTQ, &left) < 0 || left == 0;
}

/* Whether all data sent have reached the peer's kernel, or never will. */
static bool peer_is_done(struct tcp_peer *p)
{
    if (p->lost || p->losing_ns)
        return true;
    if (!p->up)
        return p->out.tail == p->out.head; /* nothing was ever sent */
    if (!p->bye_out) {
        struct btl_hdr none = { 0 };
        p->bye_out = tcp_frame_send(p, TCP_BYE, &none, NULL, 0, NULL, 0, true) != -RT_EAGAIN;
    }
    if (p->out.tail > p->out.head || !all_taken(p->main))
        return false;
    for (int i = 0; i < p->nlanes; i++) /* awaited puts have no acknowledgement */
        if (p->lanes[i]->state == TCP_UP && !all_taken(p->lanes[i]))
            return false;
    return true;
}

/* If a process closes a socket in which data of the peer are unread, the kernel discards sent data
 * that the peer has not received.  A peer may take any time to receive everything, as for any
 * message; a peer that dies is detected. */
static int tcp_leave(struct btl *btl)
{
    struct btl_tcp *b = tcp_of(btl);
    bool all = true;
    for (unsigned i = 0; i < TCP_BUCKETS; i++)
        for (struct tcp_peer *p = b->peers[i]; p; p = p->next)
            all = peer_is_done(p) && all;
    return all ? 0 : -RT_EAGAIN;
}

static void list_close(struct btl_tcp *b, struct rt_list *l)
{
    (void)b;
    while (!rt_list_empty(l))
        tcp_conn_close(rt_container(l->next, struct tcp_conn, link));
}

static void finished_drop(struct btl_tcp *b)
{
    while (!rt_list_empty(&b->finished)) {
        struct tcp_xfer *x = rt_container(b->finished.next, struct tcp_xfer, link);
        rt_list_del(&x->link);
        free(x);
    }
}

static void tcp_close(struct btl *btl)
{
    struct btl_tcp *b = tcp_of(btl);
    b->closing = true;
    for (unsigned i = 0; i < TCP_BUCKETS; i++)
        for (struct tcp_peer *p = b->peers[i]; p; p = p->next)
            tcp_xfers_drop(p);
    finished_drop(b);
    list_close(b, &b->half);
    list_close(b, &b->conns);
    reap(b);
    if (b->listener >= 0)
        close(b->listener);
    if (b->epoll >= 0)
        close(b->epoll);
    if (b->half_epoll >= 0)
        close(b->half_epoll);
    for (unsigned i = 0; i < TCP_BUCKETS; i++)
        for (struct tcp_peer *p = b->peers[i], *next; p; p = next) {
            next = p->next;
            free(p->addr);
            free(p->routes);
            free(p->out.buf);
            free(p);
        }
    tcp_rma_close(b);
    free(b->rx);
    free(b);
}

/* A peer needs two descriptors, three with a second lane: sets the limit to its maximum. */
static void raise_limit(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
        l.rlim_cur = l.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &l) < 0)
            log_debug(BTL, "tcp: could not raise the limit of descriptors: %m");
    }
}

static int tcp_start(struct btl_tcp *b)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = NULL };
    b->epoll = epoll_create1(EPOLL_CLOEXEC);
    b->half_epoll = epoll_create1(EPOLL_CLOEXEC);
    b->patience_ns = 2000000;
    b->rx = aligned_alloc(64, TCP_RX);
    if (!b->rx)
        return -RT_ENOMEM;
    if (b->epoll < 0 || b->half_epoll < 0 ||
        epoll_ctl(b->epoll, EPOLL_CTL_ADD, b->half_epoll, &e) < 0) {
        log_error(BTL, "tcp: epoll_create1: %m");
        return -RT_ESYS;
    }
    int err = rt_random(b->key, sizeof b->key);
    b->token = tcp_shake_token(b->key, 0);
    if (!err)
        err = tcp_ifs_find(b);
    if (!err)
        err = tcp_listen(b);
    return err;
}

static int tcp_open(const struct btl_up *up, struct btl **out, int max)
{
    if (max < 1)
        return 0;
    struct btl_tcp *b = calloc(1, sizeof *b);
    if (!b)
        return -RT_ENOMEM;
    b->up = *up;
    b->epoll = b->half_epoll = b->listener = -1;
    rt_list_init(&b->half);
    rt_list_init(&b->conns);
    rt_list_init(&b->dead);
    rt_list_init(&b->work);
    rt_list_init(&b->finished);
    rt_list_init(&b->corked);
    b->timeout_ns = (uint64_t)cfg.net_timeout_s * 1000000000u;
    b->base.ops = &btl_tcp_ops;
    b->base.caps = (struct btl_caps){
        .flags = BTL_PUT | BTL_EXPECT,
        .send_mem = RT_MEM_HOST_BITS,
        .rma_mem = RT_MEM_HOST_BITS,
        .eager_max = TCP_LEN_MAX,
        .early_max = TCP_LEN_MAX,
        .key_len = sizeof(struct tcp_key),
        .latency_ns = 15000,
        .mb_per_s = 1200,
        .put_mb_per_s = 1200,
    };
    raise_limit();
    int err = tcp_start(b);
    if (err < 0) {
        tcp_close(&b->base);
        return err;
    }
    out[0] = &b->base;
    return 1;
}

const struct btl_ops btl_tcp_ops = {
    .name = "tcp",
    .help = "TCP connections between any two processes",
    .remote = true,
    .other_jobs = true,
    .open = tcp_open,
    .close = tcp_close,
    .address = tcp_address,
    .add_peer = tcp_add_peer,
    .del_peer = tcp_del_peer,
    .connected = tcp_connected,
    .send = tcp_send,
    .send_head = tcp_send_head,
    .hold = tcp_hold,
    .release = tcp_release,
    .mem_reg = tcp_mem_reg,
    .mem_dereg = tcp_mem_dereg,
    .mem_key = tcp_mem_key,
    .expect = tcp_expect,
    .attach = tcp_attach,
    .detach = tcp_detach,
    .put = tcp_put,
    .progress = tcp_progress,
    .poll = tcp_poll,
    .sleep_fd = tcp_sleep_fd,
    .leave = tcp_leave,
};
