/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames on main connections.  A frame is written at once, but in bursts of long ones the kernel
 * may keep the end of one for the next; what the kernel does not take is kept in the peer's queue,
 * up to OUT_MAX, beyond which senders get -RT_EAGAIN.  Reading goes into one buffer that all
 * connections share, and payload is handed up from there; only the part of a frame that is not
 * complete is copied, and its rest is read to its place.  Called with the instance serialised by
 * the engine. */
#include "btl/tcp/tcp.h"
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

#define OUT_MAX (256u << 10) /* four longest messages, beside what the kernel holds */
#define GATHER 512u          /* shorter frames are copied together: cheaper than an iovec each */

#define CORK_MAX (16u << 10)   /* held back in a pass: what one write carries well */
#define KEEP 1024u             /* a queue's memory that stays with a connected peer */
#define LONG_READ 4096         /* more than a packet or two */
#define LONG_FRAME (63u << 10) /* the kernel carries whole packets in one piece, 64 KiB at most */
#define BURST_GAP_NS 100000u   /* long frames that are further apart do not wait for each other */

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

/* Appends what follows the first `skip` bytes of v; there is room. */
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

/* Bytes the kernel took.  An error of the connection is no business of a sender: progress() finds
 * it too, after it has read what the peer said last. */
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

/* A frame of 64 KiB is a little longer than what the kernel carries in one piece, and its end would
 * go through both kernels as a packet of its own.  From the second frame of a burst on Nagle's rule
 * holds it, so that it goes with the next frame.  It waits no longer than until the end before it
 * has been acknowledged, this process looks for events, or something short follows. */
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
        tcp_set_option(b->burst->fd, IPPROTO_TCP, TCP_NODELAY, 1); /* sends what is held */
    b->burst_holds = false;
    b->burst = NULL;
}

static void watch_for_room(struct tcp_peer *p)
{
    if (p->up) {
        tcp_conn_watch(p->main, EPOLLIN | EPOLLOUT);
    } else if (!p->main && !p->retry_ns) {
        tcp_connect(p);
        tcp_connect_wait(p);
    }
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
    if (queued && !cork && !rt_list_empty(&p->cork)) { /* what was held back goes before */
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
    if (err < 0 && n) /* half a frame has left: nothing else can follow */
        RT_BUG("out of memory: %zu bytes for a message to rank %u", total - n, p->base.proc.rank);
    if (err < 0)
        return err;
    out_append(&p->out, v, nv, n);
    if (!cork)
        watch_for_room(p);
    else if (rt_list_empty(&p->cork))
        rt_list_append(&b->corked, &p->cork);
    return 0;
}

int tcp_send(struct btl_peer *peer, const struct btl_hdr *h, const void *buf, size_t len)
{
    struct tcp_peer *p = (struct tcp_peer *)peer;
    int err = tcp_frame_send(p, TCP_MSG, h, NULL, 0, buf, len, false);
    if (rt_unlikely(err == -RT_EPEER))
        tcp_need_work(p); /* progress() notifies the engine, if it has not yet */
    return err;
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

/* Answers to what one pass has brought leave together: a window of long messages is answered by one
 * packet instead of sixty-four. */
void tcp_uncork(struct btl_tcp *b)
{
    b->corking = false;
    while (!rt_list_empty(&b->corked)) {
        struct tcp_peer *p = rt_container(b->corked.next, struct tcp_peer, cork);
        rt_list_del(&p->cork);
        if (p->up)
            tcp_out_flush(p);
    }
}

/* ---- reading ---- */

void tcp_in_drop(struct tcp_conn *c)
{
    struct tcp_in *in = &c->in;
    if (in->part != in->small)
        free(in->part);
    in->part = NULL;
    in->have = in->need = in->room = 0;
}

/* Room for a frame of `need` bytes, keeping those that are there. */
static int in_reserve(struct tcp_in *in, uint32_t need)
{
    if (!in->part) {
        in->part = in->small;
        in->room = sizeof in->small;
    }
    if (need > in->room) {
        char *buf = malloc(need);
        if (!buf)
            return -RT_ENOMEM;
        memcpy(buf, in->part, in->have);
        if (in->part != in->small)
            free(in->part);
        in->part = buf;
        in->room = need;
    }
    in->need = need;
    return 0;
}

/* Bytes of the frame that begins with this header; 0: it is none. */
static uint32_t frame_len(const struct tcp_frame *f)
{
    uint32_t kind = tcp_word_kind(f->word), len = tcp_word_len(f->word);
    uint32_t max = kind == TCP_MSG ? TCP_LEN_MAX : kind == TCP_PUT ? TCP_LEN_MAX + 8 : 0;
    if (kind < TCP_MSG || kind > TCP_BYE || len > max)
        return 0;
    return (uint32_t)tcp_frame_len(len);
}

static void bad_frame(struct tcp_conn *c, const struct tcp_frame *f)
{
    log_error(BTL, "tcp: rank %u sent an invalid frame (0x%08x); closing the connection",
              c->peer->base.proc.rank, f->word);
    tcp_peer_lost(c->peer, "it does not keep to the protocol");
}

static void deliver(struct tcp_conn *c, const struct tcp_frame *f)
{
    struct tcp_peer *p = c->peer;
    struct btl_tcp *b = c->tcp;
    uint32_t len = tcp_word_len(f->word);
    const char *payload = (const char *)f + tcp_head(len);
    int err = 0;

    switch (tcp_word_kind(f->word)) {
    case TCP_MSG:
        p->bye_in = false; /* it stays after all: MPI is used again */
        if (rt_likely(!b->closing))
            b->up.recv(b->up.arg, &p->base, &f->hdr, payload, len);
        break;
    case TCP_PUT:
        err = tcp_put_in(p, f, payload, len);
        break;
    case TCP_ACK:
        err = tcp_ack_in(p, &f->hdr);
        break;
    case TCP_WANT_LANE: /* there is one: on its way up, or its end has not been seen yet */
        p->lanes_missed = p->nlanes > 0;
        tcp_lanes_open(p);
        break;
    default:
        p->bye_in = true;
        break;
    }
    if (rt_unlikely(err < 0) && !p->lost)
        bad_frame(c, f);
}

/* Hands up the complete frames of [*at, *at + *left); afterwards those are what follows them, the
 * beginning of a frame of *need bytes, if anything.  Returns the frames. */
static int take_frames(struct tcp_conn *c, const char **at, size_t *left, uint32_t *need)
{
    int n = 0;
    for (; *left >= sizeof(struct tcp_frame); n++) {
        const struct tcp_frame *f = (const struct tcp_frame *)(const void *)*at;
        *need = frame_len(f);
        if (rt_unlikely(!*need)) {
            bad_frame(c, f);
            *left = 0;
            return n + 1;
        }
        if (*left < *need)
            return n;
        deliver(c, f);
        if (rt_unlikely(c->state == TCP_CLOSED))
            return n + 1;
        *at += *need;
        *left -= *need;
    }
    *need = sizeof(struct tcp_frame);
    return n;
}

/* The frame that had begun before: `got` bytes have been read to its place, [at, at + left) follow.
 * Afterwards *at and *left are what follows the frame.  False: it is not complete yet, or the
 * connection is closed. */
static bool finish_part(struct tcp_conn *c, size_t got, const char **at, size_t *left)
{
    struct tcp_in *in = &c->in;
    in->have += (uint32_t)got;
    if (in->have < in->need)
        return false;
    const struct tcp_frame *f = (const struct tcp_frame *)(const void *)in->part;
    uint32_t len = frame_len(f);
    if (!len) {
        bad_frame(c, f);
        return false;
    }
    if (len > in->have) { /* only the header had been known */
        if (in_reserve(in, len) < 0) {
            tcp_peer_lost(c->peer, "out of memory for its message");
            return false;
        }
        size_t n = len - in->have < *left ? len - in->have : *left;
        memcpy(in->part + in->have, *at, n);
        in->have += (uint32_t)n;
        *at += n;
        *left -= n;
        if (in->have < len)
            return false;
        f = (const struct tcp_frame *)(const void *)in->part;
    }
    deliver(c, f);
    if (c->state == TCP_CLOSED)
        return false;
    tcp_in_drop(c);
    return true;
}

static void part_keep(struct tcp_conn *c, const char *at, size_t left, uint32_t need)
{
    if (in_reserve(&c->in, need) < 0) {
        tcp_peer_lost(c->peer, "out of memory for its message");
        return;
    }
    memcpy(c->in.part, at, left);
    c->in.have = (uint32_t)left;
}

/* One read into what is free of the shared buffer behind `left` bytes at `at`, which move to its
 * begin first.  Bytes read; 0: none are there, or the connection has ended. */
static size_t read_more(struct tcp_conn *c, const char *at, size_t left)
{
    char *rx = c->tcp->rx;
    if (at != rx)
        memmove(rx, at, left);
    ssize_t n = recv(c->fd, rx + left, TCP_RX - left, MSG_DONTWAIT);
    if (n > 0)
        return (size_t)n;
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        tcp_conn_broken(c, n < 0 ? errno : 0);
    return 0;
}

/* Frames of what was read.  The rest of a long one mostly arrives while its beginning is read, and
 * one more read gets it, instead of the beginning being put aside: the kernel carries 64 KiB in one
 * piece, and the longest frame is a little longer (64 KiB: 35 us without, 32 with). */
static int take(struct tcp_conn *c, const char *at, size_t left)
{
    uint32_t need;
    int n = take_frames(c, &at, &left, &need);
    if (left >= LONG_READ && c->state != TCP_CLOSED) {
        size_t more = read_more(c, at, left);
        at = c->tcp->rx;
        left += more;
        if (more)
            n += take_frames(c, &at, &left, &need);
    }
    if (left && c->state != TCP_CLOSED)
        part_keep(c, at, left, need);
    return n;
}

int tcp_main_read(struct tcp_conn *c)
{
    struct tcp_in *in = &c->in;
    struct iovec v[2] = { { in->part + in->have, in->need - in->have }, { c->tcp->rx, TCP_RX } };
    ssize_t n = rt_likely(!in->need) ? recv(c->fd, c->tcp->rx, TCP_RX, MSG_DONTWAIT)
                                     : readv(c->fd, v, 2);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        tcp_conn_broken(c, n < 0 ? errno : 0);
        return 1;
    }
    const char *at = c->tcp->rx;
    size_t left = (size_t)n;
    c->long_read = left >= LONG_READ;
    if (in->need) {
        size_t got = v[0].iov_len < left ? v[0].iov_len : left;
        left -= got;
        if (!finish_part(c, got, &at, &left))
            return 1;
    }
    return take(c, at, left) + 1;
}
