/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection setup by datagrams between the unreliable queue pairs whose numbers are in the
 * addresses.
 *
 * There is one kind of datagram, HELLO.  It carries the sender's queue pairs, whether the sender
 * has the receiver's queue pairs (`seen`), and whether the sender knows that the receiver has the
 * sender's (`known`).  A side repeats its HELLO until it knows this, and answers every HELLO that
 * is not `known`.  So either side or both may begin, and a lost or repeated datagram does no harm.
 *
 * A HELLO carries an HMAC with the receiver's key, which is in the receiver's address.  A process
 * that has accepted a connection without fetching the address uses its own key, which the receiver
 * has.  So both sides prove that they belong to the job.  `seen` counts only with the receiver's
 * nonce.  Replaying a recorded datagram has no effect.
 *
 * A HELLO is answered only inside MPI.  A waiting process also pings its peer (alive.c), and gives
 * up after net_timeout_s without a HELLO or pong.  A process that cannot connect reports this
 * (`refused`) to every process that sends it a HELLO. */
#include "btl/verbs/handshake.h"
#include "btl/verbs/alive.h"
#include "btl/verbs/dgram.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/hmac.h"
#include "runtime/base/log.h"

#include <stddef.h>
#include <string.h>

/* A datagram without an answer is repeated, after twice the time of the last pause.  The first
 * pause is longer than a round trip on any network; a shorter one would repeat datagrams that are
 * only delayed. */
#define ASK_FIRST_MS 20
#define ASK_MAX_MS 1000
#define PING_AFTER_MS 100 /* without an answer: most connections need no ping */

struct hello {
    uint32_t magic;
    uint8_t version, seen, known, own_key; /* own_key: the HMAC uses the sender's key */
    uint32_t from, to;                     /* ranks in the job */
    uint32_t ud_qkey, home_rkey;
    uint64_t home_addr;
    uint8_t nrails, qps, rd_atomic, nlanes;
    uint8_t refused, rail; /* rail: the sender's, to which answers go */
    uint16_t window;       /* the sender's verbs_window */
    uint32_t eager;        /* the sender's verbs_eager */
    uint8_t nonce[16], your_nonce[16];
    uint8_t alive_key[VERBS_KEY]; /* encrypted; 0 with own_key */
    struct verbs_addr_rail rails[VERBS_RAILS];
    struct verbs_qp_info lanes[VERBS_LANES];
    uint8_t mac[RT_SHA256_LEN];
};
_Static_assert(sizeof(struct hello) <= VERBS_DGRAM_MAX, "a HELLO fits into a datagram");

int verbs_handshake_open(struct verbs *v)
{
    int err = rt_random(v->addr.key, sizeof v->addr.key);
    if (!err)
        err = rt_random(&v->addr.ud_qkey, sizeof v->addr.ud_qkey);
    v->addr.ud_qkey &= 0x7fffffff; /* the other values are privileged */
    for (int i = 0; i < v->nrails && !err; i++) {
        struct verbs_rail *r = &v->rails[i];
        err = verbs_dgram_open(r, r->chan, v->addr.ud_qkey, &r->dgram);
        if (!err)
            v->addr.rails[i].ud_qpn = verbs_dgram_port(r->dgram);
    }
    return err;
}

void verbs_handshake_close(struct verbs *v)
{
    for (int i = 0; i < v->nrails; i++) {
        verbs_dgram_close(v->rails[i].dgram);
        v->rails[i].dgram = NULL;
    }
}

/* ---- sending ---- */

static void hello_mac(const struct hello *h, const uint8_t *key, uint8_t out[RT_SHA256_LEN])
{
    rt_hmac(key, VERBS_KEY, h, offsetof(struct hello, mac), out);
}

/* Encrypts `in` with `key`; a second call decrypts.  Use a nonce for one `in` only. */
static void hide(const uint8_t key[VERBS_KEY], const uint8_t nonce[16], const uint8_t in[VERBS_KEY],
                 uint8_t out[VERBS_KEY])
{
    uint8_t what[4 + 16] = "hide", pad[RT_SHA256_LEN];
    memcpy(what + 4, nonce, 16);
    rt_hmac(key, VERBS_KEY, what, sizeof what, pad);
    for (int i = 0; i < VERBS_KEY; i++)
        out[i] = in[i] ^ pad[i];
}

static void hello_fill(struct verbs_peer *p, struct hello *h)
{
    struct verbs *v = verbs_of(p);
    memset(h, 0, sizeof *h);
    h->magic = VERBS_MAGIC;
    h->version = VERBS_VERSION;
    h->from = (uint32_t)rt_boot.rank;
    h->to = p->base.proc.rank;
    h->seen = p->state >= VERBS_HALF;
    /* Not before the lanes that this side connects are up, so that the peer keeps answering. */
    h->known = p->state >= VERBS_AGREED && (p->lanes_up == p->nlanes || h->from > h->to);
    h->own_key = !p->has_addr;
    h->ud_qkey = v->addr.ud_qkey;
    h->home_rkey = p->home.own_rkey;
    h->home_addr = (uintptr_t)p->home.own;
    h->nrails = v->addr.nrails;
    h->qps = v->addr.qps;
    h->rd_atomic = v->addr.rd_atomic;
    h->nlanes = (uint8_t)p->nlanes;
    h->window = (uint16_t)cfg.verbs_window;
    h->eager = (uint32_t)cfg.verbs_eager;
    memcpy(h->nonce, p->setup.nonce, sizeof h->nonce);
    memcpy(h->your_nonce, p->setup.their_nonce, sizeof h->your_nonce);
    memcpy(h->rails, v->addr.rails, sizeof h->rails);
    for (int i = 0; i < p->nlanes && !p->err; i++) /* after an error some may not exist */
        h->lanes[i] = (struct verbs_qp_info){ p->lanes[i].qp->qp_num, p->lanes[i].psn };
    if (p->has_addr) {
        uint8_t mine[VERBS_KEY];
        verbs_alive_key(v->addr.key, mine);
        hide(p->addr.key, h->nonce, mine, h->alive_key);
    }
}

static void hello_sign(const struct verbs_peer *p, struct hello *h)
{
    const struct verbs *v = verbs_of(p);
    hello_mac(h, p->has_addr ? p->addr.key : v->addr.key, h->mac);
}

/* A datagram that cannot be sent now counts as lost; the next HELLO replaces it. */
static void hello_send(struct verbs_peer *p)
{
    const struct verbs_lane *l = &p->lanes[0];
    const struct verbs_addr_rail *to = &p->addr.rails[l->remote_rail];
    struct hello h;
    hello_fill(p, &h);
    h.rail = (uint8_t)l->rail->index;
    hello_sign(p, &h);
    if (verbs_dgram_send(l->rail->dgram, &to->at, to->ud_qpn, p->addr.ud_qkey, &h, sizeof h) ==
        -RT_EUNREACH)
        log_debug(BTL, "no route from %s port %d to rank %u: %m", l->rail->ib->dev,
                  l->rail->ib->port, p->base.proc.rank);
}

/* Answers a HELLO that has arrived on rail `r`: there will be no connection. */
static void refuse(struct verbs_peer *p, struct verbs_rail *r, const struct hello *theirs)
{
    const struct verbs_addr_rail *to = &theirs->rails[theirs->rail];
    struct hello h;
    hello_fill(p, &h);
    h.refused = 1;
    h.rail = (uint8_t)r->index;
    memcpy(h.your_nonce, theirs->nonce, sizeof h.your_nonce);
    hello_sign(p, &h);
    verbs_dgram_send(r->dgram, &to->at, to->ud_qpn, theirs->ud_qkey, &h, sizeof h);
}

/* Makes this side's queue pairs and the nonce that answers must carry. */
static int prepare(struct verbs_peer *p)
{
    int err = rt_random(p->setup.nonce, sizeof p->setup.nonce);
    if (!err)
        err = verbs_lanes_make(p);
    if (err) {
        verbs_peer_fail(p, -RT_EPEER, "no queue pair could be made for it: %s", rt_err_text(err));
        return err;
    }
    if (p->has_addr)
        verbs_alive_key(p->addr.key, p->live.key);
    p->state = VERBS_ASKING;
    p->setup.wait_ms = ASK_FIRST_MS;
    p->setup.ask_ns = rt_now_ns() + ASK_FIRST_MS * 1000000u;
    rt_list_append(&verbs_of(p)->asking, &p->setup.link);
    return 0;
}

void verbs_handshake_start(struct verbs_peer *p)
{
    if (prepare(p) == 0)
        hello_send(p);
}

/* With rdma_cm, messages may arrive before the event that the connection is established.  Their
 * credits and ring are due now, because their sender may wait for them. */
static void established(struct verbs_peer *p)
{
    p->state = VERBS_UP;
    rt_list_del(&p->setup.link);
    verbs_peer_work(p);
    log_debug(BTL, "connected to rank %u by %d queue pairs, first %s port %d", p->base.proc.rank,
              p->nlanes, p->lanes[0].rail->ib->dev, p->lanes[0].rail->ib->port);
}

/* Completes the connection if all lanes are up; otherwise cm.c connects the missing ones. */
void verbs_handshake_lane_up(struct verbs_peer *p)
{
    if (p->state != VERBS_AGREED)
        return;
    if (p->lanes_up == p->nlanes)
        established(p);
    else
        p->setup.connect_due = true;
}

void verbs_handshake_confirmed(struct verbs_peer *p)
{
    if (p->state == VERBS_HALF)
        p->state = VERBS_AGREED;
    verbs_handshake_lane_up(p);
}

/* ---- receiving ---- */

static bool hello_sane(const struct hello *h, size_t len)
{
    return len == sizeof *h && h->magic == VERBS_MAGIC && h->version == VERBS_VERSION &&
           h->to == (uint32_t)rt_boot.rank && h->from != h->to &&
           h->from < (uint32_t)rt_boot.size && h->nrails >= 1 && h->nrails <= VERBS_RAILS &&
           h->rail < h->nrails && h->qps >= 1 && h->nlanes <= VERBS_LANES &&
           (h->nlanes >= 1 || h->refused) && h->rd_atomic >= 1 && h->window >= 2;
}

/* The peer, if the HELLO proves to come from this job; NULL: the HELLO is dropped. */
static struct verbs_peer *hello_check(struct verbs *v, const struct hello *h)
{
    struct verbs_peer *p;
    uint8_t mac[RT_SHA256_LEN];
    struct rt_proc proc = { 0, h->from };
    if (h->own_key && (verbs_peer_get(v, proc, false, &p) < 0 || !p->has_addr))
        return NULL;
    hello_mac(h, h->own_key ? p->addr.key : v->addr.key, mac);
    if (!rt_hmac_equal(mac, h->mac)) {
        log_debug(BTL, "a datagram that claims to be from rank %u is not of this job", h->from);
        return NULL;
    }
    return verbs_peer_get(v, proc, true, &p) < 0 ? NULL : p;
}

static void hello_adopt(struct verbs_peer *p, const struct hello *h)
{
    const struct verbs *v = verbs_of(p);
    if (p->has_addr)
        return;
    hide(v->addr.key, h->nonce, h->alive_key, p->live.key);
    p->addr.ud_qkey = h->ud_qkey;
    p->addr.nrails = h->nrails;
    p->addr.qps = h->qps;
    p->addr.rd_atomic = h->rd_atomic;
    memcpy(p->addr.rails, h->rails, sizeof h->rails);
}

/* Handles refusals and failed peers.  True: the HELLO needs no further handling. */
static bool hello_ends(struct verbs_peer *p, struct verbs_rail *r, const struct hello *h)
{
    if (h->refused) {
        if (verbs_is_connecting(p) && !memcmp(h->your_nonce, p->setup.nonce, sizeof p->setup.nonce))
            verbs_peer_fail(p, -RT_EPEER, "it cannot connect, and logs the reason");
        return true;
    }
    if (p->err)
        refuse(p, r, h);
    return p->err != 0;
}

/* Whether the settings of both sides are compatible. */
static bool hello_fits(struct verbs_peer *p, const struct hello *h)
{
    if (h->nlanes != p->nlanes)
        verbs_peer_fail(p, -RT_EPEER,
                        "it wants %d queue pairs, this process %d: are the verbs settings alike?",
                        h->nlanes, p->nlanes);
    else if (h->eager > (uint32_t)cfg.verbs_eager)
        verbs_peer_fail(p, -RT_EPEER,
                        "its WEFT_VERBS_EAGER is %u, that of this process %lld; they must be alike",
                        h->eager, (long long)cfg.verbs_eager);
    return !p->err;
}

static void on_hello(struct verbs_rail *r, const struct hello *h, size_t len)
{
    struct verbs *v = r->v;
    struct verbs_peer *p = hello_sane(h, len) ? hello_check(v, h) : NULL;
    if (!p || v->closing || hello_ends(p, r, h))
        return;
    hello_adopt(p, h);
    if (p->state == VERBS_NEW && prepare(p) < 0) {
        refuse(p, r, h);
        return;
    }
    p->setup.silent_ms = 0;
    p->setup.hellos++;
    if (!hello_fits(p, h)) {
        refuse(p, r, h);
        return;
    }
    if (h->seen && memcmp(h->your_nonce, p->setup.nonce, sizeof p->setup.nonce) != 0)
        return;
    if (p->state >= VERBS_HALF && memcmp(p->setup.their_nonce, h->nonce, sizeof h->nonce) != 0)
        return;
    if (p->state == VERBS_ASKING) {
        uint32_t window = (uint32_t)cfg.verbs_window;
        memcpy(p->setup.their_nonce, h->nonce, sizeof h->nonce);
        p->home.addr = h->home_addr;
        p->home.rkey = h->home_rkey;
        p->credits.every = (h->window < window ? h->window : window) / 2;
        if (verbs_lanes_connect(p, h->lanes) < 0)
            return;
        p->state = VERBS_HALF;
    }
    if (h->seen)
        verbs_handshake_confirmed(p);
    if (!h->known)
        hello_send(p);
}

static void on_dgram(void *arg, const void *data, size_t len)
{
    struct verbs_rail *r = arg;
    if (!verbs_alive_answer(r->v, data, len))
        on_hello(r, data, len);
}

static void lost(struct verbs_peer *p)
{
    const struct rt_ib_rail *ib = p->lanes[0].rail->ib;
    verbs_peer_fail(p, -RT_EPEER,
                    "no sign of life for %d s over %s port %d: it has ended, or the network does "
                    "not reach it (WEFT_IB_HCA, WEFT_IB_GID_INDEX)",
                    cfg.net_timeout_s, ib->dev, ib->port);
}

/* Whether there is room for datagrams to the peer.  If many are due at once, peers that were asked
 * move behind those that were not. */
static bool ask_turn(struct verbs_peer *p, uint64_t now)
{
    struct verbs_setup *s = &p->setup;
    if (verbs_dgram_has_room(p->lanes[0].rail->dgram, 2)) {
        rt_list_del(&s->link);
        rt_list_append(&verbs_of(p)->asking, &s->link);
        return true;
    }
    if (now - s->ask_ns >= s->wait_ms * 1000000ull) { /* the port may never send: count the time */
        s->ask_ns = now;
        s->silent_ms += s->wait_ms;
    }
    return false;
}

/* Repeats the HELLO.  Silence is counted in HELLOs sent, because a process that is not calling MPI
 * receives nothing. */
static void ask_again(struct verbs_peer *p, uint64_t now)
{
    struct verbs_setup *s = &p->setup;
    uint32_t most = (uint32_t)cfg.net_timeout_s * 1000;
    if (now < s->ask_ns || (!ask_turn(p, now) && s->silent_ms < most))
        return;
    s->silent_ms += s->wait_ms;
    if (s->silent_ms >= most) {
        lost(p);
        return;
    }
    if (s->hellos != s->hellos_seen)
        s->answers_ms += s->wait_ms;
    s->hellos_seen = s->hellos;
    s->wait_ms *= 2;
    if (s->wait_ms > most / 8)
        s->wait_ms = most / 8;
    if (s->wait_ms > ASK_MAX_MS)
        s->wait_ms = ASK_MAX_MS;
    s->ask_ns = now + s->wait_ms * 1000000ull;
    hello_send(p);
    verbs_handshake_lane_up(p); /* rdma_cm tries again */
    if (p->live.pings || s->silent_ms >= PING_AFTER_MS)
        verbs_alive_ask(&p->lanes[0]);
    if (!s->noted && p->live.pongs >= 10) {
        s->noted = true;
        log_info(BTL, "rank %u is not calling MPI; it connects when it next does",
                 p->base.proc.rank);
    }
}

int verbs_handshake_arm(struct verbs *v, int rail) { return verbs_dgram_arm(v->rails[rail].dgram); }

int verbs_handshake_progress(struct verbs *v)
{
    struct rt_list *pos, *tmp;
    int n = 0;
    for (int i = 0; i < v->nrails; i++)
        n += verbs_dgram_take(v->rails[i].dgram, on_dgram, &v->rails[i]);
    if (rt_list_empty(&v->asking))
        return n;
    uint64_t now = rt_now_ns();
    rt_list_each_safe (pos, tmp, &v->asking)
        ask_again(rt_container(pos, struct verbs_peer, setup.link), now);
    return n;
}
