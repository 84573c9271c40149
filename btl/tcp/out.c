/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending frames on main connections.  A frame is written at once.  What the kernel does not take
 * is kept in the peer's queue, up to OUT_MAX bytes; then senders get -RT_EAGAIN.  In a burst of
 * long frames the kernel may hold the end of one frame until the next one.  The engine serialises
 * calls on the instance. */
#include "btl/tcp/out.h"
#include "runtime/base/atomic.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define OUT_MAX (256u << 10) /* four of the longest messages, besides what the kernel holds */
/* Shorter frames are copied into one buffer, which is cheaper than several iovecs. */
#define GATHER 512u

/* Most bytes collected in a pass: one write is efficient for this many. */
#define CORK_MAX (16u << 10)
#define KEEP 1024u /* memory of a queue that is kept for a connected peer */
/* The kernel carries at most 64 KiB of whole packets as one unit. */
#define LONG_FRAME (63u << 10)
#define BURST_GAP_NS 100000u /* long frames that are further apart are not held */

/* ---- writing ---- */

static int out_reserve(struct tcp_out *o, size_t more)
{
    if (o->room - o->tail >= more)
        return 0;
    if (o->head) {
        memmove(o->buf, o->buf + o->head, o->tail - o->head);
        o->tail -= o->head;
        o->head = 0;
    }
    size_t room = o->room ? o->room : KEEP;
    while (room - o->tail < more)
        room *= 2;
    if (room == o->room)
        return 0;
    char *buf = realloc(o->buf, room);
    if (!buf)
        return -RT_ENOMEM;
    o->buf = buf;
    o->room = room;
    return 0;
}

static void out_empty(struct tcp_out *o)
{
    o->head = o->tail = 0;
    if (o->room <= KEEP)
        return;
    free(o->buf);
    *o = (struct tcp_out){ 0 };
}

/* Appends the bytes of v after the first `skip`; there is room. */
static void out_append(struct tcp_out *o, const struct iovec *v, int nv, size_t skip)
{
    for (int i = 0; i < nv; i++) {
        size_t n = v[i].iov_len > skip ? v[i].iov_len - skip : 0;
        if (n)
            memcpy(o->buf + o->tail, (const char *)v[i].iov_base + (v[i].iov_len - n), n);
        o->tail += n;
        skip -= v[i].iov_len - n;
    }
}

/* Returns the number of bytes that the kernel took.  An error of the connection is not reported to
 * the sender: progress() detects it too, after it has read the last data of the peer. */
static size_t write_now(int fd, const struct iovec *v, int nv, size_t total)
{
    char small[GATHER];
    ssize_t n;

    if (total <= sizeof small) {
        size_t at = 0;
        for (int i = 0; i < nv; i++) {
            memcpy(small + at, v[i].iov_base, v[i].iov_len);
            at += v[i].iov_len;
        }
        n = send(fd, small, at, MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
        struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)v, .msg_iovlen = (size_t)nv };
        n = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    return n < 0 ? 0 : (size_t)n;
}

/* A frame of 64 KiB is a little longer than the largest unit that the kernel carries, so its end
 * would pass through both kernels as a packet of its own.  From the second frame of a burst on,
 * Nagle's algorithm holds the end, so that it is sent with the next frame.  The end is sent at the
 * latest when the end of the previous frame has been acknowledged, when this process polls for
 * events, or when a short frame follows. */
static void burst_go_on(struct tcp_conn *c)
{
    struct btl_tcp *b = c->tcp;
    uint64_t now = rt_now_ns();
    if (b->burst != c || now - b->long_ns > BURST_GAP_NS) {
        tcp_burst_end(b);
        b->burst = c;
    } else if (!b->burst_holds) {
        tcp_set_option(c->fd, IPPROTO_TCP, TCP_NODELAY, 0);
        b->burst_holds = true;
    }
    b->long_ns = now;
}

void tcp_burst_end(struct btl_tcp *b)
{
    if (rt_unlikely(b->burst_holds))
        tcp_set_option(b->burst->fd, IPPROTO_TCP, TCP_NODELAY, 1); /* sends the held bytes */
    b->burst_holds = false;
    b->burst = NULL;
}

static void add(struct iovec *v, int *nv, const void *buf, size_t len)
{
    if (len)
        v[(*nv)++] = (struct iovec){ (void *)(uintptr_t)buf, len };
}

int tcp_frame_send(struct tcp_peer *p, enum tcp_kind kind, const struct btl_hdr *h,
                   const void *more, size_t more_len, const void *buf, size_t len, bool always)
{
    static const char zeros[TCP_HEAD_LONG];
    struct btl_tcp *b = (struct btl_tcp *)p->base.btl;
    struct tcp_frame f = { tcp_word(kind, more_len + len), *h };
    size_t head = tcp_head(more_len + len), total = tcp_frame_len(more_len + len);
    size_t queued = p->out.tail - p->out.head, n = 0;
    struct iovec v[5] = { { &f, sizeof f } };
    int nv = 1;
    add(v, &nv, zeros, head - sizeof f);
    add(v, &nv, more, more_len);
    add(v, &nv, buf, len);
    add(v, &nv, zeros, total - head - more_len - len);

    if (rt_unlikely(p->lost))
        return -RT_EPEER;
    p->bye_out = kind == TCP_BYE;
    if (rt_unlikely(p->losing_ns || (queued && queued + total > OUT_MAX && !always)))
        return -RT_EAGAIN;
    bool cork = b->corking && p->up && total <= GATHER && queued < CORK_MAX;
    if (queued && !cork && !rt_list_empty(&p->cork)) { /* frames collected earlier are sent first */
        tcp_out_flush(p);
        queued = p->out.tail - p->out.head;
    }
    if (rt_likely(p->up && !queued && !cork)) {
        if (total >= LONG_FRAME)
            burst_go_on(p->main);
        n = write_now(p->main->fd, v, nv, total);
        if (rt_unlikely(b->burst == p->main && total < LONG_FRAME))
            tcp_burst_end(b);
        if (rt_likely(n == total))
            return 0;
    }
    int err = out_reserve(&p->out, total - n);
    if (err < 0 && n) /* part of the frame has been sent: no other frame can follow */
        RT_BUG("out of memory: %zu bytes for a message to rank %u", total - n, p->base.proc.rank);
    if (err < 0)
        return err;
    out_append(&p->out, v, nv, n);
    if (cork && rt_list_empty(&p->cork))
        rt_list_append(&b->corked, &p->cork);
    else if (!cork && p->up)
        tcp_conn_watch(p->main, EPOLLIN | EPOLLOUT);
    return 0;
}

int tcp_out_flush(struct tcp_peer *p)
{
    struct tcp_out *o = &p->out;
    int events = 0;

    while (o->head < o->tail) {
        ssize_t n = send(p->main->fd, o->buf + o->head, o->tail - o->head,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0) {
            tcp_conn_watch(p->main, EPOLLIN | EPOLLOUT);
            return events;
        }
        o->head += (size_t)n;
        events++;
    }
    out_empty(o);
    tcp_conn_watch(p->main, EPOLLIN);
    return events;
}

/* Answers to the messages of one pass are sent together: a window of 64 long messages is answered
 * by one packet instead of 64. */
void tcp_uncork(struct btl_tcp *b)
{
    if (--b->corking)
        return;
    while (!rt_list_empty(&b->corked)) {
        struct tcp_peer *p = rt_container(b->corked.next, struct tcp_peer, cork);
        rt_list_del(&p->cork);
        if (p->up)
            tcp_out_flush(p);
    }
}
