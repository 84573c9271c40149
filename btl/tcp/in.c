/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving frames on main connections.  All connections read into one buffer, from which payloads
 * are passed to the engine.  Only an incomplete frame is copied; the next read places the rest of
 * it behind the copy.  The engine serialises calls on the instance. */
#include "btl/tcp/in.h"
#include "btl/tcp/connect.h"
#include "btl/tcp/disconnect.h"
#include "btl/tcp/rma.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define LONG_READ 4096 /* longer than one or two packets */

/* Makes room for a frame of `need` bytes and keeps the bytes that have arrived. */
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

/* Length of the frame with this header; 0: the header is invalid. */
static uint32_t frame_len(const struct tcp_frame *f)
{
    uint32_t kind = tcp_word_kind(f->word), len = tcp_word_len(f->word);
    uint32_t max = kind == TCP_MSG   ? TCP_LEN_MAX + BTL_HEAD_MAX
                   : kind == TCP_PUT ? TCP_LEN_MAX + 8
                                     : 0;
    if (kind < TCP_MSG || kind > TCP_BYE || len > max)
        return 0;
    return (uint32_t)tcp_frame_len(len);
}

static void bad_frame(struct tcp_conn *c, const struct tcp_frame *f)
{
    log_error(BTL, "tcp: rank %u sent an invalid frame (0x%08x); closing the connection",
              c->peer->base.proc.rank, f->word);
    tcp_peer_lost(c->peer, "it has violated the protocol");
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
        p->bye_in = false; /* the peer uses MPI again after its goodbye */
        if (rt_likely(!b->closing))
            b->up.recv(b->up.arg, &p->base, &f->hdr, payload, len);
        break;
    case TCP_PUT:
        err = tcp_put_in(p, f, payload, len);
        break;
    case TCP_ACK:
        err = tcp_ack_in(p, &f->hdr);
        break;
    case TCP_WANT_LANE: /* lanes may exist: in setup, or closed by the peer and not yet noticed
                         * here */
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

/* Delivers the complete frames of [*at, *at + *left).  Afterwards [*at, *at + *left) is the
 * incomplete frame after them, if any, of *need bytes.  Returns the number of frames delivered. */
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

/* Completes a frame of which a part had arrived before: `got` bytes have been read behind that
 * part, and [at, at + left) follow.  Afterwards *at and *left describe what follows the frame.
 * False: the frame is still incomplete, or the connection is closed. */
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
    if (len > in->have) { /* before, only the header was known */
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

/* One read into the shared buffer, behind the `left` bytes at `at`, which are first moved to the
 * start.  Returns the number of bytes; 0: none are available, or the connection has ended. */
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

/* Delivers the frames in the buffer.  The end of a long frame usually arrives while its beginning
 * is read, so one more read often completes it and saves copying the beginning: the kernel carries
 * 64 KiB as one unit, and the longest frame is a little longer (64 KiB: 35 us without, 32 with). */
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
