/* SPDX-License-Identifier: BSD-3-Clause */
/* Rendezvous: large and synchronous messages move straight between the two buffers by the
 * transport's put and get, both at once when the transport has both (engine.h has the protocol).
 * Called under the domain's lock.
 *
 * A transfer has one state (enum wm_preq_state).  Events move it on by the table `after`; what this
 * side decides is checked against `may_enter`.  [x] is an event, (x) a decision, END completes the
 * request.
 *
 *   send     IDLE -(RTS, or synchronous message sent)-> ANNOUNCED -[FIN_GET, acknowledgement]-> END
 *            ANNOUNCED -(MPI_Cancel: CANCEL sent)-> RECALLED -[CANCELLED, target leaves]-> END
 *            ANNOUNCED, RECALLED -(CTS came)-> PUT, PUT_SHARED, CHUNKS or PIECES
 *            PUT -[put done: FIN_PUT sent]-> END
 *            PUT -(buffer or peer's memory cannot be used: FIN_PUT with error)-> ANNOUNCED
 *            PUT_SHARED -[put done]-> PUT_DONE -[FIN_GET]-> END
 *            PUT_SHARED -[FIN_GET]-> PUT
 *   receive  POSTED -(matched)-> IDLE -(RTS)-> any of the following
 *            GET -[get done: FIN_GET sent]-> END
 *            FILL (CTS sent) -[FIN_PUT, or the transport detects it]-> END
 *            GET_SHARED -[get done]-> FILL;  GET_SHARED -[FIN_PUT]-> GET
 *            FILL_EARLY -[first bytes]-> FILL
 *            EARLY_ONLY (FIN_GET sent) -[first bytes, the whole message]-> END
 *            FILL_EARLY -[FIN_PUT]-> EARLY_ONLY -[first bytes]-> END
 *            GET -(get refused)-> FILL;  FILL -(put refused, device memory)-> GET
 *            GET, FILL, FILL_EARLY -(memory cannot be used)-> CHUNKS, PIECES or QUEUED
 *            QUEUED -(its turn for staging memory)-> PIECES
 *   both     CHUNKS -[last chunk; FIN_PUT of a failed sender]-> END
 *            PIECES -[last piece; after an error, the last one under way]-> END
 *   peer lost  PUT, PUT_SHARED, GET, GET_SHARED, which the transport has -> LOST -[it ends]-> END
 *            PIECES: stays, its messages fail one by one
 *            all others, and what waits for room in the transport -> END */
#include "mpi/p2p/rndv.h"
#include "mpi/p2p/choose.h"
#include "mpi/p2p/chunks.h"
#include "mpi/p2p/device.h"
#include "mpi/base/event.h"
#include "mpi/p2p/malformed.h"
#include "mpi/p2p/pieces.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

/* ---- the states of a transfer ---- */

/* The next state for each event: WM_STATES ends the transfer, 0 is impossible. */
static const uint8_t after[WM_STATES][WM_STEPS] = {
    [WM_ANNOUNCED] = { [WM_STEP_PEER] = WM_STATES, [WM_STEP_LOST] = WM_STATES },
    [WM_RECALLED] = { [WM_STEP_PEER] = WM_STATES,
                      [WM_STEP_BACK] = WM_STATES,
                      [WM_STEP_LOST] = WM_STATES },
    [WM_PUT] = { [WM_STEP_OP] = WM_STATES, [WM_STEP_LOST] = WM_LOST },
    [WM_PUT_SHARED] = { [WM_STEP_OP] = WM_PUT_DONE,
                        [WM_STEP_PEER] = WM_PUT,
                        [WM_STEP_LOST] = WM_LOST },
    [WM_PUT_DONE] = { [WM_STEP_PEER] = WM_STATES, [WM_STEP_LOST] = WM_STATES },
    [WM_GET] = { [WM_STEP_OP] = WM_STATES, [WM_STEP_LOST] = WM_LOST },
    [WM_GET_SHARED] = { [WM_STEP_OP] = WM_FILL, [WM_STEP_PEER] = WM_GET, [WM_STEP_LOST] = WM_LOST },
    [WM_FILL] = { [WM_STEP_PEER] = WM_STATES, [WM_STEP_LOST] = WM_STATES },
    [WM_FILL_EARLY] = { [WM_STEP_PEER] = WM_EARLY_ONLY,
                        [WM_STEP_EARLY] = WM_FILL,
                        [WM_STEP_LOST] = WM_STATES },
    [WM_EARLY_ONLY] = { [WM_STEP_EARLY] = WM_STATES, [WM_STEP_LOST] = WM_STATES },
    [WM_QUEUED] = { [WM_STEP_LOST] = WM_STATES },
    [WM_CHUNKS] = { [WM_STEP_OP] = WM_STATES,
                    [WM_STEP_PEER] = WM_STATES,
                    [WM_STEP_LOST] = WM_STATES },
    [WM_PIECES] = { [WM_STEP_OP] = WM_STATES, [WM_STEP_LOST] = WM_PIECES },
    [WM_LOST] = { [WM_STEP_OP] = WM_STATES },
};

#define BIT(s) (1u << WM_##s)
#define MESSAGES (BIT(CHUNKS) | BIT(PIECES) | BIT(QUEUED))
/* The states that this side may enter by a decision. */
static const uint32_t may_enter[WM_STATES] = {
    [WM_IDLE] = BIT(ANNOUNCED) | BIT(GET) | BIT(GET_SHARED) | BIT(FILL) | BIT(FILL_EARLY) |
                BIT(EARLY_ONLY) | MESSAGES,
    [WM_ANNOUNCED] = BIT(RECALLED) | BIT(PUT) | BIT(PUT_SHARED) | BIT(CHUNKS) | BIT(PIECES),
    [WM_RECALLED] = BIT(ANNOUNCED) | BIT(PUT) | BIT(PUT_SHARED) | BIT(CHUNKS) | BIT(PIECES),
    [WM_PUT] = BIT(ANNOUNCED),
    [WM_GET] = BIT(FILL) | MESSAGES,
    [WM_FILL] = BIT(GET) | MESSAGES,
    [WM_FILL_EARLY] = MESSAGES,
    [WM_QUEUED] = BIT(PIECES),
};

/* The two sides meet at a page boundary, so that no page is pinned by both. */
#define SPLIT_ALIGN 4096

static struct btl *btl_of(const struct wm_preq *q) { return q->peer->eager->btl; }

static bool can_get(const struct wm_peer *p)
{
    const struct btl_caps *c = &p->eager->btl->caps;
    return (c->flags & BTL_GET) && c->get_mb_per_s && !p->no_get;
}

bool wm_rndv_put_wins(const struct wm_preq *q)
{
    const struct btl_caps *c = &btl_of(q)->caps;
    return (c->flags & BTL_WHOLE) && c->put_mb_per_s > c->get_mb_per_s;
}

/* ---- put and get of one kind of memory ---- */

/* The connection that moves q's kind of memory; q's registrations belong to that connection.  NULL:
 * none. */
static struct btl_peer *mover(const struct wm_preq *q)
{
    return q->dev ? wm_domain_dev(q->dom, q->peer) : q->peer->eager;
}

/* Location of q's buffer; NULL: in host memory. */
static const struct rt_gpu_ptr *place(const struct wm_preq *q)
{
    return q->dev ? &q->dev->at : NULL;
}

/* The buffer moves by the transport that carries the messages, whichever memory it is. */
static bool by_net(const struct wm_preq *q) { return !q->dev || wm_dev_by_net(q->peer); }

/* Before the memory is released. */
static void unregister(struct wm_preq *q)
{
    if (q->mem)
        mover(q)->btl->ops->mem_dereg(q->mem);
    q->mem = NULL;
}

/* Registers a part of the message and makes its key. at: the result of place(), a constant for a
 * caller that knows the kind of memory. */
static inline int make_key(struct wm_preq *q, struct btl_peer *by, const struct rt_gpu_ptr *at,
                           int64_t off, int64_t len, char *key)
{
    const struct btl_ops *ops = by->btl->ops;
    int err = ops->mem_reg(by->btl, wm_rndv_buf(q) + off, (size_t)len, at, &q->mem);
    if (err < 0)
        return err;
    if (at && ops->mem_offer)
        err = ops->mem_offer(by, q->mem);
    if (err >= 0)
        err = ops->mem_key(q->mem, key);
    if (rt_unlikely(err < 0))
        unregister(q);
    return err;
}

int wm_rndv_dev_key(struct wm_preq *q, struct btl_peer *by, char *key)
{
    return make_key(q, by, &q->dev->at, 0, q->nbytes, key);
}

/* The peer's memory. */
static int attach(struct wm_preq *q, const void *key)
{
    struct btl_peer *by = mover(q);
    return by ? by->btl->ops->attach(by, key, place(q), &q->rmem) : -RT_EUNREACH;
}

static void detach(struct wm_preq *q)
{
    if (q->rmem)
        mover(q)->btl->ops->detach(q->rmem);
    q->rmem = NULL;
}

/* ---- the life of a transfer ---- */

/* `posted.link` is in a list of the domain, or in none. */
static bool is_listed(const struct wm_preq *q)
{
    return q->state == WM_CHUNKS || q->state == WM_PIECES || q->state == WM_QUEUED;
}

static void release_transfer(struct wm_preq *q)
{
    rt_list_del(&q->link);
    if (q->peer->early == q)
        q->peer->early = NULL;
    if (is_listed(q))
        rt_list_del(&q->posted.link);
    q->state = WM_IDLE;
    detach(q);
    unregister(q);
}

static void finish(struct wm_preq *q)
{
    release_transfer(q);
    int err = q->fail;
    if (q->timed) {
        q->timed = false;
        wm_choice_end(q->dom, q->moved_len, err != 0);
    }
    if (q->kind == WM_PREQ_RECV) {
        if (q->packed && (!err || err == -RT_ETRUNC))
            rt_layout_unpack(q->layout, q->count, (void *)(uintptr_t)q->buf, 0, q->packed,
                             q->moved_len);
        q->r.status.len = q->moved_len;
    }
    wm_packed_drop(q);
    wm_pieces_drop(q);
    wm_preq_finish(q, err);
}

static void note_error(struct wm_preq *q, int err)
{
    /* another error replaces -RT_ETRUNC, after which the data that fit are still valid */
    if (err && (!q->fail || q->fail == -RT_ETRUNC))
        q->fail = err;
}

static void impossible(const struct wm_preq *q, const char *what, int which)
{
    log_error(MPI, "internal error: a message to or from rank %u in state %d met %s %d",
              q->peer ? q->peer->proc.rank : 0, q->state, what, which);
    rt_assert(!"a transition that the table has not");
}

void wm_rndv_enter(struct wm_preq *q, enum wm_preq_state state)
{
    if (rt_unlikely(!(may_enter[q->state] >> state & 1)))
        impossible(q, "state", state);
    q->state = (uint8_t)state;
}

void wm_rndv_step(struct wm_preq *q, enum wm_preq_step step, int err)
{
    enum wm_preq_state next = after[q->state][step];
    if (rt_unlikely(next == WM_IDLE)) {
        impossible(q, "event", step);
        return;
    }
    note_error(q, err);
    if (next == WM_STATES)
        finish(q);
    else
        q->state = (uint8_t)next;
}

void wm_rndv_end(struct wm_preq *q, int err)
{
    note_error(q, err);
    finish(q);
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
    return can_get(q->peer) && (btl_of(q)->caps.flags & BTL_CHOOSE) && !wm_choice_is_put(q->dom);
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
    int64_t most = (int64_t)btl_of(q)->caps.early_max;
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
    if (!(btl_of(q)->caps.flags & BTL_CHOOSE))
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
    if (!brief && !(btl_of(q)->caps.flags & (BTL_PUT | BTL_GET))) {
        log_error(MPI, "transport %s carries messages of at most %zu bytes to rank %u, not %lld",
                  btl_of(q)->ops->name, btl_of(q)->caps.eager_max, q->peer->proc.rank,
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
        err = make_key(q, q->peer->eager, NULL, 0, q->nbytes, rts.key);
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

int wm_rndv_announce(struct wm_preq *q, const struct wm_rts *rts)
{
    rt_assert(q->state == WM_IDLE);
    q->state = WM_ANNOUNCED;
    q->put_off = 0;
    rt_list_append(&q->peer->rndv, &q->link);
    struct btl_hdr hdr = wm_hdr(WM_RTS, wm_ctx(q->comm, q->coll), q->tag, q->comm->rank);
    int err = wm_try_ctl(q->dom, q->peer, hdr, rts, sizeof *rts);
    if (err < 0) {
        release_transfer(q);
        wm_packed_drop(q);
        return err;
    }
    wm_stat_add(&q->dom->stats.rndv, 1);
    wm_stat_add(&q->dom->stats.sent_bytes, (uint64_t)q->nbytes);
    if (rt_unlikely(wm_event_wanted(WM_EVENT_RENDEZVOUS)))
        wm_event_raise(WM_EVENT_RENDEZVOUS,
                       &(struct wm_event_data){
                           { q->peer_rank, q->tag, (int)(hdr.ctx & WM_CTX_MASK) }, q->nbytes });
    return 0;
}

void wm_rndv_send_fin(struct wm_preq *q, enum wm_kind kind, int err)
{
    struct wm_fin f = { .req = q->remote, .err = err };
    wm_send_ctl(q->dom, q->peer, wm_hdr(kind, 0, 0, 0), &f, sizeof f);
}

void wm_fins_flush(struct wm_domain *d)
{
    struct wm_fins f = { .n = d->nfins };
    memcpy(f.req, d->fins, sizeof f.req);
    d->nfins = 0;
    wm_send_ctl(d, d->fins_to, wm_hdr(WM_FIN_GETS, 0, 0, 0), &f,
                (uint32_t)(offsetof(struct wm_fins, req) + f.n * sizeof f.req[0]));
}

/* A batch of copies ends at once: one message reports all copies of the same sender. */
static void gather_fin(struct wm_preq *q)
{
    struct wm_domain *d = q->dom;
    if (d->nfins == WM_FINS_MAX || (d->nfins && d->fins_to != q->peer))
        wm_fins_flush(d);
    d->fins_to = q->peer;
    d->fins[d->nfins++] = q->remote;
}

static void filled(struct btl_op *op, int err)
{
    wm_rndv_step(rt_container(op, struct wm_preq, op), WM_STEP_PEER, err);
}

/* Asks the sender to write [off, off + len) of the message. */
int wm_rndv_ask_put(struct wm_preq *q, int64_t off, int64_t len, bool will_get)
{
    /* not while `op` belongs to the get */
    bool knows = !q->dev && !will_get && (btl_of(q)->caps.flags & BTL_EXPECT);
    bool alone = (btl_of(q)->caps.flags & BTL_CHOOSE) && wm_choice_put_alone(q->dom);
    struct wm_cts cts = { .off = off,
                          .len = len,
                          .sender = q->remote,
                          .receiver = q->r.obj.handle,
                          .flags = (will_get ? WM_CTS_GETS : 0) | (knows ? WM_CTS_KNOWS : 0) |
                                   (alone ? WM_CTS_ALONE : 0) };
    int err = make_key(q, mover(q), place(q), off, len, cts.key);
    if (err < 0)
        return err;
    if (knows) {
        q->op.done = filled;
        btl_of(q)->ops->expect(q->mem, q->peer->eager, &q->op);
    }
    wm_send_ctl(q->dom, q->peer, wm_hdr(WM_CTS, 0, 0, 0), &cts, sizeof cts);
    return 0;
}

/* The kernel refuses to read the peer's memory.  The first get, which is never split, shows this:
 * the sender then writes the whole message, and no further get is tried. */
static void get_refused(struct wm_preq *q)
{
    q->peer->no_get = true;
    q->put_len = q->get_len;
    q->get_len = 0;
    int err = q->put_len == q->moved_len ? wm_rndv_ask_put(q, 0, q->put_len, false) : -RT_EPERM;
    if (err >= 0) {
        wm_rndv_enter(q, WM_FILL);
    } else {
        log_error(
            MPI,
            "reading the memory of rank %u was refused during a message; set WEFT_SHM_LARGE=copy",
            q->peer->proc.rank);
        wm_rndv_send_fin(q, WM_FIN_GET, err);
        wm_rndv_step(q, WM_STEP_OP, err);
    }
}

void wm_rndv_got(struct wm_preq *q, int err)
{
    if (err == -RT_EPERM && !q->dev && q->state != WM_LOST) {
        get_refused(q);
        return;
    }
    q->peer->get_ok = q->peer->get_ok || (!err && !q->dev);
    if (q->dom->gathers_fins && q->dev && !err)
        gather_fin(q);
    else
        wm_rndv_send_fin(q, WM_FIN_GET, err);
    wm_rndv_step(q, WM_STEP_OP, err);
}

static void get_done(struct btl_op *op, int err)
{
    wm_rndv_got(rt_container(op, struct wm_preq, op), err);
}

/* Nothing valid has been written: the receiver finds another way for its memory. */
static void refuse_put(struct wm_preq *q, int why)
{
    detach(q);
    wm_rndv_enter(q, WM_ANNOUNCED);
    wm_rndv_send_fin(q, WM_FIN_PUT, why);
}

static void put_done(struct btl_op *op, int err)
{
    struct wm_preq *q = rt_container(op, struct wm_preq, op);
    if (err == -RT_ENOMEM && q->rmem && !q->rmem->shared && !q->peer->err) {
        refuse_put(q, err); /* this process's buffer cannot be registered */
        return;
    }
    if (err || !q->rmem->awaited)
        wm_rndv_send_fin(q, WM_FIN_PUT, err);
    wm_rndv_step(q, WM_STEP_OP, err);
}

int wm_rndv_start(struct wm_preq *q)
{
    bool put = q->kind == WM_PREQ_SEND;
    const struct btl_ops *ops = mover(q)->btl->ops;
    q->op.done = put ? put_done : get_done;
    int err = put ? ops->put(q->rmem, 0, q->mem, wm_rndv_buf(q) + q->put_off, (size_t)q->put_len,
                             &q->op)
                  : ops->get(q->rmem, 0, q->dev ? q->mem : NULL, wm_rndv_buf(q), (size_t)q->get_len,
                             &q->op);
    return err < 0 ? err : 0;
}

int wm_rndv_pull(struct wm_preq *q, const void *key)
{
    struct btl_peer *by = mover(q);
    int err = 0;
    if (q->dev && by_net(q) && !q->mem)
        err = by->btl->ops->mem_reg(by->btl, wm_rndv_buf(q), (size_t)q->get_len, place(q), &q->mem);
    if (err >= 0)
        err = attach(q, key);
    if (err >= 0)
        err = wm_rndv_start(q);
    if (err == -RT_EAGAIN && q->rmem && by_net(q)) {
        wm_pend_rma(q);
        return 0;
    }
    if (err < 0)
        detach(q);
    if (err < 0 && q->dev)
        unregister(q);
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
    const struct btl_caps *c = &btl_of(q)->caps;
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
    struct wm_rts rts;
    memcpy(&rts, in, sizeof rts);
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
        unregister(q); /* what was packed in advance is not needed */
        wm_packed_drop(q);
        int bad = cts->stream == WM_STREAM_CHUNKS ? wm_stream_send(q, cts->len)
                                                  : wm_pieces_send(q, cts);
        if (bad < 0) {
            wm_rndv_send_fin(q, WM_FIN_PUT, bad);
            wm_rndv_end(q, bad);
        }
        return;
    }
    wm_rndv_enter(q, cts->flags & WM_CTS_GETS ? WM_PUT_SHARED : WM_PUT);
    int err = attach(q, cts->key);
    if (err >= 0) {
        q->rmem->shared = cts->flags & WM_CTS_GETS;
        q->rmem->awaited = cts->flags & WM_CTS_KNOWS;
    }
    if (err >= 0)
        err = q->peer->err ? q->peer->err : wm_rndv_start(q);
    if (err == -RT_EAGAIN && q->rmem && by_net(q))
        wm_pend_rma(q);
    else if (err < 0 && q->dev && !q->peer->err)
        refuse_put(q, -RT_EUNREACH);
    else if (err == -RT_ENOMEM && !q->peer->err && !(cts->flags & WM_CTS_GETS))
        refuse_put(q, err); /* the receiver asks for messages (another_way) */
    else if (err < 0)
        put_done(&q->op, err);
}

/* The sender cannot write: its memory or this process's cannot be registered or mapped. */
static bool another_way(struct wm_preq *q, int err)
{
    if (q->kind != WM_PREQ_RECV || q->state != WM_FILL ||
        (err != -RT_EUNREACH && err != -RT_ENOMEM))
        return false;
    unregister(q);
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
    if (!q || (q->state != WM_PIECES && !after[q->state][WM_STEP_PEER]))
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
    wm_pend_drop(p, err);
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &p->rndv) {
        struct wm_preq *q = rt_container(l, struct wm_preq, link);
        q->fail = err;
        wm_rndv_step(q, WM_STEP_LOST, err);
    }
}
