/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory, and the pieces of puts.  A short put is a frame of the main connection, which
 * keeps it in order with messages (send.c).  A long put is cut into pieces, and each lane takes the
 * next piece when it has finished one.  The target reads the data of a piece directly into their
 * destination and acknowledges the piece on the main connection; done() is called after the last
 * acknowledgement.
 *
 * Awaited puts are not acknowledged: the target notifies its user, and done() is called when the
 * origin's kernel has the data.  If a lane that may contain such data breaks, the peer is lost.
 *
 * A key names a region by index and generation.  Data for memory that is not registered now are
 * never written; they end the connection.  The engine serialises calls on the instance. */
#include "btl/tcp/rma.h"
#include "btl/tcp/out.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/mem/activity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Length of a piece.  Several puts take turns by pieces, and each lane carries one at a time. */
#define PIECE (1u << 20)
/* Bytes read or written before other connections get a turn. */
#define TURN (1u << 20)

/* ---- registered memory ---- */

int tcp_mem_reg(struct btl *btl, void *base, size_t len, const struct rt_gpu_ptr *at,
                struct btl_mem **out)
{
    return at ? -RT_ENOTSUP : btl_region_add(&((struct btl_tcp *)btl)->regions, base, len, out);
}

void tcp_expect(struct btl_mem *m, struct btl_peer *from, struct btl_op *op)
{
    m->filled = op;
    m->from = from;
    m->missing = m->len;
    ((struct tcp_peer *)from)->awaited++;
}

static void expect_no_more(struct btl_mem *m)
{
    if (m->filled)
        ((struct tcp_peer *)m->from)->awaited--;
    m->filled = NULL;
}

void tcp_mem_dereg(struct btl_mem *m)
{
    expect_no_more(m);
    btl_region_drop(m);
}

int tcp_mem_key(const struct btl_mem *m, void *key)
{
    struct tcp_key k = { .region = m->region, .gen = m->gen, .len = m->len };
    memcpy(key, &k, sizeof k);
    return 0;
}

void tcp_rma_close(struct btl_tcp *b) { btl_regions_fini(&b->regions); }

int tcp_attach(struct btl_peer *peer, const void *key, const struct rt_gpu_ptr *near,
               struct btl_rmem **out)
{
    (void)near;
    struct tcp_rmem *r = malloc(sizeof *r);
    if (!r)
        return -RT_ENOMEM;
    r->base = (struct btl_rmem){ .ptr = NULL };
    r->peer = (struct tcp_peer *)peer;
    memcpy(&r->key, key, sizeof r->key);
    *out = &r->base;
    return 0;
}

void tcp_detach(struct btl_rmem *r) { free(r); }

/* ---- puts, at the origin ---- */

void tcp_xfer_finish(struct btl_tcp *b, struct tcp_xfer *x, int err)
{
    rt_list_del(&x->link);
    x->err = err;
    rt_list_append(&b->finished, &x->link);
}

static void xfer_end(struct tcp_xfer *x, int err)
{
    struct btl_op *op = x->op;
    rt_list_del(&x->link);
    free(x);
    op->done(op, err); /* may start another put */
}

int tcp_finished(struct btl_tcp *b)
{
    struct rt_list *last =
        b->finished.prev; /* puts that the calls finish are handled in the next pass */
    bool more = !rt_list_empty(&b->finished);
    int n = 0;
    while (more) {
        struct tcp_xfer *x = rt_container(b->finished.next, struct tcp_xfer, link);
        more = &x->link != last;
        xfer_end(x, x->err);
        n++;
    }
    return n;
}

void tcp_xfers_fail(struct tcp_peer *p, int err)
{
    for (int i = 0; i < p->nlanes; i++)
        p->lanes[i]->piece_out.xfer = NULL;
    while (!rt_list_empty(&p->xfers))
        tcp_xfer_finish(tcp_instance(p), rt_container(p->xfers.next, struct tcp_xfer, link), err);
}

/* Closes each lane that has sent a part of a piece, because no other piece may follow that part. */
void tcp_xfers_drop(struct tcp_peer *p)
{
    for (int i = p->nlanes; i-- > 0;) {
        struct tcp_piece_out *o = &p->lanes[i]->piece_out;
        bool half = o->xfer && o->pos;
        o->xfer = NULL;
        if (half)
            tcp_conn_close(p->lanes[i]);
    }
    p->dropped = tcp_instance(p)->next_put;
    while (!rt_list_empty(&p->xfers)) {
        struct tcp_xfer *x = rt_container(p->xfers.next, struct tcp_xfer, link);
        rt_list_del(&x->link);
        free(x);
    }
}

/* Takes the next piece of the peer's puts, round robin.  False: all pieces have been taken. */
static bool piece_next(struct tcp_peer *p, struct tcp_piece_out *out)
{
    struct rt_list *pos;
    rt_list_each (pos, &p->xfers) {
        struct tcp_xfer *x = rt_container(pos, struct tcp_xfer, link);
        uint64_t left = x->len - x->cut, len = left < PIECE ? left : PIECE;
        if (!left)
            continue;
        *out = (struct tcp_piece_out){ .frame = { .magic = TCP_LANE_MAGIC,
                                                  .put = x->id,
                                                  .region = x->key.region,
                                                  .gen = x->key.gen,
                                                  .off = x->off + x->cut,
                                                  .len = len },
                                       .xfer = x };
        x->cut += len;
        rt_list_del(&x->link);
        rt_list_append(&p->xfers, &x->link);
        return true;
    }
    return false;
}

/* The kernel has taken the whole piece. */
static void piece_left(struct tcp_conn *c)
{
    struct tcp_xfer *x = c->piece_out.xfer;
    c->piece_out.xfer = NULL;
    if (!x->awaited)
        return;
    x->acked += c->piece_out.frame.len;
    if (x->acked == x->len)
        tcp_xfer_finish(c->tcp, x, 0);
}

/* Writes the part of the piece that the kernel takes.  False: the kernel took nothing. */
static bool piece_write(struct tcp_conn *c)
{
    struct tcp_piece_out *o = &c->piece_out;
    const size_t head = sizeof o->frame;
    uint64_t at = o->pos < head ? 0 : o->pos - head, left = o->frame.len - at;
    const char *src = o->xfer->src + (o->frame.off - o->xfer->off) + at;
    struct iovec v[2] = { { (char *)&o->frame + o->pos, head - o->pos },
                          { (void *)(uintptr_t)src, left < TURN ? left : TURN } };
    ssize_t n;

    if (o->pos < head) {
        struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
        n = sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
        n = send(c->fd, src, v[1].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (n <= 0)
        return false; /* progress() detects an error */
    o->pos += (uint64_t)n;
    rt_activity_moved((uint64_t)n);
    if (o->pos == head + o->frame.len)
        piece_left(c);
    return true;
}

int tcp_lane_write(struct tcp_conn *c)
{
    int n = 0;
    for (size_t budget = 2; budget; budget--) {
        if (!c->piece_out.xfer && !piece_next(c->peer, &c->piece_out)) {
            tcp_conn_watch(c, EPOLLIN);
            return n;
        }
        if (!piece_write(c))
            break;
        n++;
    }
    tcp_conn_watch(c, EPOLLIN | EPOLLOUT);
    return n;
}

void tcp_lanes_feed(struct tcp_peer *p)
{
    for (int i = 0; i < p->nlanes; i++) {
        struct tcp_conn *c = p->lanes[i];
        if (c->state == TCP_UP && !c->piece_out.xfer)
            tcp_lane_write(c);
    }
}

int tcp_ack_in(struct tcp_peer *p, const struct btl_hdr *h)
{
    uint64_t n = (uint32_t)h->tag | (uint64_t)h->src << 32;
    struct rt_list *pos;
    rt_list_each (pos, &p->xfers) {
        struct tcp_xfer *x = rt_container(pos, struct tcp_xfer, link);
        if (x->id != h->ctx)
            continue;
        if (x->awaited || n > x->cut - x->acked)
            return -RT_EINVAL;
        x->acked += n;
        if (x->acked == x->len)
            xfer_end(x, 0);
        return 0;
    }
    return (int32_t)(h->ctx - p->dropped) > 0 ? -RT_EINVAL : 0;
}

/* ---- puts, at the target ---- */

/* len more bytes have arrived in memory for which the engine has called expect(). */
static int filled(struct tcp_peer *p, struct btl_mem *m, uint64_t len)
{
    struct btl_op *op = m->filled;
    if (m->from != &p->base || len > m->missing)
        return -RT_EINVAL;
    m->missing -= len;
    if (!m->missing) {
        expect_no_more(m);
        op->done(op, 0);
    }
    return 0;
}

int tcp_put_in(struct tcp_peer *p, const struct tcp_frame *f, const char *payload, size_t len)
{
    struct btl_tcp *b = (struct btl_tcp *)p->base.btl;
    uint64_t off;
    if (b->closing)
        return 0;
    if (len < sizeof off)
        return -RT_EINVAL;
    memcpy(&off, payload, sizeof off);
    len -= sizeof off;
    char *to = btl_region_at(&b->regions, (uint32_t)f->hdr.tag, f->hdr.src, off, len);
    if (!to)
        return -RT_EPERM;
    memcpy(to, payload + sizeof off, len);
    struct btl_mem *m = b->regions.at[f->hdr.tag];
    return m->filled ? filled(p, m, len) : 0;
}

static int acknowledge(struct tcp_peer *p, const struct tcp_lane_frame *f)
{
    struct btl_hdr h = { f->put, (int32_t)(uint32_t)f->len, (uint32_t)(f->len >> 32) };
    int err = tcp_frame_send(p, TCP_ACK, &h, NULL, 0, NULL, 0, true);
    return err == -RT_ENOMEM ? err : 0; /* a lost peer needs no acknowledgement */
}

/* The piece is complete.  Returns 0 or an error for tcp_lane_read(). */
static int piece_end(struct tcp_conn *c, const struct tcp_lane_frame *f)
{
    struct btl_mem *m = c->tcp->regions.at[f->region];
    return m->filled ? filled(c->peer, m, f->len) : acknowledge(c->peer, f);
}

/* Destination of the rest of the piece; NULL: the frame is invalid, or its memory is not
 * registered. */
static char *piece_place(const struct tcp_conn *c)
{
    const struct tcp_piece_in *in = &c->piece_in;
    const struct tcp_lane_frame *f = &in->frame;
    if (f->magic != TCP_LANE_MAGIC || f->len > UINT64_MAX - f->off)
        return NULL;
    char *to = btl_region_at(&c->tcp->regions, f->region, f->gen, f->off, f->len);
    return to ? to + in->pos : NULL;
}

/* One read: the rest of a header, or data and the header that may follow them.  Returns the number
 * of bytes or -1 (errno); *fault: an error of piece_end(). */
static ssize_t piece_read(struct tcp_conn *c, int *fault)
{
    struct tcp_piece_in *in = &c->piece_in;
    const size_t head = sizeof in->frame;
    struct tcp_lane_frame next;

    if (in->have < head) {
        ssize_t n = recv(c->fd, (char *)&in->frame + in->have, head - in->have, MSG_DONTWAIT);
        in->have += n > 0 ? (uint32_t)n : 0;
        return n;
    }
    uint64_t left = in->frame.len - in->pos, len = left < TURN ? left : TURN;
    struct iovec v[2] = { { piece_place(c), len }, { &next, len == left ? head : 0 } };
    ssize_t n = readv(c->fd, v, 2);
    if (n <= 0)
        return n;
    rt_activity_moved((uint64_t)n);
    uint64_t data = (uint64_t)n < len ? (uint64_t)n : len;
    in->pos += data;
    if (in->pos < in->frame.len)
        return n;
    struct tcp_lane_frame f = in->frame;
    in->pos = 0;
    in->have = (uint32_t)((uint64_t)n - data);
    memcpy(&in->frame, &next, in->have);
    *fault = piece_end(c, &f);
    return n;
}

static int bad_piece(const struct tcp_conn *c)
{
    const struct tcp_lane_frame *f = &c->piece_in.frame;
    log_error(BTL,
              "tcp: rank %u put %llu bytes at %llu of region %u.%u, which is not registered; "
              "closing the connection",
              c->peer->base.proc.rank, (unsigned long long)f->len, (unsigned long long)f->off,
              f->region, f->gen);
    return -RT_EPERM;
}

int tcp_lane_read(struct tcp_conn *c)
{
    struct tcp_piece_in *in = &c->piece_in;
    int events = 0, fault = 0;
    for (int turn = 0; turn < 2; turn++) {
        if (in->have == sizeof in->frame && c->tcp->closing) {
            tcp_conn_close(c); /* the peer no longer waits for the data */
            return events + 1;
        }
        if (in->have == sizeof in->frame && !piece_place(c))
            return bad_piece(c);
        ssize_t n = piece_read(c, &fault);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return events;
        events++;
        if (n == 0)
            errno = 0;
        if (n <= 0 || fault)
            return n <= 0 ? -RT_EPEER : fault;
        if (c->state == TCP_CLOSED || n > (ssize_t)sizeof in->frame)
            return events; /* little follows data, and a read locks the socket */
    }
    return events;
}

const char *tcp_lane_fault(int err)
{
    if (err == -RT_ENOMEM)
        return "out of memory to acknowledge its put";
    return err == -RT_EPERM ? "it put data outside registered memory" : "it put unexpected data";
}

int tcp_lanes_drain(struct tcp_peer *p)
{
    for (int i = p->nlanes; i-- > 0 && p->awaited;) {
        struct tcp_conn *c = p->lanes[i];
        int n = 1;
        while (c->state == TCP_UP && p->awaited && n > 0)
            n = tcp_lane_read(c);
        if (n < 0 && n != -RT_EPEER)
            return n;
    }
    return 0;
}
