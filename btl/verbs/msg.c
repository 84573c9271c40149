/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of btl/verbs.
 *
 * By SEND: at most verbs_window messages of a peer are in flight or unread.  The shared queue has a
 * buffer for each, unless there are more peers than it has room for; then the sender's device
 * retries (RNR).  By ring: records of whole 32-byte units in the receiver's memory, each written
 * contiguously.  A record has arrived when its first word and its last byte are nonzero: the
 * receiver zeroes what it has read, and devices write a request in ascending order.  Set
 * `verbs_hot` to 0 for a device that does not.
 *
 * The receiver offers the ring.  The sender's last message by SEND accepts it; until that message
 * has arrived, the receiver does not read the ring.  So messages arrive in the order of the
 * calls. */
#include "btl/verbs/msg.h"
#include "btl/verbs/handshake.h"
#include "runtime/base/atomic.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <string.h>

#define UNIT 32u
/* Messages by SEND, which takes longer on every network, before a ring is offered: memory is spent
 * only on peers that exchange messages. */
#define HOT_AFTER 16u
/* Requests of a lane that are reserved for credits and control messages. */
#define LEAVE 4u
#define INLINE_MAX 512u /* longest message copied on the stack for an inline send */

/* Reads a count that the peer writes with its complement.  If only a part has arrived, *out is
 * unchanged. */
static void count_read(const uint32_t *count, uint32_t *out)
{
    uint32_t not = rt_load_acquire(&count[1]), value = rt_load_acquire(&count[0]);
    if (value == ~not )
        *out = value;
}

static void head_fill(void *to, uint32_t flags, const struct btl_hdr *h, const void *buf,
                      size_t len)
{
    struct verbs_head head = { verbs_word(flags | (uint32_t)len), *h };
    memcpy(to, &head, sizeof head);
    if (len)
        memcpy((char *)to + sizeof head, buf, len);
}

/* ---- SEND ---- */

static bool window_full(struct verbs_peer *p)
{
    struct verbs_credits *c = &p->credits;
    if (c->sent - c->taken >= (uint32_t)cfg.verbs_window)
        count_read(&p->home.own->sends, &c->taken);
    return c->sent - c->taken >= (uint32_t)cfg.verbs_window;
}

static int send_plain(struct verbs_peer *p, uint32_t flags, const struct btl_hdr *h,
                      const void *buf, size_t len)
{
    struct verbs_lane *l = &p->lanes[0];
    bool ctl = flags & VERBS_W_CTL;
    _Alignas(16) char small[INLINE_MAX];
    struct verbs_mark mark = { 0 };
    struct ibv_sge sge = { .length = (uint32_t)(sizeof(struct verbs_head) + len) };
    struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

    if (!verbs_lane_has_room(l, ctl ? 1 : LEAVE) || (!ctl && window_full(p)))
        return -RT_EAGAIN;
    if (sge.length <= l->max_inline && sge.length <= sizeof small) {
        head_fill(small, flags, h, buf, len);
        sge.addr = (uintptr_t)small;
        wr.send_flags = IBV_SEND_INLINE;
    } else {
        mark.sbuf = verbs_sbuf_take(l->rail);
        if (!mark.sbuf)
            return -RT_EAGAIN;
        head_fill(mark.sbuf->data, flags, h, buf, len);
        sge.addr = (uintptr_t)mark.sbuf->data;
        sge.lkey = mark.sbuf->lkey;
    }
    int err = verbs_lane_post(l, &wr, mark.sbuf ? &mark : NULL);
    if (!err)
        p->credits.sent++;
    else if (mark.sbuf)
        verbs_sbuf_give(l->rail, mark.sbuf);
    return err;
}

/* ---- rings ---- */

static uint32_t record_nbytes(size_t len)
{
    return (uint32_t)((sizeof(struct verbs_head) + len + 1 + UNIT - 1) & ~(size_t)(UNIT - 1));
}

static uint32_t ring_room(const struct verbs_peer *p, uint32_t taken)
{
    const struct verbs_tx_ring *t = &p->tx;
    uint32_t theirs = t->head - taken, ours = t->head - t->left;
    return t->nbytes - (theirs > ours ? theirs : ours);
}

/* Writes the unposted records of the mirror up to `end` in one request.  They are contiguous:
 * before the ring begins again at its start, send_ring() posts the waiting records. */
static int ring_post(struct verbs_peer *p, uint32_t end)
{
    struct verbs_tx_ring *t = &p->tx;
    struct verbs_lane *l = &p->lanes[0];
    static const struct verbs_mark mark;
    bool mark_it = end - t->marked >= t->nbytes / 8;
    uint32_t off = t->posted & (t->nbytes - 1), nbytes = end - t->posted;
    struct ibv_sge sge = { (uintptr_t)t->mirror + off, nbytes, t->lkey };
    struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .send_flags = nbytes <= l->max_inline ? IBV_SEND_INLINE : 0,
                              .wr.rdma = { t->addr + off, t->rkey } };
    uint32_t before = t->posted;
    t->posted = end; /* the mark reads it */
    int err = verbs_lane_post(l, &wr, mark_it ? &mark : NULL);
    if (rt_unlikely(err))
        t->posted = before;
    else if (mark_it)
        t->marked = end;
    return err;
}

/* Writes a SKIP record at the end of the ring, which is too short for the next record, and
 * continues at the start. */
static int ring_skip(struct verbs_peer *p, uint32_t off)
{
    struct verbs_tx_ring *t = &p->tx;
    head_fill(t->mirror + off, VERBS_W_SKIP, &(struct btl_hdr){ 0 }, NULL, 0);
    t->mirror[off + UNIT - 1] = 1;
    int err = ring_post(p, t->head + UNIT);
    if (!err)
        t->posted = t->head += t->nbytes - off;
    return err;
}

/* Sends an event to a sleeping peer: an empty write that takes one of its receive buffers. */
void verbs_wake_step(struct verbs_peer *p)
{
    uint32_t number = p->sleep.woken;
    struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                              .wr.rdma = { p->home.addr, p->home.rkey } };
    count_read(&p->home.own->asleep, &number);
    if (number == p->sleep.woken) {
        p->sleep.wake_due = false;
    } else if (verbs_lane_post(&p->lanes[0], &wr, NULL) == 0) {
        p->sleep.wake_due = false;
        p->sleep.woken = number;
    } else {
        verbs_peer_work(p);
    }
}

static void ring_wake(struct verbs_peer *p)
{
    if (rt_likely(rt_load_relaxed(&p->home.own->asleep) == p->sleep.woken))
        return;
    p->sleep.wake_due = true;
    verbs_wake_step(p);
}

static int send_ring(struct verbs_peer *p, uint32_t flags, const struct btl_hdr *h, const void *buf,
                     size_t len)
{
    struct verbs_tx_ring *t = &p->tx;
    uint32_t nbytes = record_nbytes(len), off = t->head & (t->nbytes - 1), need = nbytes;

    if (rt_unlikely(t->nbytes - off < nbytes))
        need += t->nbytes - off;
    if (rt_unlikely(ring_room(p, t->taken) < need)) {
        count_read(&p->home.own->ring, &t->taken);
        if (ring_room(p, t->taken) < need)
            return -RT_EAGAIN;
    }
    if (!verbs_lane_has_room(&p->lanes[0], LEAVE))
        return -RT_EAGAIN;
    int err = 0;
    if (need != nbytes) {
        err = ring_skip(p, off);
        off = 0;
    } else if (off == 0 && t->posted != t->head) {
        err = ring_post(p, t->head);
    }
    if (err)
        return err;
    head_fill(t->mirror + off, flags, h, buf, len);
    t->mirror[off + nbytes - 1] = 1;
    if (verbs_of(p)->holding) {
        t->head += nbytes;
        if (rt_list_empty(&p->held))
            rt_list_append(&verbs_of(p)->held, &p->held);
        return 0;
    }
    err = ring_post(p, t->head + nbytes);
    if (rt_unlikely(err))
        return err;
    t->head += nbytes;
    ring_wake(p);
    return 0;
}

/* A record that cannot be posted now is posted the next time. */
void verbs_release(struct verbs *v)
{
    struct rt_list *pos, *tmp;
    v->holding = false;
    rt_list_each_safe (pos, tmp, &v->held) {
        struct verbs_peer *p = rt_container(pos, struct verbs_peer, held);
        int err = p->state == VERBS_UP ? 0 : -RT_EPEER;
        if (!err && p->tx.posted != p->tx.head && !(err = ring_post(p, p->tx.head)))
            ring_wake(p);
        if (err != -RT_EAGAIN)
            rt_list_del(&p->held);
    }
}

static __attribute__((noinline)) int send_later(struct verbs_peer *p)
{
    if (p->err)
        return p->err;
    if (p->state == VERBS_NEW)
        verbs_handshake_start(p);
    return p->err ? p->err : -RT_EAGAIN;
}

int verbs_send(struct btl_peer *peer, const struct btl_hdr *h, const void *buf, size_t len)
{
    struct verbs_peer *p = (struct verbs_peer *)peer;
    if (rt_unlikely(p->state != VERBS_UP))
        return send_later(p);
    return rt_likely(p->tx.state == VERBS_RING_ON) ? send_ring(p, 0, h, buf, len)
                                                   : send_plain(p, 0, h, buf, len);
}

int verbs_send_ctl(struct verbs_peer *p, enum verbs_ctl ctl, const void *buf, size_t len)
{
    struct btl_hdr h = { .ctx = ctl };
    return p->tx.state == VERBS_RING_ON ? send_ring(p, VERBS_W_CTL, &h, buf, len)
                                        : send_plain(p, VERBS_W_CTL, &h, buf, len);
}

/* ---- setting up a ring ---- */

static void ring_offer(struct verbs_peer *p)
{
    struct verbs *v = verbs_of(p);
    struct verbs_area *a;
    uint32_t nbytes = 4096;
    while (nbytes < (uint32_t)cfg.verbs_ring || nbytes < 8 * record_nbytes(v->base.caps.eager_max))
        nbytes *= 2;
    v->nrings++; /* also if this fails, so that it is not tried again */
    if (verbs_area_make(p->lanes[0].rail, nbytes, &a) < 0)
        return;
    p->rx = (struct verbs_rx_ring){
        .mem = a->base, .nbytes = nbytes, .rkey = a->mr->rkey, .state = VERBS_RING_DUE
    };
    verbs_peer_work(p);
}

static void ring_offered(struct verbs_peer *p, const void *data, size_t len)
{
    struct verbs_ring_key k;
    struct verbs_area *a;
    if (len != sizeof k || p->tx.state != VERBS_RING_NONE)
        return;
    memcpy(&k, data, sizeof k);
    if (k.nbytes & (k.nbytes - 1) || k.nbytes > 1u << 24 ||
        k.nbytes < 8 * record_nbytes(verbs_of(p)->base.caps.eager_max) ||
        verbs_area_make(p->lanes[0].rail, k.nbytes, &a) < 0)
        return;
    p->tx = (struct verbs_tx_ring){ .mirror = a->base,
                                    .lkey = a->mr->lkey,
                                    .rkey = k.rkey,
                                    .nbytes = k.nbytes,
                                    .addr = k.addr,
                                    .state = VERBS_RING_DUE };
    verbs_peer_work(p);
}

bool verbs_ring_due(const struct verbs_peer *p)
{
    return p->rx.state == VERBS_RING_DUE || p->tx.state == VERBS_RING_DUE;
}

void verbs_ring_step(struct verbs_peer *p)
{
    struct verbs_ring_key k = { (uintptr_t)p->rx.mem, p->rx.rkey, p->rx.nbytes };
    if (p->rx.state == VERBS_RING_DUE && verbs_send_ctl(p, VERBS_CTL_RING, &k, sizeof k) == 0)
        p->rx.state = VERBS_RING_OFFERED;
    if (p->tx.state == VERBS_RING_DUE && verbs_send_ctl(p, VERBS_CTL_RING_ON, NULL, 0) == 0)
        p->tx.state = VERBS_RING_ON;
}

/* ---- arrival ---- */

static void control(struct verbs_peer *p, uint32_t ctl, const void *data, size_t len)
{
    if (ctl == VERBS_CTL_BYE) {
        p->bye.theirs_ns = p->bye.theirs_ns ? p->bye.theirs_ns : rt_now_ns();
        verbs_peer_work(p);
    } else if (ctl == VERBS_CTL_RING) {
        ring_offered(p, data, len);
    } else if (ctl == VERBS_CTL_RING_ON && p->rx.state == VERBS_RING_OFFERED) {
        p->rx.state = VERBS_RING_ON;
        rt_list_append(&verbs_of(p)->rings, &p->ringing);
    }
}

static inline void deliver(struct verbs_peer *p, const char *record, uint32_t word)
{
    struct verbs *v = verbs_of(p);
    const struct verbs_head *h = (const struct verbs_head *)(const void *)record;
    if (rt_unlikely(word & VERBS_W_CTL)) {
        control(p, h->hdr.ctx, h + 1, word & VERBS_W_LEN);
        return;
    }
    p->bye.theirs_ns = 0; /* the peer sends again after its goodbye */
    if (rt_likely(!v->closing))
        v->up.recv(v->up.arg, &p->base, &h->hdr, h + 1, word & VERBS_W_LEN);
}

void verbs_arrived(struct verbs_lane *l, struct verbs_rbuf *b, size_t len)
{
    struct verbs_peer *p = l->peer;
    uint32_t word = ((const struct verbs_head *)(const void *)b->data)->word;
    if (len < sizeof(struct verbs_head) || !verbs_word_whole(word) ||
        (word & VERBS_W_LEN) != len - sizeof(struct verbs_head)) {
        verbs_peer_fail(p, -RT_EPEER, "a message of %zu bytes is not of this version", len);
        return;
    }
    if (rt_unlikely(p->state != VERBS_UP))
        verbs_handshake_confirmed(p);
    p->credits.received++;
    deliver(p, b->data, word);
    /* iWARP neither orders writes nor makes events for them */
    bool can_ring = !l->rail->ib->iwarp;
    if (p->credits.received == HOT_AFTER && verbs_of(p)->nrings < cfg.verbs_hot && can_ring)
        ring_offer(p);
    if (p->credits.received - p->credits.returned >= p->credits.every)
        verbs_peer_work(p);
}

int verbs_ring_drain(struct verbs_peer *p, int max)
{
    struct verbs_rx_ring *x = &p->rx;
    int n = 0;
    verbs_hold(verbs_of(p));
    while (n < max) {
        uint32_t off = x->tail & (x->nbytes - 1);
        char *record = x->mem + off;
        uint32_t word = rt_load_acquire((uint32_t *)(void *)record);
        if (!word || rt_unlikely(!verbs_word_whole(word)))
            break;
        uint32_t nbytes = record_nbytes(word & VERBS_W_LEN);
        if (rt_unlikely(nbytes > x->nbytes - off)) {
            verbs_peer_fail(p, -RT_EPEER, "its ring holds a record of %u bytes", nbytes);
            break;
        }
        if (!rt_load_acquire(record + nbytes - 1))
            break;
        if (rt_likely(!(word & VERBS_W_SKIP)))
            deliver(p, record, word);
        memset(record, 0, nbytes);
        x->tail += word & VERBS_W_SKIP ? x->nbytes - off : nbytes;
        n++;
    }
    verbs_release(verbs_of(p));
    if (x->tail - p->credits.ring_returned >= x->nbytes / 4)
        verbs_peer_work(p);
    return n;
}

bool verbs_all_taken(struct verbs_peer *p)
{
    count_read(&p->home.own->sends, &p->credits.taken);
    return p->credits.taken == p->credits.sent;
}

bool verbs_credits_due(const struct verbs_peer *p)
{
    const struct verbs_credits *c = &p->credits;
    if (p->bye.theirs_ns && c->received != c->returned && p->lanes[0].rail->ib->iwarp)
        return true; /* the peer waits for this */
    return c->received - c->returned >= c->every ||
           (p->rx.state != VERBS_RING_NONE && p->rx.tail - c->ring_returned >= p->rx.nbytes / 4);
}

/* Writes this process's counts into the peer's home, with an event, because the peer may sleep
 * until it has room. */
static int home_write(struct verbs_peer *p, const struct verbs_mark *want)
{
    struct verbs_lane *l = &p->lanes[0];
    struct verbs_home news = { .sends = p->credits.received,
                               .sends_not = ~p->credits.received,
                               .ring = p->rx.tail,
                               .ring_not = ~p->rx.tail,
                               .asleep = p->sleep.number,
                               .asleep_not = ~p->sleep.number };
    struct verbs_mark mark = want ? *want : (struct verbs_mark){ 0 };
    struct ibv_sge sge = { (uintptr_t)&news, offsetof(struct verbs_home, pad), 0 };
    bool imm = !want && !l->rail->ib->iwarp;
    struct ibv_send_wr wr = { .opcode = imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .send_flags = IBV_SEND_INLINE,
                              .wr.rdma = { p->home.addr, p->home.rkey } };
    if (l->max_inline < sge.length) {
        mark.sbuf = verbs_sbuf_take(l->rail);
        if (!mark.sbuf)
            return -RT_EAGAIN;
        memcpy(mark.sbuf->data, &news, sge.length);
        sge.addr = (uintptr_t)mark.sbuf->data;
        sge.lkey = mark.sbuf->lkey;
        wr.send_flags = 0;
    }
    int err = verbs_lane_post(l, &wr, want || mark.sbuf ? &mark : NULL);
    if (err && mark.sbuf)
        verbs_sbuf_give(l->rail, mark.sbuf);
    if (!err && !want && !imm) /* without room for it the peer reads its home by itself, later */
        verbs_send_ctl(p, VERBS_CTL_EVENT, NULL, 0);
    if (!err) {
        p->credits.returned = p->credits.received;
        p->credits.ring_returned = p->rx.tail;
    }
    return err;
}

void verbs_credits_step(struct verbs_peer *p)
{
    if (verbs_credits_due(p))
        home_write(p, NULL);
}

bool verbs_arm(struct verbs_peer *p)
{
    struct verbs_sleep *s = &p->sleep;
    struct verbs_mark mark = { .arms = s->number + 1 };
    if (s->state != VERBS_AWAKE || p->state != VERBS_UP)
        return s->state == VERBS_ARMED || p->state != VERBS_UP;
    s->number++;
    if (home_write(p, &mark) == 0)
        s->state = VERBS_ARMING;
    else
        s->number--;
    return false;
}

/* The peer has written into the ring, or has returned credits; both are read from memory. */
void verbs_event_in(struct verbs_lane *l)
{
    struct verbs_peer *p = l->peer;
    if (p->state != VERBS_UP)
        verbs_handshake_confirmed(p);
    p->sleep.state = VERBS_AWAKE;
}
