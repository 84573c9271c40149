/* SPDX-License-Identifier: BSD-3-Clause */
/* Rendezvous: how a message starts, which way its data go, and what the peer answers (engine.h has
 * the protocol, transfer.c the states).  Called under the domain's lock. */
#include "mpi/p2p/rndv.h"
#include "mpi/p2p/choose.h"
#include "mpi/p2p/chunks.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/device.h"
#include "mpi/p2p/malformed.h"
#include "mpi/p2p/pieces.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/transfer.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

/* The two sides meet at a page boundary, so that no page is pinned by both. */
#define SPLIT_ALIGN 4096

static bool can_get(const struct wm_peer *p)
{
    const struct btl_caps *c = &p->eager->btl->caps;
    return (c->flags & BTL_GET) && c->get_mb_per_s && !p->no_get;
}

/* A contiguous copy of a non-contiguous buffer; filled by the sender before, emptied by the
 * receiver after. */
static int make_packed(struct wm_preq *q, int64_t nbytes)
{
    if (q->layout->contig)
        return 0;
    int err = wm_packed_take(q, nbytes);
    if (err < 0)
        return err;
    if (q->kind == WM_PREQ_SEND)
        rt_layout_pack(q->layout, q->count, q->buf, 0, q->packed, nbytes);
    return 0;
}

/* Whether a non-contiguous end moves its data by put and get, through buffers: best unless
 * streaming through memory has won (choose.c). */
static bool by_buffers(const struct wm_preq *q)
{
    return can_get(q->peer) && (wm_btl_of(q)->caps.flags & BTL_CHOOSE) && !wm_choice_is_put(q->dom);
}

/* Whether the buffers have room for the whole message: then pieces gain nothing. */
static bool whole_at_once(const struct wm_preq *q, int64_t nbytes)
{
    return nbytes <= WM_PIECE_MAX && by_buffers(q);
}

/* ---- the first bytes, sent without being asked for ---- */

/* Messages sent without early bytes after the early bytes of one were dropped: a receiver that is
 * late once is mostly late again.  With a lower number, bytes are copied for nothing more often;
 * with a higher one, a receiver that is in time again waits for more handshakes. */
#define NO_EARLY 31

/* Bytes that q sends early.  Only while no other message to the peer is under way: else the sender
 * has other work than to wait for the answer, and the copy out of the transport's buffer costs
 * time. */
static int64_t early_of(const struct wm_preq *q)
{
    struct wm_peer *p = q->peer;
    int64_t most = (int64_t)wm_btl_of(q)->caps.early_max;
    if (!most || !q->layout->contig || p->blocked || !rt_list_empty(&p->rndv) ||
        q->nbytes <= p->eager_max)
        return 0;
    p->no_early -= p->no_early > 0;
    return p->no_early ? 0 : q->nbytes < most ? q->nbytes : most;
}

static void send_early(const struct wm_preq *q, int64_t nbytes)
{
    for (int64_t off = 0, len; off < nbytes; off += len) {
        len = nbytes - off < q->peer->eager_max ? nbytes - off : q->peer->eager_max;
        wm_send_ctl(q->dom, q->peer, wm_hdr(WM_EARLY, 0, 0, 0), (const char *)q->buf + off,
                    (uint32_t)len);
    }
}

/* Bytes that arrive without a request and will be used. */
static int64_t early_len(const struct wm_preq *q, const struct wm_rts *rts)
{
    bool whole = q->moved_len == rts->len && q->layout->contig && rts->early <= rts->len;
    return (rts->flags & WM_RTS_EARLY) && whole ? rts->early : 0;
}

void wm_on_early(const struct btl_peer *from, const void *data, size_t len)
{
    struct wm_peer *p = from->up;
    struct wm_preq *q = p ? p->early : NULL;
    if (!q)
        return;
    int64_t left = q->moved_len - q->put_len - q->put_off;
    if ((int64_t)len > left)
        wm_malformed(&from->proc, "%zu bytes with its request, but %lld were missing", len,
                     (long long)left);
    memcpy((char *)(uintptr_t)q->buf + q->put_off, data, len);
    q->put_off += (int64_t)len;
    if ((int64_t)len < left)
        return;
    p->early = NULL;
    wm_rndv_step(q, WM_STEP_EARLY, 0);
}

/* Messages announced without a key after a receiver has reported that it wants puts alone.  The
 * message after them waits for a handshake, in which the receiver may change its choice: a lower
 * number costs more handshakes, a higher one delays the change. */
#define NO_KEY 31

/* Whether this process or the receiver has measured that put alone is faster. */
static bool puts_alone(const struct wm_preq *q)
{
    struct wm_peer *p = q->peer;
    if (!(wm_btl_of(q)->caps.flags & BTL_CHOOSE))
        return false;
    bool wants = p->no_key > 0;
    p->no_key -= wants;
    return wm_choice_put_alone(q->dom) || wants;
}

int wm_rndv_send(struct wm_preq *q)
{
    struct wm_rts rts = { .len = q->nbytes, .sender = q->r.obj.handle };
    bool stream = wm_stream_possible(q->peer);
    bool brief = q->nbytes <= q->peer->eager_max && stream; /* flow.h: one chunk carries it */
    if (!brief && !(wm_btl_of(q)->caps.flags & (BTL_PUT | BTL_GET))) {
        log_error(MPI, "transport %s carries messages of at most %zu bytes to rank %u, not %lld",
                  wm_btl_of(q)->ops->name, wm_btl_of(q)->caps.eager_max, q->peer->proc.rank,
                  (long long)q->nbytes);
        return -RT_ENOTSUP;
    }
    bool put_only = wm_rndv_put_wins(q) || puts_alone(q);
    bool packs = brief || (!q->layout->contig && stream && !whole_at_once(q, q->nbytes));
    rts.flags = (stream ? WM_RTS_CAN_STREAM : 0) | (packs ? WM_RTS_PACKS : 0);
    int err = packs ? 0 : make_packed(q, q->nbytes);
    if (err < 0)
        return err;
    if (q->nbytes && can_get(q->peer) && !put_only && !packs) {
        err = wm_rndv_key(q, q->peer->eager, NULL, 0, q->nbytes, rts.key);
        /* memory that cannot be registered goes as messages */
        bool without = err == -RT_ENOMEM && stream;
        if (err < 0)
            wm_packed_drop(q);
        if (err < 0 && !without)
            return err;
        rts.flags |= without ? WM_RTS_PACKS : WM_RTS_KEY;
    }
    int64_t early = rts.flags & (WM_RTS_KEY | WM_RTS_PACKS) ? 0 : early_of(q);
    if (early) {
        rts.flags |= WM_RTS_EARLY;
        rts.early = early;
    }
    err = wm_rndv_announce(q, &rts);
    if (!err && early) {
        q->put_off = early;
        send_early(q, early);
    }
    return err;
}

/* Whether the oldest transfer with the peer is a send.  Then both processes copy anyway, and
 * splitting a message costs one more system call and the handshake of a put. */
static bool sends_to(const struct wm_peer *p)
{
    return rt_container(p->rndv.next, struct wm_preq, link)->kind == WM_PREQ_SEND;
}

/* How much of the message the receiver gets itself, in the proportion of the transport's rates. */
static int64_t get_share(struct wm_preq *q, bool has_key)
{
    const struct btl_caps *c = &wm_btl_of(q)->caps;
    if (!has_key || !can_get(q->peer))
        return 0;
    if (c->flags & BTL_CHOOSE) {
        bool counts;
        enum wm_way way = wm_choice_begin(q->dom, q->moved_len, &counts);
        q->timed = counts;
        if (way == WM_WAY_PUT)
            return 0;
    }
    if (wm_rndv_put_wins(q))
        return 0;
    if (!c->put_mb_per_s || (c->flags & BTL_WHOLE) || !q->peer->get_ok ||
        q->moved_len < 2 * SPLIT_ALIGN || sends_to(q->peer))
        return q->moved_len;
    double share = (double)c->get_mb_per_s / ((double)c->get_mb_per_s + c->put_mb_per_s);
    return (int64_t)((double)q->moved_len * share) & ~(int64_t)(SPLIT_ALIGN - 1);
}

/* Asks for the data as a stream of messages. */
static void ask_stream(struct wm_preq *q)
{
    struct wm_cts cts = { .len = q->moved_len,
                          .sender = q->remote,
                          .receiver = q->r.obj.handle,
                          .stream = WM_STREAM_CHUNKS };
    if (q->moved_len > q->peer->eager_max && by_buffers(q)) {
        wm_pieces_ask(q, false);
        return;
    }
    rt_list_init(&q->posted.link);
    wm_rndv_enter(q, WM_CHUNKS);
    q->put_off = 0;
    wm_send_ctl(q->dom, q->peer, wm_hdr(WM_CTS, 0, 0, 0), &cts, sizeof cts);
}

/* One of the ends cannot be registered.  That means a limit of the system, not a broken transport:
 * the data then come as messages, through memory that the transport has had from the start.  False:
 * there was another error, or messages are impossible. */
static bool do_without(struct wm_preq *q, bool from_device, int err)
{
    if (err != -RT_ENOMEM || (q->get_len && q->put_len) || !wm_stream_possible(q->peer))
        return false;
    wm_packed_drop(q);
    q->get_len = q->put_len = 0;
    if (from_device)
        wm_pieces_ask(q, false);
    else
        ask_stream(q);
    return true;
}

/* Whether a receive into host memory treats this message as one of device memory; else the
 * transport moves it like any other. */
static bool by_device(const struct wm_preq *q, const struct wm_rts *rts)
{
    return (rts->flags & WM_RTS_DEVICE) && !((rts->flags & WM_RTS_NET) && q->layout->contig);
}

void wm_rndv_recv(struct wm_preq *q, const struct wm_rts *in)
{
    struct wm_rts rts = *in;
    rt_list_init(&q->link);
    rt_list_append(&q->peer->rndv, &q->link);
    q->remote = rts.sender;
    q->moved_len = rts.len < q->nbytes ? rts.len : q->nbytes;
    q->fail = rts.len > q->nbytes ? -RT_ETRUNC : 0;
    wm_count_received(q->dom, q->moved_len);
    if (q->fail)
        q->nbytes = rts.len; /* the message's length; the buffer's room is in the status */
    bool stream = (rts.flags & WM_RTS_PACKS) ||
                  (!q->layout->contig && (rts.flags & WM_RTS_CAN_STREAM) &&
                   !((rts.flags & WM_RTS_KEY) && whole_at_once(q, q->moved_len)));
    int err = q->peer->err;
    if (rt_unlikely(!err && q->moved_len && (q->dev || by_device(q, &rts)))) {
        wm_dev_recv(q, &rts);
        return;
    }
    if (!err && q->moved_len && stream) {
        ask_stream(q);
        return;
    }
    if (!err && q->moved_len)
        err = make_packed(q, q->moved_len);
    if (!q->moved_len || err < 0) { /* nothing to move: the sender may complete */
        wm_rndv_send_fin(q, WM_FIN_GET, 0);
        wm_rndv_end(q, err);
        return;
    }
    int64_t early = early_len(q, &rts);
    q->get_len = get_share(q, rts.flags & WM_RTS_KEY);
    q->put_len = q->moved_len - q->get_len - early;
    q->put_off = 0;
    wm_rndv_enter(q, q->get_len   ? q->put_len ? WM_GET_SHARED : WM_GET
                     : !early     ? WM_FILL
                     : q->put_len ? WM_FILL_EARLY
                                  : WM_EARLY_ONLY);
    bool from_device = rts.flags & WM_RTS_DEVICE;
    if (q->put_len &&
        (err = wm_rndv_ask_put(q, q->get_len + early, q->put_len, q->get_len > 0)) < 0) {
        if (do_without(q, from_device, err))
            return;
        wm_rndv_send_fin(q, WM_FIN_GET, err);
        wm_rndv_end(q, err);
        return;
    }
    if (early)
        q->peer->early = q;
    if (early == q->moved_len)
        wm_rndv_send_fin(q, WM_FIN_GET, 0); /* the sender's part is over */
    if (q->get_len && (err = wm_rndv_pull(q, rts.key)) < 0 && !do_without(q, from_device, err))
        wm_rndv_got(q, err == -RT_ENOTSUP ? -RT_EPERM : err);
}

/* Whether the range is within the message, and its pieces have a length. */
static bool is_valid(const struct wm_cts *cts, const struct wm_preq *q)
{
    if (cts->off < 0 || cts->len < 0 || cts->off > q->nbytes || cts->len > q->nbytes - cts->off)
        return false;
    bool pieces = cts->stream > WM_STREAM_CHUNKS;
    return !pieces || (cts->step > 0 && cts->stream <= WM_STREAM_PIECES_DEVICE);
}

void wm_on_cts(const struct wm_cts *cts)
{
    struct wm_preq *q = wm_preq_named(cts->sender);
    if (!q || (q->state != WM_ANNOUNCED && q->state != WM_RECALLED))
        return;
    if (!is_valid(cts, q))
        wm_malformed(&q->peer->proc, "it asks for %lld bytes at %lld, way %u, of a message of %lld",
                     (long long)cts->len, (long long)cts->off, cts->stream, (long long)q->nbytes);
    q->remote = cts->receiver;
    if (q->put_off && !cts->off)
        q->peer->no_early = NO_EARLY;
    q->peer->no_key = cts->flags & WM_CTS_ALONE ? NO_KEY : 0;
    q->put_off = cts->off;
    q->put_len = cts->len;
    if (rt_unlikely(wm_dev_gone(q))) {
        wm_rndv_send_fin(q, WM_FIN_PUT, -RT_EGPU);
        wm_rndv_end(q, -RT_EGPU);
        return;
    }
    if (cts->stream) {
        wm_rndv_unregister(q); /* what was packed in advance is not needed */
        wm_packed_drop(q);
        int bad = cts->stream == WM_STREAM_CHUNKS ? wm_stream_send(q, cts->len)
                                                  : wm_pieces_send(q, cts);
        if (bad < 0) {
            wm_rndv_send_fin(q, WM_FIN_PUT, bad);
            wm_rndv_end(q, bad);
        }
        return;
    }
    wm_rndv_put(q, cts);
}

/* The sender cannot write: its memory or this process's cannot be registered or mapped. */
static bool another_way(struct wm_preq *q, int err)
{
    if (q->kind != WM_PREQ_RECV || q->state != WM_FILL ||
        (err != -RT_EUNREACH && err != -RT_ENOMEM))
        return false;
    wm_rndv_unregister(q);
    if (!q->dev)
        return !q->peer->err && do_without(q, false, err);
    if (wm_dev_gone(q))
        return false;
    wm_dev_put_refused(q);
    return true;
}

void wm_on_fin(struct wm_domain *d, enum wm_kind kind, const struct wm_fin *f)
{
    (void)d;
    struct wm_preq *q = wm_preq_named(f->req);
    if (!q || (q->state != WM_PIECES && !wm_rndv_awaits(q, WM_STEP_PEER)))
        return;
    int err = kind == WM_FIN_PUT ? f->err : 0;
    if (f->err == -RT_EGPU) {
        err = -RT_EREMOTE;
        log_error(MPI, "rank %u could not %s a message because of its GPU; its output says why",
                  q->peer->proc.rank, kind == WM_FIN_GET ? "receive" : "send");
    } else if (kind == WM_FIN_GET && f->err) {
        log_debug(MPI, "rank %u could not take the message: %s", q->peer->proc.rank,
                  rt_err_text(f->err));
    }
    if (q->state == WM_PIECES)
        wm_pieces_stop(q, err);
    else if (!another_way(q, err))
        wm_rndv_step(q, WM_STEP_PEER, err);
}

void wm_on_fins(struct wm_domain *d, const struct wm_fins *f)
{
    for (uint32_t i = 0; i < f->n && i < WM_FINS_MAX; i++)
        wm_on_fin(d, WM_FIN_GET, &(struct wm_fin){ .req = f->req[i] });
}

void wm_rndv_fail_peer(struct wm_peer *p, int err)
{
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &p->rndv) {
        struct wm_preq *q = rt_container(l, struct wm_preq, link);
        q->fail = err;
        wm_rndv_step(q, WM_STEP_LOST, err);
    }
}
