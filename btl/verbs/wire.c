/* SPDX-License-Identifier: BSD-3-Clause */
/* Connecting, by datagrams between the unreliable queue pairs whose numbers are in the addresses.
 *
 * There is one kind, HELLO: the sender's queue pairs, whether it has the receiver's (`seen`), and
 * whether it knows that the receiver has its own (`known`).  A side repeats its HELLO until it
 * knows that, and answers every HELLO that is not `known`.  So it does not matter who begins, or
 * that both do, and a lost or repeated datagram does no harm.
 *
 * A HELLO carries an HMAC with the receiver's key, which its address told, or, from a process that
 * was spoken to and never fetched an address, with the sender's own key, which the receiver has. So
 * both prove that they belong to the job.  `seen` counts only with the receiver's nonce.  A
 * datagram that was recorded and sent again says nothing new. */
#include "btl/verbs/verbs.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/hmac.h"
#include "runtime/base/log.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define GRH 40 /* bytes that every received datagram begins with */
#define RECVS 32
#define SENDS 16
#define SLOT 512
#define ID_RECV 0x100
#define ASK_FIRST_MS 20
#define ASK_MAX_MS 1000

struct hello {
    uint32_t magic;
    uint8_t version, seen, known, own_key; /* own_key: the HMAC is with the sender's */
    uint32_t from, to;                     /* ranks in the job */
    uint32_t ud_qkey, home_rkey;
    uint64_t home_addr;
    uint8_t nrails, qps, rd_atomic, nlanes;
    uint32_t pad;
    uint8_t nonce[16], your_nonce[16];
    struct verbs_addr_rail rails[VERBS_RAILS];
    struct verbs_qp_info lanes[VERBS_LANES];
    uint8_t mac[RT_SHA256_LEN];
};
_Static_assert(sizeof(struct hello) + GRH <= SLOT, "a HELLO fits into a slot and any MTU from 512");

struct wire_rail {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct verbs_area area;   /* copy: RECVS slots, then SENDS */
    struct ibv_ah *ah[SENDS]; /* of the datagram that a slot holds; NULL: free */
};

struct verbs_wire {
    struct wire_rail rails[VERBS_RAILS];
    uint32_t polls;
};

static char *slot(struct wire_rail *w, int i) { return (char *)w->area.base + (size_t)i * SLOT; }

static void post_recv(struct wire_rail *w, int i)
{
    struct ibv_sge sge = { (uintptr_t)slot(w, i), SLOT, w->area.mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = ID_RECV + (uint64_t)i, .sg_list = &sge, .num_sge = 1 }, *bad;
    if (ibv_post_recv(w->qp, &wr, &bad))
        log_debug(BTL, "a datagram buffer was refused"); /* there are others */
}

static int rail_open(struct verbs_rail *r, struct wire_rail *w, uint32_t qkey)
{
    struct verbs_area *a;
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_UD,
        .cap = { .max_send_wr = SENDS, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1 }
    };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = r->ib->port, .qkey = qkey };
    if (verbs_area_make(r, (RECVS + SENDS) * SLOT, &a) < 0)
        return -RT_ENOMEM;
    w->area = *a;
    w->cq = rt_ib->create_cq(r->ib->ctx, RECVS + SENDS, NULL, r->chan, 0);
    if (!w->cq)
        goto err;
    init.send_cq = init.recv_cq = w->cq;
    w->qp = rt_ib->create_qp(r->ib->pd, &init);
    if (!w->qp || rt_ib->modify_qp(w->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
        goto err;
    for (int i = 0; i < RECVS; i++)
        post_recv(w, i);
    attr.qp_state = IBV_QPS_RTR;
    if (rt_ib->modify_qp(w->qp, &attr, IBV_QP_STATE))
        goto err;
    attr.qp_state = IBV_QPS_RTS;
    if (rt_ib->modify_qp(w->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN))
        goto err;
    return 0;
err:
    log_error(BTL, "%s port %d gives no queue pair for datagrams: %m", r->ib->dev, r->ib->port);
    return -RT_ESYS;
}

int verbs_wire_open(struct verbs *v)
{
    v->wire = calloc(1, sizeof *v->wire);
    if (!v->wire)
        return -RT_ENOMEM;
    int err = rt_random(v->addr.key, sizeof v->addr.key);
    if (!err)
        err = rt_random(&v->addr.ud_qkey, sizeof v->addr.ud_qkey);
    v->addr.ud_qkey &= 0x7fffffff; /* the rest is privileged */
    for (int i = 0; i < v->nrails && !err; i++) {
        err = rail_open(&v->rails[i], &v->wire->rails[i], v->addr.ud_qkey);
        if (!err)
            v->addr.rails[i].ud_qpn = v->wire->rails[i].qp->qp_num;
    }
    return err;
}

void verbs_wire_close(struct verbs *v)
{
    for (int i = 0; v->wire && i < v->nrails; i++) {
        struct wire_rail *w = &v->wire->rails[i];
        if (w->qp)
            rt_ib->destroy_qp(w->qp);
        if (w->cq)
            rt_ib->destroy_cq(w->cq);
        for (int k = 0; k < SENDS; k++)
            if (w->ah[k])
                rt_ib->destroy_ah(w->ah[k]);
    }
    free(v->wire);
    v->wire = NULL;
}

/* ---- sending ---- */

static void hello_mac(const struct hello *h, const uint8_t *key, uint8_t out[RT_SHA256_LEN])
{
    rt_hmac(key, VERBS_KEY, h, offsetof(struct hello, mac), out);
}

static void hello_fill(struct verbs_peer *p, struct hello *h)
{
    struct verbs *v = (struct verbs *)p->base.btl;
    memset(h, 0, sizeof *h);
    h->magic = VERBS_MAGIC;
    h->version = VERBS_VERSION;
    h->seen = p->has_theirs;
    h->known = p->has_ours;
    h->own_key = !p->has_addr;
    h->from = (uint32_t)rt_boot.rank;
    h->to = p->base.proc.rank;
    h->ud_qkey = v->addr.ud_qkey;
    h->home_rkey = p->home_own_rkey;
    h->home_addr = (uintptr_t)p->home;
    h->nrails = v->addr.nrails;
    h->qps = v->addr.qps;
    h->rd_atomic = v->addr.rd_atomic;
    h->nlanes = (uint8_t)p->nlanes;
    memcpy(h->nonce, p->nonce, sizeof h->nonce);
    memcpy(h->your_nonce, p->their_nonce, sizeof h->your_nonce);
    memcpy(h->rails, v->addr.rails, sizeof h->rails);
    for (int i = 0; i < p->nlanes; i++)
        h->lanes[i] = (struct verbs_qp_info){ p->lanes[i].qp->qp_num, p->lanes[i].psn };
    hello_mac(h, p->has_addr ? p->addr.key : v->addr.key, h->mac);
}

/* A datagram that cannot be sent now is as good as lost: the next follows. */
static void hello_send(struct verbs_peer *p)
{
    struct verbs_lane *l = &p->lanes[0];
    struct verbs_rail *r = l->rail;
    struct wire_rail *w = &r->v->wire->rails[r->index];
    const struct verbs_addr_rail *to = &p->addr.rails[l->remote_rail];
    struct ibv_ah_attr attr;
    int i = 0;
    while (i < SENDS && w->ah[i])
        i++;
    if (i == SENDS)
        return;
    memset(&attr, 0, sizeof attr);
    rt_ib_ah_attr(r->ib, &to->at, (uint8_t)cfg.verbs_sl, (uint8_t)cfg.verbs_tclass, &attr);
    w->ah[i] = rt_ib->create_ah(r->ib->pd, &attr);
    if (!w->ah[i]) {
        log_debug(BTL, "no way from %s port %d to rank %u: %m", r->ib->dev, r->ib->port,
                  p->base.proc.rank);
        return;
    }
    hello_fill(p, (struct hello *)(void *)slot(w, RECVS + i));
    struct ibv_sge sge = { (uintptr_t)slot(w, RECVS + i), sizeof(struct hello), w->area.mr->lkey };
    struct ibv_send_wr wr = { .wr_id = (uint64_t)i,
                              .opcode = IBV_WR_SEND,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .send_flags = IBV_SEND_SIGNALED,
                              .wr.ud = { w->ah[i], to->ud_qpn, p->addr.ud_qkey } },
                       *bad;
    if (ibv_post_send(w->qp, &wr, &bad)) {
        rt_ib->destroy_ah(w->ah[i]);
        w->ah[i] = NULL;
    }
}

/* Queue pairs of ours, and the number that proves that answers are answers. */
static int prepare(struct verbs_peer *p)
{
    int err = verbs_lanes_make(p);
    if (!err)
        err = rt_random(p->nonce, sizeof p->nonce);
    if (err) {
        verbs_peer_fail(p, -RT_EPEER, "no queue pair could be made for it: %s", rt_err_text(err));
        return err;
    }
    p->state = VERBS_ASKING;
    p->ask_since_ns = rt_now_ns();
    p->ask_wait_ms = ASK_FIRST_MS;
    p->ask_ns = p->ask_since_ns + ASK_FIRST_MS * 1000000u;
    rt_list_append(&((struct verbs *)p->base.btl)->asking, &p->asking);
    return 0;
}

void verbs_wire_start(struct verbs_peer *p)
{
    if (prepare(p) == 0)
        hello_send(p);
}

static void established(struct verbs_peer *p)
{
    p->state = VERBS_UP;
    rt_list_del(&p->asking);
    log_debug(BTL, "connected to rank %u by %d queue pairs, first %s port %d", p->base.proc.rank,
              p->nlanes, p->lanes[0].rail->ib->dev, p->lanes[0].rail->ib->port);
}

void verbs_wire_heard(struct verbs_peer *p)
{
    p->has_ours = true;
    if (p->state == VERBS_ASKING && p->has_theirs)
        established(p);
}

/* ---- receiving ---- */

static bool hello_sane(const struct hello *h, uint32_t len)
{
    return len == sizeof *h && h->magic == VERBS_MAGIC && h->version == VERBS_VERSION &&
           h->to == (uint32_t)rt_boot.rank && h->from != h->to &&
           h->from < (uint32_t)rt_boot.size && h->nrails >= 1 && h->nrails <= VERBS_RAILS &&
           h->qps >= 1 && h->nlanes >= 1 && h->nlanes <= VERBS_LANES && h->rd_atomic >= 1;
}

/* The peer, when the HELLO proves to come from this job; NULL: dropped. */
static struct verbs_peer *hello_check(struct verbs *v, const struct hello *h)
{
    struct verbs_peer *p;
    uint8_t mac[RT_SHA256_LEN];
    struct rt_proc proc = { 0, h->from };
    if (h->own_key && (verbs_peer_get(v, proc, false, &p) < 0 || !p->has_addr))
        return NULL;
    hello_mac(h, h->own_key ? p->addr.key : v->addr.key, mac);
    if (!rt_hmac_equal(mac, h->mac)) {
        log_debug(BTL, "a datagram that says it is from rank %u is not of this job", h->from);
        return NULL;
    }
    return verbs_peer_get(v, proc, true, &p) < 0 ? NULL : p;
}

static void hello_adopt(struct verbs_peer *p, const struct hello *h)
{
    if (p->has_addr)
        return;
    p->addr.ud_qkey = h->ud_qkey;
    p->addr.nrails = h->nrails;
    p->addr.qps = h->qps;
    p->addr.rd_atomic = h->rd_atomic;
    memcpy(p->addr.rails, h->rails, sizeof h->rails);
}

static void on_hello(struct verbs *v, const struct hello *h, uint32_t len)
{
    struct verbs_peer *p = hello_sane(h, len) ? hello_check(v, h) : NULL;
    if (!p || p->err || v->closing)
        return;
    hello_adopt(p, h);
    if (p->state == VERBS_NEW && prepare(p) < 0)
        return;
    if (h->nlanes != p->nlanes) {
        verbs_peer_fail(p, -RT_EPEER,
                        "it wants %d queue pairs, this process %d: are the verbs "
                        "settings alike?",
                        h->nlanes, p->nlanes);
        return;
    }
    if (h->seen && memcmp(h->your_nonce, p->nonce, sizeof p->nonce) != 0)
        return;
    if (p->has_theirs && memcmp(p->their_nonce, h->nonce, sizeof h->nonce) != 0)
        return;
    if (!p->has_theirs) {
        memcpy(p->their_nonce, h->nonce, sizeof h->nonce);
        p->home_addr = h->home_addr;
        p->home_rkey = h->home_rkey;
        if (verbs_lanes_connect(p, h->lanes) < 0)
            return;
        p->has_theirs = true;
    }
    if (h->seen)
        verbs_wire_heard(p);
    if (!h->known)
        hello_send(p);
}

static int rail_progress(struct verbs *v, struct wire_rail *w)
{
    struct ibv_wc wc[8];
    int n = ibv_poll_cq(w->cq, 8, wc);
    for (int i = 0; i < n; i++) {
        if (wc[i].wr_id < ID_RECV) {
            rt_ib->destroy_ah(w->ah[wc[i].wr_id]);
            w->ah[wc[i].wr_id] = NULL;
            continue;
        }
        int k = (int)(wc[i].wr_id - ID_RECV);
        struct hello h;
        if (wc[i].status == IBV_WC_SUCCESS && wc[i].byte_len >= GRH) {
            memcpy(&h, slot(w, k) + GRH, sizeof h);
            on_hello(v, &h, wc[i].byte_len - GRH);
        }
        post_recv(w, k);
    }
    return n > 0 ? n : 0;
}

/* Asks again, and says when that takes long. */
static void ask_again(struct verbs_peer *p, uint64_t now)
{
    if (now < p->ask_ns)
        return;
    p->ask_wait_ms = p->ask_wait_ms * 2 < ASK_MAX_MS ? p->ask_wait_ms * 2 : ASK_MAX_MS;
    p->ask_ns = now + p->ask_wait_ms * 1000000ull;
    hello_send(p);
    if (p->ask_warned || now - p->ask_since_ns < (uint64_t)cfg.net_timeout_s * 1000000000u)
        return;
    p->ask_warned = true;
    log_warn(BTL,
             "rank %u has not answered %s port %d for %d s: it computes without calling MPI, or "
             "the network does not lead there; still trying",
             p->base.proc.rank, p->lanes[0].rail->ib->dev, p->lanes[0].rail->ib->port,
             cfg.net_timeout_s);
}

int verbs_wire_arm(struct verbs *v, int rail)
{
    return ibv_req_notify_cq(v->wire->rails[rail].cq, 0);
}

int verbs_wire_progress(struct verbs *v)
{
    struct rt_list *pos, *tmp;
    int n = 0;
    for (int i = 0; i < v->nrails; i++)
        n += rail_progress(v, &v->wire->rails[i]);
    if (rt_list_empty(&v->asking))
        return n;
    uint64_t now = rt_now_ns();
    rt_list_each_safe (pos, tmp, &v->asking)
        ask_again(rt_container(pos, struct verbs_peer, asking), now);
    return n;
}
