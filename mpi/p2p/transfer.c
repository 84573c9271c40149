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
#include "mpi/p2p/transfer.h"
#include "mpi/base/event.h"
#include "mpi/p2p/checks.h"
#include "mpi/p2p/choose.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/staging.h"
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

bool wm_rndv_put_wins(const struct wm_preq *q)
{
    const struct btl_caps *c = &wm_btl_of(q)->caps;
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

void wm_rndv_unregister(struct wm_preq *q)
{
    if (q->mem)
        mover(q)->btl->ops->mem_dereg(q->mem);
    q->mem = NULL;
}

int wm_rndv_key(struct wm_preq *q, struct btl_peer *by, const struct rt_gpu_ptr *at, int64_t off,
                int64_t len, char *key)
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
        wm_rndv_unregister(q);
    return err;
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

int wm_packed_take(struct wm_preq *q, int64_t nbytes)
{
    q->packed = wm_host_take(q->dom, nbytes, &q->packed_pooled);
    if (q->packed)
        return 0;
    log_error(MPI, "out of memory: %lld bytes to pack a non-contiguous message", (long long)nbytes);
    return -RT_ENOMEM;
}

void wm_packed_drop(struct wm_preq *q)
{
    if (q->packed)
        wm_host_give(q->dom, q->packed, q->packed_pooled);
    q->packed = NULL;
}

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
    wm_rndv_unregister(q);
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
    wm_preq_finish(q, err);
}

bool wm_rndv_awaits(const struct wm_preq *q, enum wm_preq_step step)
{
    return after[q->state][step] != WM_IDLE;
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

int wm_rndv_announce(struct wm_preq *q, struct wm_rts *rts)
{
    rt_assert(q->state == WM_IDLE);
    q->state = WM_ANNOUNCED;
    q->put_off = 0;
    rt_list_append(&q->peer->rndv, &q->link);
    rts->flags |= wm_checked_signature(q) << WM_RTS_SIG_SHIFT;
    struct btl_hdr hdr = wm_hdr(WM_RTS, wm_ctx(q->comm, q->coll), q->tag, q->comm->rank);
    int err = wm_try_ctl(q->dom, q->peer, hdr, rts, sizeof *rts);
    if (err < 0) {
        release_transfer(q);
        wm_packed_drop(q);
        return err;
    }
    wm_stat_add(&q->dom->stats->rndv, 1);
    wm_stat_add(&q->dom->stats->sent_bytes, (uint64_t)q->nbytes);
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
    struct wm_fins f = { .n = d->fins.n };
    memcpy(f.req, d->fins.req, sizeof f.req);
    d->fins.n = 0;
    wm_send_ctl(d, d->fins.to, wm_hdr(WM_FIN_GETS, 0, 0, 0), &f,
                (uint32_t)(offsetof(struct wm_fins, req) + f.n * sizeof f.req[0]));
}

/* A batch of copies ends at once: one message reports all copies of the same sender. */
static void gather_fin(struct wm_preq *q)
{
    struct wm_domain *d = q->dom;
    if (d->fins.n == WM_FINS_MAX || (d->fins.n && d->fins.to != q->peer))
        wm_fins_flush(d);
    d->fins.to = q->peer;
    d->fins.req[d->fins.n++] = q->remote;
}

static void filled(struct btl_op *op, int err)
{
    wm_rndv_step(rt_container(op, struct wm_preq, op), WM_STEP_PEER, err);
}

int wm_rndv_ask_put(struct wm_preq *q, int64_t off, int64_t len, bool will_get)
{
    /* not while `op` belongs to the get */
    bool knows = !q->dev && !will_get && (wm_btl_of(q)->caps.flags & BTL_EXPECT);
    bool alone = (wm_btl_of(q)->caps.flags & BTL_CHOOSE) && wm_choice_put_alone(q->dom);
    struct wm_cts cts = { .off = off,
                          .len = len,
                          .sender = q->remote,
                          .receiver = q->r.obj.handle,
                          .flags = (will_get ? WM_CTS_GETS : 0) | (knows ? WM_CTS_KNOWS : 0) |
                                   (alone ? WM_CTS_ALONE : 0) };
    int err = wm_rndv_key(q, mover(q), place(q), off, len, cts.key);
    if (err < 0)
        return err;
    if (knows) {
        q->op.done = filled;
        wm_btl_of(q)->ops->expect(q->mem, q->peer->eager, &q->op);
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
    if (q->dom->fins.gather && q->dev && !err)
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
        wm_rndv_unregister(q);
    return err;
}

void wm_rndv_put(struct wm_preq *q, const struct wm_cts *cts)
{
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
        refuse_put(q, err); /* the receiver asks for messages */
    else if (err < 0)
        put_done(&q->op, err);
}
